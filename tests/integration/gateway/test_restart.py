#!/usr/bin/python3
"""Gateways that are killed, stopped and started again in the middle of rounds: all is told, nothing is lost."""
import os
import random
import signal
import time
import unittest

from gateways import FP32, PEER_TIMEOUT_S, Pair, until
from trainers import both, join_both, main

LEARN_S = PEER_TIMEOUT_S + 2  # what the documents promise
SEED = 11


class Restart(unittest.TestCase):
    def joined(self, pair, **arguments):
        return dict(zip(("paris", "tokyo"), join_both(pair, **arguments)))

    def until_open(self, gateway):
        return gateway.until_run(lambda run: run["fragments"] and run["fragments"][0]["awaited"],
                                 "a round awaits the other cluster")

    def until_told(self, pair, survivor, victim):
        """The survivor's trainer and operator learn that the run stands and whom it waits for."""
        began = time.monotonic()
        gateway = pair.gateways[survivor.cluster]
        run = gateway.until_run(lambda run: run["state"] == "stalled" and run["awaited"] == [victim],
                                f"the run is stalled and awaits {victim}", LEARN_S)
        self.assertTrue(run["detail"])
        del survivor.lines[:]
        survivor.until_line(victim, max(0.5, LEARN_S - (time.monotonic() - began)))

    def end_equal(self, trainers):
        both(trainers, "exchange", count=2)
        ends = both(trainers, "finish")
        self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])
        self.assertEqual(ends[0]["values"], ends[1]["values"])

    def assert_counted(self, looks):
        """Both clusters' work counted, once: neither carries any of it over to the next round."""
        self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
        self.assertEqual([look["excluded"] for look in looks], [0, 0])
        self.assertEqual([look["steps_lost"] for look in looks], [0, 0])

    def restart(self, gateway, other):
        gateway.start()
        until(lambda: gateway.peer(other)["state"] == "up", f"{gateway.cluster} is linked again")

    def test_killed_while_the_round_waits_for_the_slower_cluster(self):
        for victim, other in (("tokyo", "paris"), ("paris", "tokyo")):
            with self.subTest(victim=victim), Pair() as pair:
                trainers = self.joined(pair)
                survivor, slow = trainers[other], trainers[victim]
                both([survivor, slow], "exchange", count=2)
                for _ in range(3):
                    survivor.tell("exchange", count=1)
                    self.until_open(pair.gateways[other])
                    pair.gateways[victim].kill()
                    self.until_told(pair, survivor, victim)
                    self.restart(pair.gateways[victim], other)
                    slow.tell("exchange", count=1)
                    looks = [survivor.answer(), slow.answer()]
                    self.assert_counted(looks)
                    run = pair.gateways[victim].run()
                    self.assertTrue(run["residual_lost"])
                    pair.gateways[victim].until_event("state.fetched", "is here")
                self.assertFalse(pair.gateways[other].run()["residual_lost"])
                self.end_equal([survivor, slow])

    def test_killed_while_bytes_move(self):
        print(f"seed {SEED}")
        moments = random.Random(SEED)
        shapes = {f"layer{i}": (1024, 1024) for i in range(4)}
        for victim, other in (("tokyo", "paris"), ("paris", "tokyo")):
            with self.subTest(victim=victim), Pair(codec=FP32) as pair:
                trainers = self.joined(pair, shapes=shapes)
                survivor, fast = trainers[other], trainers[victim]
                gateway = pair.gateways[victim]
                both([survivor, fast], "exchange", count=1)
                for kind in ("held", "soon", "later"):
                    if kind == "held":
                        # Stopped, it reads nothing: what the survivor sends is under way when it dies.
                        os.kill(gateway.process.pid, signal.SIGSTOP)
                        sent = pair.gateways[other].run()["wire_bytes_sent"]
                        survivor.tell("exchange", count=1)
                        pair.gateways[other].until_run(lambda run: run["wire_bytes_sent"] > sent, "bytes move")
                        fast.tell("exchange", count=1)
                    else:
                        survivor.tell("exchange", count=1)
                        fast.tell("exchange", count=1)
                        self.until_busy(pair.gateways[other])
                        time.sleep(moments.uniform(0, 0.05))  # the moment of death, not a wait for something
                    gateway.kill()
                    self.restart(gateway, other)
                    for trainer in (survivor, fast):
                        trainer.answer()
                    self.assertEqual(gateway.run()["state"], "running")
                self.end_equal([survivor, fast])

    def until_busy(self, gateway):
        gateway.until_run(lambda run: run["fragments"][0]["phase"] != "idle", "a round is under way")

    def test_sigterm_drains(self):
        with Pair() as pair:
            paris, tokyo = join_both(pair)
            both([paris, tokyo], "exchange", count=1)
            # Idle: at once.
            self.assertLess(pair.tokyo.stop(), PEER_TIMEOUT_S + 2)
            self.restart(pair.tokyo, "paris")
            both([paris, tokyo], "exchange", count=1)
            # With a trainer that waits: it is given peer_timeout, told that this passes, and goes on later.
            tokyo.tell("exchange", count=1)
            self.until_open(pair.tokyo)
            del tokyo.lines[:]
            self.assertLess(pair.tokyo.stop(), PEER_TIMEOUT_S + 2)
            self.assertTrue(pair.tokyo.events("daemon.draining"))
            self.assertTrue(pair.tokyo.events("daemon.stopped"))
            tokyo.until_line("gateway")
            self.restart(pair.tokyo, "paris")
            paris.tell("exchange", count=1)
            self.assert_counted([paris.answer(), tokyo.answer()])
            self.end_equal([paris, tokyo])


if __name__ == "__main__":
    main()
