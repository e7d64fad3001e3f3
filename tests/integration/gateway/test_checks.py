#!/usr/bin/python3
"""Tests of what other tests end with: the history checker and the baseline find what they are for."""
import json
import subprocess
import sys
import unittest

import baseline
import gateways
import history
import trainers

CHAIN, OTHER = "aa11", "bb22"
HOLDER = """
import os, sys
for line in sys.stdin:
    what, count = line.split()
    if what == "open":
        kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(int(count))]
    elif what == "close":
        for descriptor in kept:
            os.close(descriptor)
    else:
        memory = bytearray(os.urandom(1 << 20) * int(count))
    print("done", flush=True)
"""


class Told:
    """A gateway of which only the log is known."""

    def __init__(self, cluster, *states, fragment=0):
        self.cluster = cluster
        self.lines = [{"event": "round.committed", "state": state, "fragment": fragment} for state in states]

    def events(self, name):
        return [line for line in self.lines if line["event"] == name]


class Applied:
    """A trainer of which only the log is known: rounds of its first life and fragment 0, and values."""

    def __init__(self, cluster, *lines):
        self.cluster, self.lines = cluster, lines

    def applied(self):
        return [(0, 0, number, value) for number, value in self.lines]


class Holder:
    """A process that holds what it is told to hold, in a gateway's place."""

    def __init__(self, test):
        self.cluster = "paris"
        self.process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, preexec_fn=gateways.die_with_parent)
        self.reserved = {"run demo": 100, "chunks": 5}
        test.addCleanup(self.end)

    def do(self, what, count):
        self.process.stdin.write(f"{what} {count}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self):
        self.process.kill()
        self.process.communicate()

    def status(self):
        return {"memory": {"used_by": self.reserved}}

    resident_bytes = gateways.Gateway.resident_bytes
    _memory_bytes = gateways.Gateway._memory_bytes


class Checks(unittest.TestCase):
    def test_equal_histories(self):
        self.assertEqual(history.check([Told("paris", f"l0 r1 {CHAIN}", f"l0 r2 {OTHER}"),
                                        Told("tokyo", f"l0 r2 {OTHER}")]), 3)

    def test_histories_that_differ(self):
        for first, second, words in (
                (Told("paris", f"l0 r1 {CHAIN}"), Told("tokyo", f"l0 r1 {OTHER}"), "bb22 at tokyo, aa11 at paris"),
                (Told("paris", f"l0 r2 {CHAIN}", f"l0 r1 {OTHER}"), Told("tokyo"), "round 1 after 2"),
                (Told("paris", f"l0 r1 {CHAIN}", f"l0 r1 {CHAIN}"), Told("tokyo"), "round 1 after 1"),
                (Told("paris", "l0 r1"), Told("tokyo"), "logs a commit of 'l0 r1'")):
            with self.subTest(words), self.assertRaisesRegex(AssertionError, words):
                history.check([first, second])
        # Another lineage or fragment is another history.
        history.check([Told("paris", f"l0 r1 {CHAIN}"), Told("tokyo", f"l1 r1 {OTHER}")])
        history.check([Told("paris", f"l0 r1 {CHAIN}"), Told("tokyo", f"l0 r1 {OTHER}", fragment=1)])

    def test_what_trainers_applied(self):
        known = [Told("paris", f"l0 r1 {CHAIN}", f"l0 r2 {OTHER}"), Told("tokyo")]
        self.assertEqual(history.check(known, [Applied("paris", (0, "x"), (1, "y"), (2, "z")),
                                               Applied("tokyo", (0, "x"), (2, "z"))]), 7)
        for lines, words in ((((1, "y"), (2, "other")), "fragment 0 round 2: z at paris, other at tokyo"),
                             (((0, "other"),), "fragment 0 round 0: x at paris, other at tokyo"),
                             (((2, "z"), (3, "w")), "trainer of tokyo applied fragment 0 round 3, which no gateway"),
                             (((2, "z"), (1, "y")), "trainer of tokyo applied fragment 0 round 1 after 2")):
            with self.subTest(words), self.assertRaisesRegex(AssertionError, words):
                history.check(known, [Applied("paris", (0, "x"), (1, "y"), (2, "z")), Applied("tokyo", *lines)])
        # After a rollback a round was committed twice, and has two values, not three.
        undone = [*known, Told("oslo", f"l1 r2 {CHAIN}")]
        both = [Applied("paris", (1, "y"), (2, "z"), (2, "w")), Applied("tokyo", (2, "w"))]
        self.assertEqual(history.check(undone, both), 7)
        with self.assertRaisesRegex(AssertionError, "different values of fragment 0 round 2"):
            history.check(undone, [*both, Applied("oslo", (2, "v"))])

    def test_real_logs_agree_and_a_planted_difference_is_found(self):
        with gateways.Pair(codec=gateways.INT4_EF, algorithm="{rule: average, local_steps: 2, fragments: 2}") as pair:
            both = trainers.join_both(pair)
            trainers.both(both, "exchange", count=3)
            compared = history.check_group(pair)
            applied = [trainer.applied() for trainer in both]
            self.assertEqual([line[1:] for line in applied[0] if line[2] > 0],
                             [line[1:] for line in applied[1] if line[2] > 0])
            self.assertEqual({line[2] for line in applied[0]}, {0, 1, 2, 3})
            self.assertGreater(compared, sum(map(len, applied)))
            life, fragment, number, value = applied[1][-1]
            with open(both[1].log_path, "a") as log:
                log.write(json.dumps([life + 1, fragment, number, value[::-1]]) + "\n")
            with self.assertRaisesRegex(AssertionError, f"different values of fragment {fragment} round {number}"):
                history.check_group(pair)

    def kept(self, holder, before):
        with self.assertRaises(AssertionError) as caught:
            before.check({"paris": holder}, lambda condition, what, _: self.assertTrue(condition(), what))
        return str(caught.exception)

    def test_what_is_kept_is_named(self):
        holder = Holder(self)
        holder.do("open", 1)  # it has started
        before = baseline.Baseline({"paris": holder})
        before.check({"paris": holder}, None)
        holder.do("open", baseline.DESCRIPTORS_MORE + 1)
        self.assertRegex(self.kept(holder, before), r"paris keeps \d+ descriptors")
        holder.do("close", 0)
        before.check({"paris": holder}, None)
        holder.reserved = {"run demo": 101, "chunks": 5}
        self.assertIn("101 bytes reserved by 'run demo', 100 before", self.kept(holder, before))
        holder.reserved = {"run demo": 100, "chunks": 50, "another": 1}
        self.assertIn("'another', 0 before", self.kept(holder, before))
        holder.reserved = {"chunks": 50}
        before.check({"paris": holder}, None)
        holder.do("fill", (baseline.RESIDENT_MORE >> 20) + 8)
        self.assertIn("bytes resident", self.kept(holder, before))


if __name__ == "__main__":
    trainers.main()
