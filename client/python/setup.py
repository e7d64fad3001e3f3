"""The package, and the shared library in it when CAUSEWAY_LIBRARY names one.

    CAUSEWAY_LIBRARY=build/dev/client/libcauseway.so pip install ./client/python

No pyproject.toml: with one, pip builds apart from the system's setuptools and fetches another, which fails
on a machine that reaches no index.
"""

import os
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        library = os.environ.get("CAUSEWAY_LIBRARY")
        if library and not self.editable_mode:
            target = os.path.join(self.build_lib, "causeway", "libcauseway.so.0")
            shutil.copyfile(os.path.realpath(library), target)


setup(
    name="causeway",
    version="0.1.0",
    description="Train one model across clusters that a slow network joins",
    python_requires=">=3.9",
    packages=["causeway"],
    package_data={"causeway": ["libcauseway.so*"]},
    cmdclass={"build_py": BuildWithLibrary},
)
