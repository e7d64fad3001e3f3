#!/usr/bin/python3
"""Labelled snapshots: kept by all gateways at one round, gone back to when their operators say so."""
import os
import subprocess
import unittest

from gateways import FP32, RUN, Pair, until
from trainers import both, join_all, main

COMMAND = os.environ["CAUSEWAY_COMMAND"]
SETTINGS = "checkpoint: {rounds: 1, interval: 1h, snapshots: 2}\n"
NESTEROV = "{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 5, fragments: 2}"


def roll_back(gateway, label, run=RUN):
    return subprocess.run([COMMAND, "run", "rollback", run, "--to", label, "--config", gateway.configuration_path],
                          capture_output=True, text=True)


def kept(gateway, label):
    """Fragments that the gateway has kept under it."""
    return [event["fragment"] for event in gateway.events("state.checkpoint-written") if f"label '{label}'" in event["text"]]


class Snapshot(unittest.TestCase):
    def label(self, pair, trainers, label):
        """What the trainers hold when the gateways have kept it."""
        both(trainers, "snapshot", label=label)
        looks = both(trainers, "exchange", count=1)
        for gateway in pair.gateways.values():
            until(lambda: sorted(kept(gateway, label)) == [0, 1], f"{gateway.cluster} has kept {label}")
        return looks[0]["sha256"]

    def test_all_gateways_go_back_to_a_label(self):
        with Pair(settings=SETTINGS, algorithm=NESTEROV, codec=FP32) as pair:
            trainers = join_all(pair)
            self.label(pair, trainers, "first")
            both(trainers, "exchange", count=1)
            before = self.label(pair, trainers, "before-decay")  # round 3
            self.label(pair, trainers, "third")
            later = both(trainers, "exchange", count=2)[0]["sha256"]
            self.assertNotEqual(before, later)
            refused = roll_back(pair.paris, "before-decay")
            self.assertIn("the gateway runs", refused.stderr)
            for trainer in trainers:
                trainer.kill()
            for gateway in pair.gateways.values():
                gateway.stop()
            refused = roll_back(pair.paris, "first")  # no more than two are kept
            self.assertIn("there are: before-decay, third", refused.stderr)
            for name in ("dmo", f"../{RUN}"):
                refused = roll_back(pair.paris, "before-decay", run=name)
                self.assertIn(f"no run '{name}' in {pair.paris.configuration_path}", refused.stderr)
            for gateway in pair.gateways.values():
                done = roll_back(gateway, "before-decay")
                self.assertEqual(done.returncode, 0, done.stderr)
            for gateway in pair.gateways.values():
                gateway.start(wait=False)
            trainers = join_all(pair, seeds=(7, 8))
            self.assertEqual({trainer.joined["sha256"] for trainer in trainers}, {before})
            self.assertEqual(trainers[0].joined["rounds"], [3, 3])
            both(trainers, "exchange", count=2)
            ends = both(trainers, "finish")
            self.assertEqual(len({end["values"] for end in ends}), 1)


if __name__ == "__main__":
    main()
