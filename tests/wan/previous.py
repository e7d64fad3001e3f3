#!/usr/bin/python3
"""An older revision against this one: tests/wan/run previous --revision REV [--json FILE]

Builds the revision in build/previous-REV, then lets two clusters train over the emulated link, one with all its programs of
the old revision, the other with those of this one; in either place. Then a cluster is upgraded in the middle of a run: its
gateway is ended and one of this revision started on the same files, while its trainer goes on.

Each ends in one of two ways: all trainers end with the same bytes, or one refuses the other by name and at most one trains
on (proto/WIRE.md, "Versions"). Everything else is a failure, exit status 1. Root; 77 where it cannot run.
"""
import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import programs
import wan_gateways
import wan_link

ROOT = programs.ROOT
CLUSTERS = ("paris", "tokyo")
STEPS, LOCAL_STEPS = 60, 5
UPGRADE_AT_STEP = 20
PEER_TIMEOUT_S = 3
TRAINED_WITHIN_S, REFUSED_AFTER_S = 180, 20
POLL_S = 0.2
# What a refusal says: of versions at the hello, of what the two would have to agree on, or to a trainer whose library is
# of another release than its gateway.
REFUSALS = (r"no common protocol version[^\"]*", r"versions? [^\"]*upgrade[^\"]*", r"differs?: [^\"]*",
            r"the gateway sent [^\"]*are of one release")


def built(revision):
    """The old revision's programs, built if they are not yet."""
    name = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", f"{revision}^{{commit}}"], check=True,
                          capture_output=True, text=True).stdout.strip()
    tree = os.path.join(ROOT, "build", f"previous-{name}")
    build = os.path.join(tree, "build", "previous")
    if not os.path.exists(tree):
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", ROOT, tree], check=True)
        subprocess.run(["git", "-C", tree, "checkout", "--quiet", "--detach", name], check=True)
    print(f"building {name}", flush=True)
    with open(os.path.join(tree, "build.log"), "w") as log:
        subprocess.run(["cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                        "-DCAUSEWAY_TESTS=OFF"], check=True, stdout=log, stderr=log)
        subprocess.run(["ninja", "-C", build, f"-j{os.cpu_count()}", "bin/causewayd", "daemon/cli/causeway", "client/libcauseway.so"],
                       check=True, stdout=log, stderr=log)
    return name, programs.Programs(build, tree)


class Mix:
    """Two clusters, each with programs of its own; used as a context."""

    def __init__(self, of):
        self.of = of  # {cluster: Programs}

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix=f"causeway-previous-{os.getpid()}-")
        self.link = wan_link.WanLink(CLUSTERS, rate="50mbit", rtt="40ms").__enter__()
        try:
            entry = wan_gateways.run_entry("demo", CLUSTERS, f"{{rule: average, local_steps: {LOCAL_STEPS}}}",
                                           "{kind: int4, error_feedback: true}")
            self.gateways = wan_gateways.start(self.link, programs.newest(), self.directory, self.directory, [entry],
                                               f"peer_timeout: {PEER_TIMEOUT_S}s\n", others=self.of)
            self.trainers = {cluster: self.train(i, cluster) for i, cluster in enumerate(CLUSTERS)}
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.link.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, kind, cluster):
        return os.path.join(self.directory, f"{kind}-{cluster}")

    def train(self, index, cluster):
        own = self.of[cluster]
        command = [os.path.join(own.source, "client", "examples", "train.py"), "--cluster", str(index), "--clusters",
                   "2", "--mode", "outer", "--ranks", "1", "--socket", self.gateways[cluster].trainer_socket,
                   "--steps", str(STEPS), "--progress", self.path("progress", cluster)]
        with open(self.path("trainer", cluster) + ".log", "a") as log:
            return self.link.spawn(cluster, command, stdout=log, stderr=subprocess.STDOUT,
                                   env=own.trainer_environment())

    def events(self, cluster):
        try:
            with open(self.path("progress", cluster)) as file:
                return [json.loads(line) for line in file.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []

    def logs(self):
        texts = []
        for name in sorted(os.listdir(self.directory)):
            if name.endswith(".log"):
                with open(os.path.join(self.directory, name), errors="replace") as file:
                    texts.append((name, file.read()))
        return texts

    def refusal(self):
        """The words in which a gateway or a trainer refused the other side, or None."""
        for _, text in self.logs():
            for pattern in REFUSALS:
                found = re.search(pattern, text)
                if found:
                    return found.group(0)
        return None

    def steps(self):
        return min(sum(event["event"] == "step" for event in self.events(cluster)) for cluster in CLUSTERS)

    def until(self, condition, what, limit_s=TRAINED_WITHIN_S):
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise programs.Failure(f"not within {limit_s} s: {what}")
            time.sleep(POLL_S)

    def ended(self):
        return all(trainer.poll() is not None for trainer in self.trainers.values())

    def upgrade(self, cluster, to):
        """Another revision's gateway on the same files."""
        gateway = self.gateways[cluster]
        gateway.process.send_signal(signal.SIGTERM)
        gateway.process.wait()
        gateway.programs = to
        gateway.start()
        gateway.wait_ready()

    def outcome(self):
        """("equal" or "refused", what is to be said of it); Failure otherwise."""
        began = time.monotonic()
        self.until(lambda: self.ended() or (self.refusal() and time.monotonic() - began > REFUSED_AFTER_S), "an end")
        ends = {cluster: event for cluster in CLUSTERS for event in self.events(cluster)
                if event["event"] == "result" and event["step"] == STEPS}
        hashes = {sha for event in ends.values() for sha in event["parameters_sha256"]}
        if len(ends) == len(CLUSTERS) and len(hashes) == 1:
            return "equal", f"{STEPS} steps, parameters {hashes.pop()[:16]}"
        refusal = self.refusal()
        if refusal and len(ends) < len(CLUSTERS):
            return "refused", refusal
        raise programs.Failure(f"neither equal values nor a refusal: {ends}")


def try_mix(rows, name, of, change=None):
    print(f"-- {name}", flush=True)
    with Mix(of) as mix:
        try:
            if change:
                change(mix)
            kind, detail = mix.outcome()
        except programs.Failure as failure:
            kind, detail = "failed", str(failure)
            for log, text in mix.logs():
                print(f"{log}:\n" + "\n".join("  | " + line for line in text.splitlines()[-15:]))
    rows.append({"mix": name, "outcome": kind, "detail": detail})
    print(f"   {kind}: {detail}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--revision", required=True)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    problem = wan_link.missing_requirements()
    if not problem and not (importlib.util.find_spec("torch") and shutil.which("bible")):
        problem = "python3-torch or bible-kjv is not installed"
    if problem:
        print(f"skipped: {problem}")
        return 77
    name, old = built(options.revision)
    new = programs.newest()
    rows = []
    try_mix(rows, f"paris {name}, tokyo this", {"paris": old, "tokyo": new})
    try_mix(rows, f"paris this, tokyo {name}", {"paris": new, "tokyo": old})

    def upgrade(mix):
        mix.until(lambda: mix.steps() >= UPGRADE_AT_STEP, f"step {UPGRADE_AT_STEP}")
        mix.upgrade("tokyo", new)
    try_mix(rows, f"both {name}, tokyo's gateway upgraded meanwhile", {"paris": old, "tokyo": old}, upgrade)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"rows": rows}, file, indent=1)
            file.write("\n")
    return int(any(row["outcome"] == "failed" for row in rows))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (programs.Failure, subprocess.CalledProcessError, wan_link.LinkError) as failure:
        print(f"previous: {failure}", file=sys.stderr)
        sys.exit(70)
