"""What a trainer measures of itself: steps, exchanges, time inside Causeway's calls, and the gateway's CPU.

Four different costs are kept apart: stall (waiting for a result that is not there when it is due), overhead
(copies, merges and words between ranks), the gateway's CPU time, and how much longer a step takes while an
exchange is running than without.
"""

import os
import statistics


class Pace:
    """Measured times of the last exchanges and steps."""

    KEPT = 64

    def __init__(self):
        self._steps = []
        self._exchanges = []
        self._quiet, self._busy = [], []

    def add_step(self, seconds, exchanging=False):
        self._steps = (self._steps + [seconds])[-self.KEPT:]
        if exchanging:
            self._busy = (self._busy + [seconds])[-self.KEPT:]
        else:
            self._quiet = (self._quiet + [seconds])[-self.KEPT:]

    def add_exchange(self, seconds, fragments):
        # The last round of each fragment: the slowest of them must be hidden.
        self._exchanges = (self._exchanges + [seconds])[-max(1, fragments):]

    def step_s(self):
        return statistics.median(self._steps) if self._steps else None

    def exchange_s(self):
        return max(self._exchanges) if self._exchanges else None

    def inflation(self):
        """By what share a step takes longer while a fragment is exchanged; None until both were seen."""
        if not self._quiet or not self._busy:
            return None
        return statistics.median(self._busy) / statistics.median(self._quiet) - 1


class GatewayCpu:
    """CPU seconds of the gateway's process since this was made; None where they cannot be seen."""

    def __init__(self, pid):
        self._pid = pid
        self._first = self._read()

    def _read(self):
        if not self._pid:
            return None
        try:
            with open(f"/proc/{self._pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def seconds(self):
        now = self._read()
        return None if now is None or self._first is None else now - self._first


class Counts:
    """What ``stats()`` adds up."""

    def __init__(self):
        self.rounds = self.excluded = self.rebases = self.steps_lost = 0
        self.blocked_s = self.exchange_s = 0.0
        self.raw_bytes = self.wire_bytes = self.staleness = self.participants = 0

    def add(self, result):
        self.rounds += 1
        self.excluded += result["state"] != "committed"
        self.exchange_s += result["exchange_s"]
        self.raw_bytes += result["raw_bytes"]
        self.wire_bytes += result["wire_bytes"]
        self.staleness = result["staleness"]
        self.participants = result["participants"]
