#!/usr/bin/python3
"""Whether PTX rounds each operation as the format says: nothing fused, nothing approximate, no subnormal number
flushed. The build runs it on the kernels; whatever it finds would make other bytes on a GPU than on a CPU.

  check_ptx.py FILE.ptx
"""
import re
import sys

FLOAT = re.compile(r"\b(fma|mad|mul|add|sub|div|rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh)"
                   r"((?:\.\w+)*\.(?:f32|f32x2|f16|f16x2|bf16|bf16x2|f64))\b")
ROUNDED = {"mul", "add", "sub", "div", "rcp", "sqrt"}


def violations(ptx):
    found = []
    for line in ptx.splitlines():
        code = line.split("//")[0]
        for operation, kind in FLOAT.findall(code):
            words = kind.split(".")
            if operation not in ROUNDED:
                found.append(f"{operation}{kind}: fused or approximate")
            elif "rn" not in words:
                found.append(f"{operation}{kind}: not rounded to nearest by name, so that ptxas may fuse it")
            elif "f32" not in words and "f32x2" not in words:
                found.append(f"{operation}{kind}: not in fp32")
        for modifier in re.findall(r"\.(ftz|approx|full|sat)\b", code):
            found.append(f"{modifier}: {code.strip()}")
    return found


def check(ptx):
    """What is wrong with the PTX of all kernels; PTX without any arithmetic is not theirs."""
    found = violations(ptx)
    if ptx.count(".entry") < 20 or len(FLOAT.findall(ptx)) <= 100:
        found.append("kernels or their arithmetic are missing")
    return found


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 64
    with open(sys.argv[1], encoding="utf-8") as file:
        found = check(file.read())
    for line in found:
        print(f"{sys.argv[1]}: {line}; see nvcc's flags in cmake/CausewayCuda.cmake", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
