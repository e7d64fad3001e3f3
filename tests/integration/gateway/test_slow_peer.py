#!/usr/bin/python3
"""A peer on a slow line: a message may take longer than peer_timeout, as long as its bytes come."""
import time
import unittest

from gateways import Pair, authority, until
from trainers import main
from wire import CONTROL, LANE, Stream, hello, lane_hello

PEER_TIMEOUT_S = 6
MESSAGE_BYTES, PIECE_BYTES = 1 << 20, 2000
PIECES_A_SECOND = 10


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


if __name__ == "__main__":
    main()
