"""Tensors of a GPU, handed to the library where they lie: copies follow the trainer's stream and wait for nobody.

The library looks for the driver when it is told of a device; where that fails, and for ranks that share results,
tensors go through host copies as any others do.
"""

import logging

import torch

from . import errors

log = logging.getLogger("causeway")


def _current_stream(device):
    return torch.cuda.current_stream(device).cuda_stream


class Stream:
    """The stream that the library's copies are ordered by. Torch's current one, wherever that changes to."""

    def __init__(self, handle, device, current):
        self._handle, self._device, self._current = handle, device, current
        self._told = current(device)
        self.shared = handle.use_cuda(device.index or 0, self._told)

    def follow(self):
        """Before calls that take or give tensors."""
        now = self._current(self._device)
        if now != self._told:
            self._handle.use_cuda(self._device.index or 0, now)
            self._told = now


def use(handle, entries, current=_current_stream):
    """After the join: entries of the one GPU that there is are exchanged where they lie. None: there is none."""
    devices = {entry.tensor.device for entry in entries if entry.tensor.device.type == "cuda"}
    if len(devices) != 1:
        return None
    try:
        stream = Stream(handle, devices.pop(), current)
    except errors.CudaError as problem:
        log.warning("tensors of the GPU go through host memory: %s", problem)
        return None
    for entry in entries:
        entry.in_place = entry.tensor.device.type == "cuda"
    return stream
