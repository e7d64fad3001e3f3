"""What a trainer process of the tests does: commands from a pipe, answers and logged lines back."""
import ctypes
import hashlib
import json
import logging
import os
import signal

import torch

import causeway
from causeway import errors

PROGRESS_S = 0.25


def sha256(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()
                      if tensor.dtype == torch.uint8
                      else tensor.detach().contiguous().view(-1).view(torch.int16).numpy().tobytes()
                      if tensor.dtype in (torch.bfloat16, torch.float16)
                      else tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


class Model(torch.nn.Module):
    """Parameters under the given names ("a.b" becomes a module a), filled from a seed."""

    def __init__(self, shapes, seed, dtype):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        for name, shape in shapes.items():
            module = self
            *path, last = name.split(".")
            for part in path:
                if not hasattr(module, part):
                    module.add_module(part, torch.nn.Module())
                module = getattr(module, part)
            value = torch.randn(shape, generator=generator).to(dtype)
            module.register_parameter(last, torch.nn.Parameter(value))


class Lines(logging.Handler):
    """Sends what the library logs over the pipe."""

    def __init__(self, connection):
        super().__init__()
        self.connection = connection

    def emit(self, record):
        self.connection.send(("line", record.getMessage()))


class AppliedLog:
    """Writes down the hash of each value that an Outer goes on from, just before the gateway is told, and so may take
    its memory for another."""

    def __init__(self, outer, path, life):
        self._outer, self._handle, self._life = outer, outer._handle, life
        self._file = open(path, "a", buffering=1)
        self._say = self._handle.applied
        for fragment in range(outer.fragments):
            self._write(fragment, self._handle.fragment(fragment).base_round)
        self._handle.applied = self._applied

    def _applied(self, fragment, round):
        self._write(fragment, round)
        self._say(fragment, round)

    def _write(self, fragment, round):
        value = torch.empty_like(self._outer._set.flat(fragment)[0])
        slices, hosts = self._outer._set.flat_slices(fragment, value)
        self._handle.read(fragment, round, slices)
        del hosts
        self._file.write(json.dumps([self._life, fragment, round, sha256([value])]) + "\n")


class Program:
    def __init__(self):
        self.model = self.outer_handle = self.run_handle = None
        self.noise = None
        self.lives = 0

    def do_outer(self, run, socket, shapes, seed, log, dtype="float32", noise_seed=None, poison=None, **options):
        self.model = Model(shapes, seed, getattr(torch, dtype))
        if poison:
            self.do_poison(poison)
        before = sha256(self.model.parameters())
        self.noise = torch.Generator().manual_seed(1000 + (noise_seed or seed))
        self.outer_handle = causeway.Outer(self.model, run=run, socket=socket,
                                           progress_interval=PROGRESS_S, **options)
        AppliedLog(self.outer_handle, log, self.lives)
        self.lives += 1
        after = sha256(self.model.parameters())
        return {"sha256": after, "replaced": before != after, "H": self.outer_handle.H,
                "fragments": self.outer_handle.fragments, "rounds": list(self.outer_handle._rounds)}

    def train(self):
        with torch.no_grad():
            for parameter in self.model.parameters():
                step = torch.randn(parameter.shape, generator=self.noise) * 0.01
                parameter += step.to(parameter.dtype)

    def do_steps(self, count):
        for _ in range(count):
            self.train()
            self.outer_handle.step()
        return self.do_look()

    def do_exchange(self, count):
        """`count` blocking rounds of H steps, the noise only once a round."""
        for _ in range(count):
            self.train()
            for _ in range(self.outer_handle.H):
                self.outer_handle.step()
        return self.do_look()

    def do_descend(self, count):
        """`count` rounds of steps towards a hidden model, the same in every cluster; how far it still is."""
        for _ in range(count):
            for _ in range(self.outer_handle.H):
                with torch.no_grad():
                    for i, parameter in enumerate(self.model.parameters()):
                        target = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(500 + i))
                        noise = torch.randn(parameter.shape, generator=self.noise)
                        parameter += 0.05 * (target - parameter) + 0.005 * noise
                self.outer_handle.step()
        with torch.no_grad():
            far = [((torch.randn(p.shape, generator=torch.Generator().manual_seed(500 + i)) - p) ** 2).mean().item()
                   for i, p in enumerate(self.model.parameters())]
        return {"loss": sum(far) / len(far), **self.do_look()}

    def do_snapshot(self, label):
        self.outer_handle.snapshot(label)
        return self.outer_handle.state_dict()

    def do_look(self):
        stats = self.outer_handle.stats()
        return {"sha256": sha256(self.model.parameters()), **stats}

    def do_poison(self, name, value=float("nan")):
        parameter = dict(self.model.named_parameters())[name]
        with torch.no_grad():
            kept = parameter.view(-1)[3].item()
            parameter.view(-1)[3] = value
        return kept

    def do_finish(self):
        values_hash = self.outer_handle.finish()
        return {"values": values_hash, "sha256": sha256(self.model.parameters())}

    def do_leave(self):
        self.outer_handle._handle.leave()
        self.outer_handle._handle.close()

    def do_open(self, run, socket, **options):
        self.run_handle = causeway.open(run, socket=socket, progress_interval=PROGRESS_S, **options)

    def do_average(self, values, sizes, weight=1, count=1, names=None):
        for _ in range(count):
            tensors = [torch.full((size,), float(value)) for value, size in zip(values, sizes)]
            averaged = self.run_handle.average(tensors, weight=weight, names=names)
        return {"values": [tensor[0].item() for tensor in tensors], "sha256": sha256(tensors),
                "nonfinite": averaged.nonfinite, "participants": averaged.participants,
                "round": averaged.round}

    def do_close(self):
        self.run_handle.finish()


def serve(connection):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # end with the server that forked us
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    log = logging.getLogger("causeway")
    log.setLevel(logging.INFO)
    log.addHandler(Lines(connection))
    program = Program()
    while True:
        try:
            what, arguments = connection.recv()
        except EOFError:
            os._exit(0)
        try:
            connection.send(("done", getattr(program, "do_" + what)(**arguments)))
        except errors.Error as problem:
            connection.send(("error", {"kind": type(problem).__name__, **problem.describe()}))
        except Exception as problem:  # a bug of the test or of the package: the test shows it
            connection.send(("error", {"kind": type(problem).__name__, "text": repr(problem)}))
