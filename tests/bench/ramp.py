"""How soon a link is full again after a pause: round trips from the first byte until what arrives in a round trip is
90 % of the steady rate."""
import argparse
import statistics
import time

import transport_pair
import wan_link
from transport_pair import Pair

SHARE = 0.9


def ramp(pair, steady_bytes_per_s, rtt_s):
    """Seconds from the start of sending until the rate over one round trip is reached, less the first one-way trip."""
    first = pair.receiver.ask("mark")
    pair.sender.ask("start")
    begin = time.monotonic()
    seen = [(0.0, 0)]
    while True:
        mark = pair.receiver.ask("mark")
        now, moved = time.monotonic() - begin, mark["bytes"] - first["bytes"]
        seen.append((now, moved))
        older = [entry for entry in seen if now - entry[0] >= rtt_s]
        if older and (moved - older[-1][1]) / (now - older[-1][0]) >= SHARE * steady_bytes_per_s:
            return now - rtt_s / 2
        if now > 30:
            return float("inf")
        time.sleep(0.01)


def main(arguments):
    parser = argparse.ArgumentParser(prog="ramp", description=__doc__)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--idle", type=float, default=10, help="seconds (default 10)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    rtt_s = wan_link.duration_ms(options.rtt) / 1e3

    def run(pki):
        with wan_link.WanLink(transport_pair.SITES, rate=options.rate, rtt=options.rtt) as link, \
                Pair(link, pki, options.lanes) as pair:
            goodput, _ = pair.flow(3, 4)
            seconds = []
            for _ in range(options.repeats):
                time.sleep(options.idle)
                seconds.append(ramp(pair, goodput * 1e6 / 8, rtt_s))
                pair.sender.ask("stop")
        trips = statistics.median(seconds) / rtt_s
        row = {"rate_mbit": transport_pair.mbit(options.rate), "lanes": options.lanes, "idle_s": options.idle,
               "rtt_ms": rtt_s * 1e3, "steady_mbit_per_s": round(goodput, 1), "round_trips_to_90_percent": round(trips, 2)}
        print(f"after {options.idle:g} s idle: {SHARE:.0%} of {goodput:.0f} Mbit/s within {trips:.1f} round trips "
              f"({', '.join(f'{s:.3f}' for s in seconds)} s)")
        transport_pair.save(options.json, [row])
        return 0
    return transport_pair.guarded("ramp", run)
