#!/usr/bin/python3
"""The fault matrix over the emulated link: each fault happens while rounds run, and each ends with equal values, an
agreed history, and descriptors and memory as before. Skipped (77) where it cannot run.

    tests/wan/test_matrix.py Deaths Lines ...     as ctest runs them
    CAUSEWAY_LONG=1                               longer faults, more of them
    CAUSEWAY_ROWS=FILE                            what was measured, as JSON
"""
import importlib.util
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import matrix
import wan_link
from matrix_deaths import Deaths  # noqa: F401  unittest finds them here
from matrix_detection import Detection  # noqa: F401
from matrix_lines import Lines, Weather  # noqa: F401
from matrix_scarcity import Scarcity  # noqa: F401


def main():
    problem = wan_link.missing_requirements()
    if not problem and not importlib.util.find_spec("torch"):
        problem = "python3-torch is not installed"
    if problem:
        print(f"skipped: {problem}")
        return 77
    program = unittest.main(verbosity=2, exit=False)
    if os.environ.get("CAUSEWAY_ROWS"):
        with open(os.environ["CAUSEWAY_ROWS"], "w") as file:
            json.dump({"rows": matrix.rows}, file, indent=1)
            file.write("\n")
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
