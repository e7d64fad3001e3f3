"""Trains the reference workload by every algorithm and compares with synchronous training, unattended.

Real gateways on a link of 100 Mbit/s without delay: what is trained, encoded and combined is what runs over a long one, only
the waiting is left out (on a faster one gateways do not pack what they send). Loss gaps are paired by seed against synchronous fp32 on the same tokens. `wire_bytes` are the packets of
the cluster that sent most, from the IP header on, so with TLS, framing, acknowledgements and heartbeats; `payload_bytes` are the
encoded chunks in them, once. Both are compared with fp32 gradients every step (4 bytes a parameter, nothing else), which go to
as many peers.
Packets are counted by the emulated link, as root; anybody else trains over loopback and gets no `wire_bytes`.
`wall_s` and `compute_use` are this machine's, without delay.

Each training is kept in --directory and not done again, so that the command may be interrupted and repeated: the
whole table takes hours on two cores. Settings are chosen on other seeds than those reported: --tune adds 1000 to
every seed and lists learning rates.
"""
import argparse
import contextlib
import ctypes
import dataclasses
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile

import programs
import transport_pair
import wan_gateways
import wan_link
from train_rows import ALONE, PARAMETERS, ROWS, SYNCHRONOUS, SYNCHRONOUS_RATES

ROOT = programs.ROOT
TRAINER = os.path.join(ROOT, "client", "examples", "train.py")
CLUSTERS = ("paris", "tokyo", "oslo", "lima")
TUNING_SEED = 1000
TUNING_RATES = (1e-3, 1.5e-3, 2e-3, 3e-3, 4e-3)
PR_SET_PDEATHSIG = 1
MORE_STEPS = "more-steps"
LINE_RATE = "100mbit"


class Loopback(contextlib.AbstractContextManager):
    """Gateways' places on this host: an address of 127/8 each. The interface of tests/wan's link, which counts no packets."""

    def __init__(self, sites):
        self.sites = sites
        number = os.getpid() % 60000
        self._network = f"127.{10 + number // 250}.{1 + number % 250}"

    def address(self, cluster):
        return f"{self._network}.{1 + self.sites.index(cluster)}"

    @staticmethod
    def spawn(cluster, command, **options):
        return subprocess.Popen(command, preexec_fn=_die_with_parent, **options)

    def __exit__(self, *unused):
        """Whoever spawned processes ends them."""

    @staticmethod
    def sent_bytes():
        return {}


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _link(row, names):
    """Packets are counted where they are reported: of what is compared by its loss alone there are a thousand times as many."""
    if row.counted and os.geteuid() == 0:
        return wan_link.WanLink(names, rate=LINE_RATE, rtt="0ms")
    return Loopback(names)


def _train(row, seed, steps, learning_rate, built, directory):
    """One training of all clusters; the results of each, and the bytes that the cluster that sent most did send."""
    with _link(row, CLUSTERS[:row.clusters]) as link:
        return _train_over(link, row, seed, steps, learning_rate, built, directory)


def _train_over(link, row, seed, steps, learning_rate, built, directory):
    names = link.sites
    entry = wan_gateways.run_entry("train", names, row.algorithm, row.codec) + "\n    route: direct"
    gateways = wan_gateways.start(link, built, directory, directory, [entry],
                                  "lanes: 1\nworkers: 1\nmemory: 256MiB\n")
    trainers = []
    try:
        for index, name in enumerate(names):
            command = [TRAINER, "--cluster", str(index), "--clusters", str(row.clusters), "--ranks", "1",
                       "--mode", row.mode, "--run", "train", "--socket", gateways[name].trainer_socket,
                       "--steps", str(steps), "--seed", str(seed), "--learning-rate", str(learning_rate),
                       "--optimizer", row.optimizer]
            # To a file: a pipe holds 64 KiB, less than a trainer says before the others have ended.
            with open(os.path.join(directory, f"trainer-{name}.jsonl"), "w") as output:
                trainers.append(link.spawn(name, command, stdout=output, env=built.trainer_environment()))
        for trainer in trainers:
            trainer.wait()
        sent = max(link.sent_bytes().values(), default=None)
    finally:
        for process in trainers + [gateway.process for gateway in gateways.values()]:
            process.kill()
            process.wait()
    for name, trainer in zip(names, trainers):
        if trainer.returncode != 0:
            raise programs.Failure(f"the trainer of {name} ended with {trainer.returncode}; gateway:\n"
                                   f"{programs.tail(gateways[name].log)}")
    results = [_result(os.path.join(directory, f"trainer-{name}.jsonl")) for name in names]
    hashes = {sha for result in results for sha in result["parameters_sha256"]}
    if len(hashes) != 1:
        raise programs.Failure(f"clusters ended with different parameters: {', '.join(sorted(hashes))}")
    return results, sent


def _result(path):
    with open(path) as lines:
        return json.loads(lines.readlines()[-1])


def _alone(row, seed, steps, learning_rate, built):
    output = subprocess.run([TRAINER, "--clusters", str(row.clusters), "--ranks", "1", "--mode", "alone", "--steps", str(steps),
                             "--seed", str(seed), "--learning-rate", str(learning_rate),
                             "--optimizer", row.optimizer], check=True,
                            stdout=subprocess.PIPE, text=True, env=built.trainer_environment()).stdout
    return [json.loads(output.splitlines()[-1])], None


class Trainings:
    """Results by name, seed and learning rate; done once, then read from files."""

    def __init__(self, options):
        self.options, self._built = options, None
        os.makedirs(options.directory, exist_ok=True)

    def result(self, name, row, seed, learning_rate=None):
        rate = learning_rate or row.learning_rate
        path = os.path.join(self.options.directory, f"{name}-{self.options.steps}-{rate:g}-{seed}.json")
        settings = row.settings()
        if os.path.exists(path):
            with open(path) as file:
                kept = json.load(file)
            if kept["settings"] == settings:
                return kept
        if self._built is None:
            self._built = programs.newest()
        print(f"training {name}, seed {seed}, learning rate {rate:g} ...", flush=True)
        if row.mode == "alone":
            results, sent = _alone(row, seed, self.options.steps, rate, self._built)
        else:
            with tempfile.TemporaryDirectory(prefix="causeway-train-") as directory:
                results, sent = _train(row, seed, self.options.steps, rate, self._built, directory)
        first = results[0]
        kept = {"settings": settings, "bits_per_byte": first["bits_per_byte"],
                "payload_bytes": max(result["statistics"].get("wire_bytes", 0) for result in results),
                "wire_bytes": sent,
                "wall_s": max(result["wall_s"] for result in results),
                "compute_use": min(1 - result["blocked_s"] / result["wall_s"] for result in results)}
        with open(path + ".part", "w") as file:
            json.dump(kept, file, indent=1)
        os.replace(path + ".part", path)
        return kept

    def reference(self, row, seed):
        return self._baseline(f"synchronous-{row.clusters}", SYNCHRONOUS, row, seed)

    def alone(self, row, seed):
        return self._baseline(f"alone-{row.clusters}", ALONE, row, seed)

    def _baseline(self, name, baseline, row, seed):
        """`baseline` with the clusters and the inner optimizer of `row`."""
        name += f"-{row.optimizer}" * (row.optimizer != "adamw")
        same = dataclasses.replace(baseline, clusters=row.clusters, optimizer=row.optimizer)
        return self.result(name, same, seed, SYNCHRONOUS_RATES[row.optimizer])


def t_95(degrees):
    """Student's t for a bound that holds in 95 % of cases."""
    table = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)
    return table[degrees - 1] if degrees <= len(table) else 1.645 + 1.6 / degrees


def bound(values):
    """Upper end of the mean's 95 % interval; None for one value."""
    if len(values) < 2:
        return None
    return statistics.mean(values) + t_95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def table_row(name, row, trainings, seeds):
    ours = [trainings.result(name, row, seed) for seed in seeds]
    references = [trainings.reference(row, seed) for seed in seeds]
    alone = [trainings.alone(row, seed) for seed in seeds]
    gaps = [100 * (a["bits_per_byte"] / b["bits_per_byte"] - 1) for a, b in zip(ours, references)]
    apart = [100 * (a["bits_per_byte"] / b["bits_per_byte"] - 1) for a, b in zip(alone, references)]
    synchronous = 4 * PARAMETERS * trainings.options.steps
    sent = synchronous * (row.clusters - 1)  # each contribution goes to every peer
    counted = [result for result in ours if result["wire_bytes"] is not None]
    payload = statistics.mean(result["payload_bytes"] for result in counted or ours)
    wire = statistics.mean(result["wire_bytes"] for result in counted) if counted else None
    return {"run": name, "seeds": list(seeds),
            "bits_per_byte": statistics.mean(result["bits_per_byte"] for result in ours),
            "gap_percent": statistics.mean(gaps), "gap_bound_percent": bound(gaps), "gap_asked_percent": row.gap,
            "benefit_recovered": 1 - statistics.mean(gaps) / statistics.mean(apart),
            "wire_bytes": wire and round(wire), "bytes_ratio": wire and sent / wire, "bytes_ratio_asked": row.bytes,
            "payload_bytes": round(payload), "payload_ratio": synchronous / payload,
            "wall_s": statistics.mean(result["wall_s"] for result in ours),
            "compute_use": statistics.mean(result["compute_use"] for result in ours)}


def more_steps_row(options, built):
    """Of one training that takes more steps in less time than the synchronous one on the same slow link: the demo's."""
    with tempfile.TemporaryDirectory(prefix="causeway-more-steps-") as directory:
        command = [os.path.join(ROOT, "deploy", "demo"), "--preset", "longer", "--plain", "--steps", str(options.steps),
                   "--output", directory, "--build-directory", built.directory]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise programs.Failure(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        with open(os.path.join(directory, "result.json")) as file:
            result = json.load(file)
    found = result["comparison"]
    ours = next(run for run in result["runs"] if run["name"] == "causeway")
    row = {"run": MORE_STEPS, "seeds": [1], "steps": found["steps"], "synchronous_steps": found["synchronous_steps"],
           "bits_per_byte": ours["final_bits_per_byte"], "gap_percent": 100 * found["gap"], "gap_asked_percent": 0,
           "wire_bytes": ours["wire_bytes_per_cluster"], "bytes_ratio": found["byte_ratio"], "bytes_ratio_asked": 100,
           "wall_s": found["seconds"], "synchronous_wall_s": found["synchronous_s"],
           "wall_ratio": found["time_ratio"], "wall_ratio_asked": 0.2, "compute_use": ours["compute_use"]}
    print(f"{row['run']:20}{row['bits_per_byte']:.4f} bits/byte after {row['steps']} steps, gap {row['gap_percent']:+.2f} % "
          f"(asked: below 0), {row['bytes_ratio']:.1f}x fewer bytes in total (asked 100x), {row['wall_s']:.1f} s of "
          f"{row['synchronous_wall_s']:.1f} s, {row['wall_ratio']:.3f} (asked 0.2)", flush=True)
    return row


def print_row(row):
    above = "" if row["gap_bound_percent"] is None else f" (bound {row['gap_bound_percent']:+.2f} %)"
    asked = ""
    if row["gap_asked_percent"] is not None:
        asked = f"; asked {row['gap_asked_percent']} %, {row['bytes_ratio_asked']}x"
    fewer = f"{row['payload_ratio']:.1f}x fewer payload bytes"
    if row["bytes_ratio"]:
        fewer = f"{row['bytes_ratio']:.1f}x fewer bytes ({row['payload_ratio']:.1f}x payload)"
    print(f"{row['run']:20}{row['bits_per_byte']:.4f} bits/byte, gap {row['gap_percent']:+.2f} %{above}, "
          f"{fewer}, {100 * row['benefit_recovered']:.0f} % of the benefit{asked}",
          flush=True)


def tune(names, trainings, seeds):
    rows = []
    for name in names:
        for rate in TUNING_RATES:
            results = [trainings.result(name, ROWS[name], seed + TUNING_SEED, rate) for seed in seeds]
            mean = statistics.mean(result["bits_per_byte"] for result in results)
            rows.append({"run": name, "learning_rate": rate, "bits_per_byte": mean,
                         "seeds": [seed + TUNING_SEED for seed in seeds]})
            print(f"{name:20}learning rate {rate:g}: {mean:.4f} bits/byte", flush=True)
    return rows


def parse(arguments):
    parser = argparse.ArgumentParser(prog="train", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*ROWS, MORE_STEPS]
    parser.add_argument("--rows", default=",".join(known), help=f"of {', '.join(known)} (default: all; {MORE_STEPS} is "
                        "`deploy/demo --preset longer`, on a link of 100 Mbit/s and 100 ms, and needs root)")
    parser.add_argument("--seeds", type=int, default=3, help="0 to N-1 (default 3)")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--directory", default=os.path.join(ROOT, "build", "bench-train"),
                        help="keeps what was trained (default build/bench-train)")
    parser.add_argument("--tune", action="store_true", help="compare learning rates on other seeds")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    options.names = options.rows.split(",")
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(known)}")
    if options.tune and MORE_STEPS in options.names:
        options.names.remove(MORE_STEPS)
    if options.seeds < 1 or options.steps < 1:
        parser.error("at least one seed and one step")
    return options


def main(arguments):
    options = parse(arguments)
    trainings = Trainings(options)
    try:
        if options.tune:
            rows = tune(options.names, trainings, range(options.seeds))
        else:
            rows = []
            for name in options.names:
                if name == MORE_STEPS:
                    rows.append(more_steps_row(options, programs.newest()))
                    continue
                rows.append(table_row(name, ROWS[name], trainings, range(options.seeds)))
                print_row(rows[-1])
    except (programs.Failure, subprocess.CalledProcessError) as failure:
        print(f"train: {failure}", file=sys.stderr)
        return 1
    transport_pair.save(options.json, rows)
    return 0
