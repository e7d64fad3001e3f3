#!/usr/bin/python3
"""A cluster that dies for good, with and without a primary."""
import unittest

from gateways import PEER_TIMEOUT_S, Pair
from trainers import Trainer, both, join_both, main


class Primary(unittest.TestCase):
    def test_the_primary_goes_on_alone_and_the_other_returns(self):
        with Pair(primary="paris") as pair:
            paris, tokyo = join_both(pair)
            both([paris, tokyo], "exchange", count=2)
            paris.tell("exchange", count=2)
            # The gateway first: one that outlives its trainer takes the contribution back, and nobody is missed.
            pair.tokyo.kill()
            tokyo.kill()
            look = paris.answer()
            self.assertEqual(look["participants"], 1)
            self.assertEqual(look["excluded"], 0)
            self.assertEqual(pair.paris.run()["members"], ["paris"])
            # Back again, while the run goes on.
            pair.tokyo.start()
            pair.until_linked()
            tokyo = Trainer(pair, "tokyo")
            tokyo.tell_outer(seed=50)
            joined = tokyo.answer()
            self.assertTrue(joined["replaced"])
            self.assertEqual(joined["sha256"], look["sha256"])
            looks = both([paris, tokyo], "exchange", count=2)
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.assertEqual(looks[0]["participants"], 2)
            # Gone once more: paris finishes alone.
            pair.tokyo.kill()
            tokyo.kill()
            end = paris.finish()
            pair.paris.until_run(lambda run: run["state"] == "finished", "the run is finished")
            # Whoever comes after that still gets the values.
            pair.tokyo.start()
            pair.until_linked()
            late = Trainer(pair, "tokyo")
            joined = late.outer(seed=51)
            self.assertTrue(joined["replaced"])
            self.assertEqual(joined["sha256"], end["sha256"])

    def test_the_other_one_waits_for_the_primary(self):
        with Pair(primary="paris") as pair:
            paris, tokyo = join_both(pair)
            both([paris, tokyo], "exchange", count=1)
            tokyo.tell("exchange", count=1)
            pair.paris.kill()
            pair.tokyo.until_run(lambda run: run["state"] == "stalled" and run["awaited"] == ["paris"],
                                 "the run is stalled", PEER_TIMEOUT_S + 2)
            del tokyo.lines[:]
            tokyo.until_line("paris")
            pair.paris.start()
            paris.tell("exchange", count=1)
            looks = [paris.answer(), tokyo.answer()]
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            ends = both([paris, tokyo], "finish")
            self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])

    def test_without_a_primary_paris_waits_and_says_for_whom(self):
        with Pair() as pair:
            paris, tokyo = join_both(pair)
            both([paris, tokyo], "exchange", count=1)
            paris.tell("exchange", count=1)
            pair.tokyo.kill()
            tokyo.kill()
            run = pair.paris.until_run(lambda run: run["state"] == "stalled", "the run is stalled",
                                       PEER_TIMEOUT_S + 2)
            self.assertEqual(run["awaited"], ["tokyo"])
            self.assertIn("heard", run["detail"])
            del paris.lines[:]
            paris.until_line("tokyo")
            self.assertFalse(paris.answered())  # it does not go on alone
            pair.tokyo.start()
            tokyo = Trainer(pair, "tokyo")
            joined = tokyo.outer(seed=60)
            self.assertTrue(joined["replaced"])
            tokyo.tell("exchange", count=1)
            look = paris.answer()
            if look["participants"] == 1:  # the round ended before tokyo's new trainer was there
                paris.do("exchange", count=1)
            tokyo.answer()
            ends = both([paris, tokyo], "finish")
            self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])


if __name__ == "__main__":
    main()
