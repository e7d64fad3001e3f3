"""Goodput of the gateways' lanes against iperf3 with as many streams, over the same emulated link in the same run.

Without options: the cases of the goals, 200 Mbit/s with 0, 0.1 and 1 % loss, 1 Gbit/s with four lanes, and 1 Gbit/s
with the kernel's default send buffers, where the gateways choose their lanes and iperf3 gets as many. One way, the
congestion control of the link's host settings (bbr), median of the repeats, which alternate between both systems.
"""
import argparse
import json
import statistics

import transport_pair
import wan_link
from transport_pair import Pair

CASES = (("200mbit", "0", 4, False), ("200mbit", "0.1%", 4, False), ("200mbit", "1%", 4, False),
         ("1gbit", "0", 4, False), ("1gbit", "0", 0, True))


def iperf(link, lanes, options):
    server = link.spawn("tokyo", ["iperf3", "-s", "-1", "--forceflush"], stdout=-1, text=True)
    for line in server.stdout:
        if "listening" in line:
            break
    result = link.run("paris", ["iperf3", "-c", link.address("tokyo"), "-J", "-P", str(lanes), "-t",
                                str(options.seconds), "-O", str(options.warm)],
                      timeout=options.seconds + options.warm + 60)
    server.stdout.close()
    server.wait(timeout=20)
    return json.loads(result.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6


def measure(pki, rate, loss, lanes, small_buffers, options):
    settings = transport_pair.DEFAULT_WMEM if small_buffers else {}
    ours, theirs = [], []
    with wan_link.WanLink(transport_pair.SITES, rate=rate, rtt=options.rtt, loss=loss,
                          host_settings=settings) as link:
        for _ in range(options.repeats):
            with Pair(link, pki, lanes) as pair:
                ours.append(pair.flow(options.warm, options.seconds)[0])
                mark = pair.sender.ask("mark")
            theirs.append(iperf(link, mark["lanes_up"], options))
    row = {"rate_mbit": transport_pair.mbit(rate), "loss_percent": transport_pair.percent(loss),
           "lanes": mark["lanes_up"], "tcp_wmem_max": "4 MiB" if small_buffers else "64 MiB"}
    rows = [{"system": system, **row, "goodput_mbit_per_s": round(statistics.median(values), 1)}
            for system, values in (("causeway", ours), ("iperf3", theirs))]
    print(f"{rate:>8} loss {loss:>5} lanes {row['lanes']:2} wmem {row['tcp_wmem_max']:>6}: causeway "
          f"{rows[0]['goodput_mbit_per_s']:7.1f} Mbit/s, iperf3 {rows[1]['goodput_mbit_per_s']:7.1f}, ratio "
          f"{rows[0]['goodput_mbit_per_s'] / rows[1]['goodput_mbit_per_s']:.3f}   ({mark['lanes_reason']})",
          flush=True)
    return rows


def main(arguments):
    parser = argparse.ArgumentParser(prog="wan", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", help="one case of your own; with --loss, --lanes, --default-wmem")
    parser.add_argument("--loss", default="0")
    parser.add_argument("--lanes", type=int, default=4, help="0: auto")
    parser.add_argument("--default-wmem", action="store_true", help="the kernel's default of 4 MiB")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--warm", type=int, default=3, help="seconds before measuring (default 3)")
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    cases = CASES if not options.rate else ((options.rate, options.loss, options.lanes, options.default_wmem),)

    def run(pki):
        rows = [row for case in cases for row in measure(pki, *case, options)]
        transport_pair.save(options.json, rows)
        return 0
    return transport_pair.guarded("wan", run)
