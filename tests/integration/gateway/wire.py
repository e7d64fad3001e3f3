"""A peer that may say anything: HTTP/2 and protobuf by hand over TLS, with a certificate that is valid.

Only what a hostile client needs: one stream a connection, no header compression, DATA both ways. Sharing no
line with the gateway's libraries is the point.
"""
import os
import socket
import ssl
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
FRAME_BYTES_MAX = 16384
CONTROL, LANE = "/causeway.wan.v1.Gateway/Control", "/causeway.wan.v1.Gateway/Lane"
PATIENCE_S = 30


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """One protobuf field: an int as varint, text or bytes (also a nested message) with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(**numbered):
    """message(f1=..., f10=...): fields by number; a list repeats."""
    out = b""
    for name, value in numbered.items():
        for each in value if isinstance(value, list) else [value]:
            out += field(int(name[1:]), each)
    return out


def hello(cluster, link=5, incarnation=7, lanes=2):
    return field(1, message(f1=1, f2=1, f3=cluster, f4=incarnation, f5="hostile", f6=lanes, f7=link))


def lane_hello(cluster, link=5, incarnation=7, lane=0):
    return field(1, message(f1=cluster, f2=incarnation, f3=link, f4=lane))


def run_message(run, body_number, body, counter=1, candidate="paris", sender=7, receiver=0):
    """A ControlFrame with a RunMessage."""
    return field(2, message(f1=run, f2=message(f1=counter, f2=candidate), f4=sender, f5=receiver)
                 + field(body_number, body))


def context(pki):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.load_verify_locations(os.path.join(pki, "ca.pem"))
    made.load_cert_chain(os.path.join(pki, "gateway.pem"), os.path.join(pki, "gateway.key"))
    made.set_alpn_protocols(["h2"])
    return made


def connect(port, pki):
    plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    return context(pki).wrap_socket(plain)


class Stream:
    """One gRPC call on a connection of its own. After `ended` nothing arrives any more."""

    def __init__(self, port, pki, method):
        self.socket = connect(port, pki)
        self.ended = False
        self._bytes = self._data = b""
        self._windows = {0: 65535, 1: 65535}
        self._window_initial = 65535
        self.socket.sendall(PREFACE + self._frame(SETTINGS, 0, 0, b"")
                            + self._frame(HEADERS, END_HEADERS, 1, self._headers(method)))

    @staticmethod
    def _frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload

    @staticmethod
    def _headers(method):
        out = b""
        for name, value in ((":method", "POST"), (":scheme", "https"), (":path", method),
                            (":authority", "gateway"), ("te", "trailers"),
                            ("content-type", "application/grpc")):
            out += b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        return out

    def _receive(self, timeout_s):
        """Handles what arrives within the time; False when nothing did."""
        if self.ended:
            return False
        self.socket.settimeout(timeout_s)
        try:
            got = self.socket.recv(65536)
        except (TimeoutError, ssl.SSLWantReadError):
            return False
        except OSError:
            got = b""
        if not got:
            self.ended = True
            return False
        self._bytes += got
        while len(self._bytes) >= 9:
            length = int.from_bytes(self._bytes[:3], "big")
            if len(self._bytes) < 9 + length:
                break
            kind, flags, stream = struct.unpack(">BBI", self._bytes[3:9])
            payload, self._bytes = self._bytes[9:9 + length], self._bytes[9 + length:]
            self._handle(kind, flags, stream, payload)
        return True

    def _handle(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at:at + 6])
                if name == 4:  # SETTINGS_INITIAL_WINDOW_SIZE
                    self._windows[1] += value - self._window_initial
                    self._window_initial = value
            self._send(self._frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._send(self._frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self._windows[stream] = self._windows.get(stream, 0) + struct.unpack(">I", payload)[0]
        elif kind == DATA:
            self._data += payload
            if payload:
                more = struct.pack(">I", len(payload))
                self._send(self._frame(WINDOW_UPDATE, 0, 0, more) + self._frame(WINDOW_UPDATE, 0, 1, more))
        if kind in (RST_STREAM, GOAWAY) or flags & END_STREAM and kind in (DATA, HEADERS):
            self.ended = True

    def _send(self, frames):
        if self.ended:
            return
        try:
            self.socket.settimeout(PATIENCE_S)
            self.socket.sendall(frames)
        except OSError:
            self.ended = True

    def write(self, payload, declared_bytes=None):
        """One gRPC message; `declared_bytes` lies about its length. False when the stream is over."""
        size = len(payload) if declared_bytes is None else declared_bytes
        return self.more(b"\x00" + struct.pack(">I", size & 0xFFFFFFFF) + payload)

    def more(self, data):
        """Goes on with a message that was declared longer than what was written. False when the stream is over."""
        while data and not self.ended:
            room = min(self._windows[0], self._windows[1], FRAME_BYTES_MAX, len(data))
            if room <= 0:
                if not self._receive(PATIENCE_S):
                    break
                continue
            self._send(self._frame(DATA, 0, 1, data[:room]))
            self._windows[0] -= room
            self._windows[1] -= room
            data = data[room:]
        return not self.ended and not data

    def raw(self, data):
        """Bytes on the connection, whatever they mean."""
        self._send(data)

    def read(self, timeout_s=PATIENCE_S):
        """The next gRPC message, or None when the stream ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while True:
            if len(self._data) >= 5:
                size = struct.unpack(">I", self._data[1:5])[0]
                if len(self._data) >= 5 + size:
                    got, self._data = self._data[5:5 + size], self._data[5 + size:]
                    return got
            if self.ended or time.monotonic() > deadline:
                return None
            self._receive(max(0.01, deadline - time.monotonic()))

    def until_ended(self):
        while self.read() is not None:
            pass
        return self.ended

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
