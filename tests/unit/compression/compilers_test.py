#!/usr/bin/python3
"""The codecs compiled by g++ and clang++ without optimisation, and by clang++ with all of it, make the golden
bytes, in every instruction set of this machine. (g++ -O3 is the ordinary build.) Only what computes is compiled
again; the test program and the rest of the library are the build's own objects. What bounds the time is ctest.

  compilers_test.py ROOT CACHE GXX CLANGXX FILE...    CLANGXX empty: its half is skipped; FILE: what is linked
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

ROOT, CACHE, GXX, CLANGXX, *LINKED = sys.argv[1:]
UNITS = {
    "kernels/unit_generic": [],
    "kernels/unit_v2": ["-march=x86-64-v2"],
    "kernels/unit_v3": ["-march=x86-64-v3"],
    "kernels/unit_v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
    "codec": [],
    "sparse": [],
    "low_rank": [],
    "low_rank_basis": [],
}
PACKAGES = ["absl_status", "absl_statusor", "absl_strings", "absl_str_format", "absl_span", "libzstd"]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_unit(compiler, level, unit, folder):
    out = os.path.join(folder, os.path.basename(unit) + ".o")
    cache = [CACHE] if CACHE else []
    run(*cache, compiler, level, *UNITS[unit], "-std=c++20", "-fPIC", "-pthread", "-ffp-contract=off", "-w", "-I", ROOT,
        "-c", os.path.join(ROOT, "compression", unit + ".cc"), "-o", out)
    return out


def check(compiler, level, objects, folder):
    program = os.path.join(folder, "golden")
    libraries = run("pkg-config", "--libs", *PACKAGES).split()
    # Ours come before the library that holds the same by the ordinary build: the linker takes the first.
    run(GXX, *objects, *LINKED, *libraries, "-pthread", "-o", program)
    said = run(program)
    print(f"{compiler} {level}: {said.strip().splitlines()[-1]}", flush=True)


def main():
    if os.uname().machine != "x86_64":
        print("skipped: the units are x86-64's")
        return 77
    chosen = [(GXX, "-O0")]
    if CLANGXX:
        chosen += [(CLANGXX, "-O0"), (CLANGXX, "-O3")]
    else:
        print("clang++ is not installed: its builds are not compared")
    with tempfile.TemporaryDirectory() as root, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = [os.path.join(root, f"{index}") for index in range(len(chosen))]
        objects = []  # of all at once, so that no core waits for the slowest unit of one compiler
        for (compiler, level), folder in zip(chosen, folders):
            os.mkdir(folder)
            objects.append([pool.submit(compile_unit, compiler, level, unit, folder) for unit in UNITS])
        for (compiler, level), made, folder in zip(chosen, objects, folders):
            check(compiler, level, [each.result() for each in made], folder)
    return 0 if CLANGXX else 77


if __name__ == "__main__":
    sys.exit(main())
