"""Causeway: train one model across clusters that a slow network joins.

``Outer`` for training in rounds (local steps, an outer rule), ``open`` for averaging every step's gradients.
Talks to this cluster's gateway (causewayd) through libcauseway.
"""

from . import errors
from .errors import (AlgorithmError, Busy, CommError, CudaError, Draining, Error, Forked, GatewayLost, HashMismatch,
                     IdentityTaken, InitRefused, InternalError, Interrupted, InvalidCall, InvalidType,
                     LibraryMissing, NonFinite, NotReady, OutOfMemory, ProtocolError, Rebase, Retryable, SchemaError, Stalled,
                     Timeout, UnknownRun)
from .callback import OuterCallback
from .hook import ddp_hook
from .outer import Outer
from .presets import configuration as preset
from .run import Averaged, Pending, Run

__version__ = "0.1.0"


def open(run, socket=None, rank=0, world=1, *, process_group=None, connect_timeout=5.0,
         progress_interval=5.0, model=None, weight=1, optimizer=None):
    """Opens a run for gradient averaging: ``open("demo").average(gradients, weight=samples)``. With ``model``,
    for ``ddp_hook``; ``weight`` is that of its steps. ``optimizer``: that takes the averaged gradients; refused
    where the run's gateways keep the gradients' momentum and it has one of its own."""
    return Run(run, socket, rank, world, process_group, connect_timeout, progress_interval, model, weight,
               optimizer)


__all__ = ["open", "ddp_hook", "preset", "Outer", "OuterCallback", "Run", "Pending", "Averaged", "errors",
           "AlgorithmError", "Busy", "CommError", "CudaError",
           "Draining", "Error", "Forked", "GatewayLost", "HashMismatch", "IdentityTaken", "InitRefused",
           "InternalError", "Interrupted", "InvalidCall", "InvalidType", "LibraryMissing", "NonFinite",
           "NotReady", "OutOfMemory", "ProtocolError", "Rebase", "Retryable", "SchemaError", "Stalled", "Timeout",
           "UnknownRun"]
