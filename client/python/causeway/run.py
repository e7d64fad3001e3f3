"""Gradient averaging: every step's gradients, summed over clusters, weighted, in place."""

import logging
import time

from . import _library as c
from . import arguments
from . import errors
from . import local_group
from . import tensors as tensors_
from .handle import Handle, whole_weight
from .hook import Backward

log = logging.getLogger("causeway")


class Averaged:
    """What ``Run.average`` says of its result. Where ``nonfinite``, every cluster skips the step."""

    def __init__(self, results, blocked_s):
        self.round = max(r["round"] for r in results)
        self.participants = min(r["participants"] for r in results)
        self.included = all(r["included"] for r in results)
        self.nonfinite = any(r["nonfinite"] for r in results)
        self.raw_bytes = sum(r["raw_bytes"] for r in results)
        self.wire_bytes = sum(r["wire_bytes"] for r in results)
        self.exchange_s = max(r["exchange_s"] for r in results)
        self.blocked_s = blocked_s

    def __repr__(self):
        return f"Averaged({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


class Pending:
    """A submitted average: ``test()`` without waiting, ``wait()`` for the result in the tensors."""

    def __init__(self, run, ops, began):
        self._run = run
        self._ops = ops
        self._began = began
        self._averaged = None

    def test(self):
        """True once ``wait`` would not block. On the leader only."""
        if self._averaged is not None:
            return True
        handle = self._run._handle
        if handle is None:
            raise errors.InvalidCall("only the cluster's rank 0 can test; wait on every rank")
        return all(isinstance(op, errors.Error) or handle.test(op) is not None for _, op in self._ops)

    def wait(self):
        if self._averaged is None:
            self._averaged = self._run._collect(self._ops, self._began)
        return self._averaged


def check_optimizer(optimizer, run, momentum):
    """Refuses an optimizer that does not go with gradients whose momentum the gateways keep."""
    if momentum == 0:
        return
    if optimizer is None:
        log.warning("run %s: the gateways keep the gradients' momentum (%g) in place of the optimizer's: SGD needs "
                    "momentum=0, Adam and its kind do not go with it; causeway.open(optimizer=...) checks it", run,
                    momentum)
        return
    kind = type(optimizer).__name__
    for group in optimizer.param_groups:
        if group.get("momentum"):
            raise errors.AlgorithmError(
                f"run '{run}': the gateways keep the gradients' momentum ({momentum:g}), which replaces that of "
                f"{kind} ({group['momentum']:g}): give it momentum=0, or remove momentum from the run's algorithm")
        if "betas" in group or "alpha" in group:
            raise errors.AlgorithmError(
                f"run '{run}': gradients with momentum ({momentum:g}) of the gateways come seldom and large, which "
                f"{kind} takes for their variance: use SGD, or remove momentum from the run's algorithm")


class Run:
    """A trainer's place in a run whose rule is gradient averaging. Made by ``causeway.open``.

    With ``process_group`` every rank of the cluster calls the same methods; the group's rank 0 talks to the
    gateway and the result reaches all. Gradients must already be reduced within the cluster (ddp_hook does).
    """

    def __init__(self, run, socket=None, rank=0, world=1, process_group=None, connect_timeout=5.0,
                 progress_interval=5.0, model=None, weight=1, optimizer=None):
        self.run = arguments.run_name(run)
        self.weight = whole_weight(weight)  # of ddp_hook's steps
        socket = arguments.path("socket", socket)
        rank, world = arguments.place(rank, world, process_group)
        connect_timeout = arguments.seconds("connect_timeout", connect_timeout)
        progress_interval = arguments.seconds("progress_interval", progress_interval)
        if model is not None:
            arguments.model(model)
        self._optimizer = optimizer  # only looked at when the run is joined
        self.last = None  # Averaged of the newest step
        self.backward = None
        self._group = local_group.of(process_group)
        self._handle = None
        self._set = None
        self._pending = None
        self._stats = {"steps": 0, "rounds": 0, "blocked_s": 0.0, "raw_bytes": 0, "wire_bytes": 0,
                       "exchange_s": 0.0, "nonfinite": 0}
        self._first = self._last = None

        def connect():
            self._handle = Handle(run, socket, rank, world, connect_timeout, progress_interval)

        self._group.lead(connect)
        if model is not None:
            self.backward = Backward(self, model, process_group)

    def _join(self, tensors, names):
        names = names or [f"gradient.{index}" for index in range(len(tensors))]
        if len(names) != len(tensors):
            raise errors.InvalidCall(f"names: {len(names)} for {len(tensors)} tensors; give one for each")
        for name in names:
            arguments.text("names", name, "a name for each tensor")
        self._set = tensors_.TensorSet(
            [tensors_.Entry(name, tensor) for name, tensor in zip(names, tensors)])

        def join():
            layout = self._handle.join(self._set.schema(), outer=False)
            check_optimizer(self._optimizer, self.run, layout.momentum)
            self._handle.offer((c.CSlice * 0)())
            self._handle.ready()
            count = len(self._set.entries)
            return [layout.fragments, [self._handle.placement(i).fragment for i in range(count)]]

        try:
            fragments, fragment_of = self._group.lead(join, self._handle)
        except errors.Error:
            self._set = None
            raise
        self._set.place(fragment_of, fragments)
        if not self._group.alone:
            self._set.use_flats(self._group.share([self._set.flat(f)[0] for f in range(fragments)]))

    def _take(self, tensors):
        """The tensors of this call become the set's; they must look like the first call's."""
        if len(tensors) != len(self._set.entries):
            raise errors.SchemaError(f"{len(tensors)} tensors, but the run was joined with "
                                     f"{len(self._set.entries)}")
        for entry, tensor in zip(self._set.entries, tensors):
            if tensor.shape != entry.tensor.shape or tensor.dtype != entry.tensor.dtype:
                raise errors.SchemaError(
                    f"tensor '{entry.name}' is {tensor.dtype} {list(tensor.shape)}, but the run was joined "
                    f"with {entry.tensor.dtype} {list(entry.tensor.shape)}", tensor=entry.name)
            entry.tensor = tensor

    def submit(self, tensors, weight=1, names=None):
        """Starts averaging; the tensors may be overwritten at once, and hold the mean after ``wait``."""
        began = time.monotonic()
        if not isinstance(tensors, (list, tuple)):
            tensors = [tensors]
        if not tensors:
            raise errors.InvalidCall("tensors: there is none to average")
        for index, tensor in enumerate(tensors):
            if not hasattr(tensor, "data_ptr"):  # a gradient that is None, above all
                raise errors.InvalidType(f"tensors[{index}] must be a torch tensor, not {tensor!r}: give those of "
                                         "parameters that no loss reached as zeros, on every cluster")
        if self._pending is not None:
            raise errors.Busy("the previous average was not waited for")
        weight = whole_weight(weight)
        if self._set is None:
            self._join(tensors, names)
        self._take(tensors)
        self._first = self._first or began
        ops = [[fragment, self._submit_fragment(fragment, weight)]
               for fragment, indices in enumerate(self._set.fragments) if indices]
        self._stats["blocked_s"] += time.monotonic() - began
        self._pending = Pending(self, ops, began)
        return self._pending

    def _submit_fragment(self, fragment, weight):
        """The operation, or what went wrong, on the leader; the other ranks hear of it when they collect."""
        if not self._group.leader:
            return None
        slices, hosts = self._set.read_slices(self._set.fragments[fragment])
        try:
            return self._handle.submit(fragment, slices, weight)
        except errors.Error as problem:
            return problem
        finally:
            del hosts

    # For ddp_hook's thread.

    def join_gradients(self, tensors, names):
        """Joins where that is still to be done; the fragments' tensors, by index."""
        if self._set is None:
            self._join(tensors, names)
        self._first = self._first or time.monotonic()
        return self._set.fragments

    def submit_fragment(self, fragment):
        return self._submit_fragment(fragment, self.weight)

    def collect_fragments(self, ops, began):
        self.last = self._collect(ops, began)

    def _collect(self, ops, began):
        entered = time.monotonic()

        def finish():
            results = []
            for fragment, op in ops:
                if isinstance(op, errors.Error):
                    raise op
                result = self._handle.wait(op, "the gradients' average")
                results.append({"round": result.round, "participants": result.participants,
                                "included": result.state == "committed", "nonfinite": result.nonfinite,
                                "raw_bytes": result.raw_bytes, "wire_bytes": result.wire_bytes,
                                "exchange_s": result.exchange_s})
            # Everything has arrived: from here on nothing waits.
            for fragment, op in ops:
                if self._group.alone:
                    slices, hosts = self._set.in_place_slices(fragment)
                    self._handle.apply(op, c.REPLACE, 0.0, slices)
                    self._set.commit(fragment, hosts)
                else:
                    slices, hosts = self._set.staged_slices(fragment)
                    self._handle.apply(op, c.REPLACE, 0.0, slices)
            for (fragment, op), result in zip(ops, results):
                self._handle.applied(fragment, result["round"])
            return results

        areas = [fragment for fragment, _ in ops]
        try:
            results = self._group.lead(finish, self._handle, areas)
        except errors.Error as problem:
            if not problem.retryable:
                self._pending = None
            raise
        self._pending = None
        if not self._group.alone:
            self._group.take(areas)
            for fragment in areas:
                self._set.unstage(fragment)
            self._group.taken()
        now = time.monotonic()
        self._last = now
        self._stats["blocked_s"] += now - entered
        self._stats["steps"] += 1
        averaged = self.last = Averaged(results, now - began) if results else None
        for result in results:
            self._stats["rounds"] += 1
            self._stats["raw_bytes"] += result["raw_bytes"]
            self._stats["wire_bytes"] += result["wire_bytes"]
            self._stats["exchange_s"] += result["exchange_s"]
            self._stats["nonfinite"] += 1 if result["nonfinite"] else 0
        return averaged

    def average(self, tensors, weight=1, names=None):
        """Replaces the tensors by their mean over clusters, weighted (samples or tokens). Blocks."""
        return self.submit(tensors, weight, names).wait()

    def stats(self):
        stats = dict(self._stats)
        wall = (self._last - self._first) if self._first is not None and self._last is not None else 0.0
        stats["wall_s"] = wall
        stats["compute_use"] = 1 - stats["blocked_s"] / wall if wall > 0 else 1.0
        return stats

    def finish(self):
        """Leaves once every cluster is known to hold the same last result."""

        if self.backward is not None:
            self.backward.stop()

        def end():
            if self._set is not None:
                self._handle.finish()
            self._handle.leave()
            self._handle.close()

        self._group.lead(end, self._handle)
        self._group.close()
        self._handle = None

    def close(self):
        """Leaves at once, without waiting for anybody."""
        if self._handle is not None:
            try:
                self._handle.leave()
            except errors.Error:
                pass  # already cut off: closing is all that is left
            self._handle.close()
            self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.finish()
        else:
            self.close()
