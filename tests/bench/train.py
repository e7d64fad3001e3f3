"""Trains the reference workload by every algorithm and compares with synchronous training, unattended.

Real gateways on loopback, without an emulated link: what is trained, encoded and combined is what runs over a
slow link, only the waiting is left out. Loss gaps are paired by seed against synchronous fp32 on the same tokens; `wire_bytes`
are the encoded bytes that one cluster sent, without TLS and framing (deploy/demo measures those: 2 to 3 % more).
`wall_s` and `compute_use` are this machine's, without a slow link.

Each training is kept in --directory and not done again, so that the command may be interrupted and repeated: the
whole table takes hours on two cores. Settings are chosen on other seeds than those reported: --tune adds 1000 to
every seed and lists learning rates.
"""
import argparse
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

ROOT = programs.ROOT
TRAINER = os.path.join(ROOT, "client", "examples", "train.py")
CLUSTERS = ("paris", "tokyo", "oslo", "lima")
PARAMETERS = 544_256
TUNING_SEED = 1000
TUNING_RATES = (1e-3, 1.5e-3, 2e-3, 3e-3, 4e-3)
PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table, compared with synchronous training by the same inner optimizer. `gap` and `bytes`: what is
    asked of it, in per cent and as a factor."""

    algorithm: str
    codec: str
    learning_rate: float = 2e-3
    clusters: int = 2
    mode: str = "outer"
    optimizer: str = "adamw"
    gap: float = None
    bytes: float = None

    def settings(self):
        exchanged = [] if self.mode == "alone" else [self.algorithm, self.codec, self.clusters]
        return exchanged + [self.optimizer] * (self.optimizer != "adamw")


INT4 = "{kind: \"int4:b256:zstd\", error_feedback: true}"
NESTEROV = "rule: nesterov, learning_rate: {}, momentum: 0.5, local_steps: {}"
CO2 = "{{rule: co2, learning_rate: {}, local_steps: 25{}}}"
ROWS = {
    "every-step": Row("{rule: gradients}", INT4, mode="every-step", gap=0.2, bytes=10.5),
    "H=10": Row("{rule: average, local_steps: 10}", INT4, gap=1.2, bytes=88),
    "H=20": Row("{" + NESTEROV.format(0.7, 20) + "}", INT4, gap=1.6, bytes=175),
    "H=50": Row("{" + NESTEROV.format(0.8, 50) + "}", INT4, gap=2.4, bytes=440),
    "extreme": Row("{rule: sparseloco, learning_rate: 1.0, local_steps: 10}",
                   "{kind: \"btopk:k128:v2:ef:decay950\"}", 4e-3, gap=2.6, bytes=700),
    "sign-H=25": Row("{" + NESTEROV.format(0.8, 25) + "}", "{kind: \"sign:ef\"}", 3e-3),
    "4-clusters-H=50": Row("{" + NESTEROV.format(1.0, 50) + "}", INT4, clusters=4, gap=4.7, bytes=440),
    "co2": Row(CO2.format(0.5, ""), INT4, 4e-3, gap=8, bytes=230),
    "co2-gap": Row(CO2.format(0.8, ", penalty: gap"), INT4, 4e-3),
    "co2-gap-window": Row(CO2.format(0.8, ", penalty: gap, penalty_window: 8"), INT4, 4e-3),
    "co2-clip": Row(CO2.format(0.5, ", clip: 0.01"), INT4, 4e-3),
    "co2-gap-clip": Row(CO2.format(0.8, ", penalty: gap, clip: 0.01"), INT4, 4e-3),
    "H=10-muon": Row("{rule: average, local_steps: 10}", INT4, optimizer="muon"),
    "H=20-muon": Row("{" + NESTEROV.format(0.7, 20) + "}", INT4, optimizer="muon"),
    "H=50-muon": Row("{" + NESTEROV.format(0.8, 50) + "}", INT4, optimizer="muon"),
    "eager": Row("{rule: eager, learning_rate: 0.7, momentum: 0.5, local_steps: 20}", INT4),
    "streaming-d=0": Row("{" + NESTEROV.format(0.7, 20) + ", fragments: 4}", INT4),
    "streaming-d=1": Row("{" + NESTEROV.format(0.7, 20) + ", fragments: 4, delay: 1}", INT4),
    "streaming-d=5": Row("{" + NESTEROV.format(0.7, 20) + ", fragments: 4, delay: 5}", INT4),
    "streaming-d=5-mix": Row("{" + NESTEROV.format(0.7, 20) + ", fragments: 4, delay: 5, mix: 0.5}", INT4),
    "H=20-scheduled": Row("{" + NESTEROV.format(0.9, 20) + ", final_learning_rate: 0.5, schedule_rounds: 50}",
                          INT4),
    "H=20-no-feedback": Row("{" + NESTEROV.format(0.7, 20) + "}", "{kind: \"int4:b256:zstd\"}"),
}
SYNCHRONOUS = Row("{rule: gradients}", "{kind: fp32}", mode="every-step")
ALONE = Row("", "", mode="alone")


class Loopback:
    """Gateways' places on this host: an address of 127/8 each. The interface of tests/wan's link."""

    def __init__(self, sites):
        self.sites = sites
        number = os.getpid() % 60000
        self._network = f"127.{10 + number // 250}.{1 + number % 250}"

    def address(self, cluster):
        return f"{self._network}.{1 + self.sites.index(cluster)}"

    @staticmethod
    def spawn(cluster, command, **options):
        return subprocess.Popen(command, preexec_fn=_die_with_parent, **options)


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _train(row, seed, steps, learning_rate, built, directory):
    """One training of all clusters; the results of each."""
    names = CLUSTERS[:row.clusters]
    link = Loopback(names)
    entry = wan_gateways.run_entry("train", names, row.algorithm, row.codec)
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
    return results


def _result(path):
    with open(path) as lines:
        return json.loads(lines.readlines()[-1])


def _alone(row, seed, steps, learning_rate, built):
    output = subprocess.run([TRAINER, "--clusters", str(row.clusters), "--ranks", "1", "--mode", "alone", "--steps", str(steps),
                             "--seed", str(seed), "--learning-rate", str(learning_rate),
                             "--optimizer", row.optimizer], check=True,
                            stdout=subprocess.PIPE, text=True, env=built.trainer_environment()).stdout
    return [json.loads(output.splitlines()[-1])]


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
            results = _alone(row, seed, self.options.steps, rate, self._built)
        else:
            with tempfile.TemporaryDirectory(prefix="causeway-train-") as directory:
                results = _train(row, seed, self.options.steps, rate, self._built, directory)
        first = results[0]
        kept = {"settings": settings, "bits_per_byte": first["bits_per_byte"],
                "wire_bytes": max(result["statistics"].get("wire_bytes", 0) for result in results),
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
        return self.result(name, dataclasses.replace(baseline, clusters=row.clusters, optimizer=row.optimizer), seed)


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
    wire = statistics.mean(result["wire_bytes"] for result in ours)
    synchronous = 4 * PARAMETERS * trainings.options.steps
    return {"run": name, "seeds": list(seeds),
            "bits_per_byte": statistics.mean(result["bits_per_byte"] for result in ours),
            "gap_percent": statistics.mean(gaps), "gap_bound_percent": bound(gaps), "gap_asked_percent": row.gap,
            "benefit_recovered": 1 - statistics.mean(gaps) / statistics.mean(apart),
            "wire_bytes": round(wire), "bytes_ratio": synchronous / wire, "bytes_ratio_asked": row.bytes,
            "wall_s": statistics.mean(result["wall_s"] for result in ours),
            "compute_use": statistics.mean(result["compute_use"] for result in ours)}


def print_row(row):
    above = "" if row["gap_bound_percent"] is None else f" (bound {row['gap_bound_percent']:+.2f} %)"
    asked = ""
    if row["gap_asked_percent"] is not None:
        asked = f"; asked {row['gap_asked_percent']} %, {row['bytes_ratio_asked']}x"
    print(f"{row['run']:20}{row['bits_per_byte']:.4f} bits/byte, gap {row['gap_percent']:+.2f} %{above}, "
          f"{row['bytes_ratio']:.0f}x fewer bytes, {100 * row['benefit_recovered']:.0f} % of the benefit{asked}",
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
    parser.add_argument("--rows", default=",".join(ROWS), help=f"of {', '.join(ROWS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=3, help="0 to N-1 (default 3)")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--directory", default=os.path.join(ROOT, "build", "bench-train"),
                        help="keeps what was trained (default build/bench-train)")
    parser.add_argument("--tune", action="store_true", help="compare learning rates on other seeds")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    options.names = options.rows.split(",")
    unknown = [name for name in options.names if name not in ROWS]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
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
                rows.append(table_row(name, ROWS[name], trainings, range(options.seeds)))
                print_row(rows[-1])
    except (programs.Failure, subprocess.CalledProcessError) as failure:
        print(f"train: {failure}", file=sys.stderr)
        return 1
    transport_pair.save(options.json, rows)
    return 0
