"""One run: starts its trainers, follows their progress and the link's counters, returns what happened."""
import bisect
import json
import os
import subprocess
import time

import plan
from programs import Failure, tail

TICK_S = 0.05
SILENCE_LIMIT_S = 60  # without a step anywhere: something hangs


class Series:
    """A value sampled over time, read back by linear interpolation."""

    def __init__(self):
        self.times, self.values = [], []

    def add(self, moment, value):
        self.times.append(moment)
        self.values.append(value)

    def at(self, moment):
        i = bisect.bisect_right(self.times, moment)
        if i == 0 or i == len(self.times):
            return float(self.values[max(i - 1, 0)])
        begin, end = self.times[i - 1], self.times[i]
        share = (moment - begin) / (end - begin) if end > begin else 1
        return self.values[i - 1] + share * (self.values[i] - self.values[i - 1])


class Trainer:
    """One cluster's trainer processes, followed through their progress file."""

    def __init__(self, cluster, process, progress, log):
        self.cluster, self.process, self.log = cluster, process, log
        self.file = open(progress)
        self.rest = ""
        self.joined = self.finished = self.result = None
        self.steps, self.evaluations = [], []

    def read(self):
        """Takes in new progress; returns whether there was any."""
        text = self.rest + self.file.read()
        lines = text.split("\n")
        self.rest = lines.pop()
        for line in lines:
            event = json.loads(line)
            kind = event.pop("event")
            if kind == "step":
                self.steps.append(event)
            elif kind == "evaluation":
                self.evaluations.append(event)
            else:
                setattr(self, kind, event)
        return bool(lines)

    def check(self):
        if self.process.poll() not in (None, 0) or (self.process.poll() == 0 and not self.done()):
            raise Failure(f"the trainer of {self.cluster} ended with {self.process.returncode}:\n"
                            f"{tail(self.log)}")

    def done(self):
        self.read()
        return self.result is not None and self.process.poll() == 0


def costs(results, busy):
    """What the time inside Causeway's calls went into, as shares of the training's, of the cluster that had most;
    empty where every step waits for its exchange."""
    shares = [{"stall": result["statistics"]["stall_s"] / seconds, "overhead": result["statistics"]["overhead_s"] / seconds,
               "delay_steps": result["statistics"]["delay_steps"]}
              for result, seconds in zip(results, busy) if "stall_s" in result["statistics"]]
    return max(shares, key=lambda share: share["stall"] + share["overhead"], default={})


class Training:
    """A run in progress, for the dashboard to look at, and its record when it is over."""

    def __init__(self, run, link, gateways, options, root, build, directory, logs):
        self.run, self.link, self.gateways, self.options = run, link, gateways, options
        self.sent = {cluster: Series() for cluster in options.names}
        self.sample()
        self.trainers = [self.spawn(i, cluster, root, build, directory, logs)
                         for i, cluster in enumerate(options.names)]

    def spawn(self, index, cluster, root, build, directory, logs):
        progress = os.path.join(directory, f"progress-{self.run.name}-{cluster}")
        log = os.path.join(logs, f"trainer-{self.run.name}-{cluster}.log")
        open(progress, "w").close()
        command = [os.path.join(root, "client", "examples", "train.py"), "--cluster", str(index),
                   "--clusters", str(len(self.options.names)), "--ranks", str(plan.RANKS),
                   "--mode", self.run.mode, "--run", self.run.name,
                   "--socket", self.gateways[cluster].trainer_socket,
                   "--steps", str(self.run.steps), "--seed", str(self.run.seed),
                   "--learning-rate", str(self.run.learning_rate),
                   "--evaluate-every", str(max(self.run.steps // plan.EVALUATIONS, 1)),
                   "--progress", progress]
        if self.run.cut_after_s:
            command += ["--seconds", str(self.run.cut_after_s)]
        with open(log, "w") as file:
            process = self.link.spawn(cluster, command, stdout=file, stderr=subprocess.STDOUT,
                                      env=build.trainer_environment())
        return Trainer(cluster, process, progress, log)

    def sample(self):
        stats = self.link.stats()
        for site in stats["sites"]:
            self.sent[site["name"]].add(stats["time_s"], site["sent_bytes"])

    def follow(self, show):
        """Until all trainers are done; calls show(self) at every tick."""
        last_news = time.monotonic()
        while not all(trainer.done() for trainer in self.trainers):
            time.sleep(TICK_S)
            self.sample()
            for trainer in self.trainers:
                if trainer.read():
                    last_news = time.monotonic()
                trainer.check()
            for gateway in self.gateways.values():
                gateway.check()
            if time.monotonic() - last_news > SILENCE_LIMIT_S:
                raise Failure(self.describe_silence())
            show(self)
        self.sample()

    def describe_silence(self):
        texts = [f"{self.run.name}: no progress for {SILENCE_LIMIT_S} s"]
        for gateway in self.gateways.values():
            awaited = ", ".join(gateway.awaited(self.run.name)) or "nobody"
            texts.append(f"{gateway.cluster} waits for {awaited}:\n{tail(gateway.log, 8)}")
        for trainer in self.trainers:
            texts.append(f"trainer of {trainer.cluster}:\n{tail(trainer.log, 8)}")
        return "\n".join(texts)

    # The record, once all are done.

    def begin_s(self):
        return max(trainer.joined["time"] for trainer in self.trainers)

    def mean_sent(self, moment):
        return sum(series.at(moment) for series in self.sent.values()) / len(self.sent)

    def record(self):
        begin = self.begin_s()
        end = max(trainer.finished["time"] for trainer in self.trainers)
        results = [trainer.result for trainer in self.trainers]
        wire = max(series.values[-1] - series.at(begin) for series in self.sent.values())
        seed = max(series.at(begin) - series.values[0] for series in self.sent.values())
        parameters = self.trainers[0].joined["parameters"]
        steps = results[0]["step"]
        hashes = {sha for result in results for sha in result["parameters_sha256"]}
        busy = [result["wall_s"] - result["evaluation_s"] for result in results]
        return {
            "name": self.run.name, "kind": self.run.kind, "seed": self.run.seed, "final_bits_per_byte": results[0]["bits_per_byte"], "steps": steps,
            "wall_s": max(result["wall_s"] for result in results), "training_s": max(busy),
            "wire_bytes_per_cluster": round(wire), "seed_bytes": round(seed),
            "bytes_per_parameter_step": wire / (parameters * steps),
            "compute_use": min(1 - result["blocked_s"] / b for result, b in zip(results, busy)),
            "costs": costs(results, busy),
            "identical": len(hashes) == 1 and len({result["step"] for result in results}) == 1,
            "hashes": sorted(hashes), "parameters": parameters, "encoding": self.encoding(),
            "step_s": max((b - result["blocked_s"]) / steps for result, b in zip(results, busy)),
            "samples": [{"step": s["step"], "seconds": s["time"] - begin, "loss_bits": s["loss_bits"],
                         "bytes": self.mean_sent(s["time"]) - self.mean_sent(begin)}
                        for s in self.trainers[0].steps],
            "evaluations": [{"step": e["step"], "seconds": e["time"] - begin,
                             "bits_per_byte": e["bits_per_byte"],
                             "bytes": self.mean_sent(e["time"]) - self.mean_sent(begin)}
                            for e in self.trainers[0].evaluations],
            "link_use": self.link_use(begin, end),
        }

    def encoding(self):
        """The plan in force: codec, way, since when and why."""
        status = next(iter(self.gateways.values())).status_now()
        for run in status["runs"]:
            if run["name"] == self.run.name:
                now = run["plan"]
                return f"{now['codec']}, {now['route']}, since round {now['since_round']}: {now['why']}"
        return "unknown"

    def link_use(self, begin, end, interval_s=0.5):
        points = []
        for i in range(int((end - begin) / interval_s)):
            moment = begin + i * interval_s
            moved = self.mean_sent(moment + interval_s) - self.mean_sent(moment)
            points.append({"seconds": moment + interval_s / 2 - begin,
                           "mbit_per_s": moved * 8e-6 / interval_s})
        return points
