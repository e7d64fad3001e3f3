"""What can go wrong, as exceptions: one class a kind, with who and what in attributes."""


class Error(RuntimeError):
    """Base of all. ``retryable``: the same call, or simply going on, can succeed later."""

    code = "INTERNAL"
    retryable = False

    def __init__(self, text="", cluster="", rank=-1, tensor="", round=-1, code=None, retryable=None):
        super().__init__(text)
        self.text = text
        self.cluster = cluster
        self.rank = rank
        self.tensor = tensor
        self.round = round
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable

    def describe(self):
        """A plain dictionary that ``restore`` turns into an equal exception on another rank."""
        return {"code": self.code, "text": self.text, "cluster": self.cluster, "rank": self.rank,
                "tensor": self.tensor, "round": self.round, "retryable": self.retryable}


class Retryable(Error):
    retryable = True


class Busy(Retryable):
    code = "BUSY"


class Stalled(Retryable):
    code = "STALLED"


class GatewayLost(Retryable):
    code = "GATEWAY_LOST"


class Rebase(Retryable):
    code = "REBASE"


class NotReady(Retryable):
    code = "NOT_READY"


class Timeout(Retryable):
    code = "TIMEOUT"


class Draining(Retryable):
    code = "DRAINING"


class Interrupted(Retryable):
    code = "INTERRUPTED"


class SchemaError(Error):
    code = "SCHEMA"


class AlgorithmError(Error):
    code = "ALGORITHM"


class IdentityTaken(Error):
    code = "IDENTITY_TAKEN"


class NonFinite(Error):
    code = "NONFINITE"


class HashMismatch(Error):
    code = "HASH_MISMATCH"


class Forked(Error):
    code = "FORKED"


class CommError(Error):
    code = "COMM"


class UnknownRun(Error):
    code = "RUN"


class ProtocolError(Error):
    code = "PROTOCOL"


class OutOfMemory(Error):
    code = "MEMORY"


class InitRefused(Error):
    code = "INIT"


class InternalError(Error):
    code = "INTERNAL"


class InvalidCall(Error, ValueError):
    code = "ARGUMENT"


class InvalidType(InvalidCall, TypeError):
    """An argument of a type that the call does not take."""


class CudaError(Error):
    code = "CUDA"


class LibraryMissing(Error):
    code = "LIBRARY"


# Numbers of causeway.h.
BY_NUMBER = {
    1: Busy, 2: Stalled, 3: GatewayLost, 4: Rebase, 5: NotReady, 16: SchemaError, 17: AlgorithmError,
    18: IdentityTaken, 19: NonFinite, 20: HashMismatch, 21: Forked, 22: CommError, 23: UnknownRun,
    24: ProtocolError, 25: OutOfMemory, 26: Timeout, 27: InitRefused, 28: InternalError, 29: Draining,
    64: Interrupted, 65: InvalidCall, 66: CudaError,
}
NUMBERS = {kind: number for number, kind in BY_NUMBER.items()}
_BY_CODE = {kind.code: kind for kind in list(BY_NUMBER.values()) + [LibraryMissing]}


def restore(described):
    """The exception that ``Error.describe`` described."""
    fields = dict(described)
    kind = _BY_CODE.get(fields.get("code"), Error)
    return kind(**fields)
