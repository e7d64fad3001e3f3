#!/usr/bin/python3
"""Tests of the demo as a whole, shortened: results, report, cleaning up, errors. Skipped (77) where it cannot run."""
import glob
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import programs
import wan_link

DEMO = os.path.join(programs.ROOT, "deploy", "demo")
RUN_KEYS = {"name", "final_bits_per_byte", "steps", "wall_s", "wire_bytes_per_cluster", "seed_bytes",
            "bytes_per_parameter_step", "compute_use", "identical", "costs"}
STEPS = 20
TIMEOUT_S = 500


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.output = tempfile.mkdtemp(prefix="causeway-demo-test-")
        self.addCleanup(shutil.rmtree, self.output)

    def command(self, *arguments):
        return [DEMO, "--build-directory", programs.newest().directory, "--output", self.output, "--plain",
                "--steps", str(STEPS), *arguments]

    def check_nothing_is_left(self, pid):
        self.assertEqual(glob.glob(f"/run/netns/{wan_link.PREFIX}{pid}x*"), [])
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path) as file:
                    self.assertNotIn(self.output, file.read(), path)
            except (FileNotFoundError, ProcessLookupError):
                pass  # ended meanwhile

    def test_results(self):
        for preset in ("standard", "fast"):
            with self.subTest(preset=preset):
                process = subprocess.Popen(self.command("--preset", preset), stdout=subprocess.PIPE,
                                           stderr=subprocess.STDOUT, text=True)
                self.addCleanup(process.kill)
                text = process.communicate(timeout=TIMEOUT_S)[0]
                self.assertEqual(process.returncode, 0, text)
                with open(os.path.join(self.output, "result.json")) as file:
                    result = json.load(file)
                self.assertEqual(set(result), {"runs", "link", "comparison"})
                runs = {run["name"]: run for run in result["runs"]}
                self.assertEqual(list(runs), ["sync-lan", "sync-wan", "causeway"])
                for run in runs.values():
                    self.assertEqual(set(run), RUN_KEYS)
                    self.assertTrue(run["identical"])
                self.assertEqual(runs["causeway"]["steps"], STEPS)
                # Every step's fp32 gradients against 4 bits every H steps and once more at the end.
                ratio = runs["sync-lan"]["bytes_per_parameter_step"] / runs["causeway"]["bytes_per_parameter_step"]
                self.assertGreater(ratio, 30)
                self.check_comparison(result["comparison"], runs)
                self.assertEqual(text.count("SHA-256"), 3)
                with open(os.path.join(self.output, "report.html")) as file:
                    self.assertEqual(file.read().count("<svg"), 3)
                self.assertFalse(os.path.exists(os.path.join(self.output, "logs")))
                self.check_nothing_is_left(process.pid)

    def check_comparison(self, comparison, runs):
        reference, ours = runs["sync-lan"], runs["causeway"]
        self.assertAlmostEqual(comparison["gap"], ours["final_bits_per_byte"] / reference["final_bits_per_byte"] - 1)
        self.assertAlmostEqual(comparison["byte_ratio"],
                               reference["wire_bytes_per_cluster"] / ours["wire_bytes_per_cluster"])
        self.assertEqual((comparison["steps"], comparison["synchronous_steps"]), (STEPS, STEPS))
        self.assertEqual(comparison["compute_use"], ours["compute_use"])
        # What the reference would take over the link, at the pace that sync-wan had there in its fewer steps.
        self.assertAlmostEqual(comparison["time_ratio"], comparison["seconds"] / comparison["synchronous_s"])

    def interrupt(self, word, action):
        """Starts the demo, acts when a line with `word` came; its exit status and text."""
        process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if word in line and action:
                action(process)
                action = None
        process.stdout.close()
        status = process.wait(timeout=TIMEOUT_S)
        self.check_nothing_is_left(process.pid)
        return status, "".join(lines)

    def test_ctrl_c_cleans_up(self):
        status, text = self.interrupt("sync-lan: paris step", lambda p: p.send_signal(signal.SIGINT))
        self.assertEqual(status, 130, text)

    def test_a_gateway_that_dies_ends_it_with_its_log(self):
        def kill_gateway(process):
            namespace = f"{wan_link.PREFIX}{process.pid}x1-tokyo"
            pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout
            for pid in pids.split():
                with open(f"/proc/{pid}/comm") as file:
                    if file.read().strip() == "causewayd":
                        os.kill(int(pid), signal.SIGKILL)

        status, text = self.interrupt("sync-lan: paris step", kill_gateway)
        self.assertEqual(status, 1, text)
        self.assertIn("the gateway of tokyo ended with -9", text)
        self.assertTrue(os.path.exists(os.path.join(self.output, "logs", "gateway-tokyo.log")))

    def test_without_root_it_says_what_it_needs(self):
        result = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", DEMO], capture_output=True,
                                text=True)
        self.assertEqual(result.returncode, 77)
        self.assertIn("needs root", result.stderr)


if __name__ == "__main__":
    problem = wan_link.missing_requirements()
    if not problem and not importlib.util.find_spec("torch"):
        problem = "python3-torch is not installed"
    if not problem and not shutil.which("bible"):
        problem = "bible-kjv is not installed"
    if problem:
        print(f"skipped: {problem}")
        sys.exit(77)
    unittest.main(verbosity=2)
