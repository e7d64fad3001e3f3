"""Trainer processes for tests: forked from a server that has imported torch once, told what to do over a pipe.

A trainer's model is a few tensors of noise; its "training" adds noise of its own seed, so that clusters
differ unless Causeway makes them equal. Lines that the library logs (who is awaited) come back as they
are said.
"""
import importlib.util
import json
import multiprocessing
import os
import signal
import sys
import time
import unittest

import gateways

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["trainer_program"])

SHAPES = {"embed": (64, 32), "block.weight": (48, 64), "block.bias": (48,)}


class TrainerError(Exception):
    """What the trainer's call raised: `kind` is the exception's class name, `fields` its attributes."""

    def __init__(self, kind, fields):
        super().__init__(f"{kind}: {fields.get('text')}")
        self.kind, self.fields = kind, fields
        self.text = fields.get("text", "")


class Trainer:
    """One trainer process of a cluster. Calls block; tell() and answer() are the halves of one."""

    def __init__(self, pair, cluster, run=gateways.RUN, socket=None):
        import trainer_program
        self.cluster, self.run = cluster, run
        self.socket = socket or pair.gateways[cluster].trainer_socket
        self.lines = []
        self.log_path = os.path.join(pair.directory, f"applied-{len(pair.trainers)}-{cluster}")
        pair.trainers.append(self)
        self._connection, theirs = _context.Pipe()
        self.process = _context.Process(target=trainer_program.serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        pair.at_end(self.end)

    @property
    def pid(self):
        return self.process.pid

    def tell(self, what, **arguments):
        self._connection.send((what, arguments))

    def _next(self, patience_s):
        """One message. Progress lines are kept and skipped."""
        deadline = time.monotonic() + patience_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not self._connection.poll(left):
                raise AssertionError(f"the trainer of {self.cluster} does not answer; it said {self.lines}")
            kind, value = self._connection.recv()
            if kind != "line":
                return kind, value
            self.lines.append(value)

    def answer(self, patience_s=gateways.PATIENCE_S):
        kind, value = self._next(patience_s)
        if kind == "error":
            raise TrainerError(value["kind"], value)
        return value

    def take(self):
        """The answer, if it is there: ("done" or "error", value), else None."""
        while self._connection.poll(0):
            kind, value = self._connection.recv()
            if kind != "line":
                return kind, value
            self.lines.append(value)
            del self.lines[:-100]
        return None

    def do(self, what, **arguments):
        self.tell(what, **arguments)
        return self.answer()

    def answered(self):
        """Whether an answer (not only lines) is there; keeps reading lines."""
        while self._connection.poll(0):
            kind, value = self._connection.recv()
            if kind != "line":
                self._unread = (kind, value)
                raise AssertionError(f"the trainer of {self.cluster} answered {kind} {value} too early")
            self.lines.append(value)
        return False

    def until_line(self, containing, patience_s=gateways.PATIENCE_S):
        """Waits until a line of the library holds `containing`, while the call goes on; the line."""
        def look():
            self.answered()
            return next((line for line in self.lines if containing in line), None)
        return gateways.until(look, f"the trainer of {self.cluster} says {containing!r}", patience_s)

    # What the tests ask for.

    def tell_outer(self, **arguments):
        arguments.setdefault("shapes", SHAPES)
        self.tell("outer", run=self.run, socket=self.socket, log=self.log_path, **arguments)

    def outer(self, **arguments):
        self.tell_outer(**arguments)
        return self.answer()

    def open(self, **arguments):
        return self.do("open", run=self.run, socket=self.socket, **arguments)

    def applied(self):
        """[(life, fragment, round, SHA-256)] of the values that it went on from, in order. A life begins with a join."""
        if not os.path.exists(self.log_path):
            return []
        with open(self.log_path) as file:
            lines = file.read().split("\n")[:-1]  # a trainer that was killed may have left part of one
        return [tuple(json.loads(line)) for line in lines]

    def steps(self, count, **arguments):
        return self.do("steps", count=count, **arguments)

    def finish(self):
        return self.do("finish")

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.process.join()

    def end(self):
        if self.process.is_alive():
            self.kill()
        self._connection.close()


def both(trainers, what, **arguments):
    """The same call on several trainers at once; their answers in order."""
    for trainer in trainers:
        trainer.tell(what, **arguments)
    return [trainer.answer() for trainer in trainers]


def join_all(group, seeds=None, **arguments):
    """A joined trainer of each cluster, in order."""
    trainers = [Trainer(group, cluster) for cluster in group.clusters]
    for trainer, seed in zip(trainers, seeds or range(1, len(trainers) + 1)):
        trainer.tell_outer(seed=seed, **arguments)
    for trainer in trainers:
        trainer.joined = trainer.answer()
    return trainers


join_both = join_all


def main():
    """Of every test file."""
    if importlib.util.find_spec("torch") is None:
        print("skipped: torch is missing (package python3-torch)")
        sys.exit(77)
    unittest.main(verbosity=2)
