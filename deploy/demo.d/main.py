#!/usr/bin/python3
"""Clusters train one model over a slow link: builds Causeway, trains three times, draws a report.

On this machine: network namespaces are the sites, an emulated wide-area link joins them, a gateway
(causewayd) runs in each, and two trainer processes in each train a small GPT on the King James text.

  sync-lan   every step's gradients exchanged, on a link without limits: the quality to reach
  sync-wan   the same over the slow link, cut after 20 seconds
  causeway   as --algorithm says, over the slow link

Writes report.html and result.json. Needs root (namespaces, TUN devices); installs missing packages by apt.
"""
import argparse
import os
import signal
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "deploy", "demo.d"), os.path.join(ROOT, "tests", "wan")]

import plan  # noqa: E402
import preparation  # noqa: E402
import session  # noqa: E402
import wan_link  # noqa: E402
from programs import Failure  # noqa: E402

EXIT_PERMISSION = 77


def parse_options():
    parser = argparse.ArgumentParser(prog="deploy/demo", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=sorted(plan.PRESETS), default="standard",
                        help="standard: the algorithm average, which waits for each exchange; fast: streaming, "
                        "which trains on meanwhile; longer: the same with packed codes and 1.3 times the steps, to end "
                        "below the loss of synchronous training, in less time and with fewer bytes")
    parser.add_argument("--algorithm", choices=list(plan.ALGORITHMS),
                        help="instead of a preset's: " +
                        "; ".join(f"{name}: {entry.about}" for name, entry in plan.ALGORITHMS.items()).replace("%", "%%"))
    parser.add_argument("--clusters", type=int, choices=range(2, len(plan.CLUSTERS) + 1), default=2)
    parser.add_argument("--seeds", type=int, default=1, metavar="N",
                        help="repeat sync-lan and causeway for so many seeds: the mean gap and its bound")
    parser.add_argument("--codec", help="of the run named causeway, as a configuration names it: int8, nf4, "
                        "int4:b256:zstd, ..., or auto (default: the algorithm's)")
    parser.add_argument("--steps", type=int, default=1000, help="of each full run (default 1000)")
    parser.add_argument("--longer", type=float, default=None, metavar="N",
                        help="the run named causeway makes N times the steps, as the time it saves allows: 1.5, say (default 1, of "
                        "preset longer 1.3)")
    parser.add_argument("--seed", type=int, default=1, help="of model and batches (default 1)")
    parser.add_argument("--output", metavar="DIR", default="demo-output",
                        help="for report.html and result.json (default ./demo-output)")
    parser.add_argument("--rate", default="100mbit", help="of the link, each direction (default 100mbit)")
    parser.add_argument("--rtt", default="100ms", help="round trip time of the link (default 100ms)")
    parser.add_argument("--keep-logs", action="store_true",
                        help="keep logs and configurations in DIR/logs (kept anyway after a failure)")
    parser.add_argument("--plain", action="store_true", help="plain lines instead of the dashboard")
    parser.add_argument("--build-directory", metavar="DIR", help="use what is built there, build nothing")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error("--seeds is at least 1")
    if options.longer is not None and not 1 <= options.longer <= 1000:
        parser.error("--longer is 1 to 1000")
    if options.steps < 20:
        parser.error("--steps is at least 20")
    if wan_link.rate_bits(options.rate) <= 0 or wan_link.duration_ms(options.rtt) < 0:
        parser.error("--rate is a rate above zero")
    return plan.choose(options)


def main():
    try:
        options = parse_options()
        problem = wan_link.missing_requirements()
        if os.geteuid() != 0:
            print(f"demo: {problem}", file=sys.stderr)
            return EXIT_PERMISSION
        signal.signal(signal.SIGTERM, lambda *unused: sys.exit(128 + signal.SIGTERM))
        build = preparation.prepare(ROOT, options.build_directory)
        return session.run(ROOT, build, options)
    except (Failure, wan_link.LinkError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything is cleaned up", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
