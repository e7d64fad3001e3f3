#!/usr/bin/python3
"""A trainer of one large tensor: rounds of an outer rule one after the other, a JSON line each, until its input ends."""
import argparse
import json
import select
import sys
import time

import torch

import causeway


def say(**fields):
    print(json.dumps(fields), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--elements", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--compute", type=float, required=True, help="seconds between two rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.zeros(options.elements))
    noise = torch.randn(1 << 16, generator=torch.Generator().manual_seed(options.seed)) * 1e-3
    outer = causeway.Outer(model, run=options.run, socket=options.socket)
    say(joined=time.monotonic())
    while not select.select([sys.stdin], [], [], options.compute)[0]:
        with torch.no_grad():
            model.weight[:noise.numel()] += noise
        begin = time.monotonic()
        for _ in range(outer.H):
            outer.step()
        say(begin=begin, end=time.monotonic())
    outer.finish()


if __name__ == "__main__":
    main()
