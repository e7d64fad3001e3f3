"""Times rounds of gradient averaging between gateways over the emulated link.

A round's time is from the first trainer's call to the last one's return; its wire bytes are all that a
cluster's WAN device transmits meanwhile. The limit is 1.25 x (wire bytes / rate + 2 RTT).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import programs
import wan_gateways
import wan_link

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = "bench"
MARGIN = 1.25
MEMORY_BYTES_MIN = 1 << 30
MEMORY_BYTES_PER_ELEMENT = 64


class Trainer:
    """One cluster's trainer process, told by lines on its standard input."""

    def __init__(self, link, built, gateway, cluster, elements, seed):
        command = ["/usr/bin/python3", os.path.join(HERE, "exchange_trainer.py"), "--run", RUN, "--socket",
                   gateway.trainer_socket, "--elements", str(elements), "--seed", str(seed)]
        self.cluster = cluster
        self.process = link.spawn(cluster, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, env=built.trainer_environment())

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise programs.Failure(f"the trainer of {self.cluster} ended with {self.process.wait()}")
        return json.loads(line)


def measure(link, trainers):
    """One round: seconds, wire bytes of the busiest cluster, whether all hold the same result."""
    before = link.sent_bytes()
    for trainer in trainers:
        trainer.tell("round")
    answers = [trainer.answer() for trainer in trainers]
    after = link.sent_bytes()
    return (max(a["end"] for a in answers) - min(a["begin"] for a in answers),
            max(after[site] - before[site] for site in link.sites),
            len({a["sha256"] for a in answers}) == 1)


def run_rounds(options, built, directory):
    clusters = [f"site{i}" for i in range(1, options.clusters + 1)]
    entry = wan_gateways.run_entry(RUN, clusters, "{rule: gradients}",
                                   f"{{kind: {options.codec}, error_feedback: false}}")
    memory = max(MEMORY_BYTES_MIN, options.elements * MEMORY_BYTES_PER_ELEMENT)
    settings = f"memory: {-(-memory // 2**20)}MiB\nlanes: {options.lanes}\n"
    with wan_link.WanLink(clusters, rate=options.rate, rtt=options.rtt, loss=options.loss) as link:
        gateways = wan_gateways.start(link, built, directory, directory, [entry], settings)
        trainers = [Trainer(link, built, gateways[cluster], cluster, options.elements, seed)
                    for seed, cluster in enumerate(clusters)]
        try:
            for trainer in trainers:
                trainer.answer()  # its tensor is ready
            measure(link, trainers)  # the warm-up: joins, lanes, windows
            return [measure(link, trainers) for _ in range(options.rounds)]
        except programs.Failure as failure:
            logs = "\n".join(f"{g.cluster}:\n{programs.tail(g.log)}" for g in gateways.values())
            raise programs.Failure(f"{failure}\n{logs}") from failure


def parse(arguments):
    parser = argparse.ArgumentParser(prog="exchange", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=2)
    parser.add_argument("--elements", type=int, default=25_000_000)
    parser.add_argument("--codec", default="int8")
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--loss", default="0")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="after one warm-up (default 3)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    if options.clusters < 2 or options.elements < 1 or options.rounds < 1:
        parser.error("at least two clusters, one element, one round")
    return options


def main(arguments):
    options = parse(arguments)
    try:
        built = programs.newest()
        os.environ["CAUSEWAY_WAN_EMULATOR"] = built.emulator
        with tempfile.TemporaryDirectory(prefix="causeway-bench-") as directory:
            rounds = run_rounds(options, built, directory)
    except (programs.Failure, wan_link.LinkError) as error:
        print(f"exchange: {error}", file=sys.stderr)
        return 77 if os.geteuid() != 0 else 1
    wire = statistics.median(r[1] for r in rounds)
    ideal = wire * 8 / wan_link.rate_bits(options.rate) + 2 * wan_link.duration_ms(options.rtt) / 1e3 \
        if options.rate != "unlimited" else 2 * wan_link.duration_ms(options.rtt) / 1e3
    row = {"system": "causeway", "codec": options.codec, "clusters": options.clusters,
           "elements": options.elements, "seconds": statistics.median(r[0] for r in rounds),
           "limit_seconds": MARGIN * ideal, "wire_bytes_per_cluster": round(wire),
           "identical": all(r[2] for r in rounds)}
    print(f"{row['codec']} {row['elements']} elements, {row['clusters']} clusters: {row['seconds']:.3f} s "
          f"(limit {row['limit_seconds']:.3f} s), {wire / 1e6:.2f} MB sent by a cluster, "
          f"{'identical' if row['identical'] else 'DIFFERENT'}; rounds "
          f"{', '.join(f'{r[0]:.3f}' for r in rounds)} s")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"rows": [row]}, file, indent=1)
            file.write("\n")
    return 0 if row["identical"] else 1
