#!/usr/bin/python3
"""Bytes that change behind TLS, where no cipher looks at them any more: each spoiled chunk is found by its checksum,
asked for again, and the round commits what it would have committed."""
import contextlib
import unittest

import baseline
import history
from gateways import PEER_TIMEOUT_S, Group, Pair, until
from middle import CONTRIBUTION, RESULT, STATE, Middle
from trainers import both, join_all, main

SEED = 17
SHAPES = {"embed": (600, 1000), "block.weight": (700, 500), "block.bias": (700,)}  # four chunks
ROUND, KIND, INDEX = 5, 8, 9  # fields of a chunk
ROUNDS = 4
SPOILED_ROUND = 2  # one only: a link with more than a few spoiled chunks is ended, which is another test
PATIENT_S = 20  # peer_timeout: nobody is given up, so every round counts all


class Corruption(unittest.TestCase):
    @contextlib.contextmanager
    def group(self, kind, spoils=None, between=("paris", "tokyo"), **arguments):
        """A group whose first `between` dials the second through the middle; ends with the checks of a fault."""
        arguments.setdefault("peer_timeout_s", PATIENT_S)
        with kind(start=False, **arguments) as group, contextlib.ExitStack() as stack:
            if spoils:
                ends = [group.gateways[cluster] for cluster in between]
                group.middle = stack.enter_context(Middle(*ends, spoils, SEED))
            for gateway in group.gateways.values():
                gateway.start()
            group.until_linked()
            yield group
            self.assertGreater(history.check_group(group), 0)

    def rounds(self, group, seeds):
        """Trains; what everybody ends with, and how many rounds counted all."""
        trainers = join_all(group, seeds=seeds, shapes=SHAPES)
        both(trainers, "exchange", count=1)
        before = baseline.Baseline(group.gateways)
        looks = both(trainers, "exchange", count=ROUNDS - 1)
        self.assertEqual({look["participants"] for look in looks}, {len(trainers)})
        self.assertEqual({look["excluded"] for look in looks}, {0})
        ends = both(trainers, "finish")
        self.assertEqual(len({end["values"] for end in ends}), 1)
        before.check(group.gateways, until)
        return ends[0]["values"]

    def assert_named(self, group, kind, labels):
        """Chunks of the kind were spoiled on all these ways, and each receiver says from whom it had them."""
        for label in labels:
            spoiled = [fields for way, fields in group.middle.spoiled if way == label and fields[KIND] == kind]
            self.assertTrue(spoiled, f"nothing was spoiled on {label}")
            sender, receiver = label.split(">")
            event = group.gateways[receiver].until_event("peer.refused", "crc32c")
            self.assertEqual(event["peer"], sender)

    def test_contributions(self):
        print(f"seed {SEED}")
        with self.group(Pair) as group:
            right = self.rounds(group, seeds=(3, 3))
        first = (lambda label, fields, times:
                 fields[KIND] == CONTRIBUTION and fields[ROUND] == SPOILED_ROUND and times == 0)
        with self.group(Pair, first) as group:
            self.assertEqual(self.rounds(group, seeds=(3, 3)), right)
            self.assert_named(group, CONTRIBUTION, ("paris>tokyo", "tokyo>paris"))

    def test_results_of_owners(self):
        clusters = ("lima", "paris", "tokyo")
        three = (lambda **arguments: Group(clusters, route="owner", **arguments))
        with self.group(three) as group:
            right = self.rounds(group, seeds=(3, 3, 3))
        first = (lambda label, fields, times:
                 fields[KIND] != STATE and fields[ROUND] == SPOILED_ROUND and times == 0)
        with self.group(three, first, between=("lima", "tokyo")) as group:
            self.assertEqual(self.rounds(group, seeds=(3, 3, 3)), right)
            for kind in (CONTRIBUTION, RESULT):
                self.assert_named(group, kind, ("lima>tokyo", "tokyo>lima"))

    def test_state_on_its_way_to_a_joiner(self):
        first = (lambda label, fields, times: fields[KIND] == STATE and times == 0)
        with self.group(Pair, first) as group:
            self.rounds(group, seeds=(3, 4))  # tokyo's trainer takes over what paris came with
            self.assert_named(group, STATE, ("paris>tokyo",))

    def test_a_way_that_spoils_a_chunk_each_time(self):
        """The round is held up, not flooded: the link ends for a while, by name, and later the round commits."""
        spoiling = [True]
        always = (lambda label, fields, times: bool(spoiling) and label == "paris>tokyo" and
                  fields[KIND] == CONTRIBUTION and fields.get(INDEX, 0) == 1)
        with self.group(Pair, always, peer_timeout_s=PEER_TIMEOUT_S) as group:
            trainers = join_all(group, seeds=(3, 3), shapes=SHAPES)
            for trainer in trainers:
                trainer.tell("exchange", count=1)
            event = group.tokyo.until_event("peer.down", "crc32c")
            self.assertEqual(event["peer"], "paris")
            self.assertEqual(group.paris.run()["rounds_committed"], 0)
            spoiling.clear()
            looks = [trainer.answer() for trainer in trainers]
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.assertEqual({look["participants"] for look in looks}, {2})
            both(trainers, "finish")


if __name__ == "__main__":
    main()
