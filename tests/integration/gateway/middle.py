"""Somebody in the middle who holds both gateways' keys: ends TLS towards each of them as the other one, so that
what passes can be spoiled behind TLS, as a bad memory or a bug would spoil it. The gateways run as they are.

It follows HTTP/2 and gRPC just far enough to find the chunks (proto/WIRE.md): frames of DATA, messages, and the
first fields of a chunk. A byte is flipped within a chunk's payload and nowhere else.
"""
import os
import random
import selectors
import socket
import ssl
import struct
import threading

import gateways

PREFACE_BYTES = 24
FRAME_HEAD_BYTES, PREFIX_BYTES = 9, 5
DATA, PADDED = 0, 8
HEAD_BYTES = 256             # a chunk's fields lie within these; spoiled bytes lie behind them
READ_BYTES = 1 << 16
PATIENCE_S = 30
CONTRIBUTION, RESULT, STATE = 1, 2, 3


def _number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def chunk_fields(message):
    """{field number: value} of the chunk that a lane frame begins with, or None if it is something else."""
    if not message or message[0] != 3 << 3 | 2:
        return None
    _, at = _number(message, 1)
    fields = {}
    while at < len(message):
        tag, at = _number(message, at)
        value, at = _number(message, at)
        if tag >> 3 == 15:  # the payload, which is last
            return fields
        if tag & 7 == 2:
            at += value
        else:
            fields[tag >> 3] = value
    return None


class _Direction:
    """One way of one connection: bytes go in as they came and out perhaps spoiled."""

    def __init__(self, middle, label, preface):
        self.middle, self.label = middle, label
        self.skip = preface          # bytes that are no frame's
        self.frame_head = bytearray()
        self.frame_left = 0          # payload of the frame that is passing
        self.is_data = False
        self.prefix = bytearray()
        self.message_bytes = None    # of the gRPC message that is passing
        self.position = 0
        self.head = bytearray()
        self.spoil_at = None

    def pass_on(self, data):
        at = 0
        while at < len(data):
            rest = len(data) - at
            if self.skip:
                take = min(self.skip, rest)
                self.skip -= take
            elif self.frame_left == 0:
                take = min(FRAME_HEAD_BYTES - len(self.frame_head), rest)
                self.frame_head += data[at:at + take]
                if len(self.frame_head) == FRAME_HEAD_BYTES:
                    self.frame_left = int.from_bytes(self.frame_head[:3], "big")
                    self.is_data = self.frame_head[3] == DATA
                    assert not (self.is_data and self.frame_head[4] & PADDED), "gRPC pads nothing"
                    self.frame_head.clear()
            else:
                take = min(self.frame_left, rest)
                if self.is_data:
                    self._pass_data(data, at, at + take)
                self.frame_left -= take
            at += take

    def _pass_data(self, data, at, end):
        while at < end:
            if self.message_bytes is None:
                take = min(PREFIX_BYTES - len(self.prefix), end - at)
                self.prefix += data[at:at + take]
                if len(self.prefix) == PREFIX_BYTES:
                    self.message_bytes = struct.unpack(">I", self.prefix[1:])[0]
                    self.position, self.spoil_at = 0, None
                    self.prefix.clear()
                    self.head.clear()
            else:
                take = min(self.message_bytes - self.position, end - at)
                self._pass_message(data, at, take)
                self.position += take
            if self.message_bytes is not None and self.position == self.message_bytes:
                self.message_bytes = None
            at += take

    def _pass_message(self, data, at, count):
        if len(self.head) < HEAD_BYTES:
            self.head += data[at:at + min(count, HEAD_BYTES - len(self.head))]
            if len(self.head) == HEAD_BYTES and self.message_bytes > HEAD_BYTES:
                fields = chunk_fields(self.head)
                if fields is not None:
                    self.spoil_at = self.middle.choose(self.label, fields, self.message_bytes)
        if self.spoil_at is not None and self.position <= self.spoil_at < self.position + count:
            data[at + self.spoil_at - self.position] ^= 1 << self.middle.random.randrange(8)
            self.spoil_at = None


class Middle:
    """Between a gateway that dials and the one that it means to reach, as a context manager.

    `dialler`, `acceptor`: gateways of a group that was not started; their configurations are changed so that the
    one dials here, and the other nobody. `spoils(label, fields, times)`: whether a chunk is spoiled that passes for the `times`-th time, counted
    from 0; the label is "dialler>acceptor" by their names, fields are by number.
    """

    def __init__(self, dialler, acceptor, spoils, seed):
        self.spoils, self.random = spoils, random.Random(seed)
        self.spoiled = []  # (label, fields)
        self._times = {}
        self._lock = threading.Lock()
        self._labels = (f"{dialler.cluster}>{acceptor.cluster}", f"{acceptor.cluster}>{dialler.cluster}")
        self._towards = acceptor.port
        self._as_acceptor = self._context(ssl.PROTOCOL_TLS_SERVER, acceptor.cluster)
        self._as_dialler = self._context(ssl.PROTOCOL_TLS_CLIENT, dialler.cluster)
        self.port = gateways.free_ports(1)[0]
        self._change(dialler, f'"127.0.0.1:{acceptor.port}"', f'"127.0.0.1:{self.port}"')
        self._change(acceptor, f', address: "127.0.0.1:{dialler.port}"', "")  # else it may dial past us

    @staticmethod
    def _change(gateway, before, after):
        with open(gateway.configuration_path) as file:
            text = file.read()
        assert before in text, f"{gateway.cluster}'s configuration has no {before}"
        with open(gateway.configuration_path, "w") as file:
            file.write(text.replace(before, after))

    @staticmethod
    def _context(protocol, cluster):
        pki = gateways.authority().issue(cluster)
        made = ssl.SSLContext(protocol)
        made.check_hostname = False
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_verify_locations(os.path.join(pki, "ca.pem"))
        made.load_cert_chain(os.path.join(pki, "gateway.pem"), os.path.join(pki, "gateway.key"))
        made.set_alpn_protocols(["h2"])
        return made

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def choose(self, label, fields, message_bytes):
        """Where the message is to be spoiled, or None."""
        with self._lock:
            key = (label, *sorted(item for item in fields.items() if item[0] not in (1, 11)))
            times = self._times.get(key, 0)
            self._times[key] = times + 1
            if not self.spoils(label, fields, times):
                return None
            self.spoiled.append((label, fields))
            return self.random.randrange(HEAD_BYTES, message_bytes)

    def _accept(self):
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._connect, args=(plain,), daemon=True).start()

    def _connect(self, plain):
        try:
            plain.settimeout(PATIENCE_S)
            with self._as_acceptor.wrap_socket(plain, server_side=True) as caller, \
                    socket.create_connection(("127.0.0.1", self._towards), PATIENCE_S) as onwards, \
                    self._as_dialler.wrap_socket(onwards) as callee:
                self._pump(caller, callee)
        except OSError:
            plain.close()  # one end went: so does the connection

    def _pump(self, caller, callee):
        ways = {caller: (callee, _Direction(self, self._labels[0], PREFACE_BYTES)),
                callee: (caller, _Direction(self, self._labels[1], 0))}
        with selectors.DefaultSelector() as selector:
            for end in ways:
                selector.register(end, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                for end in ready:
                    other, direction = ways[end]
                    while True:
                        data = bytearray(end.recv(READ_BYTES))
                        if not data:
                            return
                        direction.pass_on(data)
                        other.sendall(data)
                        if not end.pending():
                            break
