"""Processor seconds per GB, both ends together, of the gateways' lanes against raw OpenSSL sockets on the same link."""
import argparse
import statistics

import transport_pair
import wan_link
from transport_pair import Pair


def measure(pki, rate, options):
    costs, rates = {"causeway": [], "openssl": []}, {"causeway": [], "openssl": []}
    words = ["--chunk-bytes", str(options.chunk_bytes)]
    with wan_link.WanLink(transport_pair.SITES, rate=rate, rtt=options.rtt) as link:
        for _ in range(options.repeats):
            for system in costs:
                raw = system == "openssl"
                with Pair(link, pki, options.lanes, raw=raw, sender=words, receiver=words) as pair:
                    goodput, cost = pair.flow(options.warm, options.seconds)
                costs[system].append(cost)
                rates[system].append(goodput)
    rows = [{"system": system, "rate_mbit": transport_pair.mbit(rate),
             "chunk_bytes": options.chunk_bytes, "cpu_s_per_gb": round(statistics.median(values), 2),
             "goodput_mbit_per_s": round(statistics.median(rates[system]), 1)}
            for system, values in costs.items()]
    print(f"{rate:>8}, chunks of {options.chunk_bytes} bytes: causeway {rows[0]['cpu_s_per_gb']:.2f} CPU-s/GB at "
          f"{rows[0]['goodput_mbit_per_s']:.0f} Mbit/s, openssl {rows[1]['cpu_s_per_gb']:.2f} at "
          f"{rows[1]['goodput_mbit_per_s']:.0f}, ratio "
          f"{rows[0]['cpu_s_per_gb'] / rows[1]['cpu_s_per_gb']:.2f}", flush=True)
    return rows


def main(arguments):
    parser = argparse.ArgumentParser(prog="cpu", description=__doc__)
    parser.add_argument("--rate", action="append", help="default: 200mbit and 1gbit")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--chunk-bytes", type=int, default=256 << 10)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)

    def run(pki):
        rows = [row for rate in options.rate or ["200mbit", "1gbit"] for row in measure(pki, rate, options)]
        transport_pair.save(options.json, rows)
        return 0
    return transport_pair.guarded("cpu", run)
