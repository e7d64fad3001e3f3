#!/usr/bin/python3
"""Three real gateways: all-to-all and by chunk owner end in the same bytes, also when one dies and returns."""
import unittest

from gateways import Group, until
from trainers import Trainer, both, join_all, main

CLUSTERS = ("lima", "paris", "tokyo")
SHAPES = {"embed": (600, 1000), "block.weight": (700, 500), "block.bias": (700,)}  # four chunks
NESTEROV = "{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 4}"


class Three(unittest.TestCase):
    def equal(self, looks, key="sha256"):
        self.assertEqual(len({look[key] for look in looks}), 1, looks)

    def rounds(self, group):
        return [gateway.run()["rounds_committed"] for gateway in group.gateways.values()]

    def test_direct_and_by_owner(self):
        sent = {}
        for route in ("direct", "owner"):
            with self.subTest(route=route), Group(CLUSTERS, route=route, algorithm=NESTEROV) as group:
                trainers = join_all(group, shapes=SHAPES, seeds=(7, 7, 7))  # no state moves
                looks = both(trainers, "steps", count=12)
                self.equal(looks)
                self.assertEqual(looks[0]["participants"], 3)
                self.assertEqual(looks[0]["excluded"], 0)
                sent[route] = sum(gateway.run()["wire_bytes_sent"] for gateway in group.gateways.values())
                ends = both(trainers, "finish")
                self.equal(ends)
                self.equal(ends, "values")
        # n (n-1) encodings a round without owners; 2 (n-1) with them.
        self.assertLess(sent["owner"], 0.75 * sent["direct"])

    def test_next_to_nothing(self):
        for route, shapes in (("owner", {"one": (1,)}), ("owner", {"none": (0,), "one": (1,), "two": (2,)}),
                              ("owner", {"none": (0,)}), ("direct", {"one": (1,)})):
            with self.subTest(route=route, shapes=shapes), \
                    Group(CLUSTERS, route=route, algorithm="{rule: average, local_steps: 2}") as group:
                trainers = join_all(group, shapes=shapes)
                looks = both(trainers, "steps", count=6)
                self.equal(looks)
                self.assertEqual((looks[0]["rounds"], looks[0]["participants"]), (3, 3))
                ends = both(trainers, "finish")
                self.equal(ends)
                self.equal(ends, "values")

    def test_owners_die_and_return(self):
        with Group(CLUSTERS, route="owner", algorithm="{rule: average, local_steps: 4}") as group:
            trainers = join_all(group, shapes=SHAPES)
            self.equal(both(trainers, "steps", count=8))
            # Without its trainer a cluster still reduces what it owns.
            trainers[2].kill()
            group.tokyo.until_run(lambda run: run["trainers"] == 0, "its trainer is gone")
            looks = both(trainers[:2], "steps", count=8)
            self.equal(looks)
            self.assertEqual(looks[0]["participants"], 2)
            # Without its gateway the others go on alone.
            group.tokyo.kill()
            looks = both(trainers[:2], "steps", count=8)
            self.equal(looks)
            group.tokyo.start()
            again = Trainer(group, "tokyo")
            joined = again.outer(seed=99, shapes=SHAPES)
            self.assertTrue(joined["replaced"])
            until(lambda: len(group.lima.run()["members"]) == 3, "tokyo is a member again")
            looks = both([*trainers[:2], again], "steps", count=12)
            self.equal(looks)
            self.assertEqual(looks[0]["participants"], 3)
            self.equal(both([*trainers[:2], again], "finish"), "values")

    def test_a_gateway_returns_to_a_trainer_that_is_out_of_step(self):
        """Its launches meanwhile were void, so it brings the fragments in another order than the others do."""
        algorithm = "{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 5, fragments: 2, delay: 1}"
        with Group(CLUSTERS, algorithm=algorithm) as group:
            trainers = join_all(group)
            for trainer in trainers:
                trainer.tell("steps", count=10**7)
            for _ in range(3):
                group.tokyo.kill()
                group.paris.until_run(lambda run: run["members"] == ["lima", "paris"], "the others go on")
                group.tokyo.start()
                group.paris.until_run(lambda run: run["members"] == list(CLUSTERS), "tokyo is a member again")
                for _ in range(3):
                    before = group.tokyo.run()["rounds_committed"]
                    group.tokyo.until_run(lambda run: run["rounds_committed"] > before + 10, "rounds go on", 10)


if __name__ == "__main__":
    main()
