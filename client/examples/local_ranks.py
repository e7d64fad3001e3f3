"""The ranks of one cluster: processes on the cluster's own machines, joined by torch.distributed (gloo).

Rank 0 alone talks to the gateway; the others follow what it says. A rank that dies takes the cluster's
trainer with it: the others fail in their next collective.
"""
import ctypes
import datetime
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile

import torch
import torch.distributed as dist

# Longer than any outage that a run is to survive; a dead rank is noticed at once by its closed connection.
COLLECTIVE_TIMEOUT = datetime.timedelta(minutes=30)


class LocalRanks:
    """The process group. Collectives are called by all ranks in the same order."""

    def __init__(self, rank, ranks, rendezvous):
        self.rank, self.ranks = rank, ranks
        self.leads = rank == 0
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank,
                                world_size=ranks, timeout=COLLECTIVE_TIMEOUT)

    def average(self, tensor):
        dist.all_reduce(tensor)
        tensor.div_(self.ranks)

    def broadcast(self, tensor):
        dist.broadcast(tensor, src=0)

    def agree(self, value):
        """Rank 0's yes or no, on every rank."""
        flag = torch.tensor([int(value)], dtype=torch.uint8)
        self.broadcast(flag)
        return bool(flag.item())

    def gather(self, value):
        """Every rank's value, in the order of ranks."""
        values = [None] * self.ranks
        dist.all_gather_object(values, value)
        return values

    def close(self):
        dist.destroy_process_group()


def _run_rank(work, rank, ranks, rendezvous, arguments):
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: not to outlive the launcher
    torch.set_num_threads(1)
    work(LocalRanks(rank, ranks, rendezvous), *arguments)


def launch(work, ranks, *arguments):
    """Runs work(local_ranks, *arguments) in `ranks` processes; returns the first failure's exit status or 0."""
    context = multiprocessing.get_context("fork")  # torch is imported once
    with tempfile.TemporaryDirectory(prefix="causeway-ranks-") as directory:
        rendezvous = os.path.join(directory, "rendezvous")
        processes = [context.Process(target=_run_rank,
                                     args=(work, rank, ranks, rendezvous, arguments))
                     for rank in range(ranks)]
        signal.signal(signal.SIGTERM, lambda *unused: sys.exit(128 + signal.SIGTERM))
        for process in processes:
            process.start()
        try:
            return _wait(processes)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()


def _wait(processes):
    waiting = list(processes)
    while waiting:
        ready = multiprocessing.connection.wait([process.sentinel for process in waiting])
        for process in [p for p in waiting if p.sentinel in ready]:
            process.join()
            waiting.remove(process)
            if process.exitcode != 0:
                return process.exitcode if process.exitcode > 0 else 128 - process.exitcode
    return 0
