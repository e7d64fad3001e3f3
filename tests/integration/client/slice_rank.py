#!/usr/bin/python3
"""One rank of a cluster that provides and collects its own slices: commands on stdin, a JSON line back for each.

    slice_rank.py OPTIONS      (JSON: what Rank takes)

What it "trains" is drawn from the seed for the whole model, so that a cluster of one rank and one of several
do the same work. A rank holds the whole arrays and looks at its own slices alone.
"""
import ctypes
import hashlib
import importlib.util
import json
import signal
import sys
import types

import numpy

# The package's modules without the package: it imports torch, which takes longer than the whole test.
package = types.ModuleType("causeway")
package.__path__ = list(importlib.util.find_spec("causeway").submodule_search_locations)
sys.modules["causeway"] = package

from causeway import _library as c  # noqa: E402
from causeway import errors  # noqa: E402
from causeway.handle import Handle  # noqa: E402

SHAPES = {"embed": (40, 33), "weight": (700,), "bias": (5,), "scale": ()}
PIECE = 96  # elements; the ranks' pieces of a tensor take turns, a small tensor is one rank's
WEIGHT = 12


class Rank:
    def __init__(self, socket, rank, world, seed, outer=True, leave_out=None, all_of_it=False):
        self.world, self.outer = world, outer
        leave_out = leave_out and tuple(leave_out)
        start = numpy.random.default_rng(7)  # one start for every cluster
        self.random = numpy.random.default_rng(1000 + seed)
        self.arrays = [start.standard_normal(shape, dtype=numpy.float32).reshape(-1).copy()
                       for shape in SHAPES.values()]
        self.pieces = []
        for tensor, array in enumerate(self.arrays):
            for turn, first in enumerate(range(0, array.size, PIECE)):
                if (turn + tensor) % world == rank or all_of_it:
                    if (tensor, first) != leave_out:
                        self.pieces.append((tensor, first, min(PIECE, array.size - first)))
        self.handle = Handle("demo", socket, rank=rank, world=world, connect_timeout=20.0)
        self.ops = {}

    def join(self):
        tensors = (c.CTensor * len(SHAPES))()
        for tensor, (name, shape) in zip(tensors, SHAPES.items()):
            tensor.name, tensor.dimensions, tensor.alias_of = name.encode(), len(shape), -1
            tensor.shape[:len(shape)] = shape
        layout = self.handle.join(tensors, self.outer)
        self.places = [self.handle.placement(tensor).fragment for tensor in range(len(SHAPES))]
        self.fragments = range(layout.fragments)
        self.handle.offer(self.slices() if self.outer or self.world > 1 else (c.CSlice * 0)())
        replaced = self.handle.ready()
        for fragment in self.fragments if replaced else ():
            round = self.handle.fragment(fragment).newest_round
            self.handle.read(fragment, round, self.slices(fragment))
            self.handle.applied(fragment, round)
        return {"replaced": replaced, "fragments": layout.fragments}

    def slices(self, fragment=None):
        pieces = [piece for piece in self.pieces if fragment in (None, self.places[piece[0]])]
        slices = (c.CSlice * len(pieces))()
        for slice, (tensor, first, count) in zip(slices, pieces):
            slice.tensor, slice.first, slice.count = tensor, first, count
            slice.data = self.arrays[tensor].ctypes.data + first * 4
        return slices

    def train(self):
        for array in self.arrays:
            step = self.random.standard_normal(array.size, dtype=numpy.float32) * numpy.float32(0.01)
            array += step if self.outer else step - array

    def submit(self):
        self.train()
        for fragment in self.fragments:
            self.ops[fragment] = self.handle.submit(fragment, self.slices(fragment), WEIGHT // self.world)

    def abandon(self):
        """Takes back what the other ranks have not submitted."""
        states = []
        for op in self.ops.values():
            self.handle.abandon(op)
            states.append(self.handle.wait(op).state)
        self.ops.clear()
        return states

    def collect(self):
        results = []
        for fragment, op in list(self.ops.items()):
            result = self.handle.wait(op)
            self.handle.apply(op, c.CARRY if self.outer else c.REPLACE, 0.0, self.slices(fragment))
            self.handle.applied(fragment, result.round)
            del self.ops[fragment]
            results.append([result.state, result.round, result.participants])
        return results

    def parts(self):
        """A hash of each piece that is this rank's."""
        return {f"{tensor}.{first}": hashlib.sha256(self.arrays[tensor][first:first + count].tobytes())
                .hexdigest()[:16] for tensor, first, count in self.pieces}

    def finish(self):
        values = self.handle.finish().hex()
        self.handle.leave()
        return values


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    options = json.loads(sys.argv[1])
    rank = None
    for line in sys.stdin:
        try:
            if rank is None:
                rank = Rank(**options)
            answer = {"value": getattr(rank, line.strip())()}
        except errors.Error as problem:
            answer = {"error": type(problem).__name__, **problem.describe()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
