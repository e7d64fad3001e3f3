#!/usr/bin/python3
"""Tests of the emulated link by iperf3 and ping inside its namespaces; every check is a ratio.

Exit status 77 (skipped) without root or /dev/net/tun, or without iperf3 and ping.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wan_link
from wan_link import WanLink

SEED = 7
PORT = "5201"
PACKET_BYTES = 1500


def iperf(link, client, server, *arguments):
    """Runs iperf3 between two sites, returns the client's JSON result."""
    process = link.spawn(server, ["iperf3", "-s", "-1", "-p", PORT, "--forceflush"],
                         stdout=subprocess.PIPE, text=True)
    for line in process.stdout:  # the server says when it listens
        if "listening" in line:
            break
    result = link.run(client, ["iperf3", "-c", link.address(server), "-p", PORT, "-J", *arguments])
    process.stdout.close()
    process.wait(timeout=10)
    return json.loads(result.stdout)


def ping(link, source, target, *arguments):
    """Shortest round trip in milliseconds (a busy machine lengthens some) and the share of lost packets."""
    text = link.run(source, ["ping", "-q", *arguments, link.address(target)]).stdout
    lost = float(re.search(r"([0-9.]+)% packet loss", text).group(1)) / 100
    times = re.search(r"= ([0-9.]+)/([0-9.]+)/", text)
    return float(times.group(1)) if times else None, lost


def pipe(stats, source, target):
    return next(p for p in stats["pipes"] if p["from"] == source and p["to"] == target)


class LinkTest(unittest.TestCase):
    def test_delay(self):
        with WanLink(["paris", "tokyo"], rtt="100ms") as link:
            rtt_ms, lost = ping(link, "paris", "tokyo", "-c", "5", "-i", "0.2")
            self.assertEqual(lost, 0)
            self.assertGreaterEqual(rtt_ms / 100, 1.0)
            self.assertLess(rtt_ms / 100, 1.25)
            link.set("paris>tokyo", delay="150ms")
            rtt_ms, _ = ping(link, "paris", "tokyo", "-c", "3", "-i", "0.2")
            self.assertGreaterEqual(rtt_ms / 200, 1.0)
            self.assertLess(rtt_ms / 200, 1.25)

    def test_rate_and_its_change(self):
        with WanLink(["paris", "tokyo"], rate="40mbit", rtt="40ms") as link:
            result = iperf(link, "paris", "tokyo", "-t", "4", "-O", "1")
            self.check_rate(result, 40e6)
            link.set("*", rate="10mbit")
            result = iperf(link, "tokyo", "paris", "-t", "4", "-O", "1")
            self.check_rate(result, 10e6)

    def check_rate(self, result, rate):
        goodput = result["end"]["sum_received"]["bits_per_second"]
        self.assertLess(goodput / rate, 1.0)
        self.assertGreater(goodput / rate, 0.7)

    def test_wire_bytes_are_what_an_unoffloaded_device_counts(self):
        with WanLink(["paris", "tokyo"], rate="50mbit", rtt="20ms", offload=False) as link:
            before = link.sent_bytes()["paris"]
            device = self.device_bytes(link)
            result = iperf(link, "paris", "tokyo", "-n", "5M")
            wire = link.sent_bytes()["paris"] - before
            self.assertAlmostEqual(wire / (self.device_bytes(link) - device), 1, delta=0.001)
            plain = self.overhead(wire, result)
        with WanLink(["paris", "tokyo"], rate="50mbit", rtt="20ms") as link:
            before = link.sent_bytes()["paris"]
            result = iperf(link, "paris", "tokyo", "-n", "5M")
            offloaded = link.sent_bytes()["paris"] - before
            # The same bytes whether large packets pass or not: headers of every wire packet are counted.
            self.assertAlmostEqual(self.overhead(offloaded, result) / plain, 1, delta=0.02)

    @staticmethod
    def overhead(wire, result):
        """Wire bytes per byte of payload, without the packets that TCP sent again: how many is chance."""
        sent = result["end"]["sum_sent"]
        return (wire - PACKET_BYTES * sent["retransmits"]) / sent["bytes"]

    @staticmethod
    def device_bytes(link):
        counters = link.run("paris", ["cat", "/proc/net/dev"]).stdout
        return int(re.search(r"wan0:(?:\s+\d+){8}\s+(\d+)", counters).group(1))

    def test_loss_counts_wire_packets(self):
        print(f"seed {SEED}")
        with WanLink(["paris", "tokyo"], rate="100mbit", rtt="10ms", loss="2%", seed=SEED) as link:
            iperf(link, "paris", "tokyo", "-n", "30M")
            data = pipe(link.stats(), "paris", "tokyo")
            self.assertAlmostEqual(data["dropped_loss"] / data["offered_packets"] / 0.02, 1, delta=0.2)
            self.assertEqual(data["delivered_packets"] + data["dropped_loss"] + data["dropped_queue"],
                             data["offered_packets"])

    def test_queue_is_bounded(self):
        with WanLink(["paris", "tokyo"], rate="10mbit", rtt="10ms", queue=65536) as link:
            iperf(link, "paris", "tokyo", "-u", "-b", "30M", "-t", "2", "-l", "1000")
            data = pipe(link.stats(), "paris", "tokyo")
            self.assertGreater(data["dropped_queue"] / data["offered_packets"], 0.5)

    def test_dark_one_way_and_back(self):
        with WanLink(["paris", "tokyo"], rtt="10ms") as link:
            link.set("tokyo>paris", dark=1)
            self.assertEqual(ping(link, "paris", "tokyo", "-c", "3", "-i", "0.2", "-W", "1")[1], 1)
            self.assertGreater(pipe(link.stats(), "paris", "tokyo")["delivered_packets"], 0)
            link.set("tokyo>paris", dark=0)
            self.assertEqual(ping(link, "paris", "tokyo", "-c", "3", "-i", "0.2")[1], 0)
            link.down("paris")
            self.assertEqual(ping(link, "paris", "tokyo", "-c", "2", "-i", "0.2", "-W", "1")[1], 1)

    def test_mtu_hole(self):
        with WanLink(["paris", "tokyo"], rtt="10ms") as link:
            link.set("*", mtu_hole=1300)
            small = ping(link, "paris", "tokyo", "-c", "3", "-i", "0.2", "-s", "1000")
            large = ping(link, "paris", "tokyo", "-c", "3", "-i", "0.2", "-s", "1400", "-W", "1")
            self.assertEqual((small[1], large[1]), (0, 1))

    def test_star_of_three(self):
        with WanLink(["paris", "tokyo", "lima"], rtt="60ms", topology="star") as link:
            for source, target in (("paris", "lima"), ("lima", "tokyo")):
                rtt_ms, lost = ping(link, source, target, "-c", "3", "-i", "0.2")
                self.assertEqual(lost, 0)
                self.assertGreaterEqual(rtt_ms / 60, 1.0)
                self.assertLess(rtt_ms / 60, 1.25)

    def test_nothing_is_left(self):
        with WanLink(["paris", "tokyo"]) as link:
            names = [link.namespace(site) for site in link.sites]
            self.assertTrue(all(os.path.exists(f"/run/netns/{name}") for name in names))
            emulator = link._emulator
        self.assertFalse(any(os.path.exists(f"/run/netns/{name}") for name in names))
        self.assertIsNotNone(emulator.returncode)

    def test_emulator_ends_when_its_devices_vanish(self):
        with WanLink(["paris", "tokyo"]) as link:
            for site in link.sites:
                subprocess.run(["ip", "netns", "delete", link.namespace(site)], check=True)
            self.assertEqual(link._emulator.wait(timeout=10), 0)

    def test_errors_name_the_remedy(self):
        with WanLink(["paris", "tokyo"]) as link:
            for pipes, settings in (("paris>oslo", {"rate": "1mbit"}), ("*", {"rate": "fast"}),
                                    ("*", {"loss": "101%"}), ("*", {"speed": "1"})):
                with self.assertRaises(wan_link.LinkError):
                    link.set(pipes, **settings)


if __name__ == "__main__":
    problem = wan_link.missing_requirements()
    for program in ("iperf3", "ping"):
        if not problem and not shutil.which(program):
            problem = f"{program} is not installed (packages iperf3, iputils-ping)"
    if problem:
        print(f"skipped: {problem}")
        sys.exit(77)
    unittest.main()
