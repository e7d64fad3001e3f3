"""Everything is in pyproject.toml; this adds the shared library when CAUSEWAY_LIBRARY names one.

    CAUSEWAY_LIBRARY=build/dev/client/libcauseway.so pip install ./client/python
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


setup(cmdclass={"build_py": BuildWithLibrary})
