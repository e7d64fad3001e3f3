"""Arguments of the package's own calls, checked before anything is opened: what is wrong is said by the argument's
name, with what it may be. Without it a float would be cut off, or a NULL pointer reach the library."""

import math
import numbers
import os

from . import errors
from . import tensors

_U32_MAX = (1 << 32) - 1
_STAGE_MAX = 255


def _refuse_type(name, value, what):
    raise errors.InvalidType(f"{name} must be {what}, not {value!r} ({type(value).__name__})")


def whole(name, value, least, most=_U32_MAX, what="a whole number"):
    """An int (numpy's, too), not a bool."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        _refuse_type(name, value, what)
    if not least <= value <= most:
        raise errors.InvalidCall(f"{name} must be {what} from {least} to {most}, not {value}")
    return int(value)


def seconds(name, value):
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        _refuse_type(name, value, "a number of seconds")
    if not (math.isfinite(value) and 0 <= value <= _U32_MAX / 1000):
        raise errors.InvalidCall(f"{name} must be a number of seconds, 0 or more, not {value}")
    return float(value)


def text(name, value, what):
    if not isinstance(value, str):
        _refuse_type(name, value, what)
    if not value or "\0" in value:
        raise errors.InvalidCall(f"{name} must be {what}, not {value!r}")
    return value


def path(name, value):
    """A path as text; None stays None."""
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        _refuse_type(name, value, "the path of the gateway's socket")
    return text(name, os.fspath(value), "the path of the gateway's socket")


def run_name(value):
    return text("run", value, "the run's name in the gateway's configuration")


def place(rank, world, process_group=None):
    """(rank, world) of a process that opens a handle of its own."""
    world = whole("world", world, 1, what="the number of this cluster's processes that open handles")
    rank = whole("rank", rank, 0, what="a process's number, below world")
    if rank >= world:
        raise errors.InvalidCall(f"rank must be below world ({world}), not {rank}: they count from 0")
    if process_group is not None and world > 1:
        raise errors.InvalidCall("world counts processes that open handles of their own; with process_group rank 0 "
                                 "opens the only one: leave out world, or process_group")
    return rank, world


def model(value):
    if not hasattr(value, "named_modules"):
        _refuse_type("model", value, "a torch.nn.Module")


def optimizer(value):
    """None, or what looks like one."""
    if value is not None and not hasattr(value, "param_groups"):
        _refuse_type("optimizer", value, "a torch.optim.Optimizer, or None")


def steps_some(value, exchanged):
    """An optimizer that there is steps at least one of these tensors."""
    if value is None:
        return
    own = {id(tensor) for tensor in exchanged}
    if not any(id(tensor) in own for group in value.param_groups for tensor in group["params"]):
        raise errors.InvalidCall("optimizer steps none of the model's parameters, nor masters of them: pass the one that "
                                 "was made for this model's parameters as they are now, or None")


def masters(value):
    if value is None:
        return
    if not hasattr(value, "items"):
        _refuse_type("masters", value, "a dictionary of fp32 tensors by parameter")
    for parameter, master in value.items():
        if not (hasattr(parameter, "data_ptr") and hasattr(master, "data_ptr")):
            _refuse_type("masters", (parameter, master), "a dictionary of fp32 tensors by parameter")
        if parameter.shape != master.shape:
            raise errors.InvalidCall(f"masters: one is of shape {list(master.shape)}, its parameter of "
                                     f"{list(parameter.shape)}")


def stages(value):
    """{name: stage}; of tensors that are exchanged only those of a later stage than 0."""
    found = {}
    for name, stage in dict(value or {}).items():
        text("stages", name, "a dictionary of stages by a tensor's name")
        if whole(f"stages[{name!r}]", stage, 0, _STAGE_MAX, "a stage") > 0 or tensors.is_fixed_name(name):
            found[name] = int(stage)
    return found


def shards(value):
    """{name: (shape, first)}, all of them ints."""
    found = {}
    for name, part in dict(value or {}).items():
        text("shards", name, "a dictionary of (shape, first element) by a tensor's name")
        try:
            shape, first = part
            shape = tuple(shape)
        except (TypeError, ValueError):
            _refuse_type(f"shards[{name!r}]", part, "(shape of the whole tensor, first element of this part)")
        found[name] = (tuple(whole(f"shards[{name!r}]: a dimension", size, 0, (1 << 63) - 1) for size in shape),
                       whole(f"shards[{name!r}]: the first element", first, 0, (1 << 63) - 1))
    return found
