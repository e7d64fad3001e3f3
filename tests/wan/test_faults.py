#!/usr/bin/python3
"""Faults of gateways and of the line while the reference trainer runs over the emulated link.

Each test ends with the trainers' own verdict: the SHA-256 of all parameters, equal on every rank of every
cluster. Skipped (77) where it cannot run.
"""
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import programs
import wan_gateways
import wan_link

CLUSTERS = ("paris", "tokyo")
TRAIN = os.path.join(programs.ROOT, "client", "examples", "train.py")
PEER_TIMEOUT_S = 3
NOTICE_LIMIT_S = 60  # far above PEER_TIMEOUT_S: a loaded machine must not fail the test
STEPS = 60
LOCAL_STEPS = 5
LIMIT_S = 180
POLL_S = 0.05


class Run:
    """Two gateways and their trainers; used as a context."""

    def __init__(self, test, algorithm, codec="{kind: int4, error_feedback: true}", mode="outer"):
        self.test, self.mode = test, mode
        self.entry = wan_gateways.run_entry("demo", CLUSTERS, algorithm, codec)

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="causeway-fault-test-")
        self.test.addCleanup(shutil.rmtree, self.directory)
        self.link = wan_link.WanLink(CLUSTERS, rate="50mbit", rtt="40ms").__enter__()
        try:
            self.gateways = wan_gateways.start(self.link, programs.newest(), self.directory, self.directory,
                                               [self.entry], f"peer_timeout: {PEER_TIMEOUT_S}s\n")
            self.trainers = {cluster: self.train(i, cluster) for i, cluster in enumerate(CLUSTERS)}
        except BaseException:
            self.link.close()
            raise
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            for gateway in self.gateways.values():
                print(f"{gateway.cluster}: {self.status_text(gateway)}")
            for name in sorted(os.listdir(self.directory)):
                if name.endswith(".log"):
                    print(f"{name}:\n{programs.tail(os.path.join(self.directory, name), 12)}")
        self.link.close()

    @staticmethod
    def status_text(gateway):
        try:
            return json.dumps(gateway.status_now()["runs"])
        except (programs.Failure, subprocess.TimeoutExpired) as failure:
            return str(failure)

    def progress_path(self, cluster):
        return os.path.join(self.directory, f"progress-{cluster}")

    def train(self, index, cluster):
        command = [TRAIN, "--cluster", str(index), "--clusters", "2", "--mode", self.mode, "--socket",
                   self.gateways[cluster].trainer_socket, "--steps", str(STEPS), "--progress",
                   self.progress_path(cluster)]
        with open(os.path.join(self.directory, f"trainer-{cluster}.log"), "a") as file:
            return self.link.spawn(cluster, command, stdout=file, stderr=subprocess.STDOUT,
                                   env=programs.newest().trainer_environment())

    def events(self, cluster):
        try:
            with open(self.progress_path(cluster)) as file:
                return [json.loads(line) for line in file.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []

    def until(self, condition, what, limit_s=LIMIT_S):
        """Polls until condition() holds; the seconds it took."""
        begin = time.monotonic()
        while not condition():
            for cluster, trainer in self.trainers.items():
                self.test.assertIn(trainer.poll(), (None, 0), f"trainer of {cluster}, waiting for {what}")
            self.test.assertLess(time.monotonic() - begin, limit_s, what)
            time.sleep(POLL_S)
        return time.monotonic() - begin

    def steps(self, cluster):
        return sum(event["event"] == "step" for event in self.events(cluster))

    def until_step(self, step):
        self.until(lambda: min(self.steps(cluster) for cluster in CLUSTERS) >= step, f"step {step}")

    def peer_is(self, cluster, state):
        peers = self.gateways[cluster].status_now()["peers"]
        return all(peer["state"] == state for peer in peers)

    def until_noticed(self):
        seconds = self.until(lambda: self.peer_is("paris", "down"), "paris to notice", NOTICE_LIMIT_S)
        print(f"noticed after {seconds:.1f} s (peer_timeout {PEER_TIMEOUT_S} s)")

    def check_end(self):
        """All trainers finish, with the same bytes everywhere."""
        self.until(lambda: all(trainer.poll() == 0 for trainer in self.trainers.values()), "the end")
        results = [self.events(cluster)[-1] for cluster in CLUSTERS]
        for result in results:
            self.test.assertEqual((result["event"], result["step"]), ("result", STEPS))
        hashes = {sha for result in results for sha in result["parameters_sha256"]}
        self.test.assertEqual(len(hashes), 1)


AVERAGE = f"{{rule: average, local_steps: {LOCAL_STEPS}}}"


class FaultTest(unittest.TestCase):
    def test_no_fault(self):
        with Run(self, AVERAGE) as run:
            run.check_end()

    def test_gateway_killed_and_restarted(self):
        for rule, mode in ((AVERAGE, "outer"), ("{rule: gradients}", "every-step")):
            with self.subTest(rule=rule), Run(self, rule, "{kind: int8}", mode) as run:
                run.until_step(LOCAL_STEPS * 3)
                tokyo = run.gateways["tokyo"]
                tokyo.process.send_signal(signal.SIGKILL)
                tokyo.process.wait()
                run.until_noticed()
                tokyo.start()
                tokyo.wait_ready()
                run.check_end()

    def test_frozen_gateway_is_named_and_thaws(self):
        with Run(self, AVERAGE) as run:
            run.until_step(LOCAL_STEPS * 3)
            tokyo = run.gateways["tokyo"].process
            tokyo.send_signal(signal.SIGSTOP)
            try:
                run.until_noticed()
            finally:
                tokyo.send_signal(signal.SIGCONT)
            run.check_end()

    def test_dark_line_one_way_and_back(self):
        with Run(self, AVERAGE) as run:
            run.until_step(LOCAL_STEPS * 3)
            run.link.set("tokyo>paris", dark=1)
            run.until_noticed()
            run.link.set("tokyo>paris", dark=0)
            run.check_end()

    def test_lossy_line(self):
        with Run(self, AVERAGE) as run:
            run.link.set("*", loss="1%", jitter="5ms")
            run.check_end()


if __name__ == "__main__":
    problem = wan_link.missing_requirements()
    if not problem and not (importlib.util.find_spec("torch") and shutil.which("bible")):
        problem = "python3-torch or bible-kjv is not installed"
    if problem:
        print(f"skipped: {problem}")
        sys.exit(77)
    unittest.main(verbosity=2)
