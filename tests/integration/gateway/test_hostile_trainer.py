#!/usr/bin/python3
"""Hostile bytes on the trainers' socket of a real gateway, and attempts on the memory that it shares."""
import fcntl
import mmap
import os
import random
import socket
import struct
import unittest

from gateways import PATIENCE_S, Pair
from trainers import both, join_both, main

SEED = 3
MAGIC = 0x4C575743
HELLO, WELCOME, JOIN, JOINED, OFFER, READY, SUBMIT, SUBMITTED, OP_STATE = range(1, 10)
APPLIED, QUERY, ERROR = 10, 12, 18
BUSY, PROTOCOL, MEMORY = 1, 24, 25
COMMITTED = 2
F_ADD_SEALS, F_GET_SEALS = 1033, 1034
SEAL_SEAL, SEAL_SHRINK, SEAL_GROW = 1, 2, 4
GROWTH_BYTES_MAX = 48 << 20


class RawTrainer:
    """Datagrams of local_protocol.h by hand."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE_S)
        self.sequence = 0
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise

    def send(self, kind, body, descriptors=(), **header):
        self.sequence += 1
        fields = {"magic": MAGIC, "version": 1, "size": 32 + len(body), "zero": 0, "sequence": self.sequence,
                  "answers": 0, **header}
        self.send_raw(struct.pack("<IHHIIQQ", fields["magic"], fields["version"], kind, fields["size"],
                                  fields["zero"], fields["sequence"], fields["answers"]) + body, descriptors)

    def send_raw(self, datagram, descriptors=()):
        socket.send_fds(self.socket, [datagram], list(descriptors))

    def receive(self):
        """(type, body, descriptors); type None at the end of the connection."""
        try:
            datagram, descriptors, _, _ = socket.recv_fds(self.socket, 4096, 8)
        except ConnectionResetError:
            datagram, descriptors = b"", []
        if not datagram:
            return None, b"", []
        return struct.unpack_from("<H", datagram, 6)[0], datagram[32:], descriptors

    def hello(self, run=b"demo", rank=0, world=1, token=bytes(16)):
        self.send(HELLO, struct.pack("<HHIII16s64s", 1, 1, rank, world, 0, token, run))

    def join(self, records, tensors=None, init=0, outer=1, descriptors=None):
        memory = os.memfd_create("schema", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(memory, records)
        count = len(records) // 264 if tensors is None else tensors
        self.send(JOIN, struct.pack("<IBBHII", count, init, outer, 0, 0, 0),
                  [memory] if descriptors is None else descriptors)
        os.close(memory)

    def submit(self, op=1, fragment=0, base=0, weight=1):
        self.send(SUBMIT, struct.pack("<QIBB2xqQ32s", op, fragment, 0, 0, base, weight, b""))

    def until(self, wanted, skipping=(SUBMITTED, OP_STATE)):
        """The body of the next message of that type."""
        while True:
            kind, body, descriptors = self.receive()
            for descriptor in descriptors:
                os.close(descriptor)
            if kind == wanted:
                return body
            assert kind in skipping, (kind, body.rstrip(b"\0"))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def tensor(name=b"w", dtype=0, group=0, dimensions=1, alias=-1, shape=(256,)):
    return struct.pack("<192sBBBBi8Q", name, dtype, group, dimensions, 0, alias,
                       *(tuple(shape) + (0,) * (8 - len(shape))))


class HostileTrainer(unittest.TestCase):
    def trainer(self, pair):
        made = RawTrainer(pair.paris.trainer_socket)
        self.addCleanup(made.close)
        return made

    def welcomed(self, pair):
        trainer = self.trainer(pair)
        trainer.hello()
        self.assertEqual(trainer.receive()[0], WELCOME)
        return trainer

    def refused(self, trainer, words, code=PROTOCOL):
        """The next message is a fatal Error in these words; the connection ends."""
        kind, body, _ = trainer.receive()
        self.assertEqual(kind, ERROR)
        got, _, fatal = struct.unpack_from("<HBB", body)
        text = body[16 + 64 + 192:].split(b"\0")[0].decode()
        self.assertRegex(text, words)
        self.assertEqual((got, fatal), (code, 1), text)
        self.assertIsNone(trainer.receive()[0])
        trainer.close()

    def until_free(self, pair):
        pair.paris.until_run(lambda run: run["trainers"] == 0, "the hostile trainer is gone")

    def good_run(self, pair):
        self.until_free(pair)
        trainers = join_both(pair)
        both(trainers, "steps", count=5)
        ends = both(trainers, "finish")
        self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])

    def test_random_datagrams_beside_honest_training(self):
        print(f"seed {SEED}")
        noise = random.Random(SEED)
        with Pair() as pair:
            trainers = join_both(pair)
            both(trainers, "steps", count=5)
            resident = pair.paris.resident_bytes()
            for trainer in trainers:
                trainer.tell("steps", count=1000)
            for _ in range(100):
                with self.trainer(pair) as hostile:
                    hostile.send_raw(noise.randbytes(noise.randrange(1, 4096)))
                    self.assertIn(hostile.receive()[0], (ERROR, None))
            for _ in range(300):  # a right header, anything behind it
                with self.trainer(pair) as hostile:
                    hostile.send(noise.randrange(0, 25), noise.randbytes(noise.choice((0, 8, 16, 48, 96, 900))))
                    self.assertIn(hostile.receive()[0], (ERROR, None))
            silent = []
            while len(silent) < 300:  # more than there may be
                try:
                    silent.append(self.trainer(pair))
                except BlockingIOError:
                    break  # the queue before accept is full: no more get in
            for each in silent:
                each.close()
            looks = [trainer.answer() for trainer in trainers]
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.assertEqual(looks[0]["excluded"], 0)
            both(trainers, "finish")
            self.assertLess(pair.paris.resident_bytes() - resident, GROWTH_BYTES_MAX)

    def test_counts_and_sizes_that_lie(self):
        with Pair() as pair:
            resident = pair.paris.resident_bytes()
            one = tensor()
            cases = (
                (dict(records=one, tensors=1 << 31), "tensors", PROTOCOL),
                (dict(records=one, tensors=65537), "tensors", PROTOCOL),
                (dict(records=one, tensors=2), "bytes", PROTOCOL),
                (dict(records=tensor(shape=(1 << 63, 4), dimensions=2)), "w", 16),
                (dict(records=tensor(shape=(1 << 41,))), "size 8796093022208 is outside", 16),
                (dict(records=tensor(shape=(1 << 33,))), "budget|memory", MEMORY),
                (dict(records=tensor(dimensions=200)), "dimensions", 16),
                (dict(records=tensor(name=b"x" * 192)), "name", 16),
                (dict(records=tensor(alias=7)), "alias", 16),
                (dict(records=one + one), "twice|unique|already|same name", 16),
                (dict(records=one, descriptors=()), "descriptor", PROTOCOL),
            )
            for arguments, words, code in cases:
                with self.subTest(words=words, **{k: v for k, v in arguments.items() if k == "tensors"}):
                    trainer = self.welcomed(pair)
                    trainer.join(**arguments)
                    kind, body, _ = trainer.receive()
                    self.assertEqual(kind, ERROR)
                    got = struct.unpack_from("<H", body)[0]
                    text = body[16 + 64 + 192:].split(b"\0")[0].decode()
                    print(f"  {got}: {text}")
                    self.assertRegex(text, words)
                    self.assertEqual(got, code, text)
                    trainer.close()
                    self.until_free(pair)
            self.assertLess(pair.paris.resident_bytes() - resident, GROWTH_BYTES_MAX)
            self.good_run(pair)

    def test_shared_memory_cannot_be_cut_or_overwritten(self):
        with Pair() as pair:
            trainer = self.welcomed(pair)
            trainer.join(tensor(shape=(100000,)))
            kind, body, descriptors = trainer.receive()
            self.assertEqual((kind, len(descriptors)), (JOINED, 3))
            layout, snapshot, values = descriptors
            for memory in descriptors:
                size = os.fstat(memory).st_size
                for wrong in (0, size // 2, size + 4096):
                    with self.assertRaises(OSError):
                        os.ftruncate(memory, wrong)
                self.assertEqual(os.fstat(memory).st_size, size)
                with self.assertRaises(OSError):
                    fcntl.fcntl(memory, F_ADD_SEALS, 0x8)  # sealed for good
                seals = fcntl.fcntl(memory, F_GET_SEALS)
                self.assertEqual(seals & (SEAL_SEAL | SEAL_SHRINK | SEAL_GROW),
                                 SEAL_SEAL | SEAL_SHRINK | SEAL_GROW)
                reopened = None
                try:  # by another way than the descriptor that was given
                    reopened = os.open(f"/proc/self/fd/{memory}", os.O_RDWR)
                    with self.assertRaises(OSError):
                        os.ftruncate(reopened, 0)
                except PermissionError:
                    pass
                finally:
                    if reopened is not None:
                        os.close(reopened)
            for memory in (layout, values):
                size = os.fstat(memory).st_size
                with self.assertRaises(OSError):
                    mmap.mmap(memory, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
                with self.assertRaises(OSError):
                    os.pwrite(memory, b"x", 0)
                mmap.mmap(memory, size, mmap.MAP_SHARED, mmap.PROT_READ).close()
            # The snapshot is the trainer's to write: whatever lies in it, the gateway only reads numbers.
            with mmap.mmap(snapshot, 400000, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as scribble:
                scribble[:] = b"\xff" * 400000
            trainer.send(OFFER, bytes(8))
            kind, body, _ = trainer.receive()
            self.assertEqual(kind, ERROR)
            self.assertIn(b"tensor 'w' holds NaN or Inf", body)
            trainer.close()
            for memory in descriptors:
                os.close(memory)
            self.good_run(pair)

    def test_messages_out_of_order(self):
        with Pair() as pair:
            trainer = self.welcomed(pair)
            trainer.submit()
            self.refused(trainer, "Submit")
            trainer = self.trainer(pair)
            trainer.join(tensor())
            self.refused(trainer, "Hello")
            trainer = self.welcomed(pair)
            trainer.hello()
            self.refused(trainer, "Hello was said already")
            trainer = self.welcomed(pair)
            trainer.send(QUERY, bytes(16), size=4096)
            self.refused(trainer, "size|bytes")
            trainer = self.welcomed(pair)
            trainer.send(QUERY, bytes(16), zero=1)
            self.refused(trainer, "zero")
            trainer = self.trainer(pair)
            trainer.hello(rank=5, world=2)
            self.refused(trainer, "rank")
            self.good_run(pair)

    def test_one_fragment_twice_in_flight(self):
        """The second operation is refused, the first goes on as if nothing had been."""
        with Pair() as pair:
            both_raw = []
            for gateway in pair.gateways.values():
                trainer = RawTrainer(gateway.trainer_socket)
                self.addCleanup(trainer.close)
                both_raw.append(trainer)
                trainer.hello()
                trainer.until(WELCOME)
                trainer.join(tensor())
                trainer.until(JOINED)
                trainer.send(OFFER, bytes(8))
            for trainer in both_raw:
                trainer.until(READY)
            paris, tokyo = both_raw
            paris.submit(op=1)
            self.assertEqual(struct.unpack_from("<Qq", paris.until(SUBMITTED)), (1, 1))
            paris.submit(op=2)
            code, _, fatal = struct.unpack_from("<HBB", paris.until(ERROR))
            self.assertEqual((code, fatal), (BUSY, 0))
            tokyo.submit(op=1)
            for trainer in both_raw:
                state = trainer.until(OP_STATE)
                while state[12] != COMMITTED:
                    state = trainer.until(OP_STATE)
                op, fragment = struct.unpack_from("<QI", state)
                round_number, participants = struct.unpack_from("<qI", state, 16)
                self.assertEqual((op, fragment, round_number, participants), (1, 0, 1, 2))


if __name__ == "__main__":
    main()
