#!/usr/bin/python3
"""The kernels' PTX rounds each operation as the format says: nothing fused, nothing approximate, no subnormal
number flushed, on every architecture. Also shows that the check finds what it is for.

  ptx_test.py NVCC ARCHITECTURES FLAG...     NVCC empty: skipped (77), since there is no compiler
"""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
KERNELS = os.path.join(ROOT, "compression", "device", "kernels.cu")
CHECK = os.path.join(ROOT, "compression", "device", "check_ptx.py")
sys.path.insert(0, os.path.dirname(CHECK))
import check_ptx  # noqa: E402
from check_ptx import violations  # noqa: E402


def compile_ptx(source, architecture, flags):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.ptx")
        subprocess.run([NVCC, *flags, "-I", ROOT, f"-arch=compute_{architecture}", "-ptx", source, "-o", out],
                       check=True, capture_output=True, text=True, timeout=300)
        with open(out, encoding="utf-8") as file:
            return file.read()


PLANTED = """
__global__ void Planted(float* x) {
  float product = x[1] * x[2];
  x[0] = x[0] + product;
  x[3] = x[4] / x[5];
}
"""


class Ptx(unittest.TestCase):

    def test_kernels_round_each_operation(self):
        for architecture in ARCHITECTURES:
            with self.subTest(architecture):
                ptx = compile_ptx(KERNELS, architecture, FLAGS)
                self.assertEqual(check_ptx.check(ptx), [])

    def test_the_check_finds_what_it_is_for(self):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "planted.cu")
            with open(source, "w", encoding="utf-8") as file:
                file.write(PLANTED)
            self.assertEqual(violations(compile_ptx(source, ARCHITECTURES[0], FLAGS)), [])
            fusing = [flag for flag in FLAGS if "fmad" not in flag]
            self.assertTrue(any(v.startswith("fma.") for v in
                                violations(compile_ptx(source, ARCHITECTURES[0], fusing))))
            fast = " ".join(violations(compile_ptx(source, ARCHITECTURES[0], ["--use_fast_math"])))
            self.assertIn("ftz", fast)
            self.assertIn("approx", fast)
            # As the build runs it.
            bad = os.path.join(folder, "bad.ptx")
            with open(bad, "w", encoding="utf-8") as file:
                file.write("fma.rn.f32 %f1, %f2, %f3, %f4;")
            build = subprocess.run([CHECK, bad], capture_output=True, text=True, timeout=60)
            self.assertEqual(build.returncode, 1)
            self.assertIn("fma.rn.f32: fused", build.stderr)
        self.assertEqual(len(violations("add.f32 %f1, %f2, %f3;")), 1)
        self.assertEqual(violations("add.rn.f32 %f1, %f2, %f3; // add.f32"), [])


if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1]:
        print("skipped: this build has no CUDA compiler (nvcc), so there is no PTX to check")
        sys.exit(77)
    NVCC, ARCHITECTURES, FLAGS = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
    unittest.main(argv=sys.argv[:1])
