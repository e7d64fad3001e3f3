"""When fragments are submitted and applied, by step count alone: the same on every local rank.

Pure logic: no torch, no clock. Fragment f of P is launched at steps that are f*H//P modulo H and applied
``delay`` steps later.
"""

import math
import statistics


def launches(step, fragments, local_steps):
    """Fragments that are submitted after optimizer step ``step`` (counted from 1)."""
    return [f for f in range(fragments) if step % local_steps == f * local_steps // fragments]


def automatic_delay(exchange_s, step_s, local_steps):
    """The least delay, in steps, that hides an exchange; 1 to H-1 (0 where H is 1)."""
    if local_steps <= 1:
        return 0
    if not exchange_s or not step_s or step_s <= 0:
        return 1
    return max(1, min(local_steps - 1, math.ceil(exchange_s / step_s)))


class Pace:
    """Measured times of the last exchanges and steps."""

    KEPT = 64

    def __init__(self):
        self._steps = []
        self._exchanges = []

    def add_step(self, seconds):
        self._steps = (self._steps + [seconds])[-self.KEPT:]

    def add_exchange(self, seconds, fragments):
        # The last round of each fragment: the slowest of them must be hidden.
        self._exchanges = (self._exchanges + [seconds])[-max(1, fragments):]

    def step_s(self):
        return statistics.median(self._steps) if self._steps else None

    def exchange_s(self):
        return max(self._exchanges) if self._exchanges else None


class Flight:
    """A submitted fragment that is not applied yet."""

    __slots__ = ("fragment", "step", "due", "op")

    def __init__(self, fragment, step, due, op):
        self.fragment = fragment
        self.step = step
        self.due = due
        self.op = op
