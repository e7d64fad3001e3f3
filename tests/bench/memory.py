"""Peak resident memory of both ends against their budget: with a reader that takes and keeps, and with one that stands
still (SIGSTOP), while the sender has more than either can hold."""
import argparse
import os
import signal
import time

import transport_pair
import wan_link
from transport_pair import Pair

SLACK_BYTES = 64 << 20


def row_of(case, end, budget, mark):
    row = {"case": case, "end": end, "budget_bytes": budget, "peak_resident_bytes": mark["peak_resident_bytes"],
           "limit_bytes": budget + SLACK_BYTES}
    print(f"{case:>8} {end:>8}: peak {row['peak_resident_bytes'] / 2**20:.0f} MiB, budget {budget / 2**20:.0f} MiB")
    return row


def main(arguments):
    parser = argparse.ArgumentParser(prog="memory", description=__doc__)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rtt", default="20ms")
    parser.add_argument("--budget-mib", type=int, default=256)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    budget = options.budget_mib << 20
    words = ["--memory", str(budget), "--window", str(budget * 3 // 4)]

    def run(pki):
        rows = []
        with wan_link.WanLink(transport_pair.SITES, rate=options.rate, rtt=options.rtt) as link:
            for case in ("keeps", "stopped"):
                keeps = case == "keeps"
                with Pair(link, pki, sender=words, receiver=words + (["--stall"] if keeps else [])) as pair:
                    pair.sender.ask("start")
                    time.sleep(1)
                    if not keeps:
                        os.kill(pair.receiver.process.pid, signal.SIGSTOP)
                    time.sleep(options.seconds)
                    if not keeps:
                        os.kill(pair.receiver.process.pid, signal.SIGCONT)
                    receiver, sender = pair.marks()
                    pair.sender.ask("stop")
                rows += [row_of(case, "sender", budget, sender), row_of(case, "receiver", budget, receiver)]
        transport_pair.save(options.json, rows)
        return 0 if all(row["peak_resident_bytes"] <= row["limit_bytes"] for row in rows) else 1
    return transport_pair.guarded("memory", run)
