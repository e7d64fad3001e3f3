"""Round trip of a control message while the lanes are full of chunks, against the idle link's round trip."""
import argparse
import statistics
import time

import transport_pair
import wan_link
from transport_pair import Pair


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def row_of(lane, rtt_ms, trips):
    row = {"lane": lane, "rtt_ms": rtt_ms, "p50_ms": round(statistics.median(trips), 1),
           "p99_ms": round(quantile(trips, 0.99), 1)}
    print(f"{lane:>12}: p50 {row['p50_ms']:.1f} ms ({row['p50_ms'] / rtt_ms:.2f} RTT), p99 "
          f"{row['p99_ms']:.1f} ms ({row['p99_ms'] / rtt_ms:.2f} RTT)")
    return row


def main(arguments):
    parser = argparse.ArgumentParser(prog="latency", description=__doc__)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--loss", default="0")
    parser.add_argument("--lanes", type=int, default=0, help="0: auto (default)")
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    rtt_ms = wan_link.duration_ms(options.rtt)

    def run(pki):
        with wan_link.WanLink(transport_pair.SITES, rate=options.rate, rtt=options.rtt,
                              loss=options.loss) as link, Pair(link, pki, options.lanes) as pair:
            rows = [row_of("idle", rtt_ms, pair.sender.ask(f"ping {max(20, options.messages // 10)}")["ms"])]
            pair.sender.ask("start")
            time.sleep(6)  # until the lanes are full and the rate is known
            rows.append(row_of("control", rtt_ms, pair.sender.ask(f"ping {options.messages}")["ms"]))
            pair.sender.ask("stop")
        transport_pair.save(options.json, rows)
        return 0
    return transport_pair.guarded("latency", run)
