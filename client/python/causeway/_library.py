"""causeway.h in ctypes: structures, prototypes, and where the shared library is found."""

import ctypes
import os
import threading

from . import errors

ABI_VERSION = 1
WHOLE = 2 ** 64 - 1
BASE_CURRENT = -1
TIMEOUT_NONE = -1
TIMEOUT_RUN = -2
DELAY_AUTO = 0xFFFFFFFF

FP32, BF16, FP16 = 0, 1, 2
PARAMETER, BUFFER, FIXED = 0, 1, 2
INIT = {"run": 0, "mine": 1, "match": 2}
MATCH, REPLACE_ALL = 0, 1
CARRY, MIX, REPLACE = 0, 1, 2
ORIGIN_BASE, ORIGIN_OLDER = 0, 1
MEMORY_HOST, MEMORY_CUDA = 0, 1
STATES = {1: "pending", 2: "committed", 3: "excluded", 4: "stalled", 5: "failed", 6: "abandoned"}

u8, u32, u64, i32, i64 = (ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32,
                          ctypes.c_int64)


class CError(ctypes.Structure):
    _fields_ = [("code", i32), ("retryable", i32), ("rank", i64), ("round", i64),
                ("cluster", ctypes.c_char * 64), ("tensor", ctypes.c_char * 192),
                ("text", ctypes.c_char * 1024)]


class COptions(ctypes.Structure):
    _fields_ = [("struct_bytes", u32), ("rank", u32), ("world", u32), ("connect_timeout_ms", u32),
                ("run", ctypes.c_char_p), ("socket_path", ctypes.c_char_p)]


class CTensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", u8), ("group", u8), ("dimensions", u8),
                ("stage", u8), ("alias_of", i32), ("shape", u64 * 8)]


class CJoinOptions(ctypes.Structure):
    _fields_ = [("struct_bytes", u32), ("init", u8), ("outer", u8), ("zero", u8 * 2),
                ("local_steps", u32)]


class CLayout(ctypes.Structure):
    _fields_ = [("struct_bytes", u32), ("fragments", u32), ("tensors", u32), ("local_steps", u32),
                ("delay_steps", u32), ("mix", ctypes.c_float), ("apply_mode", u8), ("outer", u8),
                ("zero", u8 * 6), ("wait_timeout_ms", u64), ("peer_timeout_ms", u64),
                ("rule", ctypes.c_char * 32), ("codec", ctypes.c_char * 32),
                ("cluster", ctypes.c_char * 64), ("learning_rate", ctypes.c_float),
                ("momentum", ctypes.c_float), ("gateway_pid", u32), ("zero2", u32)]


class CFragment(ctypes.Structure):
    _fields_ = [("elements", u64), ("chunks", u32), ("dtype", u8), ("group", u8), ("zero", u8 * 2),
                ("base_round", i64), ("newest_round", i64)]


class CPlacement(ctypes.Structure):
    _fields_ = [("fragment", u32), ("zero", u32), ("first_element", u64), ("elements", u64)]


class CSlice(ctypes.Structure):
    _fields_ = [("tensor", u32), ("cast_dtype", u8), ("memory", u8), ("zero", u8 * 2), ("first", u64), ("count", u64),
                ("data", ctypes.c_void_p), ("out", ctypes.c_void_p), ("cast", ctypes.c_void_p)]


class CCuda(ctypes.Structure):
    _fields_ = [("struct_bytes", u32), ("device", i32), ("stream", ctypes.c_void_p), ("private_only", u8),
                ("zero", u8 * 7)]


class CSubmission(ctypes.Structure):
    _fields_ = [("struct_bytes", u32), ("fragment", u32), ("base_round", i64), ("weight", u64),
                ("origin", u8), ("asynchronous", u8), ("zero", u8 * 6), ("label", ctypes.c_char_p)]


class CResult(ctypes.Structure):
    _fields_ = [("struct_bytes", u32), ("fragment", u32), ("state", u8), ("in_doubt", u8),
                ("nonfinite", u8), ("zero", u8), ("wanted", u32), ("round", i64), ("participants", u32),
                ("staleness", u32), ("raw_bytes", u64), ("wire_bytes", u64), ("exchange_us", u64),
                ("awaited", ctypes.c_char * 256)]


_P = ctypes.POINTER
_PROTOTYPES = {
    "cw_abi_version": ([], u32),
    "cw_last_error": ([_P(CError)], None),
    "cw_open": ([_P(COptions), _P(ctypes.c_void_p)], ctypes.c_int),
    "cw_join": ([ctypes.c_void_p, _P(CJoinOptions), _P(CTensor), u32, _P(CLayout)], ctypes.c_int),
    "cw_fragment_of": ([ctypes.c_void_p, u32, _P(CFragment)], ctypes.c_int),
    "cw_placement_of": ([ctypes.c_void_p, u32, _P(CPlacement)], ctypes.c_int),
    "cw_cuda_use": ([ctypes.c_void_p, _P(CCuda), _P(ctypes.c_int)], ctypes.c_int),
    "cw_offer": ([ctypes.c_void_p, _P(CSlice), u32], ctypes.c_int),
    "cw_ready": ([ctypes.c_void_p, i64, _P(ctypes.c_int), _P(u32)], ctypes.c_int),
    "cw_submit": ([ctypes.c_void_p, _P(CSubmission), _P(CSlice), u32, _P(u64)], ctypes.c_int),
    "cw_test": ([ctypes.c_void_p, u64, _P(CResult)], ctypes.c_int),
    "cw_wait": ([ctypes.c_void_p, u64, i64, _P(CResult)], ctypes.c_int),
    "cw_poll_fd": ([ctypes.c_void_p], ctypes.c_int),
    "cw_apply": ([ctypes.c_void_p, u64, ctypes.c_int, ctypes.c_float, _P(CSlice), u32], ctypes.c_int),
    "cw_read": ([ctypes.c_void_p, u32, i64, _P(CSlice), u32], ctypes.c_int),
    "cw_applied": ([ctypes.c_void_p, u32, i64], ctypes.c_int),
    "cw_abandon": ([ctypes.c_void_p, u64], ctypes.c_int),
    "cw_await_text": ([ctypes.c_void_p, u64, ctypes.c_char_p, ctypes.c_size_t], ctypes.c_int),
    "cw_reconnect": ([ctypes.c_void_p, i64], ctypes.c_int),
    "cw_finish": ([ctypes.c_void_p, i64, _P(u8)], ctypes.c_int),
    "cw_leave": ([ctypes.c_void_p], ctypes.c_int),
    "cw_close": ([ctypes.c_void_p], None),
}

_lock = threading.Lock()
_loaded = None


def _candidates():
    named = os.environ.get("CAUSEWAY_LIBRARY")
    if named:
        return [named]
    beside = os.path.dirname(os.path.abspath(__file__))
    found = [os.path.join(beside, name) for name in ("libcauseway.so.0", "libcauseway.so")]
    return [path for path in found if os.path.exists(path)] + ["libcauseway.so.0", "libcauseway.so"]


def load():
    """The library, loaded once. Its calls release the GIL."""
    global _loaded
    with _lock:
        if _loaded is not None:
            return _loaded
        problems = []
        for path in _candidates():
            try:
                library = ctypes.CDLL(path)
            except OSError as problem:
                problems.append(str(problem))
                continue
            for name, (arguments, result) in _PROTOTYPES.items():
                function = getattr(library, name)
                function.argtypes = arguments
                function.restype = result
            version = library.cw_abi_version()
            if version != ABI_VERSION:
                raise errors.LibraryMissing(
                    f"{path} speaks version {version} of the interface, this package {ABI_VERSION}")
            _loaded = library
            return _loaded
    raise errors.LibraryMissing("libcauseway.so is not found: set CAUSEWAY_LIBRARY to its path (" +
                                "; ".join(problems) + ")")


def check(code):
    """Raises what the calling thread's latest failed call means."""
    if code == 0:
        return
    error = CError()
    load().cw_last_error(ctypes.byref(error))
    kind = errors.BY_NUMBER.get(code, errors.Error)
    text = error.text.decode(errors="replace")
    raise kind(text=text, cluster=error.cluster.decode(errors="replace"), rank=error.rank,
               tensor=error.tensor.decode(errors="replace"), round=error.round,
               retryable=bool(error.retryable))
