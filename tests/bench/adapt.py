"""`codec: auto` on a link whose rate falls during training and returns: the codec and the time of each round.

Two gateways over the emulated link; a trainer in each takes steps of a fixed length and uses results a fixed
number of steps late. A round is hidden while its exchange takes less than delay x step. The rate falls in the
middle of a round: that one and the next may be slow, those after are to be hidden again.
"""
import argparse
import json
import os
import sys
import tempfile

import programs
import wan_gateways
import wan_link
from worker import Worker

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = "bench"
SLOW_ROUNDS = 2  # that may exceed the budget after the rate fell


def parse_options(arguments):
    parser = argparse.ArgumentParser(prog="tests/bench/run adapt", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=8_000_000)
    parser.add_argument("--rate", default="1gbit", help="of the link at first and at last (1gbit)")
    parser.add_argument("--slow-rate", default="50mbit", help="in between (50mbit)")
    parser.add_argument("--rtt", default="20ms")
    parser.add_argument("--step", type=float, default=0.2, help="seconds of a local step (0.2)")
    parser.add_argument("--local-steps", type=int, default=10)
    parser.add_argument("--delay", type=int, default=5, help="steps until a result is used (5)")
    parser.add_argument("--codec", default="{kind: auto, min: fp32, max: int4}", help="as in a configuration")
    parser.add_argument("--rounds", default="8,8,12", help="fast, slow, fast again (8,8,12)")
    parser.add_argument("--json", metavar="FILE", help="also write the rows there")
    return parser.parse_args(arguments)


def trainer(link, cluster, gateway, built, options):
    return Worker(link, cluster,
                  ["/usr/bin/python3", os.path.join(HERE, "adapt_trainer.py"), "--run", RUN, "--socket",
                   gateway.trainer_socket, "--elements", str(options.elements), "--step", str(options.step)],
                  environment=built.trainer_environment())


def play(options, link, gateways, workers):
    rows = []
    phases = list(zip(("fast", "slow", "fast again"), (options.rate, options.slow_rate, options.rate),
                      map(int, options.rounds.split(","))))
    for phase, rate, count in phases:
        link.set("*", rate=rate)
        for index in range(count):
            answers = [worker.answer() for worker in workers]
            status = next(iter(gateways.values())).status_now()
            plan = next(run["plan"] for run in status["runs"] if run["name"] == RUN)
            rows.append({"phase": phase, "rate_mbit": wan_link.rate_bits(rate) / 1e6, "round": index + 1,
                         "exchange_s": min(a["exchange_s"] for a in answers),
                         "stalled_s": max(a["stalled_s"] for a in answers),
                         "budget_s": options.delay * options.step, "wire_bytes": answers[0]["wire_bytes"],
                         "codec_next": plan["codec"], "why": plan["now"] or plan["why"]})
            row = rows[-1]
            print(f"{phase:11}{row['rate_mbit']:7.0f} Mbit/s  round {row['round']:2}  {row['exchange_s']:7.3f} s of "
                  f"{row['budget_s']:.2f}  {row['wire_bytes'] / 1e6:7.2f} MB  then {row['codec_next']:14} "
                  f"{row['why']}", flush=True)
    return rows


def verdict(rows):
    """Whether the rounds were hidden again after SLOW_ROUNDS, and the codec came back."""
    fast = [row for row in rows if row["phase"] == "fast"]
    slow = [row for row in rows if row["phase"] == "slow"]
    again = [row for row in rows if row["phase"] == "fast again"]
    late = [row for row in slow[SLOW_ROUNDS:] + again[1:] if row["exchange_s"] > row["budget_s"]]
    return {"hidden_after_fall": not late, "codec_returned": again[-1]["wire_bytes"] >= fast[-1]["wire_bytes"],
            "rounds_late": len(late)}


def main(arguments):
    options = parse_options(arguments)
    problem = wan_link.missing_requirements()
    if problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 77
    built = programs.newest()
    os.environ["CAUSEWAY_WAN_EMULATOR"] = built.emulator
    algorithm = (f"{{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: {options.local_steps}, "
                 f"delay: {options.delay}}}")
    with tempfile.TemporaryDirectory(prefix="causeway-bench-") as directory, \
            wan_link.WanLink(("paris", "tokyo"), rate=options.rate, rtt=options.rtt) as link:
        entry = wan_gateways.run_entry(RUN, link.sites, algorithm, options.codec)
        gateways = wan_gateways.start(link, built, directory, directory, [entry])
        try:
            workers = [trainer(link, cluster, gateways[cluster], built, options) for cluster in link.sites]
            rows = play(options, link, gateways, workers)
            for worker in workers:
                worker.end(120)
        except programs.Failure as failure:
            logs = "\n".join(f"{g.cluster}:\n{programs.tail(g.log)}" for g in gateways.values())
            raise programs.Failure(f"{failure}\n{logs}") from failure
        finally:
            for gateway in gateways.values():
                gateway.process.terminate()
            for gateway in gateways.values():
                gateway.process.wait(timeout=30)
    result = verdict(rows)
    print(json.dumps(result))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"rows": rows, "verdict": result}, file, indent=1)
    return 0 if result["hidden_after_fall"] and result["codec_returned"] else 1
