"""The package as it is installed: offline, with Debian's setuptools, and finding its library."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import causeway
from causeway import _library


class Package(unittest.TestCase):
    def run_python(self, code, **environment):
        clean = {key: value for key, value in os.environ.items()
                 if key not in ("PYTHONPATH", "CAUSEWAY_LIBRARY")}
        return subprocess.run([sys.executable, "-c", code], env={**clean, **environment},
                              capture_output=True, text=True, timeout=60)

    def test_it_installs_offline_and_carries_the_library(self):
        with tempfile.TemporaryDirectory() as directory:
            source = os.path.join(directory, "source")
            target = os.path.join(directory, "target")
            shutil.copytree(os.environ["CAUSEWAY_PACKAGE"], source,
                            ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
            installed = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps",
                 "--target", target, source], capture_output=True, text=True, timeout=170)
            self.assertEqual(installed.returncode, 0, installed.stderr)
            found = self.run_python("import causeway; from causeway import _library; "
                                    "print(_library.load().cw_abi_version())", PYTHONPATH=target)
            self.assertEqual(found.stdout.strip(), str(_library.ABI_VERSION), found.stderr)

    def test_a_missing_library_is_an_error_that_says_what_to_do(self):
        answer = self.run_python(
            "import causeway\ntry:\n causeway.open('demo')\nexcept causeway.LibraryMissing as e:\n print(e)",
            PYTHONPATH=os.environ["CAUSEWAY_PACKAGE"], CAUSEWAY_LIBRARY="/nonexistent/libcauseway.so")
        self.assertIn("CAUSEWAY_LIBRARY", answer.stdout, answer.stderr)

    def test_structures_have_the_sizes_of_the_header(self):
        # A wrong struct_bytes is refused, so sizes that differ would show here as InvalidCall.
        with self.assertRaises(causeway.GatewayLost):
            causeway.open("demo", "/nonexistent", connect_timeout=0)

    def test_errors_survive_the_way_to_other_ranks(self):
        for kind in causeway.errors.BY_NUMBER.values():
            error = kind("what happened", cluster="tokyo", rank=3, tensor="w", round=9)
            again = causeway.errors.restore(error.describe())
            self.assertIs(type(again), kind)
            self.assertEqual(again.describe(), error.describe())
            self.assertEqual(str(again), "what happened")


if __name__ == "__main__":
    unittest.main()
