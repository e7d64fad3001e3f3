#!/usr/bin/python3
"""Three real gateways: paris and tokyo have nothing but oslo to reach each other, and train through it."""
import re
import unittest

from gateways import Group, run_entry, until
from trainers import Trainer, both, main

ENDS = ("paris", "tokyo")


def rewrite(gateway, change):
    with open(gateway.configuration_path) as file:
        text = change(file.read())
    with open(gateway.configuration_path, "w") as file:
        file.write(text)


class Relay(unittest.TestCase):
    def test_a_run_between_two_clusters_through_a_third(self):
        entry = run_entry(clusters=ENDS)
        with Group(("oslo", *ENDS), runs=[entry], start=False) as group:
            for end, other in (ENDS, ENDS[::-1]):
                rewrite(group.gateways[end], lambda text: re.sub(
                    rf'\{{cluster: {other}, address: "[^"]*"\}}', f"{{cluster: {other}, relay: oslo}}", text))
            # The relay dials nobody and takes part in no run.
            rewrite(group.oslo, lambda text: re.sub(r', address: "[^"]*"\}', "}", text)
                    .replace(f"runs:\n{entry}\n", "runs: []\nrelay: [[tokyo, paris]]\n"))
            for gateway in group.gateways.values():
                gateway.start()
            group.until_linked()
            self.assertEqual(group.paris.peer("tokyo")["relay"], "oslo")
            self.assertEqual(group.paris.peer("tokyo")["address"], "")

            trainers = [Trainer(group, cluster) for cluster in ENDS]
            for seed, trainer in enumerate(trainers, 1):
                trainer.tell_outer(seed=seed)
            for trainer in trainers:
                trainer.joined = trainer.answer()
            both(trainers, "steps", count=5)
            relayed = group.oslo.status()["relayed"]
            self.assertEqual([(pair["first"], pair["second"]) for pair in relayed], [ENDS])
            self.assertGreaterEqual(relayed[0]["tunnels"], 3)  # a control stream and two lanes
            self.assertGreater(relayed[0]["bytes"], 0)

            # While the relay is away they wait for each other; then they go on.
            group.oslo.kill()
            until(lambda: group.paris.peer("tokyo")["state"] != "up", "the relay is missed")
            group.oslo.start()
            group.until_linked()
            both(trainers, "steps", count=5)
            ends = both(trainers, "finish")
            self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])


if __name__ == "__main__":
    main()
