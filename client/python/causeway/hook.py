"""Every step's gradients through DistributedDataParallel: a communication hook.

    run = causeway.open("demo", model=model, weight=samples)     # model: the module inside of DDP
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(run, causeway.ddp_hook)

DDP hands over buckets of gradients while the backward pass goes on; each is averaged over the cluster's ranks,
and as soon as all gradients of a fragment are there the fragment is on its way to the other clusters. A bucket's
future completes with the mean over all clusters. Buckets are looked at by their parameters, so it does not
matter when DDP rebuilds them. ``run.last`` says of the newest step whether it is to be skipped (nonfinite).
"""

import queue
import threading
import time

import torch
import torch.distributed as distributed

from . import errors


class Backward:
    """The thread that brings a run's gradients out and back, in the order in which DDP hands them over.

    ``run`` gives: names and weight, and to this thread alone its joining, submitting and collecting.
    """

    def __init__(self, run, model, group):
        # Backward order: the gradients that are ready first share the first fragments.
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad and p.numel()]
        named.reverse()
        self._run, self._group = run, group
        self._ranks = distributed.get_world_size(group) if group is not None else 1
        self._names = [name for name, _ in named]
        self._parameters = [p for _, p in named]  # kept, so that their addresses stay theirs
        self._index = {p.data_ptr(): index for index, p in enumerate(self._parameters)}
        self._staged = [torch.empty(p.shape, dtype=p.dtype) for p in self._parameters]
        self._missing, self._ops, self._began = None, [], None
        self._buckets = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="causeway-ddp", daemon=True)
        self._thread.start()

    def add(self, bucket):
        future = torch.futures.Future()
        self._buckets.put((bucket.buffer(), bucket.gradients(), bucket.parameters(), bucket.is_last(), future))
        return future

    def stop(self):
        self._buckets.put(None)
        self._thread.join()

    def _work(self):
        waiting = []
        while True:
            bucket = self._buckets.get()
            if bucket is None:
                return
            waiting.append(bucket)
            try:
                self._out(bucket)
                if bucket[3]:
                    self._back(waiting)
                    waiting = []
            except Exception as problem:  # raised to whoever waits for the bucket: DDP's backward
                for *_, future in waiting:
                    future.set_exception(problem)
                waiting = []

    def _places(self, parameters, gradients):
        for parameter, gradient in zip(parameters, gradients):
            if parameter.numel() == 0:
                continue
            index = self._index.get(parameter.data_ptr())
            if index is None:
                raise errors.SchemaError("ddp_hook: a bucket holds a parameter that the model given to "
                                         "causeway.open does not have")
            yield index, gradient

    def _out(self, bucket):
        buffer, gradients, parameters, _, _ = bucket
        if self._began is None:
            self._began = time.monotonic()
            fragments = self._run.join_gradients(self._staged, self._names)
            self._missing = [set(indices) for indices in fragments]
            self._ops = []
        if self._ranks > 1:
            distributed.all_reduce(buffer, group=self._group)
            buffer.div_(self._ranks)
        for index, gradient in self._places(parameters, gradients):
            self._staged[index].copy_(gradient)
            for fragment, missing in enumerate(self._missing):
                if index in missing:
                    missing.remove(index)
                    if not missing:
                        self._ops.append([fragment, self._run.submit_fragment(fragment)])

    def _back(self, buckets):
        began, self._began = self._began, None
        absent = [index for missing in self._missing for index in missing]
        if absent:
            raise errors.SchemaError(f"ddp_hook: the backward pass gave no gradient of "
                                     f"'{self._names[absent[0]]}'; give DDP find_unused_parameters=True",
                                     tensor=self._names[absent[0]])
        self._run.collect_fragments(self._ops, began)
        for buffer, gradients, parameters, _, future in buckets:
            for index, gradient in self._places(parameters, gradients):
                gradient.copy_(self._staged[index])
            future.set_result(buffer)


def ddp_hook(run, bucket):
    """For ``register_comm_hook``; its state is a run of ``causeway.open(..., model=...)``."""
    if run.backward is None:
        raise errors.InvalidCall("ddp_hook: open the run with model=, the module that DDP wraps")
    return run.backward.add(bucket)
