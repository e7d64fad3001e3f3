"""The ranks of one cluster as processes with a gloo group, for tests."""

import json
import multiprocessing
import os
import tempfile

import torch.distributed as distributed

import causeway

RANKS = 2


def _rank(rank, store, body, arguments, pipe):
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    try:
        answer = body(rank, *arguments)
    except causeway.Error as problem:
        answer = {"error": problem.describe()}
    except KeyboardInterrupt:
        answer = {"interrupted": True}
    pipe.send(json.dumps(answer))


def cluster(body, *arguments, ready=None, answering=range(RANKS)):
    """Runs ``body(rank, *arguments)`` in RANKS processes; the answers of ``answering``: those that nobody kills.
    ``ready(processes)`` meanwhile."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        store = os.path.join(directory, "store")
        pipes = [context.Pipe() for _ in range(RANKS)]
        processes = [context.Process(target=_rank, args=(rank, store, body, arguments, pipes[rank][1]))
                     for rank in range(RANKS)]
        for process in processes:
            process.start()
        for _, sending in pipes:
            sending.close()  # a rank that dies is then an end of its pipe, not a wait
        try:
            if ready is not None:
                ready(processes)
            answers = []
            for rank in answering:
                receiving, _ = pipes[rank]
                assert receiving.poll(90), f"rank {rank} hangs"
                try:
                    answers.append(json.loads(receiving.recv()))
                except EOFError:
                    processes[rank].join(30)
                    raise AssertionError(f"rank {rank} died: exit code {processes[rank].exitcode}") from None
            for process in processes:
                process.join(30)
        finally:
            for process in processes:
                if process.is_alive():
                    process.kill()
        return answers
