#!/usr/bin/python3
"""Runs that begin anew: `causeway run forget`, and what is said when every gateway has restarted."""
import os
import shutil
import unittest

from gateways import Pair
from trainers import both, join_both, main


class Forget(unittest.TestCase):
    def run_from_the_beginning(self, pair, seeds):
        """The run forms from the seed cluster's trainer, and goes on."""
        trainers = join_both(pair, seeds=seeds)
        self.assertFalse(trainers[0].joined["replaced"])
        self.assertTrue(trainers[1].joined["replaced"])
        self.assertEqual(trainers[0].joined["rounds"], [0])
        looks = both(trainers, "exchange", count=1)
        self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
        return trainers

    def test_forgotten_on_both_the_run_begins_anew(self):
        with Pair() as pair:
            trainers = self.run_from_the_beginning(pair, (1, 2))
            said = pair.paris.forget(expect=69)
            self.assertIn("run 'demo' has a trainer attached; end it first, then forget the run", said)
            both(trainers, "exchange", count=1)  # refused, it did no harm
            both(trainers, "finish")
            self.assertIn("no run 'dmeo'; configured: demo", pair.paris.forget("dmeo", expect=64))
            for gateway in (pair.paris, pair.tokyo):
                gateway.until_run(lambda run: run["trainers"] == 0, "no trainer is attached")
                self.assertIn("run 'demo' is forgotten on this gateway; do the same on its other clusters",
                              gateway.forget())
            trainers = self.run_from_the_beginning(pair, (3, 4))
            both(trainers, "finish")

    def test_all_gateways_restarted(self):
        with Pair() as pair:
            trainers = self.run_from_the_beginning(pair, (1, 2))
            for gateway in (pair.paris, pair.tokyo):
                gateway.kill()
                # Nothing of the values was saved, however far the first checkpoint had come.
                shutil.rmtree(os.path.join(gateway.state_directory, "demo.state"), ignore_errors=True)
            for gateway in (pair.paris, pair.tokyo):
                gateway.start()
            for trainer in trainers:
                trainer.tell("exchange", count=1)
            for gateway in (pair.paris, pair.tokyo):
                run = gateway.until_run(lambda run: "run forget" in run["detail"], "status names the remedy")
                self.assertIn("`causeway run forget demo` on every gateway", run["detail"])
            for trainer in trainers:
                self.assertFalse(trainer.answered())
                trainer.kill()
            for gateway in (pair.paris, pair.tokyo):
                gateway.until_run(lambda run: run["trainers"] == 0, "no trainer is attached")
                gateway.forget()
            trainers = self.run_from_the_beginning(pair, (5, 6))
            ends = both(trainers, "finish")
            self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])


if __name__ == "__main__":
    main()
