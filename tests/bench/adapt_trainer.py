#!/usr/bin/python3
"""A trainer whose local steps only take time: one JSON line for each result that it used, until its input ends."""
import argparse
import json
import select
import sys
import time

import torch

import causeway


class Vector(torch.nn.Module):
    def __init__(self, elements):
        super().__init__()
        self.values = torch.nn.Parameter(torch.zeros(elements))


def told_to_stop():
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--elements", type=int, required=True)
    parser.add_argument("--step", type=float, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Vector(options.elements)
    change = 1e-4 * torch.randn(options.elements)
    outer = causeway.Outer(model, run=options.run, socket=options.socket)
    before = outer.stats()
    due = time.monotonic()
    stopping = False
    while not stopping:
        with torch.no_grad():
            model.values.add_(change)
        due = max(due + options.step, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        outer.step()
        now = outer.stats()
        if now["rounds"] == before["rounds"]:
            continue
        print(json.dumps({"exchange_s": now["exchange_s"] - before["exchange_s"],
                          "wire_bytes": now["wire_bytes"] - before["wire_bytes"],
                          "stalled_s": now["stall_s"] - before["stall_s"]}), flush=True)
        before = now
        stopping = told_to_stop()
    outer.finish()


if __name__ == "__main__":
    main()
