#!/usr/bin/python3
"""What operators do to a run of three clusters: stop, start, leave, change its voters; the late and the deadline."""
import time
import unittest

from gateways import Group
from trainers import both, join_all, main

THREE = ("oslo", "paris", "tokyo")


class Operator(unittest.TestCase):
    def test_stop_and_start(self):
        with Group(THREE) as three:
            trainers = join_all(three)
            both(trainers, "exchange", count=2)
            three.tokyo.change("stop")
            for gateway in three.gateways.values():
                gateway.until_run(lambda run: run["state"] == "stopped", "stands still")
            for trainer in trainers:
                trainer.tell("exchange", count=1)
            trainers[0].until_line("stopped by its operator")
            rounds = {gateway.run()["fragments"][0]["round"] for gateway in three.gateways.values()}
            self.assertEqual(len(rounds), 1)
            # It is so for a gateway that comes back, too.
            three.paris.kill()
            three.paris.start()
            three.paris.until_run(lambda run: run["state"] == "stopped", "stands still again")
            three.oslo.change("start")
            # A gateway whose promise was slow is left out of the next membership and carries its work over: then its
            # trainer's parameters differ until it has counted.
            looks = [trainer.answer() for trainer in trainers]
            self.assertEqual(len({look["sha256"] for look in looks if not look["excluded"]}), 1)
            for gateway in three.gateways.values():
                gateway.until_run(lambda run: run["members"] == list(THREE), "everybody is a member")
            looks = both(trainers, "exchange", count=1)
            self.assertEqual(len({look["sha256"] for look in looks}), 1)
            ends = both(trainers, "finish")
            self.assertEqual(len({end["values"] for end in ends}), 1)

    def test_leave_and_voters(self):
        with Group(THREE) as three:
            trainers = join_all(three)
            both(trainers, "exchange", count=1)
            said = three.tokyo.change("voters", "oslo", "paris", "--primary", "paris", expect=69)
            self.assertIn("is led by oslo", said)
            self.assertIn("'roma' is not a cluster", three.oslo.change("voters", "roma", expect=64))
            three.tokyo.change("leave")
            for gateway in (three.oslo, three.paris):
                gateway.until_run(lambda run: run["voters"] == run["members"] == ["oslo", "paris"],
                                  "tokyo has left")
            trainers[2].kill()
            looks = both(trainers[:2], "exchange", count=2)
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.assertEqual(looks[0]["participants"], 2)
            both(trainers[:2], "finish")

    def test_the_late_are_left_out_at_the_deadline_and_come_back(self):
        with Group(THREE, stragglers="{policy: deadline, grace: 300ms}") as three:
            trainers = join_all(three)
            both(trainers, "exchange", count=1)
            oslo, paris, tokyo = trainers
            looks = both([oslo, paris], "exchange", count=1)
            self.assertEqual([look["participants"] for look in looks], [2, 2])
            # The next round waits until the late one has taken this one's value.
            oslo.tell("exchange", count=1)
            paris.tell("exchange", count=1)
            time.sleep(0.5)  # how late it is, not a wait for something
            late = tokyo.do("exchange", count=1)
            self.assertGreaterEqual(late["excluded"], 1)
            for trainer in (oslo, paris):
                trainer.answer()
            ends = both(trainers, "finish")
            self.assertEqual(len({end["values"] for end in ends}), 1)


if __name__ == "__main__":
    main()
