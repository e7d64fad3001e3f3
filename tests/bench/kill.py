"""What the death of a lane in the middle of a transfer costs: `ss -K` on one of the connections that carry chunks.

Alternates transfers that are left alone with such that lose a lane when half has arrived. Added time is the difference
of the medians; its limit two round trips and what was sent again, at the line's rate.
"""
import argparse
import re
import statistics
import time

import programs
import transport_pair
import wan_link
from transport_pair import Pair

CHUNK_BYTES = 256 << 10
PATIENCE_S = 120


def lane_ports(link):
    """The sender's connections, those that carried most first, as local ports; the control stream carries little."""
    text = link.run("paris", ["ss", "-tinHO", "dst", link.address("tokyo")]).stdout
    found = [(int(sent.group(1)), int(port.group(1))) for line in text.splitlines()
             if (port := re.search(r"10\.77\.0\.1\]?:(\d+)", line)) and (sent := re.search(r"bytes_acked:(\d+)", line))]
    return [port for _, port in sorted(found, reverse=True)]


def kill(link, port):
    link.run("paris", ["ss", "-K", "dst", link.address("tokyo"), "sport", "=", f":{port}"])


def until(condition, pause_s, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise programs.Failure(f"{what} within {PATIENCE_S} s")
        time.sleep(pause_s)


def transfer(link, pair, chunks, killing):
    """Seconds; chunks and bytes sent again."""
    sent, arrived = pair.sender.ask("mark"), pair.receiver.ask("mark")["bytes"]
    pair.sender.tell(f"send {chunks}")
    if killing:
        port = lane_ports(link)[0]
        half = arrived + chunks * CHUNK_BYTES / 2
        until(lambda: pair.receiver.ask("mark")["bytes"] >= half, 0.002, "half of the transfer did not arrive")
        kill(link, port)
    seconds = pair.sender.answer()["seconds"]
    after = pair.sender.ask("mark")
    if after["lanes_broken"] - sent["lanes_broken"] != int(killing):
        raise programs.Failure("not as many lanes broke as were killed")
    until(lambda: pair.sender.ask("mark")["lanes_up"] == sent["lanes_up"], 0.05, "the lane was not dialled again")
    return seconds, after["chunks_resent"] - sent["chunks_resent"], after["bytes_resent"] - sent["bytes_resent"]


def main(arguments):
    parser = argparse.ArgumentParser(prog="kill", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--megabytes", type=int, default=64, help="of a transfer (default 64)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    rtt_s = wan_link.duration_ms(options.rtt) / 1e3
    chunks = options.megabytes * 1_000_000 // CHUNK_BYTES

    def run(pki):
        alone, killed = [], []
        with wan_link.WanLink(transport_pair.SITES, rate=options.rate, rtt=options.rtt) as link, \
                Pair(link, pki, options.lanes) as pair:
            transfer(link, pair, chunks, False)  # the warm-up
            for _ in range(options.repeats):
                alone.append(transfer(link, pair, chunks, False)[0])
                killed.append(transfer(link, pair, chunks, True))
        again = statistics.median(bytes_again for _, _, bytes_again in killed)
        row = {"lanes": options.lanes, "rate_mbit": transport_pair.mbit(options.rate), "rtt_ms": rtt_s * 1e3,
               "transfer_bytes": chunks * CHUNK_BYTES, "seconds": round(statistics.median(alone), 3),
               "seconds_killed": round(statistics.median(seconds for seconds, _, _ in killed), 3),
               "chunks_resent": statistics.median(count for _, count, _ in killed), "bytes_resent": again}
        row["added_s"] = round(row["seconds_killed"] - row["seconds"], 3)
        row["added_limit_s"] = round(2 * rtt_s + again * 8 / wan_link.rate_bits(options.rate), 3)
        print(f"{options.lanes} lanes at {options.rate}: {row['seconds']:.3f} s left alone, {row['seconds_killed']:.3f} s "
              f"with one killed, {row['chunks_resent']:g} chunks ({again / 1e6:.2f} MB) sent again; added "
              f"{row['added_s']:.3f} s, limit {row['added_limit_s']:.3f} s")
        transport_pair.save(options.json, [row])
        return 0
    return transport_pair.guarded("kill", run)
