#!/usr/bin/python3
"""Runs that begin anew: `causeway run forget`, and what is said when every gateway has restarted."""
import os
import shutil
import tempfile
import unittest

from gateways import Pair
from trainers import Trainer, both, join_both, main


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

    def test_what_an_earlier_founding_left_is_refused_by_name(self):
        settings = "checkpoint: {rounds: 1, interval: 1h}\n"  # every round
        with Pair(settings=settings) as pair, tempfile.TemporaryDirectory() as kept:
            trainers = self.run_from_the_beginning(pair, (1, 2))
            both(trainers, "exchange", count=4)
            both(trainers, "finish")
            tokyo = pair.tokyo
            for gateway in (pair.paris, tokyo):
                gateway.until_run(lambda run: run["trainers"] == 0, "no trainer is attached")
                gateway.until_run(lambda run: run["checkpoint"]["fragments_behind"] == 0, "all is on disk")
            shutil.copytree(tokyo.state_directory, kept, dirs_exist_ok=True)
            for gateway in (pair.paris, tokyo):
                gateway.forget()
            trainers = self.run_from_the_beginning(pair, (3, 4))

            # Files of the earlier founding below the record of the present one.
            tokyo.until_run(lambda run: run["checkpoint"]["fragments_behind"] == 0, "all is on disk")
            tokyo.kill()
            shutil.copytree(os.path.join(kept, "demo.state"), os.path.join(tokyo.state_directory, "demo.state"),
                            dirs_exist_ok=True)
            tokyo.start()
            tokyo.until_event("state.checkpoint-refused", "of another founding of this run")
            looks = both(trainers, "exchange", count=1)
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])

            # The whole disk of the earlier founding, with its record.
            trainers[1].kill()
            tokyo.kill()
            shutil.rmtree(tokyo.state_directory)
            shutil.copytree(kept, tokyo.state_directory)
            tokyo.start()
            pair.paris.until_event("run.foreign", "tokyo")
            tokyo.until_event("run.foreign", "paris")
            run = pair.paris.until_run(lambda run: "another founding" in run["detail"], "status names the remedy")
            self.assertIn("tokyo: not heard", run["detail"])
            self.assertIn("`causeway run forget demo`", run["detail"])
            self.assertEqual(pair.paris.events("run.foreign")[0]["peer"], "tokyo")
            tokyo.forget()
            trainers[1] = Trainer(pair, "tokyo")
            trainers[1].outer(seed=4)
            ends = both(trainers, "finish")
            self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])
            pair.paris.until_run(lambda run: "another founding" not in run["detail"], "tokyo is heard again")


if __name__ == "__main__":
    main()
