#!/usr/bin/python3
"""A trainer that does nothing but exchange: one round for each line on standard input, one JSON line back."""
import argparse
import hashlib
import json
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
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    gradient = torch.randn(options.elements)
    tensor = torch.empty_like(gradient)
    run = causeway.open(options.run, socket=options.socket)
    say(ready=True)
    for _ in sys.stdin:
        tensor.copy_(gradient)
        begin = time.monotonic()
        run.average([tensor], names=["gradient"])
        say(begin=begin, end=time.monotonic(), sha256=hashlib.sha256(tensor.numpy()).hexdigest())
    run.close()


if __name__ == "__main__":
    main()
