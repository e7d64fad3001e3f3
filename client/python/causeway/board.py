"""What the ranks of one cluster share when they run on one host: memory for tensors, pipes for words.

The leader writes a result once, into memory that every rank maps, and says so through a pipe to each: no
collective, no thread, one wake-up a rank. Each rank confirms that it has copied a result out before its place
is written again. A rank that dies is noticed by its pidfd at once, whoever else holds its pipes.

Made collectively, over the group's own backend; where a rank cannot open the leader's descriptors (another
host, another container) nobody uses a board.
"""

import fcntl
import json
import mmap
import os
import select
import struct

from . import errors

_FRAME = struct.Struct("<BI")  # kind, bytes that follow
_TOKEN_BYTES = 32  # at the memory's start: proves that a descriptor is the leader's
_AREA_ALIGN = 4096
_TEXT_BYTES_MAX = 1 << 24
_F_ADD_SEALS, _SEALS = 1033, 0x0001 | 0x0002 | 0x0004  # no more seals, no shrinking, no growing


def _boot():
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _areas(sizes):
    """Offsets of the areas, and the memory's size."""
    offsets, end = [], _AREA_ALIGN
    for size in sizes:
        offsets.append(end)
        end += -(-size // _AREA_ALIGN) * _AREA_ALIGN
    return offsets, end


class _Peer:
    """The other end of two pipes."""

    def __init__(self, rank, pid, reading, writing):
        self.rank, self.reading, self.writing = rank, reading, writing
        self._pidfd = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(reading, select.POLLIN)
        self._poll.register(self._pidfd, select.POLLIN)

    def gone(self):
        return errors.CommError(f"the cluster's ranks lost each other: rank {self.rank} is gone",
                                rank=self.rank)

    def read(self, count):
        data = bytearray()
        while len(data) < count:
            ready = dict(self._poll.poll())
            if not ready.get(self.reading, 0) & select.POLLIN:
                raise self.gone()  # its last words are read first
            part = os.read(self.reading, count - len(data))
            if not part:
                raise self.gone()
            data += part
        return bytes(data)

    def write(self, data):
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self.writing, view):]
        except OSError as problem:
            raise self.gone() from problem

    def close(self):
        for descriptor in (self.reading, self.writing, self._pidfd):
            os.close(descriptor)


class Board:
    """``areas``: writable memoryviews, the same memory on every rank."""

    def __init__(self, memory, sizes, peers, leader):
        self._memory, self._peers, self._leader = memory, peers, leader
        offsets, _ = _areas(sizes)
        view = memoryview(memory)
        self.areas = [view[offset:offset + size] for offset, size in zip(offsets, sizes)]
        self._told = 0  # results so far
        self._told_of = [0] * len(sizes)  # the last one in each area
        self._copied = [0] * len(peers)  # results that each other rank has copied out

    def say(self, kind, text):
        data = text.encode()
        for peer in self._peers:
            peer.write(_FRAME.pack(kind, len(data)) + data)

    def hear(self):
        kind, length = _FRAME.unpack(self._peers[0].read(_FRAME.size))
        if length > _TEXT_BYTES_MAX:
            raise errors.CommError("the cluster's rank 0 said something of an impossible length")
        return kind, self._peers[0].read(length).decode()

    def claim(self, areas):
        """On the leader, before it writes: every rank has copied out what lay there."""
        needed = max((self._told_of[area] for area in areas), default=0)
        for index, peer in enumerate(self._peers):
            while self._copied[index] < needed:
                peer.read(1)
                self._copied[index] += 1

    def told(self, areas):
        """On the leader, once it has said that these areas are written."""
        self._told += 1
        for area in areas:
            self._told_of[area] = self._told

    def copied(self):
        """On the others, once they have copied everything out. A leader that has left meanwhile, with its
        last result said, waits for nobody's word; one that died is noticed when it should speak again."""
        try:
            self._peers[0].write(b"\1")
        except errors.CommError:
            pass

    def close(self):
        self.areas = []  # tensors may still refer to the memory; it goes with the last of them
        for peer in self._peers:
            peer.close()
        self._peers = []


class _LeaderSide:
    """Descriptors that the other ranks open while the board is made."""

    def __init__(self, sizes, ranks):
        _, size = _areas(sizes)
        self.sizes = sizes
        self.memory = os.memfd_create("causeway-board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.memory, size)
        fcntl.fcntl(self.memory, _F_ADD_SEALS, _SEALS)
        self.mapping = mmap.mmap(self.memory, size)
        self.token = os.urandom(_TOKEN_BYTES)
        self.mapping[:_TOKEN_BYTES] = self.token
        self.down = [os.pipe() for _ in range(ranks - 1)]
        self.up = [os.pipe() for _ in range(ranks - 1)]

    def describe(self):
        return json.dumps({"boot": _boot(), "pid": os.getpid(), "memory": self.memory, "sizes": self.sizes,
                           "token": self.token.hex(), "down": [pipe[0] for pipe in self.down],
                           "up": [pipe[1] for pipe in self.up]})

    def finish(self, pids):
        """The board, or nothing where some rank could not open it (its pid is 0)."""
        for reading, _ in self.down:
            os.close(reading)
        for _, writing in self.up:
            os.close(writing)
        os.close(self.memory)
        if all(pids):
            peers = [_Peer(rank + 1, pid, self.up[rank][0], self.down[rank][1])
                     for rank, pid in enumerate(pids)]
            return Board(self.mapping, self.sizes, peers, leader=True)
        for pipe in self.down:
            os.close(pipe[1])
        for pipe in self.up:
            os.close(pipe[0])
        return None


def _open(text, rank):
    """A follower's board, or None where the leader's descriptors are not to be had."""
    told = json.loads(text)
    if told is None or told["boot"] != _boot():
        return None
    opened = []
    try:
        def open_one(descriptor, flags):
            opened.append(os.open(f"/proc/{told['pid']}/fd/{descriptor}", flags | os.O_CLOEXEC))
            return opened[-1]

        memory = open_one(told["memory"], os.O_RDWR)
        mapping = mmap.mmap(memory, _areas(told["sizes"])[1])
        if mapping[:_TOKEN_BYTES].hex() != told["token"]:
            raise OSError("not the leader's memory")
        peer = _Peer(0, told["pid"], open_one(told["down"][rank - 1], os.O_RDONLY),
                     open_one(told["up"][rank - 1], os.O_WRONLY))
        os.close(memory)
        return Board(mapping, told["sizes"], [peer], leader=False)
    except (OSError, ValueError):
        for descriptor in opened:
            os.close(descriptor)
        return None


def make(rank, ranks, sizes, tell, gather):
    """On every rank. ``tell(text or None)``: the leader's text, on all; ``gather(number)``: all ranks'."""
    if rank == 0:
        try:
            os.close(os.pidfd_open(os.getpid()))
            side = _LeaderSide(sizes, ranks)
        except OSError:  # an old kernel, or a sandbox
            side = None
        tell("null" if side is None else side.describe())
        pids = gather(os.getpid())[1:]
        return None if side is None else side.finish(pids)
    board = _open(tell(None), rank)
    pids = gather(os.getpid() if board is not None else 0)
    if board is not None and not all(pids):
        board.close()
        return None
    return board
