"""torch tensors as the library sees them: names, types, shared storage, addresses.

What of a model is exchanged: parameters that require gradients; float buffers, as means; small integer buffers
(counters, flags) as the rounded mean. The rest, frozen parameters and other integer buffers, is only compared: its
hash goes into its name, and clusters that differ are refused by it.

Tensors that lie contiguously in host memory, or on the device that the library was told of (cuda.py), are read
and written where they are; others go through a host copy that this module keeps.
"""

import hashlib
import math
import re

import torch

from . import _library as c
from . import errors

COUNTERS_MAX = 1024  # elements of an integer buffer that is exchanged
_WHOLE_MAX = 1 << 24  # integers up to here are exact in fp32
_HASH_DIGITS = 16
_HASH_CHUNK = 1 << 24  # elements
_NAME_BYTES_MAX = 191
DTYPES = {torch.float32: c.FP32, torch.bfloat16: c.BF16, torch.float16: c.FP16}


class Entry:
    """One named tensor: what is exchanged, and the model's own copy where that is another one. Of a sharded one
    (``shape`` is the whole's) the tensor holds the elements from ``first`` on, and other ranks the others."""

    __slots__ = ("name", "tensor", "cast", "counts", "group", "alias_of", "stage", "shape", "first", "in_place",
                 "_host")

    def __init__(self, name, tensor, group=c.PARAMETER, cast=None, alias_of=-1, counts=False):
        if tensor.dtype not in DTYPES:
            raise errors.SchemaError(f"tensor '{name}' is {tensor.dtype}: only float32, bfloat16 and "
                                     "float16 are exchanged", tensor=name)
        if tensor.dim() > 8:
            raise errors.SchemaError(f"tensor '{name}' has more than 8 dimensions", tensor=name)
        self.name = name
        self.tensor = tensor
        self.cast = cast
        self.counts = counts  # the model counts in ``cast``, integers; ``tensor`` is made from it
        self.group = group
        self.alias_of = alias_of
        self.shape = tuple(tensor.shape)
        self.first = None  # nothing but the whole
        self.in_place = False  # on the device that the library knows
        self.stage = 0  # with which growth of the run it came
        self._host = None

    def shard(self, shape, first):
        """Other ranks have the elements before ``first`` and those behind this tensor's."""
        whole, count = math.prod(shape), self.tensor.numel()
        if len(shape) > 8 or first < 0 or first + count > whole:
            raise errors.SchemaError(f"tensor '{self.name}': {count} elements from {first} on are no part of "
                                     f"{list(shape)}", tensor=self.name)
        self.shape, self.first = tuple(shape), first

    def direct(self):
        return (self.tensor.device.type == "cpu" or self.in_place) and self.tensor.is_contiguous()

    def schema_name(self):
        return self.name

    def once_fixed(self):
        return False

    def refresh(self):
        """Before the tensor is read."""
        if self.counts:
            self.tensor.copy_(self.cast)

    def write_cast(self):
        if self.counts:
            self.cast.copy_(self.tensor.round())
        elif self.cast is not None:
            self.cast.copy_(self.tensor)

    def host(self, load):
        """Contiguous memory that the library reads, with the tensor's elements, current if ``load``."""
        if load:
            self.refresh()
        if self.direct():
            return self.tensor
        if self._host is None or self._host.shape != self.tensor.shape:
            self._host = torch.empty(self.tensor.shape, dtype=self.tensor.dtype)
        if load:
            self._host.copy_(self.tensor.detach())
        return self._host

    def store(self, host):
        """Writes a host copy back, and the model's cast."""
        with torch.no_grad():
            if host.data_ptr() != self.tensor.data_ptr():
                self.tensor.copy_(host)
            self.write_cast()


class Fixed(Entry):
    """A tensor that is compared and never exchanged. Its elements are hashed when the schema is made, unless
    ``schema_name`` says what they were when the run began: it is trained since."""

    __slots__ = ("_source", "_schema_name", "_once")

    def __init__(self, name, tensor, schema_name=None):
        super().__init__(name, torch.empty(0), c.FIXED)
        self.shape = tuple(tensor.shape)
        self._source = tensor
        self._schema_name = schema_name
        self._once = schema_name is not None

    def once_fixed(self):
        return self._once

    def schema_name(self):
        if self._schema_name is None:
            flat = self._source.detach().reshape(-1)
            digest = hashlib.sha256(f"{flat.dtype} {list(self.shape)} ".encode())
            for first in range(0, flat.numel(), _HASH_CHUNK):
                part = flat[first:first + _HASH_CHUNK].to("cpu").contiguous()
                digest.update(part.view(torch.uint8).numpy() if part.dtype != torch.bool else part.numpy())
            self._schema_name = fixed_name(self.name, digest.hexdigest())
        return self._schema_name


def fixed_name(name, digest):
    """A tensor's name with its hash, short enough for a schema."""
    mark = "#" + digest[:_HASH_DIGITS]
    return name.encode()[:_NAME_BYTES_MAX - len(mark)].decode(errors="ignore") + mark


def is_fixed_name(name):
    return re.search(f"#[0-9a-f]{{{_HASH_DIGITS}}}$", name) is not None


def by_stage(entries, stages):
    """The entries in the order in which the run got them: ``stages`` has those that came with a growth, by
    name (and those that were fixed once, by name and hash). Whoever shares a tensor's storage comes after it."""
    for entry in entries:
        entry.stage = stages.get(entry.schema_name() if entry.once_fixed() else entry.name, 0)
    order = sorted(range(len(entries)), key=lambda index: entries[index].stage)
    place = {index: position for position, index in enumerate(order)}
    for entry in entries:
        if entry.alias_of >= 0:
            entry.alias_of = place[entry.alias_of]
    return [entries[index] for index in order]


class TensorSet:
    """The tensors of a run, in schema order; once joined, also by fragment."""

    def __init__(self, entries):
        self.entries = entries
        self.fragments = []  # indices into entries; neither aliases nor empty tensors
        self._flat = {}

    def schema(self):
        array = (c.CTensor * len(self.entries))()
        for raw, entry in zip(array, self.entries):
            raw.name = entry.schema_name().encode()
            raw.dtype = DTYPES[entry.tensor.dtype]
            raw.group = entry.group
            raw.dimensions = len(entry.shape)
            raw.alias_of = entry.alias_of
            raw.stage = entry.stage
            for dimension, size in enumerate(entry.shape):
                raw.shape[dimension] = size
        return array

    def place(self, fragment_of, count):
        """``fragment_of``: of each tensor."""
        self.fragments = [[] for _ in range(count)]
        for index, entry in enumerate(self.entries):
            if entry.alias_of < 0 and entry.tensor.numel() > 0:
                self.fragments[fragment_of[index]].append(index)

    def _slices(self, indices, sources, outs=None):
        array = (c.CSlice * len(indices))()
        for position, index in enumerate(indices):
            raw = array[position]
            raw.tensor = index
            raw.count = c.WHOLE
            if self.entries[index].first is not None:
                raw.first, raw.count = self.entries[index].first, self.entries[index].tensor.numel()
            raw.data = sources[position].data_ptr() if sources is not None else None
            if sources is not None and sources[position].device.type == "cuda":
                raw.memory = c.MEMORY_CUDA
            raw.out = outs[position].data_ptr() if outs is not None else None
        return array

    def all_indices(self):
        return [index for fragment in self.fragments for index in fragment]

    def read_slices(self, indices):
        """For offer and submit. Keep what is returned until the call is over."""
        hosts = [self.entries[index].host(load=True) for index in indices]
        return self._slices(indices, hosts), hosts

    def in_place_slices(self, fragment):
        """For apply and read; ``commit`` afterwards. Device and strided tensors go through host copies."""
        indices = self.fragments[fragment]
        hosts = [self.entries[index].host(load=True) for index in indices]
        return self._slices(indices, hosts), hosts

    def commit(self, fragment, hosts):
        for index, host in zip(self.fragments[fragment], hosts):
            self.entries[index].store(host)

    def flat(self, fragment):
        """A reusable host buffer with all of a fragment's elements, and its views by tensor."""
        if fragment not in self._flat:
            entries = [self.entries[index] for index in self.fragments[fragment]]
            dtype = entries[0].tensor.dtype if entries else torch.float32
            buffer = torch.empty(sum(entry.tensor.numel() for entry in entries), dtype=dtype)
            views, first = [], 0
            for entry in entries:
                views.append(buffer[first:first + entry.tensor.numel()].view(entry.tensor.shape))
                first += entry.tensor.numel()
            self._flat[fragment] = (buffer, views)
        return self._flat[fragment]

    def use_flats(self, buffers):
        """Other memory for the flat buffers, such as what the cluster's ranks share."""
        for fragment, buffer in enumerate(buffers):
            _, views = self.flat(fragment)
            moved, first = [], 0
            for view in views:
                moved.append(buffer[first:first + view.numel()].view(view.shape))
                first += view.numel()
            self._flat[fragment] = (buffer, moved)

    def staged_slices(self, fragment):
        """For apply and read into the flat buffer, leaving the tensors alone. Of tensors of a device read alone:
        what it would merge must lie where it writes."""
        indices = self.fragments[fragment]
        _, views = self.flat(fragment)
        hosts = [view if self.entries[index].in_place else self.entries[index].host(load=True)
                 for index, view in zip(indices, views)]
        return self._slices(indices, hosts, views), hosts

    def gathered(self, fragment):
        """A flat copy of the tensors as they are."""
        buffer, _ = self.flat(fragment)
        for index in self.fragments[fragment]:
            self.entries[index].refresh()
        parts = [self.entries[index].tensor.detach().reshape(-1) for index in self.fragments[fragment]]
        return torch.cat([part.to("cpu") for part in parts]) if parts else torch.empty_like(buffer)

    def flat_slices(self, fragment, buffer):
        """For submit, from a flat host tensor instead of the tensors."""
        indices, views, first = self.fragments[fragment], [], 0
        for index in indices:
            count = self.entries[index].tensor.numel()
            views.append(buffer[first:first + count])
            first += count
        return self._slices(indices, views), views

    def stage(self, fragment):
        """Copies the tensors into the flat buffer."""
        _, views = self.flat(fragment)
        with torch.no_grad():
            for index, view in zip(self.fragments[fragment], views):
                self.entries[index].refresh()
                view.copy_(self.entries[index].tensor)

    def unstage(self, fragment):
        """Writes the flat buffer into the tensors and the model's casts."""
        _, views = self.flat(fragment)
        with torch.no_grad():
            for index, view in zip(self.fragments[fragment], views):
                entry = self.entries[index]
                entry.tensor.copy_(view)
                entry.write_cast()


def named_tensors(model):
    """(name, tensor, is parameter) of a module, tied ones under each of their names, in module order."""
    found = []
    for prefix, module in model.named_modules():
        dot = prefix + "." if prefix else ""
        for name, parameter in module._parameters.items():
            if parameter is not None:
                found.append((dot + name, parameter, True))
    for prefix, module in model.named_modules():
        dot = prefix + "." if prefix else ""
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                found.append((dot + name, buffer, False))
    return found


def find_masters(parameters, optimizer):
    """fp32 master copies that an optimizer holds for 16-bit parameters: {id(parameter): master}."""
    if optimizer is None:
        return {}
    own = {parameter.data_ptr() for parameter in parameters if parameter.numel() > 0}
    held = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    masters = [tensor for tensor in held
               if tensor.dtype == torch.float32 and tensor.data_ptr() not in own]
    halves = [p for p in parameters if p.dtype in (torch.bfloat16, torch.float16)]
    if not halves or not masters:
        return {}
    if [tuple(m.shape) for m in masters] != [tuple(p.shape) for p in halves]:
        raise errors.SchemaError(
            "the optimizer holds fp32 tensors that do not pair with the model's 16-bit parameters by order "
            "and shape; pass masters={parameter: master}")
    return {id(parameter): master for parameter, master in zip(halves, masters)}


def model_entries(model, optimizer=None, masters=None, once_fixed=()):
    """The entries of a module's trained parameters and float buffers, tied ones as aliases; then what is counted or
    compared. ``once_fixed``: schema names of tensors that were only compared when the run began."""
    named, rest, whole = [], [], set()
    past = {name[:-_HASH_DIGITS]: name for name in once_fixed}
    for name, tensor, is_parameter in named_tensors(model):
        trained = tensor.requires_grad if is_parameter else tensor.is_floating_point()
        if trained:
            named.append((name, tensor, is_parameter))
            if fixed_name(name, "") in past:
                rest.append(Fixed(name, tensor, past[fixed_name(name, "")]))
        elif id(tensor) not in whole:  # under one of its names is enough
            whole.add(id(tensor))
            rest.append(_counter_or_fixed(name, tensor, is_parameter))
    unique, seen = [], set()
    for _, tensor, is_parameter in named:
        if is_parameter and id(tensor) not in seen:
            seen.add(id(tensor))
            unique.append(tensor)
    if masters is None:
        pairs = find_masters(unique, optimizer)
    else:
        pairs = {id(parameter): master for parameter, master in masters.items()}
    entries, storages = [], {}
    for name, tensor, is_parameter in named:
        master = pairs.get(id(tensor)) if is_parameter else None
        exchanged = tensor if master is None else master
        key = (exchanged.data_ptr(), tuple(exchanged.shape), exchanged.stride(), exchanged.dtype)
        alias_of = storages.get(key, -1) if exchanged.numel() > 0 else -1
        storages.setdefault(key, len(entries))
        entries.append(Entry(name, exchanged, c.PARAMETER if is_parameter else c.BUFFER,
                             cast=None if master is None else tensor, alias_of=alias_of))
    if not entries:
        raise errors.InvalidCall("model has nothing to exchange: no parameter with requires_grad, no persistent float "
                                 "buffer; call requires_grad_() on what is to be trained first")
    return entries + rest


def _counter_or_fixed(name, tensor, is_parameter):
    if is_parameter or tensor.is_complex() or tensor.numel() > COUNTERS_MAX:
        return Fixed(name, tensor)
    counted = tensor.detach().to(torch.float32)
    if tensor.numel() > 0 and counted.abs().max().item() > _WHOLE_MAX:
        return Fixed(name, tensor)  # a random generator's state, say
    return Entry(name, counted, c.BUFFER, cast=tensor, counts=True)


def shard(entries, shards):
    """Entries that are parts of larger tensors: ``shards`` has (shape, first element) by name."""
    unknown = set(shards) - {entry.name for entry in entries}
    if unknown:
        raise errors.SchemaError(f"shards: the model exchanges no tensor '{min(unknown)}'", tensor=min(unknown))
    seen = {}
    for index, entry in enumerate(entries):
        if entry.name in shards:
            entry.shard(*shards[entry.name])
            # A part without elements has no storage by which to see that it is tied.
            entry.alias_of = max(entry.alias_of, seen.get(id(entry.tensor), -1))
        seen.setdefault(id(entry.tensor), index)


def restore(kept):
    """Writes (entry, tensor, cast) copies back."""
    with torch.no_grad():
        for entry, tensor, cast in kept:
            entry.tensor.copy_(tensor)
            if cast is not None:
                entry.cast.copy_(cast)
