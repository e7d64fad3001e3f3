#!/usr/bin/python3
"""Peers that are slow, frozen, or never say anything: a message may take longer than peer_timeout as long as its bytes
come; who waits says for whom, and sleeps; an address that answers nothing holds nobody up."""
import os
import signal
import socket
import time
import unittest

from gateways import Pair, authority, until
from trainers import both, join_both, main
from wire import CONTROL, LANE, Stream, hello, lane_hello

PEER_TIMEOUT_S = 6
MESSAGE_BYTES, PIECE_BYTES = 1 << 20, 2000
PIECES_A_SECOND = 10
WATCHED_S = 3
BUSY_SHARE = 0.5  # of a core; who waits by looking again and again takes all of one


def processor_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class SlowPeer(unittest.TestCase):
    def test_a_message_that_takes_longer_than_peer_timeout(self):
        with Pair(extra_peers=("osaka",), start=False, peer_timeout_s=PEER_TIMEOUT_S) as pair:
            pair.paris.start()
            pki = authority().issue("osaka")
            with Stream(pair.paris.port, pki, CONTROL) as control:
                control.write(hello("osaka"))
                self.assertIsNotNone(control.read())
                until(lambda: pair.paris.peer("osaka")["state"] == "up", "osaka is up")
                with Stream(pair.paris.port, pki, LANE) as lane:
                    lane.write(lane_hello("osaka"))
                    self.assertIsNotNone(lane.read())
                    lane.write(b"", MESSAGE_BYTES)
                    for _ in range(int(2 * PEER_TIMEOUT_S * PIECES_A_SECOND)):
                        self.assertTrue(lane.more(bytes(PIECE_BYTES)))
                        time.sleep(1 / PIECES_A_SECOND)  # the line's rate
                    self.assertEqual(pair.paris.peer("osaka")["state"], "up")
                    self.assertEqual(pair.paris.events("peer.down"), [])
                    # Now nothing comes.
                    pair.paris.until_event("peer.down", "nothing was received from cluster osaka")

    def test_who_waits_for_a_frozen_gateway_sleeps(self):
        with Pair() as pair:
            trainers = join_both(pair)
            both(trainers, "exchange", count=1)
            pair.tokyo.process.send_signal(signal.SIGSTOP)
            try:
                trainers[0].tell("exchange", count=1)
                pair.paris.until_run(lambda run: run["state"] == "stalled" and run["awaited"] == ["tokyo"],
                                     "the run awaits tokyo")
                trainers[0].until_line("tokyo")
                waiting = {"trainer": trainers[0].pid, "gateway": pair.paris.process.pid}
                began, before = time.monotonic(), {who: processor_s(pid) for who, pid in waiting.items()}
                time.sleep(WATCHED_S)  # how long they are watched
                wall = time.monotonic() - began
                for who, pid in waiting.items():
                    self.assertLess(processor_s(pid) - before[who], BUSY_SHARE * wall, who)
                self.assertFalse(trainers[0].answered())
            finally:
                pair.tokyo.process.send_signal(signal.SIGCONT)
            trainers[1].tell("exchange", count=1)
            looks = [trainer.answer() for trainer in trainers]
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.assertEqual([look["excluded"] for look in looks], [0, 0])

    def test_an_address_that_takes_connections_and_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0), backlog=64) as silent, Pair(start=False) as pair:
            for gateway, other, address in ((pair.paris, pair.tokyo, silent.getsockname()[1]),
                                            (pair.tokyo, pair.paris, 9)):  # nobody's
                with open(gateway.configuration_path) as file:
                    text = file.read().replace(f'"127.0.0.1:{other.port}"', f'"127.0.0.1:{address}"')
                with open(gateway.configuration_path, "w") as file:
                    file.write(text)
                gateway.start()
            until(lambda: "no connection and hello from 127.0.0.1" in pair.paris.peer("tokyo")["last_error"],
                  "paris gives the silent address up")
            # It is asked again, and bounded again: by now at least a second connection was made.
            for _ in range(2):
                silent.accept()[0].close()


if __name__ == "__main__":
    main()
