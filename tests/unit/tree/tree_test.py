#!/usr/bin/python3
"""House rules as a test: includes follow the declared dependencies, which have no circle; sources are small,
say what they are for, and hold nothing unfinished."""
import json
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
LINES_MAX = 600  # of one source: one file, one noun
PRODUCT = ("proto", "compression", "security", "daemon", "client")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# Headers whose target lies in another folder, or that only name things.
HEADER_ONLY = {"proto/local_protocol.h": "causeway_proto_local"}


def tracked(*suffixes):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    return [path for path in listed if path.endswith(suffixes) and (ROOT / path).exists()]


def libraries():
    """{target: (folder, direct dependencies)} of every causeway_library and of proto's targets."""
    found = {"causeway_proto_wan": ("proto", set()), "causeway_proto_admin": ("proto", set()),
             "causeway_proto_local": ("proto", set())}
    for path in tracked("CMakeLists.txt"):
        if not path.startswith(PRODUCT):
            continue
        text = re.sub(r"#.*", "", (ROOT / path).read_text())
        for name, body in re.findall(r"causeway_library\(\s*(\w+)([^)]*)\)", text):
            dependencies = set(re.findall(r"\bcauseway_\w+", body.split("DEPENDS")[-1]))
            found[name] = (str(pathlib.Path(path).parent), dependencies)
        for name, body in re.findall(r"target_link_libraries\(\s*(\w+)([^)]*)\)", text):
            dependencies = set(re.findall(r"\bcauseway_\w+", body))
            known = found.get(name, (str(pathlib.Path(path).parent), set()))
            found[name] = (known[0], known[1] | dependencies)
    return found


def room(path, folders):
    """The folder whose target a file belongs to: its own, or the nearest above that has one."""
    for parent in pathlib.Path(path).parents:
        if str(parent) in folders:
            return str(parent)
    return None


class Tree(unittest.TestCase):

    def test_dependencies_have_no_circle(self):
        targets = libraries()
        self.assertGreater(len(targets), 15, "the build files were not understood")
        done = set()

        def walk(name, path):
            self.assertNotIn(name, path, " -> ".join([*path, name]))
            if name in done or name not in targets:
                return
            for other in sorted(targets[name][1]):
                walk(other, [*path, name])
            done.add(name)

        for name in targets:
            walk(name, [])

    def test_includes_follow_the_declared_dependencies(self):
        targets = libraries()
        reach = {}

        def closure(name):
            if name not in reach:
                reach[name] = {name}
                for other in targets.get(name, ("", set()))[1]:
                    reach[name] |= closure(other)
            return reach[name]

        folders = {}
        for name, (folder, _) in targets.items():
            folders.setdefault(folder, set()).update(closure(name))
        wrong = []
        for path in tracked(".h", ".cc"):
            folder = room(path, folders)
            if folder in (None, "proto"):
                continue
            allowed = {targets[name][0] for name in folders[folder] if name in targets} | {folder}
            for include in re.findall(r'^#include "([^"]+)"', (ROOT / path).read_text(), re.M):
                if not include.startswith(PRODUCT):
                    continue
                if room(include, folders) not in allowed:
                    wrong.append(f"{path} includes {include}, which its target does not depend on")
        self.assertEqual(wrong, [])

    def test_the_client_knows_only_the_trainer_protocol(self):
        for path in tracked(".h", ".cc", ".hpp"):
            if path.startswith("client/"):
                for include in re.findall(r'^#include "([^"]+)"', (ROOT / path).read_text(), re.M):
                    self.assertFalse(include.startswith(("daemon/", "compression/", "security/")) or
                                     (include.startswith("proto/") and include not in HEADER_ONLY),
                                     f"{path} includes {include}")

    def test_presets_keep_assertions(self):
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        for preset in presets:
            variables = preset.get("cacheVariables", {})
            if variables.get("CMAKE_CXX_COMPILER"):  # what cmake/ sets of flags is for the default compiler
                self.assertNotIn("NDEBUG", variables.get("CMAKE_CXX_FLAGS_RELWITHDEBINFO", "-DNDEBUG"), preset["name"])

    def test_sources_are_small_say_what_they_are_for_and_are_finished(self):
        for path in tracked(".h", ".cc", ".py", ".cu", ".cuh"):
            text = (ROOT / path).read_text()
            self.assertLessEqual(text.count("\n"), LINES_MAX, f"{path}: one file, one noun")
            if path != "tests/unit/tree/tree_test.py":
                self.assertIsNone(UNFINISHED.search(text), path)
            has_header = path.endswith(".cc") and (ROOT / path).with_suffix(".h").exists()
            if path.startswith(PRODUCT) and not path.endswith(".py") and not has_header:
                self.assertTrue(text.startswith(("//", "/*")), f"{path}: says nothing at its top")

    def test_a_reload_looks_at_every_key(self):
        keys = re.findall(r'\{"", "(\w+)", \w+\}', (ROOT / "daemon/config/keys.cc").read_text())
        self.assertGreater(len(keys), 15, "the keys were not understood")
        looked_at = re.findall(r'compare\("(\w+)"', (ROOT / "daemon/run/daemon_reload.cc").read_text())
        self.assertEqual(sorted(keys), sorted(looked_at))


if __name__ == "__main__":
    unittest.main()
