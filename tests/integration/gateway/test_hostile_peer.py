#!/usr/bin/python3
"""Hostile peers with valid certificates against a real gateway, while honest clusters train beside them."""
import random
import unittest

from gateways import Pair, authority, until
from trainers import both, join_both, main
from wire import CONTROL, LANE, Stream, connect, field, hello, lane_hello, message, run_message, varint

SEED = 5
GROWTH_BYTES_MAX = 48 << 20  # of a gateway's resident memory under all that follows; forged sizes are GBs


class HostilePeer(unittest.TestCase):
    def stream(self, pair, method, cluster="osaka"):
        made = Stream(pair.paris.port, authority().issue(cluster), method)
        self.addCleanup(made.close)
        return made

    def link(self, pair, cluster="osaka", link=5, incarnation=7):
        """A control stream after both hellos."""
        control = self.stream(pair, CONTROL, cluster)
        control.write(hello(cluster, link, incarnation))
        self.assertIsNotNone(control.read(), "the gateway's hello")
        until(lambda: pair.paris.peer(cluster)["state"] == "up", f"{cluster} is up")
        return control

    def link_with_lane(self, pair, number):
        control = self.link(pair, link=number, incarnation=number)
        lane = self.stream(pair, LANE)
        lane.write(lane_hello("osaka", link=number, incarnation=number))
        self.assertIsNotNone(lane.read(), "the lane's hello")
        return control, lane

    def end_link(self, pair, control):
        control.write(b"\x0a\xff")
        until(lambda: pair.paris.peer("osaka")["state"] != "up", "the link is down")

    @staticmethod
    def broken_lanes(pair):
        return [event for event in pair.paris.events("peer.lane-broken") if event["peer"] == "osaka"]

    def refused(self, pair, method, frame, words, cluster="osaka"):
        """The first frame of a stream is refused in these words, naming the peer."""
        stream = self.stream(pair, method, cluster)
        stream.write(frame)
        self.assertTrue(stream.until_ended())
        event = pair.paris.until_event("peer.refused", words)
        self.assertEqual(event["peer"], cluster)

    def ended(self, pair, stream, frame, words, cluster="osaka"):
        """A frame on a live link ends it in these words."""
        stream.write(frame)
        event = pair.paris.until_event("peer.down", words)
        self.assertEqual(event["peer"], cluster)

    def test_a_peer_that_is_no_member_beside_honest_training(self):
        print(f"seed {SEED}")
        noise = random.Random(SEED)
        with Pair(extra_peers=("osaka",), peer_timeout_s=20) as pair:  # nobody here sends heartbeats
            trainers = join_both(pair)
            both(trainers, "steps", count=5)
            resident = pair.paris.resident_bytes()
            used = pair.paris.status()["memory"]["used_by"]
            for trainer in trainers:
                trainer.tell("steps", count=2000)  # 400 rounds

            # Not even HTTP.
            for _ in range(5):
                with connect(pair.paris.port, authority().issue("osaka")) as raw:
                    raw.sendall(noise.randbytes(5000))
            # First frames.
            self.refused(pair, CONTROL, noise.randbytes(300), "malformed control frame")
            self.refused(pair, CONTROL, hello("tokyo"), "the hello claims another")
            self.refused(pair, LANE, lane_hello("tokyo"), "claims another")
            lane = self.stream(pair, LANE)
            lane.write(lane_hello("osaka", link=99))
            self.assertTrue(lane.until_ended())  # a lane without a link

            # Runs that it has no business with.
            control = self.link(pair)
            control.write(run_message("nothing", 12, message(f1=0, f2=1)))
            event = pair.paris.until_event("peer.refused", "no such run in this gateway's configuration")
            self.assertEqual((event["peer"], event["run"]), ("osaka", "nothing"))
            control.write(run_message("demo", 12, message(f1=0, f2=1)))
            event = pair.paris.until_event("peer.refused", "the peer is no member of this run")
            self.assertEqual((event["peer"], event["run"]), ("osaka", "demo"))
            # A control frame above the limit of 1 MiB.
            self.ended(pair, control, field(5, message(f1=bytes(1 << 20))), "limit 1048576")

            # Lanes: sizes that lie, by the message's length and by the fields'.
            ends_link = (  # read and judged
                (field(3, message(f1=1, f2="demo") + varint(15 << 3 | 2) + varint(8 << 30)), "follow"),
                (varint(3 << 3 | 2) + varint(1 << 40), "follow|malformed|limit"),
                (field(3, message(f1=1, f2="demo", f8=1, f11=1, f15=bytes(100))), "credit"),
                (field(3, message(f1=1, f2="demo", f8=1, f11=1, f15=bytes(3 << 20))), "limit"),
                (noise.randbytes(3000), "malformed"))
            for number, (frame, words) in enumerate(ends_link, start=10):
                control, lane = self.link_with_lane(pair, number)
                before = len(pair.paris.events("peer.down"))
                lane.write(frame)
                until(lambda: len(pair.paris.events("peer.down")) > before, f"the link ends: {words}")
                event = pair.paris.events("peer.down")[-1]
                self.assertEqual(event["peer"], "osaka")
                self.assertRegex(event["text"], words)
            # Far above what any lane frame may be: never read.
            control, lane = self.link_with_lane(pair, 20)
            lane.write(field(3, message(f1=1, f2="demo", f8=1, f11=1, f15=bytes(12 << 20))))
            until(lambda: self.broken_lanes(pair), "the lane breaks")
            self.end_link(pair, control)
            # Announced as 2 GiB, of which 100 bytes come: nothing is set aside for the rest.
            control, lane = self.link_with_lane(pair, 21)
            lane.write(bytes(100), (2 << 30) - 1)
            self.end_link(pair, control)

            looks = [trainer.answer() for trainer in trainers]
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.assertEqual(looks[0]["excluded"], 0)
            ends = both(trainers, "finish")
            self.assertEqual(ends[0]["values"], ends[1]["values"])
            self.assertLess(pair.paris.resident_bytes() - resident, GROWTH_BYTES_MAX)
            self.assertEqual(pair.paris.peer("tokyo")["state"], "up")
            # Rounds without the hostile peer hold up to this, too; nothing of it is left.
            after = pair.paris.status()["memory"]["used_by"]
            self.assertEqual(after["run demo"], used["run demo"])
            self.assertLess(after["chunks"], 1 << 20)

    def test_a_member_that_says_anything(self):
        """tokyo's certificate in wrong hands: messages of the run with random and forged contents."""
        print(f"seed {SEED}")
        noise = random.Random(SEED)
        bodies = (10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 40, 41, 42, 43, 44)

        def number():
            return noise.choice((0, 1, 2, 7, 255, 256, 65535, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63,
                                 (1 << 64) - 1))

        def anything(depth=0):
            """Well-formed protobuf with field numbers that the messages have, and values from everywhere."""
            out = b""
            for _ in range(noise.randrange(1, 7)):
                kind = noise.randrange(4)
                value = (number() if kind < 2 else
                         noise.choice((noise.randbytes(32), b"paris", b"tokyo", noise.randbytes(5), b"x" * 3000))
                         if kind == 2 or depth > 2 else anything(depth + 1))
                out += field(noise.randrange(1, 12), value)
            return out

        with Pair(start=False) as pair:
            pair.paris.start()
            resident = pair.paris.resident_bytes()
            for link in range(1, 6):
                control = self.link(pair, "tokyo", link, incarnation=link)
                for _ in range(200):
                    body = anything() if noise.random() < 0.8 else noise.randbytes(noise.randrange(200))
                    control.write(run_message("demo", noise.choice(bodies), body, noise.choice((0, 1, 1 << 63)),
                                              noise.choice(("paris", "tokyo", "osaka")),
                                              noise.choice((link, 0, number())), noise.choice((0, number()))))
                    if control.ended:
                        break
                control.write(b"\x0a\xff")  # the gateway ends the link once it has read all that
                self.assertTrue(control.until_ended())
                until(lambda: pair.paris.peer("tokyo")["state"] != "up", "the link is down")
            pair.paris.until_event("peer.refused", "message dropped")
            events = pair.paris.events("peer.refused")
            self.assertEqual({event["peer"] for event in events}, {"tokyo"})
            self.assertLess(pair.paris.resident_bytes() - resident, GROWTH_BYTES_MAX)
            # The thief is gone. Whatever it made paris believe, the operator's remedy helps.
            pair.paris.forget()
            pair.tokyo.start()
            pair.until_linked()
            trainers = join_both(pair)
            both(trainers, "steps", count=10)
            ends = both(trainers, "finish")
            self.assertEqual(ends[0]["values"], ends[1]["values"])


if __name__ == "__main__":
    main()
