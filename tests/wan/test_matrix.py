#!/usr/bin/python3
"""The fault matrix over the emulated link: each fault happens while rounds run, and each ends with equal values, an
agreed history, and descriptors and memory as before. Skipped (77) where it cannot run.

    tests/wan/test_matrix.py Deaths Lines ...     as ctest runs them
    CAUSEWAY_LONG=1                               longer faults, more of them
"""
import importlib.util
import os
import random
import signal
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import wan_link

LONG = bool(os.environ.get("CAUSEWAY_LONG"))
THREE = ("oslo", "paris", "tokyo")
PEER_TIMEOUT_S = 10 if LONG else 3
OUTAGE_S = 5.0 if LONG else 1.5           # shorter than peer_timeout: nobody is given up
ABSENCE_S = 60.0 if LONG else PEER_TIMEOUT_S + 3.0
SHAPES = {f"layer{i}": (512, 1024) for i in range(4)}
ROUND_BYTES = 4 * 4 * 512 * 1024  # of one cluster's contribution, fp32


class Matrix(unittest.TestCase):
    """What the faults share: a run of three clusters, its trainers, and how it ends."""

    def begin(self, **more):
        import wan_group  # which makes the integration tests' modules known
        import trainers
        self.both = trainers.both
        more = {"codec": "{kind: fp32}", "peer_timeout_s": PEER_TIMEOUT_S,
                "settings": "checkpoint: {rounds: 2, interval: 1h}\n", **more}
        group = wan_group.WanGroup(THREE, **more)
        group.__enter__()
        self.addCleanup(self.leave, group)
        self.trainers = dict(zip(THREE, trainers.join_all(group, shapes=SHAPES)))
        self.exchange()
        group.take_baseline()
        return group

    def leave(self, group):
        failed = not self._outcome.success
        group.__exit__(*((AssertionError, None, None) if failed else (None, None, None)))

    def tell(self, *clusters, count=1):
        for cluster in clusters or THREE:
            self.trainers[cluster].tell("exchange", count=count)

    def answers(self, *clusters):
        return {cluster: self.trainers[cluster].answer(180) for cluster in clusters or THREE}

    def exchange(self, count=1):
        self.tell(count=count)
        return self.answers()

    def until_busy(self, group, cluster="oslo"):
        group.gateways[cluster].until_run(lambda run: run["fragments"][0]["phase"] != "idle", "a round runs")

    def end_equal(self, **first):
        looks = self.exchange(2)
        self.assertEqual(len({look["sha256"] for look in looks.values()}), 1)
        for trainer in self.trainers.values():
            trainer.tell("finish")
        ends = self.answers()
        self.assertEqual(len({end["values"] for end in ends.values()}), 1)


class Deaths(Matrix):
    """Gateways that die or stand still."""

    def test_killed_at_10_50_and_90_percent_of_the_bytes(self):
        group = self.begin(route="direct")  # everybody's whole contribution goes to everybody
        for fraction, victim in ((0.1, "tokyo"), (0.5, "paris"), (0.9, "tokyo")):
            group.until_members(THREE)
            group.kill_at(victim, fraction, ROUND_BYTES, self.tell)
            group.gateways[victim].start()
            looks = self.answers()
            self.assertEqual(len({look["sha256"] for look in looks.values()}), 1)
        self.end_equal()

    def test_killed_for_good_the_others_go_on(self):
        group = self.begin(route="direct")
        group.kill_at("tokyo", 0.3, ROUND_BYTES, self.tell)
        began = time.monotonic()
        looks = self.answers("oslo", "paris")
        print(f"the others' round took {time.monotonic() - began:.1f} s (peer_timeout {PEER_TIMEOUT_S} s)")
        self.assertEqual({look["participants"] for look in looks.values()}, {2})
        group.tokyo.start()
        self.answers("tokyo")
        group.oslo.until_run(lambda run: len(run["members"]) == 3, "tokyo is back")
        self.end_equal()

    def test_stopped_and_continued(self):
        group = self.begin()
        process = group.tokyo.process
        process.send_signal(signal.SIGSTOP)
        try:
            self.tell("oslo", "paris")
            self.answers("oslo", "paris")  # the two are a quorum
            self.assertEqual(group.oslo.run()["members"], ["oslo", "paris"])
        finally:
            process.send_signal(signal.SIGCONT)
        self.tell("tokyo")
        self.answers("tokyo")
        group.oslo.until_run(lambda run: len(run["members"]) == 3, "tokyo is back")
        self.end_equal()

    def test_restarted_again_and_again(self):
        group = self.begin()
        moments = random.Random(3)
        print("seed 3")
        for _ in range(20 if LONG else 4):
            self.tell()
            time.sleep(moments.uniform(0, 0.5))  # the moment of death
            group.paris.kill()
            group.paris.start()
            self.answers()
        self.end_equal()


class Lines(Matrix):
    """Lines that go dark, wholly or one way, for a while or for long."""

    def test_a_short_outage_changes_nobodys_membership(self):
        group = self.begin()
        epoch = group.oslo.run()["epoch"]
        self.tell()
        self.until_busy(group)
        began = time.monotonic()
        group.down_for("tokyo", OUTAGE_S)
        looks = self.answers()
        print(f"the round took {time.monotonic() - began:.1f} s with the line dark for {OUTAGE_S} s")
        self.assertEqual({look["participants"] for look in looks.values()}, {3})
        self.assertEqual(group.oslo.run()["epoch"], epoch)
        self.end_equal()

    def test_a_long_outage_is_survived_and_the_absent_comes_back(self):
        group = self.begin()
        group.link.down("tokyo")
        began = time.monotonic()
        self.tell("oslo", "paris")
        self.answers("oslo", "paris")
        time.sleep(max(0.0, ABSENCE_S - (time.monotonic() - began)))  # how long the line is dark
        group.link.down("tokyo", dark=False)
        self.tell("tokyo")
        self.answers("tokyo")
        group.oslo.until_run(lambda run: len(run["members"]) == 3, "tokyo is back")
        self.end_equal()

    def test_dark_one_way(self):
        group = self.begin()
        for cluster in ("oslo", "paris"):
            group.link.set(f"tokyo>{cluster}", dark=1)
        self.tell("oslo", "paris")
        self.answers("oslo", "paris")
        for cluster in ("oslo", "paris"):
            group.link.set(f"tokyo>{cluster}", dark=0)
        self.tell("tokyo")
        self.answers("tokyo")
        group.oslo.until_run(lambda run: len(run["members"]) == 3, "tokyo is back")
        self.end_equal()


class Weather(Matrix):
    """Lines that lose, delay or slow down."""

    def test_loss_with_jitter(self):
        for loss in ("0.1%", "2%") if LONG else ("1%",):
            with self.subTest(loss=loss):
                group = self.begin()
                group.link.set("*", loss=loss, jitter="10ms")
                self.exchange(3)
                self.end_equal()

    def test_the_rate_drops(self):
        group = self.begin()
        self.tell()
        self.until_busy(group)
        group.link.set("tokyo>*", rate="20mbit")
        self.answers()
        self.assertEqual(len(group.oslo.run()["members"]), 3)  # slow is not dead
        group.link.set("tokyo>*", rate="100mbit")
        self.end_equal()


if __name__ == "__main__":
    problem = wan_link.missing_requirements()
    if not problem and not importlib.util.find_spec("torch"):
        problem = "python3-torch is not installed"
    if problem:
        print(f"skipped: {problem}")
        sys.exit(77)
    unittest.main(verbosity=2)
