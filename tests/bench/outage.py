"""How late a round is when a link goes, and when a gateway is killed, in the middle of its exchange.

link: two clusters; at half of a round's bytes their link is dark for --down seconds. The same round commits, in the same
epoch; late_s is what it took beyond a usual one. killed: three clusters, at half of the bytes one gateway is killed; the others
commit the round by themselves. detection_s is peer_timeout; retry_factor is (round - detection) / usual.
"""
import argparse
import os
import statistics
import sys
import tempfile
import time

import programs
import transport_pair
import wan_gateways
import wan_link
from worker import Worker

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = "outage"
MEMORY_BYTES_MIN = 1 << 30
MEMORY_BYTES_PER_ELEMENT = 64
POLL_S = 0.01
PATIENCE_S = 300


class Clusters:
    """Gateways and trainers at the sites of a link, told when to exchange."""

    def __init__(self, link, built, options, directory):
        self.link = link
        entry = wan_gateways.run_entry(RUN, link.sites, "{rule: gradients}",
                                       f"{{kind: {options.codec}, error_feedback: false}}")
        memory = max(MEMORY_BYTES_MIN, options.elements * MEMORY_BYTES_PER_ELEMENT)
        settings = f"memory: {-(-memory // 2**20)}MiB\npeer_timeout: {options.peer_timeout}s\n"
        self.gateways = wan_gateways.start(link, built, directory, directory, [entry], settings)
        self.workers = {cluster: Worker(link, cluster,
                                        ["/usr/bin/python3", os.path.join(HERE, "exchange_trainer.py"), "--run", RUN,
                                         "--socket", self.gateways[cluster].trainer_socket, "--elements",
                                         str(options.elements), "--seed", str(seed)], built.trainer_environment())
                        for seed, cluster in enumerate(link.sites)}
        for worker in self.workers.values():
            worker.answer()

    def sent(self):
        return sum(self.link.sent_bytes().values())

    def tell(self, clusters):
        for cluster in clusters:
            self.workers[cluster].tell("round")

    def answers(self, clusters):
        """Seconds from the first call to the last return."""
        answers = [self.workers[cluster].answer() for cluster in clusters]
        if len({answer["sha256"] for answer in answers}) != 1:
            raise programs.Failure("the clusters' results differ")
        return max(a["end"] for a in answers) - min(a["begin"] for a in answers)

    def usual(self, rounds):
        """Of a round without faults: median seconds, bytes."""
        self.tell(self.workers)
        self.answers(self.workers)  # joins, lanes, windows
        seconds, sent = [], []
        for _ in range(rounds):
            before = self.sent()
            self.tell(self.workers)
            seconds.append(self.answers(self.workers))
            sent.append(self.sent() - before)
        return statistics.median(seconds), statistics.median(sent)

    def until_sent(self, count, since):
        deadline = time.monotonic() + PATIENCE_S
        while self.sent() - since < count:
            if time.monotonic() > deadline:
                raise programs.Failure("the exchange does not begin")
            time.sleep(POLL_S)

    def epoch(self, cluster):
        return next(run for run in self.gateways[cluster].status_now()["runs"] if run["name"] == RUN)["epoch"]

    def close(self):
        for worker in self.workers.values():
            worker.process.kill()
            worker.process.wait()
        for gateway in self.gateways.values():
            gateway.process.kill()
            gateway.process.wait()


def link_down(clusters, options):
    usual_s, sent = clusters.usual(options.rounds)
    sites = clusters.link.sites
    epoch = clusters.epoch(sites[0])
    before = clusters.sent()
    clusters.tell(sites)
    clusters.until_sent(sent / 2, before)
    pipes = [f"{a}>{b}" for a in sites for b in sites if a != b]
    for pipe in pipes:
        clusters.link.set(pipe, dark="1")
    time.sleep(options.down)
    for pipe in pipes:
        clusters.link.set(pipe, dark="0")
    seconds = clusters.answers(sites)
    return {"case": "link", "usual_s": usual_s, "round_s": seconds, "down_s": options.down,
            "late_s": seconds - usual_s, "same_epoch": clusters.epoch(sites[0]) == epoch}


def killed(clusters, options):
    usual_s, sent = clusters.usual(options.rounds)
    *rest, last = clusters.link.sites
    before = clusters.sent()
    clusters.tell(clusters.link.sites)
    clusters.until_sent(sent / 2, before)
    clusters.gateways[last].process.kill()
    clusters.workers[last].process.kill()
    seconds = clusters.answers(rest)
    return {"case": "killed", "usual_s": usual_s, "round_s": seconds, "detection_s": options.peer_timeout,
            "retry_factor": (seconds - options.peer_timeout) / usual_s}


def parse(arguments):
    parser = argparse.ArgumentParser(prog="outage", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="link,killed")
    parser.add_argument("--elements", type=int, default=25_000_000)
    parser.add_argument("--codec", default="int4")
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--down", type=float, default=5.0)
    parser.add_argument("--peer-timeout", type=int, default=10, help="seconds (default 10)")
    parser.add_argument("--rounds", type=int, default=3, help="without a fault, to compare with (default 3)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    if set(options.cases.split(",")) - {"link", "killed"}:
        parser.error("cases are link and killed")
    return options


def run_case(case, options, built):
    sites = [f"site{i}" for i in range(1, (2 if case == "link" else 3) + 1)]
    with wan_link.WanLink(sites, rate=options.rate, rtt=options.rtt, topology="mesh") as link, \
            tempfile.TemporaryDirectory(prefix="causeway-outage-") as directory:
        clusters = Clusters(link, built, options, directory)
        try:
            made = (link_down if case == "link" else killed)(clusters, options)
        except programs.Failure as failure:
            logs = "\n".join(f"{g.cluster}:\n{programs.tail(g.log)}" for g in clusters.gateways.values())
            raise programs.Failure(f"{failure}\n{logs}") from failure
        finally:
            clusters.close()
    made.update(elements=options.elements, codec=options.codec, rate_mbit=wan_link.rate_bits(options.rate) / 1e6)
    print(f"{case}: usual {made['usual_s']:.2f} s, this one {made['round_s']:.2f} s; " +
          (f"{made['late_s']:.2f} s late, {'the same epoch' if made['same_epoch'] else 'ANOTHER EPOCH'}"
           if case == "link" else f"detection {made['detection_s']} s + {made['retry_factor']:.2f} x usual"), flush=True)
    return made


def main(arguments):
    options = parse(arguments)
    try:
        built = programs.newest()
        os.environ["CAUSEWAY_WAN_EMULATOR"] = built.emulator
        rows = [run_case(case, options, built) for case in options.cases.split(",")]
    except (programs.Failure, wan_link.LinkError) as error:
        print(f"outage: {error}", file=sys.stderr)
        return 77 if os.geteuid() != 0 else 1
    transport_pair.save(options.json, rows)
    return 0
