"""The fault matrix: how soon the others know that a gateway is gone, and that nobody is given up who is not.

The one knob is peer_timeout: silence is noticed within it and a heartbeat. What is measured goes into rows; the
long form also holds it to peer_timeout + 1 s, which a machine that others load cannot promise.
"""
import datetime
import signal
import time

from matrix import LONG, OUTAGE_S, PEER_TIMEOUT_S, THREE, Matrix, row

OTHERS = ("oslo", "paris")
VICTIM = "tokyo"
STEADY_S = 3 * PEER_TIMEOUT_S  # how long bad weather lasts


def happened_at(event):
    """Of a log line, seconds since 1970."""
    return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


class Detection(Matrix):
    def lost(self, group, observer, since, peer=VICTIM):
        """Log lines of links to the peer that ended since then."""
        return [event for event in group.gateways[observer].events("peer.down")
                if event["peer"] == peer and happened_at(event) >= since - 0.001]

    def detect(self, group, fault, begin, busy, observers=OTHERS, peer=VICTIM):
        import gateways
        if busy:
            self.tell()
            self.until_busy(group)
        since = time.time()
        begin()
        for observer in observers:
            gateways.until(lambda: self.lost(group, observer, since, peer), f"{observer} notices: {fault}")
        seconds = max(happened_at(self.lost(group, observer, since, peer)[0]) - since for observer in observers)
        row(fault=fault, busy=busy, detected_s=round(seconds, 2), peer_timeout_s=PEER_TIMEOUT_S)
        if LONG:
            self.assertLessEqual(seconds, PEER_TIMEOUT_S + 1, fault)

    def go_on(self, group, busy):
        if not busy:
            self.tell()
        self.answers()
        self.until_back(group)
        group.until_linked()

    def test_a_peer_that_is_gone(self):
        group = self.begin()
        process = group.tokyo.process
        for busy in (False, True):
            self.detect(group, "frozen", lambda: process.send_signal(signal.SIGSTOP), busy)
            process.send_signal(signal.SIGCONT)
            self.go_on(group, busy)

            self.detect(group, "dark", lambda: group.link.down(VICTIM), busy, THREE[:2])
            group.link.down(VICTIM, dark=False)
            self.go_on(group, busy)

            self.detect(group, "dark from it", lambda: group.link.set(f"{VICTIM}>*", dark=1), busy)
            group.link.set(f"{VICTIM}>*", dark=0)
            self.go_on(group, busy)

            self.detect(group, "dark towards it", lambda: group.link.set(f"*>{VICTIM}", dark=1), busy,
                        observers=(VICTIM,), peer=OTHERS[0])
            group.link.set(f"*>{VICTIM}", dark=0)
            self.go_on(group, busy)
        self.end_equal()

    def test_a_peer_that_died(self):
        group = self.begin()
        for busy in (False, True):
            self.detect(group, "killed", group.tokyo.kill, busy)
            group.tokyo.start()
            self.go_on(group, busy)

            # Half-open: nobody tells the others' hosts that the connections are no more.
            def vanish():
                group.link.down(VICTIM)
                group.tokyo.kill()
            self.detect(group, "host lost", vanish, busy)
            group.link.down(VICTIM, dark=False)
            group.tokyo.start()
            self.go_on(group, busy)
        self.end_equal()

    def test_nobody_is_given_up_who_is_not_gone(self):
        group = self.begin()
        weathers = (("10 Mbit/s", {"rate": "10mbit"}, {"rate": "100mbit"}),
                    ("jitter of 400 ms, 1 % loss", {"jitter": "400ms", "loss": "1%"}, {"jitter": "0ms", "loss": "0"}))
        since = time.time()
        epoch = group.oslo.run()["epoch"]
        for name, bad, good in weathers:
            self.tell()
            self.until_busy(group)
            group.link.set(f"{VICTIM}>*", **bad)
            time.sleep(STEADY_S)  # how long the weather lasts
            group.link.set(f"{VICTIM}>*", **good)
            self.assert_all_counted(self.answers())
            row(fault=name, given_up=len(self.lost(group, "oslo", since)))
        for busy in (False, True):
            if busy:
                self.tell()
                self.until_busy(group)
            group.down_for(VICTIM, OUTAGE_S)
            if not busy:
                self.tell()
            self.assert_all_counted(self.answers())
            row(fault=f"dark for {OUTAGE_S} s", busy=busy, given_up=len(self.lost(group, "oslo", since)))
        for observer in OTHERS:
            self.assertEqual(self.lost(group, observer, since), [])
        self.assertEqual(group.oslo.run()["epoch"], epoch)
        self.end_equal()
