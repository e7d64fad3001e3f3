#!/usr/bin/python3
"""What the documents name exists: files, commands and their options; and every command explains itself."""
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Commands that users type, and the files whose text has their options.
SOURCES = {"causeway": ("daemon/cli", "daemon/cli/pki"), "deploy/demo": ("deploy/demo.d",), "tests/run": ("tests/run",),
           "tests/soak": ("tests/soak",), "tests/bench/run": ("tests/bench", "tests/bench/codec"),
           "tests/sim/run": ("tests/sim",), "tests/wan/run": ("tests/wan/run",), "tests/fuzz/run": ("tests/fuzz/run",),
           "tests/gpu/run": ("tests/gpu/run",), "tests/gpu/client": ("tests/gpu/client",)}
VERBS = {"causeway": r'(?:add_subcommand\(\s*|\{")"?([a-z-]+)"', "tests/bench/run": r'"([a-z]+)"|bench_(\w+)\.cc'}
# Those that only print for --help; the others would build first.
EXPLAIN = [["deploy/demo.d/main.py"], ["tests/soak"], ["tests/run"], ["tests/wan/run"], ["tests/fuzz/run"],
           ["tests/gpu/run"], ["tests/bench/run"], ["tests/bench/run", "train"], ["tests/bench/run", "exchange"]]


def tracked(pattern):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *pattern], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    return [ROOT / path for path in listed if path and (ROOT / path).is_file()]


def text_of(places):
    files = [path for place in places for path in ([ROOT / place] if (ROOT / place).is_file() else
                                                   sorted((ROOT / place).iterdir()))]
    return "\n".join(path.read_text(errors="replace") for path in files
                     if path.is_file() and path.suffix not in (".svg", ".pyc", ".md"))


def commands():
    """(document, command, the words after it) of every line of code in the documents that begins with a command."""
    for document in tracked(["*.md"]):
        text = document.read_text()
        lines = re.findall(r"`([^`\n]+)`", text)
        for block in re.findall(r"```[a-z]*\n(.*?)```", text, re.S):
            lines += block.split("\n")
        for line in lines:
            words = line.split("#")[0].split()
            if words and words[0] in SOURCES:
                yield document.name, words[0], words[1:]


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        lost = []
        for document in tracked(["*.md"]):
            for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
                if not re.match(r"[a-z]+:", target) and not (document.parent / target).exists():
                    lost.append(f"{document.name}: {target}")
        self.assertEqual(lost, [])

    def test_documents_that_are_named_exist(self):
        known = {path.name for path in tracked(["*.md"])}
        lost = []
        for path in tracked(["*.h", "*.cc", "*.hpp", "*.py", "*.proto", "*.md", "*.yaml", "*.cu"]):
            lost += [f"{path.relative_to(ROOT)}: {name}" for name in
                     re.findall(r"\b\w+\.md\b", path.read_text(errors="replace")) if name not in known]
        self.assertEqual(lost, [])

    def test_commands_and_their_options_exist(self):
        wrong, seen = [], set()
        for document, command, words in commands():
            seen.add(command)
            source = text_of(SOURCES[command])
            for word in words:
                option = re.match(r"--([a-z][a-z-]*)", word)
                if option and option[1] != "help" and f"--{option[1]}" not in source and f'"{option[1]}"' not in source:
                    wrong.append(f"{document}: {command} has no {word}")
            if command in VERBS and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
                verbs = {name for match in re.findall(VERBS[command], source) for name in
                         (match if isinstance(match, tuple) else (match,))}
                if words[0] not in verbs:
                    wrong.append(f"{document}: {command} has no {words[0]}")
        self.assertEqual(wrong, [])
        self.assertGreater(len(seen), 5, "the documents were not understood")

    def test_commands_explain_themselves(self):
        for command in EXPLAIN:
            done = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=100,
                                  env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
            if "No module named" in done.stderr:
                continue  # a bench of this machine that lacks what it measures with
            self.assertEqual((command, done.returncode, done.stderr), (command, 0, ""))
            self.assertGreater(len(done.stdout), 100, command)


if __name__ == "__main__":
    unittest.main()
