"""Two programs bench_transport at the ends of an emulated link: what the benches of the transport share."""
import json
import os
import subprocess
import sys
import tempfile
import time

import programs
import wan_link
from worker import Worker

SITES = ("paris", "tokyo")
PORT = 7443
DEFAULT_WMEM = {"net.ipv4.tcp_wmem": "4096 16384 4194304"}  # the kernel's own


class End(Worker):
    """One bench_transport."""

    def __init__(self, link, program, site, peer, pki, words, before=()):
        """`before`: words ahead of the program's, such as those of unshare."""
        super().__init__(link, site, [*before, program, "--cluster", site, "--peer", peer, "--pki", pki, *words])
        self.answer()


class Pair:
    """paris sends to tokyo; used as a context. `raw`: OpenSSL over plain sockets instead of lanes."""

    def __init__(self, link, pki, lanes=4, raw=False, sender=(), receiver=()):
        built = programs.newest()
        program = built.find("tests/bench/transport/bench_transport")
        address = f"{link.address('tokyo')}:{PORT + raw}"
        common = ["--lanes", str(lanes), *(["--raw"] if raw else [])]
        self.receiver = End(link, program, "tokyo", "paris", f"{pki}/tokyo",
                            ["--listen", address, *common, *receiver])
        self.sender = End(link, program, "paris", "tokyo", f"{pki}/paris",
                          ["--dial", address, *common, *sender])

    def __enter__(self):
        for end in (self.sender, self.receiver):
            if not end.ask("up")["up"]:
                raise programs.Failure(f"no link at {end.site}")
        return self

    def __exit__(self, *unused):
        for end in (self.sender, self.receiver):
            end.process.stdin.close()
            try:
                end.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                end.process.kill()
                end.process.wait()
            end.process.stdout.close()

    def marks(self):
        return self.receiver.ask("mark"), self.sender.ask("mark")

    def flow(self, warm_s, seconds):
        """Sends; (goodput in Mbit/s, processor seconds per GB of both ends) after a warm-up."""
        self.sender.ask("start")
        time.sleep(warm_s)
        before = self.marks()
        time.sleep(seconds)
        after = self.marks()
        self.sender.ask("stop")
        moved = after[0]["bytes"] - before[0]["bytes"]
        elapsed = after[0]["time_s"] - before[0]["time_s"]
        cpu = sum(a["cpu_s"] - b["cpu_s"] for a, b in zip(after, before))
        return moved * 8 / elapsed / 1e6, cpu / (moved / 1e9) if moved else float("inf")


def make_pki(directory):
    built = programs.newest()
    for words in (["init", "--domain", "bench.internal"],
                  *(["issue", site, "--out", f"{directory}/{site}"] for site in SITES)):
        done = subprocess.run([built.command, "pki", *words, "--directory", directory],
                              capture_output=True, text=True)
        if done.returncode:
            raise programs.Failure(f"causeway pki {words[0]}: {done.stderr.strip()}")


def mbit(rate):
    return wan_link.rate_bits(rate) / 1e6


def percent(loss):
    return float(loss.rstrip("%"))


def save(path, rows):
    if path:
        with open(path, "w") as file:
            json.dump({"rows": rows}, file, indent=1)
            file.write("\n")


def guarded(name, function):
    """Runs a bench; the exit status. Its certificates are in a directory that goes afterwards."""
    try:
        with tempfile.TemporaryDirectory(prefix="causeway-bench-") as directory:
            os.environ["CAUSEWAY_WAN_EMULATOR"] = programs.newest().emulator
            make_pki(directory)
            return function(directory)
    except (programs.Failure, wan_link.LinkError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 77 if os.geteuid() != 0 else 1
