#!/usr/bin/python3
"""A trainer that is killed in the middle of a round: the other cluster goes on, a new one takes the values."""
import os
import signal
import time
import unittest

from gateways import PEER_TIMEOUT_S, Pair, until
from trainers import Trainer, both, join_both, main


POOLED_BYTES_MAX = 64 << 10


def used_bytes(gateway):
    return gateway.status()["memory"]["used_by"]


class TrainerDeath(unittest.TestCase):
    def until_submitted(self, gateway):
        """Until a round of this gateway is open, its own part announced."""
        return gateway.until_run(lambda run: run["fragments"] and run["fragments"][0]["awaited"],
                                 "a round awaits the other cluster")

    def rejoin(self, pair, cluster, seed):
        """A new trainer of the cluster; it gets the run's values, not its own."""
        trainer = Trainer(pair, cluster)
        joined = trainer.outer(seed=seed)
        self.assertTrue(joined["replaced"])
        return trainer

    def end_equal(self, trainers):
        looks = both(trainers, "steps", count=10)  # the first round may end without a newcomer
        self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
        self.assertEqual([look["participants"] for look in looks], [2, 2])
        return looks

    def test_the_one_that_the_round_waits_for(self):
        for victim_name, other_name in (("paris", "tokyo"), ("tokyo", "paris")):
            with self.subTest(victim=victim_name), Pair() as pair:
                trainers = dict(zip(("paris", "tokyo"), join_both(pair)))
                victim, other = trainers[victim_name], trainers[other_name]
                both([victim, other], "steps", count=10)
                baseline = {name: used_bytes(pair.gateways[name]) for name in pair.gateways}
                other.tell("steps", count=5)
                self.until_submitted(pair.gateways[other_name])
                other.until_line(victim_name)  # its user reads who is waited for
                victim.kill()
                look = other.answer()
                self.assertEqual(look["participants"], 1)
                self.assertEqual(look["excluded"], 0)
                pair.gateways[victim_name].until_event("trainer.gone", "died")
                new = self.rejoin(pair, victim_name, seed=77)
                self.end_equal([other, new])
                for name, gateway in pair.gateways.items():
                    used = used_bytes(gateway)
                    self.assertEqual(used["run demo"], baseline[name]["run demo"])
                    # The pool keeps a few free buffers; how many depends on what ran at once.
                    self.assertLess(used["chunks"] - baseline[name]["chunks"], POOLED_BYTES_MAX)
                ends = both([other, new], "finish")
                self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])

    def test_one_whose_own_part_is_under_way(self):
        for victim_name, other_name in (("paris", "tokyo"), ("tokyo", "paris")):
            with self.subTest(victim=victim_name), Pair() as pair:
                trainers = dict(zip(("paris", "tokyo"), join_both(pair)))
                victim, other = trainers[victim_name], trainers[other_name]
                both([victim, other], "steps", count=5)
                victim.tell("steps", count=5)
                self.until_submitted(pair.gateways[victim_name])
                victim.kill()
                pair.gateways[victim_name].until_event("trainer.gone", "died")
                # Whether its part counts or not, it does so everywhere: the values stay equal.
                other.steps(5)
                new = self.rejoin(pair, victim_name, seed=78)
                self.end_equal([other, new])
                ends = both([other, new], "finish")
                self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])

    def test_one_that_stands_still(self):
        for victim_name, other_name in (("paris", "tokyo"), ("tokyo", "paris")):
            with self.subTest(victim=victim_name), Pair() as pair:
                trainers = dict(zip(("paris", "tokyo"), join_both(pair)))
                victim, other = trainers[victim_name], trainers[other_name]
                both([victim, other], "steps", count=10)
                os.kill(victim.pid, signal.SIGSTOP)
                try:
                    victim.tell("steps", count=5)
                    other.tell("steps", count=5)
                    self.until_submitted(pair.gateways[other_name])
                    used = {name: used_bytes(pair.gateways[name])["run demo"] for name in pair.gateways}
                    other.until_line(victim_name)  # its user reads who is waited for
                    time.sleep(2 * PEER_TIMEOUT_S)  # nobody is given up: its gateway is well
                    self.assertFalse(other.answered())
                    for name, gateway in pair.gateways.items():
                        self.assertEqual(used_bytes(gateway)["run demo"], used[name])
                        self.assertEqual(gateway.run()["trainers"], 1)
                finally:
                    os.kill(victim.pid, signal.SIGCONT)
                looks = [victim.answer(), other.answer()]
                self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
                self.assertEqual([look["participants"] for look in looks], [2, 2])
                self.assertEqual([look["excluded"] for look in looks], [0, 0])
                ends = both([victim, other], "finish")
                self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])

    def test_again_and_again_at_any_moment(self):
        with Pair() as pair:
            paris, tokyo = join_both(pair)
            for seed in range(80, 84):
                before = pair.paris.run()["rounds_committed"]
                tokyo.tell("steps", count=50)
                paris.tell("steps", count=50)
                until(lambda: pair.paris.run()["rounds_committed"] > before, "rounds go on")
                paris.kill()
                look = tokyo.answer()
                self.assertEqual(look["excluded"], 0)
                paris = self.rejoin(pair, "paris", seed)
            self.end_equal([paris, tokyo])
            ends = both([paris, tokyo], "finish")
            self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])

    def test_out_of_step_none_waits_for_another_for_ever(self):
        """Fragment 0 is launched after steps 4, 8, ..., 1 after 2, 6, ..., each due a step later: a trainer that begins
        anew in between brings them in another order than the other one. Each then waits for what the other
        brings only after what it waits for itself."""
        algorithm = "{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 4, fragments: 2, delay: 1}"
        for steps in (3, 1):
            with self.subTest(steps=steps), Pair(algorithm=algorithm) as pair:
                paris, tokyo = join_both(pair)
                both([paris, tokyo], "steps", count=4 + steps)
                tokyo.kill()
                pair.tokyo.until_event("trainer.gone", "died")
                paris.steps(4)  # both fragments
                tokyo = self.rejoin(pair, "tokyo", seed=79)
                tokyo.tell("steps", count=400)
                look = paris.steps(40)
                self.assertEqual(look["participants"], 2)
                tokyo.answered()
                brought = [line for trainer in (paris, tokyo) for line in trainer.lines if "before its turn" in line]
                self.assertLessEqual(len(brought), 1)  # they are in step from there on
                paris.finish()
                tokyo.answer()
                tokyo.finish()


if __name__ == "__main__":
    main()
