"""A cluster joins a run that goes on: how much longer the others' rounds take meanwhile, and how soon it takes part.

Four clusters in a star train; one of them loses its gateway, disk and trainer. Rounds of the other three are timed before
it is back, from its start until it takes part, and afterwards. round_s is the mean of what rounds take, from a trainer's
submission to its result, and --compute seconds lie between two; growth_percent compares whole turns, both together. The
round into which the cluster is admitted waits for its first local steps; transfer_growth_percent is without that one:
of the turns that ended while its state was on its way.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time

import programs
import wan_gateways
import wan_link
from worker import Worker

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = "join"
MEMORY_BYTES_MIN = 1 << 30
MEMORY_BYTES_PER_ELEMENT = 64
PATIENCE_S = 900
POLL_S = 0.1


class Trainer:
    """A trainer process, and what its rounds took so far."""

    def __init__(self, link, built, gateway, seed, options):
        self.rounds, self.joined = [], None
        self.worker = Worker(link, gateway.cluster,
                             ["/usr/bin/python3", os.path.join(HERE, "outer_trainer.py"), "--run", RUN, "--socket",
                              gateway.trainer_socket, "--elements", str(options.elements), "--seed", str(seed),
                              "--compute", str(options.compute)], built.trainer_environment())
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.worker.process.stdout:
            said = json.loads(line)
            if "joined" in said:
                self.joined = said["joined"]
            else:
                self.rounds.append((said["begin"], said["end"]))

    def kill(self):
        self.worker.process.kill()
        self.worker.process.wait()


def until(condition, what, gateways):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        for gateway in gateways.values():
            gateway.check()
        if time.monotonic() > deadline:
            raise programs.Failure(f"not within {PATIENCE_S} s: {what}")
        time.sleep(POLL_S)


def times(trainers, begin, end):
    """Of the rounds that ended in that time: seconds from submission to result, and from one result to the next."""
    rounds, turns = [], []
    for trainer in trainers:
        ended = list(trainer.rounds)
        rounds += [r[1] - r[0] for r in ended if begin < r[1] <= end]
        turns += [b[1] - a[1] for a, b in zip(ended, ended[1:]) if begin < b[1] <= end]
    return rounds, turns


def growth(before, turns):
    return 100 * (statistics.mean(turns) / before - 1) if turns else 0.0


def row(phase, trainers, begin, end):
    rounds, turns = times(trainers, begin, end)
    return {"phase": phase, "rounds": len(rounds) // len(trainers), "round_s": statistics.mean(rounds),
            "round_s_max": max(rounds), "turn_s": statistics.mean(turns)}


def measure(options, link, built, directory):
    clusters = link.sites
    joiner = clusters[-1]
    entry = wan_gateways.run_entry(
        RUN, clusters, "{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 1}",
        f"{{kind: {options.codec}, error_feedback: true}}") + f"\n    route: {options.route}"
    memory = max(MEMORY_BYTES_MIN, options.elements * MEMORY_BYTES_PER_ELEMENT)
    settings = f"memory: {-(-memory // 2**20)}MiB\npeer_timeout: {options.peer_timeout}\n"
    gateways = wan_gateways.start(link, built, directory, directory, [entry], settings)
    trainers = {}
    try:
        for seed, cluster in enumerate(clusters):
            trainers[cluster] = Trainer(link, built, gateways[cluster], seed, options)
        others = [trainers[cluster] for cluster in clusters[:-1]]
        until(lambda: all(len(t.rounds) >= 1 for t in trainers.values()), "the first round", gateways)
        trainers[joiner].kill()
        gateways[joiner].process.kill()
        gateways[joiner].process.wait()
        rest = {cluster: gateway for cluster, gateway in gateways.items() if cluster != joiner}
        shutil.rmtree(os.path.join(gateways[joiner].directory, "state"))
        os.makedirs(os.path.join(gateways[joiner].directory, "state"), mode=0o700)
        gone = len(others[0].rounds) + 2  # one round finds it missing, the next is as they are without it
        until(lambda: all(len(t.rounds) >= gone for t in others), "rounds without the cluster", rest)
        before = time.monotonic()
        until(lambda: all(len(t.rounds) >= gone + options.rounds for t in others), "rounds before it joins", rest)
        start = time.monotonic()
        gateways[joiner].start()
        gateways[joiner].wait_ready()
        trainers[joiner] = Trainer(link, built, gateways[joiner], len(clusters), options)
        until(lambda: trainers[joiner].rounds, "a round with the cluster", gateways)
        joined = time.monotonic()
        want = len(others[0].rounds) + options.rounds
        until(lambda: all(len(t.rounds) >= want for t in others), "rounds after it has joined", gateways)
        after = time.monotonic()
    except programs.Failure as failure:
        logs = "\n".join(f"{g.cluster}:\n{programs.tail(g.log)}" for g in gateways.values())
        raise programs.Failure(f"{failure}\n{logs}") from failure
    finally:
        for trainer in trainers.values():
            trainer.kill()
        for gateway in gateways.values():
            gateway.process.terminate()
        for gateway in gateways.values():
            gateway.process.wait(timeout=30)
    rows = [row("before", others, before, start), row("during", others, start, joined),
            row("after", others, joined, after)]
    for each in rows:
        each.update(elements=options.elements, clusters=options.clusters, codec=options.codec,
                    rate_mbit=wan_link.rate_bits(options.rate) / 1e6)
    rows[1]["join_s"] = joined - start
    rows[1]["transfer_s"] = trainers[joiner].joined - start
    rows[1]["growth_percent"] = growth(rows[0]["turn_s"], times(others, start, joined)[1])
    rows[1]["transfer_growth_percent"] = growth(rows[0]["turn_s"], times(others, start, trainers[joiner].joined)[1])
    return rows


def parse(arguments):
    parser = argparse.ArgumentParser(prog="join", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=4, help="with the one that joins (default 4)")
    parser.add_argument("--elements", type=int, default=25_000_000)
    parser.add_argument("--codec", default="int4")
    parser.add_argument("--route", default="auto", choices=("auto", "direct", "owner"))
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--compute", type=float, default=3.0, help="seconds between two rounds (default 3)")
    parser.add_argument("--rounds", type=int, default=5, help="timed before and after (default 5)")
    parser.add_argument("--peer-timeout", default="10s")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    if options.clusters < 3 or options.elements < 1 or options.rounds < 2:
        parser.error("at least three clusters, one element, two rounds")
    return options


def main(arguments):
    options = parse(arguments)
    sites = [f"site{i}" for i in range(1, options.clusters + 1)]
    try:
        built = programs.newest()
        os.environ["CAUSEWAY_WAN_EMULATOR"] = built.emulator
        with wan_link.WanLink(sites, rate=options.rate, rtt=options.rtt, topology="star") as link, \
                tempfile.TemporaryDirectory(prefix="causeway-join-") as directory:
            rows = measure(options, link, built, directory)
    except (programs.Failure, wan_link.LinkError) as error:
        print(f"join: {error}", file=sys.stderr)
        return 77 if os.geteuid() != 0 else 1
    for each in rows:
        print(f"{each['phase']:7} {each['rounds']:3} rounds, {each['round_s']:6.2f} s each (longest "
              f"{each['round_s_max']:.2f}), a turn {each['turn_s']:.2f} s")
    print(f"joined after {rows[1]['join_s']:.1f} s; turns took {rows[1]['growth_percent']:+.1f} % meanwhile, "
          f"{rows[1]['transfer_growth_percent']:+.1f} % until it was admitted")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"rows": rows}, file, indent=1)
            file.write("\n")
    return 0
