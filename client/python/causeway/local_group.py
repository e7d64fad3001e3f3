"""The ranks of one cluster: the leader talks to the gateway, all hold the same bytes and raise the same errors.

Before any rank moves tensors, the leader publishes READY, WAIT (about once a second while it waits) or ERROR,
so that nobody sits in a broadcast that will never come: a rank that waits hears something every second, and
the collective's own time-out need only be a few seconds.

Ranks of one host use a board of their own (board.py) once it is made; others, and what comes before, the
group's collectives.
"""

import json
import logging

from . import board
from . import errors

log = logging.getLogger("causeway")

_READY, _WAIT, _ERROR, _INTERRUPT = 1, 2, 3, 4
_HEADER_BYTES = 1024  # kind, length, and the text where it fits


class Alone:
    """One local rank: nothing to tell anybody."""

    leader = True
    alone = True

    def lead(self, action, handle=None, areas=()):
        return action()

    def take(self, areas):
        pass

    def taken(self):
        pass

    def close(self):
        pass


class LocalGroup:
    """``group``: a torch.distributed process group whose rank 0 is the leader."""

    alone = False

    def __init__(self, group):
        import torch
        import torch.distributed as distributed

        self._torch = torch
        self._distributed = distributed
        self._group = group
        self._source = distributed.get_global_rank(group, 0) if group is not distributed.group.WORLD else 0
        self.leader = distributed.get_rank(group) == 0
        self._board = None
        self._flats = []
        backend = distributed.get_backend(group)
        if backend == "nccl":
            raise errors.InvalidCall("process_group: give a gloo group; waits must not occupy the GPU")

    def _broadcast(self, tensor):
        try:
            self._distributed.broadcast(tensor, self._source, group=self._group)
        except RuntimeError as problem:
            raise errors.CommError(f"the cluster's ranks lost each other: {problem}") from problem

    def share(self, flats):
        """On every rank: flat host tensors by which ``lead`` brings the leader's bytes to all. Where ranks
        share a host they are replaced by tensors in shared memory: use those that are returned."""
        ranks = self._distributed.get_world_size(self._group)
        rank = self._distributed.get_rank(self._group)

        def tell(text):
            if text is None:
                return self._hear()[1]
            self._publish(_READY, text)
            return text

        def gather(number):
            numbers = [self._torch.empty(1, dtype=self._torch.int64) for _ in range(ranks)]
            self._distributed.all_gather(numbers, self._torch.tensor([number]), group=self._group)
            return [int(one) for one in numbers]

        if ranks > 1:
            sizes = [flat.numel() * flat.element_size() for flat in flats]
            self._board = board.make(rank, ranks, sizes, tell, gather)
        if self._board is not None:
            flats = [self._torch.frombuffer(area, dtype=flat.dtype) if len(area) else flat
                     for flat, area in zip(flats, self._board.areas)]
        self._flats = flats
        return flats

    def take(self, areas):
        """After ``lead(..., areas)``, on every rank: the flat tensors of these areas hold the leader's
        bytes. ``taken`` when they are copied out."""
        if self._board is None:
            for area in areas:
                self._broadcast_bytes(self._flats[area])

    def taken(self):
        if self._board is not None and not self.leader:
            self._board.copied()

    def close(self):
        if self._board is not None:
            self._board.close()
            self._board = None

    def _broadcast_bytes(self, tensor):
        # Bytes: gloo of some versions knows no 16-bit float.
        self._broadcast(tensor.detach().view(-1).view(self._torch.uint8) if tensor.numel() else tensor)

    def _publish(self, kind, text=""):
        if self._board is not None:
            return self._board.say(kind, text)
        data = text.encode()
        message = bytearray(_HEADER_BYTES)
        message[0] = kind
        message[1:9] = len(data).to_bytes(8, "little")
        fits = data if len(data) <= _HEADER_BYTES - 9 else b""
        message[9:9 + len(fits)] = fits
        self._broadcast(self._torch.frombuffer(message, dtype=self._torch.uint8))
        if len(fits) < len(data):
            self._broadcast(self._torch.frombuffer(bytearray(data), dtype=self._torch.uint8))

    def _hear(self):
        if self._board is not None:
            return self._board.hear()
        header = self._torch.empty(_HEADER_BYTES, dtype=self._torch.uint8)
        self._broadcast(header)
        message = bytes(header.tolist())
        length = int.from_bytes(message[1:9], "little")
        data = message[9:9 + length]
        if length > _HEADER_BYTES - 9:
            body = self._torch.empty(length, dtype=self._torch.uint8)
            self._broadcast(body)
            data = bytes(body.tolist())
        return message[0], data.decode()

    def lead(self, action, handle=None, areas=()):
        """Runs ``action()`` on the leader and gives its (JSON-able) value, or its exception, to every rank.

        While the leader's ``handle`` waits, the others are told so. ``areas``: of the shared tensors, that
        the action may write; ``take`` those that it did.
        """
        if not self.leader:
            return self._follow()
        if handle is not None:
            handle.tick = lambda: self._publish(_WAIT)
        try:
            if self._board is not None:
                self._board.claim(areas)
            value = action()
        except errors.CommError:
            raise  # the group itself is broken
        except errors.Error as problem:
            self._publish(_ERROR, json.dumps(problem.describe()))
            raise
        except BaseException as problem:
            # Ctrl-C, or a bug: the others must not wait for what will not come.
            self._publish(_INTERRUPT, f"{type(problem).__name__}: {problem}")
            raise
        finally:
            if handle is not None:
                handle.tick = None
        if self._board is not None and areas:
            self._board.told(areas)
        self._publish(_READY, json.dumps(value))
        return value

    def _follow(self):
        while True:
            kind, text = self._hear()
            if kind == _WAIT:
                continue
            if kind == _READY:
                return json.loads(text)
            if kind == _ERROR:
                raise errors.restore(json.loads(text))
            raise errors.Interrupted(f"the cluster's rank 0 was interrupted ({text})", rank=0)


def of(group):
    return Alone() if group is None else LocalGroup(group)
