"""One connection to the gateway: causeway.h as Python methods, with waits that can be interrupted.

Every wait is a loop of short waits of the library: between two of them Python delivers signals (Ctrl-C),
other local ranks hear that this one still waits, and every few seconds a line says who is awaited.
Knows nothing of torch.
"""

import ctypes
import logging
import time

from . import _library as c
from . import errors

log = logging.getLogger("causeway")

_SLICE_MS = 1000  # one wait inside the library
_PASSING = (errors.NUMBERS[errors.Timeout], errors.NUMBERS[errors.Stalled])
_REFUSED_S = 0.05  # between tries where a gateway answers at once that it is not ready
_WEIGHT_MAX = (1 << 64) - 1


def whole_weight(weight):
    """A weight as an int. ctypes would cut off what does not fit: -1 would outweigh all other clusters."""
    try:
        whole = int(weight)
    except (TypeError, ValueError, OverflowError):  # int() of no number, NaN, infinity
        whole = -1
    if not 0 <= whole <= _WEIGHT_MAX or whole != weight:
        raise errors.InvalidCall(f"weight must be a whole number of samples or tokens, 0 or more, not {weight!r}")
    return whole


class Result:
    """How an operation ended."""

    __slots__ = ("state", "round", "participants", "staleness", "raw_bytes", "wire_bytes", "exchange_s",
                 "nonfinite", "fragment")

    def __init__(self, raw):
        self.state = c.STATES.get(raw.state, "pending")
        self.round = raw.round
        self.participants = raw.participants
        self.staleness = raw.staleness
        self.raw_bytes = raw.raw_bytes
        self.wire_bytes = raw.wire_bytes
        self.exchange_s = raw.exchange_us / 1e6
        self.nonfinite = bool(raw.nonfinite)
        self.fragment = raw.fragment

    def __repr__(self):
        return f"Result({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class Wanted(Exception):
    """While an operation is waited for, those that it waits for wait for this cluster's work on ``fragment``."""

    def __init__(self, fragment):
        super().__init__(f"others wait for fragment {fragment}")
        self.fragment = fragment


class Handle:
    """``tick`` is called about once a second while a call waits."""

    def __init__(self, run, socket=None, rank=0, world=1, connect_timeout=5.0, progress_interval=5.0):
        self._library = c.load()
        self._handle = ctypes.c_void_p()
        self._progress_interval = progress_interval
        self.tick = None
        self.waited_s = 0.0  # in any call
        self.stalled_s = 0.0  # for results
        self.layout = None
        options = c.COptions(struct_bytes=ctypes.sizeof(c.COptions), rank=rank, world=world,
                             connect_timeout_ms=int(connect_timeout * 1000), run=run.encode(),
                             socket_path=socket.encode() if socket is not None else None)
        self._open(options, connect_timeout)

    def _open(self, options, connect_timeout):
        # In slices, for Ctrl-C's sake.
        end = time.monotonic() + connect_timeout
        while True:
            left = max(0.0, end - time.monotonic())
            options.connect_timeout_ms = int(min(left, _SLICE_MS / 1000) * 1000)
            code = self._library.cw_open(ctypes.byref(options), ctypes.byref(self._handle))
            try:
                return c.check(code)
            except errors.Retryable:
                if time.monotonic() >= end:
                    raise

    def close(self):
        if self._handle:
            self._library.cw_close(self._handle)
            self._handle = ctypes.c_void_p()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def _wait(self, call, timeout_s, what, op=0):
        """Repeats ``call(slice_ms)`` until it neither times out nor meets a gateway that is away."""
        began = time.monotonic()
        said = began
        try:
            while True:
                left = None if timeout_s is None else timeout_s - (time.monotonic() - began)
                slice_ms = _SLICE_MS if left is None else max(0, min(_SLICE_MS, int(left * 1000)))
                try:
                    return c.check(call(slice_ms))
                except errors.Interrupted:
                    pass  # Python has run its handler, or does so now
                except (errors.Timeout, errors.Stalled, errors.GatewayLost, errors.NotReady,
                        errors.Draining) as problem:
                    if left is not None and left <= 0:
                        raise
                    if isinstance(problem, (errors.NotReady, errors.Draining)):
                        time.sleep(_REFUSED_S)
                if self.tick is not None:
                    self.tick()
                now = time.monotonic()
                if now - said >= self._progress_interval:
                    said = now
                    log.warning("%s: waiting since %.0f s for %s", what, now - began, self.awaited(op))
        finally:
            self.waited_s += time.monotonic() - began

    def awaited(self, op=0):
        """Who is waited for, in words."""
        text = ctypes.create_string_buffer(600)
        code = self._library.cw_await_text(self._handle, op, text, len(text))
        try:
            c.check(code)
        except errors.Error as problem:
            return str(problem)
        return text.value.decode(errors="replace")

    def join(self, tensors, outer, init="run", local_steps=0):
        """``tensors``: an array of CTensor. Returns CLayout."""
        if init not in c.INIT:
            raise errors.InvalidCall(f"init must be one of {', '.join(c.INIT)}, not {init!r}")
        options = c.CJoinOptions(struct_bytes=ctypes.sizeof(c.CJoinOptions), init=c.INIT[init],
                                 outer=1 if outer else 0, local_steps=local_steps)
        layout = c.CLayout(struct_bytes=ctypes.sizeof(c.CLayout))
        c.check(self._library.cw_join(self._handle, ctypes.byref(options), tensors, len(tensors),
                                      ctypes.byref(layout)))
        self.layout = layout
        return layout

    @property
    def wait_timeout_s(self):
        """Of the run's configuration; None: for ever."""
        if self.layout is None or self.layout.wait_timeout_ms == 0:
            return None
        return self.layout.wait_timeout_ms / 1000

    def placement(self, tensor):
        out = c.CPlacement()
        c.check(self._library.cw_placement_of(self._handle, tensor, ctypes.byref(out)))
        return out

    def fragment(self, index):
        out = c.CFragment()
        c.check(self._library.cw_fragment_of(self._handle, index, ctypes.byref(out)))
        return out

    def use_cuda(self, device, stream):
        """Tensors of later calls may lie on this device, in the order of this stream (its address; 0: the default
        one). Whether the gateway encodes there."""
        cuda = c.CCuda(struct_bytes=ctypes.sizeof(c.CCuda), device=device, stream=stream or None)
        shared = ctypes.c_int()
        c.check(self._library.cw_cuda_use(self._handle, ctypes.byref(cuda), ctypes.byref(shared)))
        return bool(shared.value)

    def offer(self, slices):
        c.check(self._library.cw_offer(self._handle, slices, len(slices)))

    def ready(self):
        """(whether the run's values differ from ours and replace them, number of clusters)"""
        start, members = ctypes.c_int(), c.u32()
        self._wait(lambda ms: self._library.cw_ready(self._handle, ms, ctypes.byref(start),
                                                     ctypes.byref(members)),
                   self.wait_timeout_s, "the run's start")
        return start.value == c.REPLACE_ALL, max(1, members.value)

    def submit(self, fragment, slices, weight, origin=c.ORIGIN_BASE, asynchronous=False, label=None):
        """Returns the operation's id. Waits for a gateway that is away, never for other clusters."""
        submission = c.CSubmission(struct_bytes=ctypes.sizeof(c.CSubmission), fragment=fragment,
                                   base_round=c.BASE_CURRENT, weight=whole_weight(weight), origin=origin,
                                   asynchronous=1 if asynchronous else 0,
                                   label=label.encode() if label else None)
        op = c.u64()

        def attempt(slice_ms):
            code = self._library.cw_submit(self._handle, ctypes.byref(submission), slices, len(slices),
                                           ctypes.byref(op))
            if code == errors.NUMBERS[errors.GatewayLost]:
                self._library.cw_reconnect(self._handle, slice_ms)
            return code

        self._wait(attempt, self.wait_timeout_s, f"fragment {fragment}: submitting")
        return op.value

    def test(self, op):
        """The result if the operation has ended, else None."""
        raw = c.CResult(struct_bytes=ctypes.sizeof(c.CResult))
        c.check(self._library.cw_test(self._handle, op, ctypes.byref(raw)))
        result = Result(raw)
        return None if result.state in ("pending", "stalled") else result

    def wait(self, op, what="the exchange", timeout_s="run", attentive=False):
        """``attentive``: raises Wanted once others have waited a while for other work, which comes first then."""
        raw = c.CResult(struct_bytes=ctypes.sizeof(c.CResult))

        def attempt(slice_ms):
            code = self._library.cw_wait(self._handle, op, slice_ms, ctypes.byref(raw))
            if attentive and code in _PASSING and raw.wanted > 0:
                raise Wanted(raw.wanted - 1)
            return code

        limit = self.wait_timeout_s if timeout_s == "run" else timeout_s
        began = time.monotonic()
        try:
            self._wait(attempt, limit, what, op)
        finally:
            self.stalled_s += time.monotonic() - began
        return Result(raw)

    def apply(self, op, mode, mix, slices):
        c.check(self._library.cw_apply(self._handle, op, mode, mix, slices, len(slices)))

    def read(self, fragment, round, slices):
        c.check(self._library.cw_read(self._handle, fragment, round, slices, len(slices)))

    def applied(self, fragment, round):
        c.check(self._library.cw_applied(self._handle, fragment, round))

    def abandon(self, op):
        c.check(self._library.cw_abandon(self._handle, op))

    def finish(self):
        """SHA-256 of the run's values, once all clusters are known to hold them."""
        values_hash = (c.u8 * 32)()
        self._wait(lambda ms: self._library.cw_finish(self._handle, ms, values_hash),
                   self.wait_timeout_s, "the run's end")
        return bytes(values_hash)

    def leave(self):
        c.check(self._library.cw_leave(self._handle))
