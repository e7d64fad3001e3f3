#!/usr/bin/python3
"""Lanes over the emulated link: one that is killed, and a path that swallows large packets.

Exit status 77 (skipped) where it cannot run.
"""
import os
import re
import shutil
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "bench")]
import programs
import transport_pair
import wan_link

PATIENCE_S = 60  # only reached when something hangs
LANES = 4
CHUNK_BYTES = 256 << 10


class LanesTest(unittest.TestCase):
    def setUp(self):
        self.pki = tempfile.mkdtemp(prefix="causeway-lanes-test-")
        self.addCleanup(shutil.rmtree, self.pki)
        transport_pair.make_pki(self.pki)

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    @staticmethod
    def busiest_connection(link):
        """The sender's connection that carried most, as (local port, bytes); the control stream carries little."""
        text = link.run("paris", ["ss", "-tinHO", "dst", link.address("tokyo")]).stdout
        found = [(int(sent.group(1)), int(port.group(1))) for line in text.splitlines()
                 if (port := re.search(r"10\.77\.0\.1\]?:(\d+)", line))
                 and (sent := re.search(r"bytes_acked:(\d+)", line))]
        return max(found)[1]

    @staticmethod
    def ports(link):
        """The sender's, of its connections to the receiver."""
        text = link.run("paris", ["ss", "-tnHO", "dst", link.address("tokyo")]).stdout
        return re.findall(r"10\.77\.0\.1\]?:(\d+)", text)

    def received(self, pair):
        return pair.receiver.ask("mark")["bytes"]

    def until_more(self, pair, more):
        goal = self.received(pair) + more
        self.until(lambda: self.received(pair) >= goal, f"{more} bytes more arrive")

    def test_only_what_a_killed_lane_had_not_acknowledged_is_sent_again(self):
        with wan_link.WanLink(transport_pair.SITES, rate="100mbit", rtt="40ms") as link, \
                transport_pair.Pair(link, self.pki, LANES) as pair:
            pair.sender.ask("start")
            self.until_more(pair, 8 << 20)
            before = pair.sender.ask("mark")
            port = self.busiest_connection(link)
            link.run("paris", ["ss", "-K", "dst", link.address("tokyo"), "sport", "=", f":{port}"])
            self.until(lambda: pair.sender.ask("mark")["lanes_broken"] == 1, "the lane breaks")
            self.until(lambda: pair.sender.ask("mark")["lanes_up"] == LANES, "it is dialled again")
            self.until_more(pair, 8 << 20)
            pair.sender.ask("stop")
            after = pair.sender.ask("mark")
        print(f"unacknowledged before: {before['bytes_unacknowledged']} bytes; sent again: {after['bytes_resent']} bytes "
              f"in {after['chunks_resent']} chunks")
        self.assertEqual(after["lanes_broken"], 1)
        self.assertGreater(after["chunks_resent"], 0)
        self.assertEqual(after["bytes_resent"], after["chunks_resent"] * CHUNK_BYTES)
        # One lane's share of what was on its way; between the two looks it may have grown some.
        self.assertLessEqual(after["bytes_resent"], before["bytes_unacknowledged"] + LANES * CHUNK_BYTES)

    def test_lanes_together_send_what_the_line_delivers(self):
        with wan_link.WanLink(transport_pair.SITES, rate="50mbit", rtt="40ms") as link, \
                transport_pair.Pair(link, self.pki, LANES) as pair:
            def paced():
                text = link.run("paris", ["ss", "-tinHO", "dst", link.address("tokyo")]).stdout
                limits = [int(limit) for limit in re.findall(r"pacing_rate \d+bps/(\d+)bps", text)]
                # The control stream shares the lanes' limit.
                return len(limits) == LANES + 1 and 10e6 < LANES * max(limits) < 70e6
            pair.sender.ask("start")
            self.until(paced, "the lanes are held at the line's rate")
            pair.sender.ask("stop")

    def test_connections_that_the_path_has_forgotten_are_replaced(self):
        """As after an outage: TCP would try again late, or here never; a new connection finds a way at once."""
        with wan_link.WanLink(transport_pair.SITES, rate="100mbit", rtt="40ms") as link, \
                transport_pair.Pair(link, self.pki, LANES) as pair:
            pair.sender.ask("start")
            self.until_more(pair, 8 << 20)
            ports = self.ports(link)
            self.assertEqual(len(ports), LANES + 1)
            for port in ports:
                link.run("tokyo", ["ip", "rule", "add", "ipproto", "tcp", "dport", port, "blackhole"])
            self.until(lambda: pair.sender.ask("mark")["links"] == 2, "they are replaced")
            self.assertIn("stood still", pair.sender.ask("mark")["down"])
            self.until_more(pair, 8 << 20)
            self.until(lambda: pair.sender.ask("mark")["lanes_up"] == LANES, "with as many lanes")
            pair.sender.ask("stop")

    def test_a_line_that_is_slow_and_lossy_keeps_its_connections(self):
        with wan_link.WanLink(transport_pair.SITES, rate="50mbit", rtt="40ms") as link, \
                transport_pair.Pair(link, self.pki, LANES) as pair:
            pair.sender.ask("start")
            self.until_more(pair, 1 << 20)
            link.set("*", jitter="400ms", loss="1%")
            self.until_more(pair, 4 << 20)
            link.set("*", jitter="0ms", loss="0", rate="1mbit")
            self.until_more(pair, 1 << 20)
            pair.sender.ask("stop")
            self.assertEqual(pair.sender.ask("mark")["links"], 1)

    def test_a_chunk_may_take_longer_than_peer_timeout(self):
        chunk = ["--chunk-bytes", str(1 << 20)]  # 17 s each, two at a time, where peer_timeout is 10 s
        with wan_link.WanLink(transport_pair.SITES, rate="1mbit", rtt="40ms") as link, \
                transport_pair.Pair(link, self.pki, 2, sender=chunk) as pair:
            pair.sender.ask("start")
            self.until_more(pair, 2 << 20)
            after = pair.sender.ask("mark")
            self.assertEqual((after["lanes_broken"], after["links"]), (0, 1))
            pair.sender.ask("stop")

    def test_a_name_is_resolved_again_for_each_attempt(self):
        hosts = os.path.join(self.pki, "hosts")
        program = programs.newest().find("tests/bench/transport/bench_transport")
        port = transport_pair.PORT
        with wan_link.WanLink(transport_pair.SITES, rate="100mbit", rtt="10ms") as link:
            def say(address):
                with open(hosts, "w") as file:
                    file.write(f"127.0.0.1 localhost\n{address} gateway.test\n")
            say("10.77.0.99")  # nobody's
            receiver = transport_pair.End(link, program, "tokyo", "paris", f"{self.pki}/tokyo",
                                          ["--listen", f"{link.address('tokyo')}:{port}"])
            sender = transport_pair.End(
                link, program, "paris", "tokyo", f"{self.pki}/paris", ["--dial", f"gateway.test:{port}"],
                before=["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts])
            self.assertEqual(sender.ask("mark")["lanes_up"], 0)
            say(link.address("tokyo"))
            self.until(lambda: sender.ask("mark")["lanes_up"] == LANES, "the new address is dialled")
            for end in (sender, receiver):
                end.process.stdin.close()
                end.process.wait(timeout=PATIENCE_S)
                end.process.stdout.close()

    def test_a_path_that_swallows_large_packets(self):
        with wan_link.WanLink(transport_pair.SITES, rate="100mbit", rtt="40ms") as link, \
                transport_pair.Pair(link, self.pki, LANES) as pair:
            pair.sender.ask("start")
            self.until_more(pair, 4 << 20)
            link.set("*", mtu_hole=1300)  # the host's tcp_mtu_probing finds the way through
            self.until_more(pair, 8 << 20)
            pair.sender.ask("stop")


if __name__ == "__main__":
    problem = wan_link.missing_requirements()
    if not problem and not shutil.which("ss"):
        problem = "ss is not installed (package iproute2)"
    if problem:
        print(f"skipped: {problem}")
        sys.exit(77)
    unittest.main(verbosity=2)
