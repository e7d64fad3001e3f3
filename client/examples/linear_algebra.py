"""Settings of OpenBLAS, which Debian's torch multiplies matrices with; they count at its first load only."""
import os


def prepare():
    """One thread a rank, and kernels that fit the processor.

    An OpenBLAS older than the processor it runs on does not recognise it and falls back to SSE3 kernels, which
    made this model's step three times slower (0.3.21 on a Granite Rapids). The user's own settings stay.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    flags = _processor_flags()
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= flags:
        os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    elif {"avx2", "fma"} <= flags:
        os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")


def _processor_flags():
    try:
        with open("/proc/cpuinfo") as file:
            return set(next((line for line in file if line.startswith("flags")), "").split())
    except OSError:
        return set()
