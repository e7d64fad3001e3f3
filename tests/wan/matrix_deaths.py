"""The fault matrix: gateways that die or stand still."""
import random
import signal
import time

from matrix import ABSENCE_S, LONG, PEER_TIMEOUT_S, ROUND_BYTES, THREE, Matrix, absent_for, row


class Deaths(Matrix):
    def test_killed_at_10_50_and_90_percent_of_the_bytes(self):
        group = self.begin(route="direct")  # everybody's whole contribution goes to everybody
        for fraction, victim in ((0.1, "tokyo"), (0.5, "paris"), (0.9, "tokyo")):
            group.until_members(THREE)
            group.kill_at(victim, fraction, ROUND_BYTES, self.tell)
            group.gateways[victim].start()
            looks = self.answers()
            self.assertEqual(len({look["sha256"] for look in looks.values()}), 1)
        self.end_equal()

    def test_killed_for_good_the_others_go_on(self):
        group = self.begin(route="direct")
        group.kill_at("tokyo", 0.3, ROUND_BYTES, self.tell)
        began = time.monotonic()
        looks = self.answers("oslo", "paris")
        row(fault="killed for good in a round", round_s=round(time.monotonic() - began, 2), peer_timeout_s=PEER_TIMEOUT_S)
        self.assertEqual({look["participants"] for look in looks.values()}, {2})
        group.tokyo.start()
        self.answers("tokyo")
        self.until_back(group)
        self.end_equal()

    def test_stopped_and_continued(self):
        group = self.begin()
        process = group.tokyo.process
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            self.tell("oslo", "paris")
            self.answers("oslo", "paris")  # the two are a quorum
            self.assertEqual(group.oslo.run()["members"], ["oslo", "paris"])
            absent_for(ABSENCE_S, began)
        finally:
            process.send_signal(signal.SIGCONT)
        self.let_return(group, "tokyo")
        self.end_equal()

    def test_restarted_again_and_again(self):
        group = self.begin()
        moments = random.Random(3)
        print("seed 3")
        for _ in range(20 if LONG else 4):
            self.tell()
            time.sleep(moments.uniform(0, 0.5))  # the moment of death
            group.paris.kill()
            group.paris.start()
            self.answers()
        self.end_equal()
