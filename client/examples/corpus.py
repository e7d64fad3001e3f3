"""The King James text as bytes, split into training and validation, and each cluster's share of it.

Every 16th block of 32 KiB is held out. A cluster trains on its own contiguous part, as sites with data of
their own do. Sampling depends on (seed, cluster, step) alone, so that runs can be compared.
"""
import subprocess

import numpy as np
import torch

PASSAGE = "gen1:1-rev22:21"
BLOCK_BYTES = 32768
HELD_OUT_EVERY = 16
HELD_OUT_OFFSET = 7
VALIDATION_SEQUENCES = 384
SAMPLING_SEED = 77
SAMPLING_SEED_STRIDE = 100


def read_text(path=None):
    """The text as an array of bytes: from a file, or from the program of the package bible-kjv."""
    if path:
        with open(path, "rb") as file:
            return np.frombuffer(file.read(), dtype=np.uint8)
    output = subprocess.run(["bible", "-f", PASSAGE], check=True, stdout=subprocess.PIPE).stdout
    return np.frombuffer(output, dtype=np.uint8)


def split(text):
    """Training and validation bytes."""
    blocks = [text[i:i + BLOCK_BYTES] for i in range(0, len(text) - BLOCK_BYTES + 1, BLOCK_BYTES)]
    held_out = [i % HELD_OUT_EVERY == HELD_OUT_OFFSET for i in range(len(blocks))]
    return (np.concatenate([block for block, out in zip(blocks, held_out) if not out]),
            np.concatenate([block for block, out in zip(blocks, held_out) if out]))


def _sequences(data, starts, context):
    windows = np.stack([data[i:i + context + 1] for i in starts]).astype(np.int64)
    windows = torch.from_numpy(windows)
    return windows[:, :-1], windows[:, 1:]


class Sampler:
    """A rank's batches: the cluster draws `batch` sequences a step, its ranks share them out in order."""

    def __init__(self, train, cluster, clusters, rank, ranks, batch, context, seed):
        self.data = np.array_split(train, clusters)[cluster]
        self.random = np.random.RandomState(SAMPLING_SEED + SAMPLING_SEED_STRIDE * seed + cluster)
        self.batch, self.context = batch, context
        self.own = slice(rank * batch // ranks, (rank + 1) * batch // ranks)

    def next(self):
        starts = self.random.randint(0, len(self.data) - self.context - 1, self.batch)
        return _sequences(self.data, starts[self.own], self.context)


def validation_set(held_out, context, count=VALIDATION_SEQUENCES):
    """`count` evenly spaced sequences."""
    starts = np.linspace(0, len(held_out) - context - 2, count).astype(int)
    return _sequences(held_out, starts, context)
