#!/usr/bin/python3
"""Every test that tests/CASES.md names is there."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Cases(unittest.TestCase):
    def test_the_index_names_tests_that_exist(self):
        rows = [line for line in (ROOT / "tests" / "CASES.md").read_text().split("\n") if line.startswith("| ")][1:]
        self.assertGreater(len(rows), 10)
        missing = []
        for row in rows:
            for path, name in re.findall(r"`([^`]+)`: ([^;|]+?) *(?=[;|])", row.split("|", 3)[3]):
                text = (ROOT / path).read_text()
                joined = re.sub(r'"\s*"', "", text)  # a name that is written over two lines
                if name not in joined:
                    missing.append(f"{path}: {name}")
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
