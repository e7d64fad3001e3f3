#!/usr/bin/python3
"""Trains the small GPT on the King James text: one cluster of a run, all of its ranks.

    train.py --cluster 0 --clusters 2 --mode outer --run demo --socket /run/causeway/trainer.sock

Modes: `alone` (no exchange), `every-step` (gradients averaged over all clusters each step), `outer` (the
run's outer rule: local steps, then combined parameters). Needs Debian's python3-torch and bible-kjv.

Progress goes to --progress (a file or pipe) as JSON lines with an `event` each: `joined`, `step`,
`evaluation`, `result`. `time` in them is the monotonic clock in seconds. The last line, `result`, carries the
validation loss in bits a byte over 384 held-out sequences and the SHA-256 of all parameters on each rank.
"""
import argparse
import hashlib
import json
import logging
import math
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import linear_algebra  # noqa: E402

linear_algebra.prepare()  # before torch loads its library

import torch  # noqa: E402

import corpus  # noqa: E402
import exchange  # noqa: E402
import local_ranks  # noqa: E402
from flat_adamw import FlatAdamW, Schedule  # noqa: E402
from flat_muon import FlatMuon  # noqa: E402
from gpt import Gpt  # noqa: E402

MODEL_SEED = 1000
EVALUATION_BATCH = 32
QUICK_EVALUATION_EVERY = 4  # of the validation sequences, while training


class Progress:
    """JSON lines; rank 0 writes, the others' calls do nothing."""

    def __init__(self, path, leads):
        self.file = None
        if leads:
            self.file = open(path, "a", buffering=1) if path else sys.stdout

    def write(self, event, **fields):
        if self.file:
            line = {"event": event, "time": round(time.monotonic(), 6), **fields}
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()


class Trainer:
    def __init__(self, local, options, text):
        self.local, self.options = local, options
        torch.manual_seed(MODEL_SEED + options.seed)
        self.model = Gpt()
        if options.optimizer == "muon":
            self.optimizer = FlatMuon(self.model, options.learning_rate)
        else:
            self.optimizer = FlatAdamW(self.model.parameters(), options.learning_rate)
        self.schedule = Schedule(options.learning_rate, options.steps)
        training, held_out = corpus.split(text)
        self.sampler = corpus.Sampler(training, options.cluster, options.clusters, local.rank,
                                      local.ranks, options.batch, self.model.context, options.seed)
        self.validation = corpus.validation_set(held_out, self.model.context)
        self.progress = Progress(options.progress, local.leads)
        self.evaluation_s = 0.0
        begin = time.monotonic()
        self.exchange = self.make_exchange()
        self.progress.write("joined", seconds=time.monotonic() - begin,
                            parameters=self.optimizer.flat.numel())

    def make_exchange(self):
        options = self.options
        tokens = options.batch * self.model.context
        if options.mode == "every-step":
            return exchange.EveryStep(self.optimizer, options.run, options.socket, tokens)
        if options.mode == "outer":
            return exchange.OuterRule(self.model, self.optimizer, options.run, options.socket, tokens)
        return exchange.NoExchange()

    def step(self, step):
        """One optimizer step; returns the mean training loss and whether a rank wishes to stop."""
        self.optimizer.param_groups[0]["lr"] = self.schedule.at(step)
        self.optimizer.zero_grad()
        loss = self.model(*self.sampler.next())
        loss.backward()
        # The wish to stop is averaged with the gradients, so every rank of every cluster stops at one step.
        self.optimizer.status[0] = loss.item()
        self.optimizer.status[1] = float(time.monotonic() > self.deadline)
        self.local.average(self.optimizer.reduced)
        counts = self.exchange.after_backward()
        loss, stop = self.optimizer.status.tolist()
        if counts:
            self.optimizer.step()
        self.exchange.after_step()
        return loss / math.log(2), stop > 0

    def train(self):
        begin = time.monotonic()
        joined_blocked_s = self.exchange.blocked_s
        self.deadline = begin + (self.options.seconds or math.inf)
        done = 0
        for step in range(self.options.steps):
            loss, stop = self.step(step)
            done = step + 1
            self.progress.write("step", step=done, loss_bits=round(loss, 5),
                                blocked_s=round(self.exchange.blocked_s - joined_blocked_s, 6),
                                evaluation_s=round(self.evaluation_s, 6),
                                rounds=self.exchange.statistics()["rounds"])
            if stop:
                break
            if self.options.evaluate_every and done % self.options.evaluate_every == 0:
                self.quick_evaluation(done)
        end = time.monotonic()
        blocked_s = self.exchange.blocked_s - joined_blocked_s
        before = self.exchange.statistics()
        self.exchange.finish()
        self.progress.write("finished", step=done)
        bits = self.evaluate(slice(None))
        self.progress.write("result", step=done, bits_per_byte=bits, wall_s=end - begin,
                            blocked_s=blocked_s, evaluation_s=self.evaluation_s,
                            rounds=self.exchange.statistics()["rounds"],
                            parameters_sha256=self.local.gather(self.parameters_hash()),
                            statistics={**self.exchange.statistics(),
                                        **{k: before[k] for k in ("stall_s", "overhead_s") if k in before}})

    def quick_evaluation(self, step):
        begin = time.monotonic()
        bits = self.evaluate(slice(None, None, QUICK_EVALUATION_EVERY))
        self.evaluation_s += time.monotonic() - begin
        self.progress.write("evaluation", step=step, bits_per_byte=bits)

    @torch.no_grad()
    def evaluate(self, which):
        """Validation loss in bits a byte; the ranks share the sequences out."""
        tokens, targets = (part[which][self.local.rank::self.local.ranks]
                           for part in self.validation)
        total = torch.zeros(2)
        for i in range(0, len(tokens), EVALUATION_BATCH):
            batch = slice(i, i + EVALUATION_BATCH)
            count = len(tokens[batch])
            total += torch.tensor([self.model(tokens[batch], targets[batch]).item() * count, count])
        self.local.average(total)
        return (total[0] / total[1]).item() / math.log(2)

    def parameters_hash(self):
        return hashlib.sha256(self.optimizer.flat.numpy().tobytes()).hexdigest()


def run_rank(local, options, text):
    Trainer(local, options, text).train()
    local.close()


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", type=int, default=0, help="number of this cluster, from 0")
    parser.add_argument("--clusters", type=int, default=1)
    parser.add_argument("--mode", choices=["alone", "every-step", "outer"], default="alone")
    parser.add_argument("--run", default="demo", help="as the gateway's configuration names it")
    parser.add_argument("--socket", help="of the gateway (default: $CAUSEWAY_SOCKET)")
    parser.add_argument("--ranks", type=int, default=2, help="processes of this cluster")
    parser.add_argument("--batch", type=int, default=4, help="sequences of this cluster each step")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seconds", type=float, help="stop after this time (every-step only)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--optimizer", choices=["adamw", "muon"], default="adamw")
    parser.add_argument("--evaluate-every", type=int, default=0, metavar="STEPS")
    parser.add_argument("--text", help="train on this file instead of the King James text")
    parser.add_argument("--progress", metavar="FILE", help="JSON lines (default: standard output)")
    options = parser.parse_args()
    if not 0 <= options.cluster < options.clusters:
        parser.error("--cluster is a number from 0 to --clusters - 1")
    if options.seconds and options.mode == "outer":
        parser.error("--seconds needs an exchange every step, for all to stop at the same one")
    if options.batch % options.ranks or min(options.batch, options.ranks, options.steps) < 1:
        parser.error("--batch is shared out evenly among --ranks")
    return options


def main():
    options = parse_options()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    text = corpus.read_text(options.text)
    return local_ranks.launch(run_rank, options.ranks, options, text)


if __name__ == "__main__":
    sys.exit(main())
