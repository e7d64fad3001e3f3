"""Times rounds of gradient averaging between gateways over the emulated link, beside Gloo and plain TCP.

A round's time is from the first trainer's call to the last one's return; its wire bytes are all that the
busiest cluster's WAN device transmits meanwhile. limit_seconds is wire bytes / rate + 2 RTT, of the slowest
cluster; model_seconds what the best shares could reach with the codec's bytes (in a star), of_model how much of that was
reached, after --settle rounds in which plans may change. --codec takes several, measured
one after the other on one link; peers in the same run: Gloo's ring all-reduce of fp32 in segments of 16 MB,
and plain TCP connections that move the bytes of the codec before them both ways.
"""
import argparse
import os
import statistics
import sys
import tempfile

import programs
import transport_pair
import wan_gateways
import wan_link
from worker import Worker

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = "bench"
PORT = 7900
MEMORY_BYTES_MIN = 1 << 30
MEMORY_BYTES_PER_ELEMENT = 64
PEERS = ("gloo", "tcp")


def measure(link, workers):
    """One round: seconds, wire bytes sent by each site, whether all hold the same result."""
    before = link.sent_bytes()
    for worker in workers:
        worker.tell("round")
    answers = [worker.answer() for worker in workers]
    after = link.sent_bytes()
    return (max(a["end"] for a in answers) - min(a["begin"] for a in answers),
            {site: after[site] - before[site] for site in link.sites},
            len({a["sha256"] for a in answers}) == 1)


def rounds_of(link, workers, count, settle=1):
    for worker in workers:
        worker.answer()  # its tensor is ready
    for _ in range(settle):  # joins, lanes, windows; plans
        measure(link, workers)
    measured = [measure(link, workers) for _ in range(count)]
    for worker in workers:
        worker.end()
    return measured


def causeway(options, link, built, codec):
    clusters = link.sites
    entry = wan_gateways.run_entry(RUN, clusters, "{rule: gradients}", f"{{kind: {codec}, error_feedback: false}}")
    entry += f"\n    route: {options.route}"
    memory = max(MEMORY_BYTES_MIN, options.elements * MEMORY_BYTES_PER_ELEMENT)
    settings = f"memory: {-(-memory // 2**20)}MiB\nlanes: {options.lanes}\n"
    with tempfile.TemporaryDirectory(prefix="causeway-bench-") as directory:
        gateways = wan_gateways.start(link, built, directory, directory, [entry], settings)
        try:
            workers = [Worker(link, cluster,
                              ["/usr/bin/python3", os.path.join(HERE, "exchange_trainer.py"), "--run", RUN,
                               "--socket", gateways[cluster].trainer_socket, "--elements",
                               str(options.elements), "--seed", str(seed)], built.trainer_environment())
                       for seed, cluster in enumerate(clusters)]
            measured = rounds_of(link, workers, options.rounds, options.settle)
            return measured, plan_of(gateways)
        except programs.Failure as failure:
            logs = "\n".join(f"{g.cluster}:\n{programs.tail(g.log)}" for g in gateways.values())
            raise programs.Failure(f"{failure}\n{logs}") from failure
        finally:
            for gateway in gateways.values():
                gateway.process.terminate()
            for gateway in gateways.values():
                gateway.process.wait(timeout=30)


def plan_of(gateways):
    """The plan in force, in words."""
    status = next(iter(gateways.values())).status_now()
    plan = next(run["plan"] for run in status["runs"] if run["name"] == RUN)
    shares = ", ".join(f"{cluster} {share:.0%}" for cluster, share in sorted(plan.get("shares", {}).items()))
    return f"{plan['route']} {shares}".strip()


def gloo(options, link, built):
    program = built.find("tests/bench/exchange_peers/bench_exchange_gloo")
    with tempfile.TemporaryDirectory(prefix="causeway-gloo-") as store:
        workers = [Worker(link, site, [program, str(rank), str(len(link.sites)), str(options.elements), store,
                                       wan_link.DEVICE]) for rank, site in enumerate(link.sites)]
        return rounds_of(link, workers, options.rounds)


def tcp(options, link, built, payload):
    program = built.find("tests/bench/exchange_peers/bench_exchange_tcp")
    streams = options.lanes if options.lanes.isdigit() else "4"
    workers = [Worker(link, site, [program, str(rank), str(payload), streams, str(PORT),
                                   *map(link.address, link.sites)]) for rank, site in enumerate(link.sites)]
    return rounds_of(link, workers, options.rounds)


def best_seconds(payload, rates, rtt_s):
    """With the best shares s: max over clusters of (1 + (n-2) s) payload / rate; direct where that is less."""
    n = len(rates)
    direct = (n - 1) * payload * 8 / min(rates) + rtt_s
    if n == 2:
        return direct
    low, high = 0.0, 2.0 / min(rates)
    for _ in range(200):  # the smallest T with room for all shares
        middle = (low + high) / 2
        room = sum(max(0.0, min(1.0, (middle * rate - 1) / (n - 2))) for rate in rates)
        feasible = room >= 1 and all(middle * rate >= 1 for rate in rates)
        low, high = (low, middle) if feasible else (middle, high)
    return min(direct, high * payload * 8 + 1.5 * rtt_s)


def row(options, rates, system, codec, measured, payload, plan=""):
    seconds = statistics.median(m[0] for m in measured)
    wire = {site: statistics.median(m[1][site] for m in measured) for site in measured[0][1]}
    rtt_s = wan_link.duration_ms(options.rtt) / 1e3
    unlimited = not all(rates.values())
    lines = options.clusters - 1 if options.topology == "mesh" else 1  # of a site, each of this rate
    limit = 2 * rtt_s + (0 if unlimited else max(wire[site] * 8 / rates[site] / lines for site in wire))
    made = {"system": system, "codec": codec, "clusters": options.clusters, "elements": options.elements,
            "rate_mbit": [rates[site] / 1e6 for site in wire] if len(set(rates.values())) > 1
            else rates[next(iter(wire))] / 1e6,
            "loss_percent": float(options.loss.rstrip("%")), "plan": plan, "seconds": seconds, "limit_seconds": limit,
            "model_seconds": 0 if unlimited or lines > 1 else best_seconds(payload, list(rates.values()), rtt_s),
            "wire_bytes_per_cluster": round(max(wire.values())), "identical": all(m[2] for m in measured)}
    if made["model_seconds"]:
        made["of_model"] = made["model_seconds"] / seconds
    print(f"{system:9} {codec:8} {seconds:7.3f} s = {seconds / limit:5.2f} x limit {limit:.3f} s, "
          f"{made['wire_bytes_per_cluster'] / 1e6:8.2f} MB sent by a cluster, "
          f"{'identical' if made['identical'] else 'DIFFERENT'}; rounds "
          f"{', '.join(f'{m[0]:.3f}' for m in measured)} s"
          + (f"; {made['of_model']:.2f} of the model's {made['model_seconds']:.3f} s" if "of_model" in made else "")
          + (f"; {plan}" if plan else ""), flush=True)
    return made


def run_all(options, built):
    sites = [f"site{i}" for i in range(1, options.clusters + 1)]
    texts = options.rate.split(",")
    rates = {site: wan_link.rate_bits(texts[i % len(texts)]) for i, site in enumerate(sites)}
    rows = []
    with wan_link.WanLink(sites, rate=texts[0], rtt=options.rtt, loss=options.loss,
                          topology=options.topology) as link:
        if len(texts) > 1:
            for i, site in enumerate(sites):
                rate = texts[i % len(texts)]
                for pipe in (f"{site}>core", f"core>{site}"):
                    link.set(pipe, rate=rate, queue=link.queue_bytes(rate))
        for codec in options.codec.split(","):
            measured, plan = causeway(options, link, built, codec)
            sent = statistics.median(sum(m[1].values()) for m in measured)
            # Directly a round moves n (n-1) payloads, by owner 2 (n-1).
            each = sent / options.clusters / (options.clusters - 1)
            by_owner = plan.startswith("owner")
            payload = sent / 2 / (options.clusters - 1) if by_owner else each
            rows.append(row(options, rates, "causeway", codec, measured, payload, plan))
            if "tcp" in options.peers:
                rows.append(row(options, rates, "tcp", codec, tcp(options, link, built, round(each)), payload))
        if "gloo" in options.peers:
            rows.append(row(options, rates, "gloo", "fp32", gloo(options, link, built), 4 * options.elements))
    return rows


def parse(arguments):
    parser = argparse.ArgumentParser(prog="exchange", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=2)
    parser.add_argument("--elements", type=int, default=25_000_000)
    parser.add_argument("--codec", default="int8", help="one or several, by commas (default int8)")
    parser.add_argument("--route", default="auto", choices=("auto", "direct", "owner"))
    parser.add_argument("--rate", default="200mbit", help="one, or one for each cluster, by commas (a star)")
    parser.add_argument("--rtt", default="100ms")
    parser.add_argument("--loss", default="0")
    parser.add_argument("--topology", choices=("mesh", "star"), help="default: a star from three clusters on")
    parser.add_argument("--lanes", default="auto")
    parser.add_argument("--rounds", type=int, default=5, help="that are measured (default 5)")
    parser.add_argument("--settle", type=int, metavar="ROUNDS",
                        help="before those (default 1; 32 where shares are tried, so that trials are over)")
    parser.add_argument("--peers", default="gloo,tcp", help="of gloo, tcp; or none")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    options.peers = [] if options.peers == "none" else options.peers.split(",")
    if options.clusters < 2 or options.elements < 1 or options.rounds < 1 or set(options.peers) - set(PEERS):
        parser.error("at least two clusters, one element, one round; peers are gloo and tcp")
    if options.settle is None:
        options.settle = 1 if options.clusters == 2 or options.route == "direct" else 32
    if "," in options.rate or options.topology is None:
        options.topology = "star" if options.clusters > 2 or "," in options.rate else "mesh"
    return options


def main(arguments):
    options = parse(arguments)
    try:
        built = programs.newest()
        os.environ["CAUSEWAY_WAN_EMULATOR"] = built.emulator
        rows = run_all(options, built)
    except (programs.Failure, wan_link.LinkError) as error:
        print(f"exchange: {error}", file=sys.stderr)
        return 77 if os.geteuid() != 0 else 1
    transport_pair.save(options.json, rows)
    return 0 if all(r["identical"] for r in rows) else 1
