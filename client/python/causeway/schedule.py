"""When fragments are submitted and applied, by step count alone: the same on every local rank.

Pure logic: no torch, no clock. Fragment f of P is launched at steps that are f*H//P modulo H and applied
``delay`` steps later.
"""

import math

DELAY_AUTO = 0xFFFFFFFF  # as the gateway says it


def launches(step, fragments, local_steps):
    """Fragments that are submitted after optimizer step ``step`` (counted from 1)."""
    return [f for f in range(fragments) if step % local_steps == f * local_steps // fragments]


def next_launch(step, fragment, fragments, local_steps):
    """The first step after ``step`` after which the fragment is submitted."""
    return step + 1 + (fragment * local_steps // fragments - step - 1) % local_steps


def first_delay(delay, local_steps):
    """In steps, of a run's ``delay``. Ranks that each measure for themselves would not choose the same and stay with it."""
    return automatic_delay(None, None, local_steps) if delay == DELAY_AUTO else delay


def automatic_delay(exchange_s, step_s, local_steps):
    """The least delay, in steps, that hides an exchange; 1 to H-1 (0 where H is 1). Before anything is measured a
    quarter of H, with which the gateways plan: with less, each fragment's first result would be waited for."""
    if local_steps <= 1:
        return 0
    if not exchange_s or not step_s or step_s <= 0:
        return max(1, local_steps // 4)
    return max(1, min(local_steps - 1, math.ceil(exchange_s / step_s)))


class Flight:
    """A submitted fragment that is not applied yet. ``op`` and ``problem`` are the leader's: what it was
    submitted as, or why it was not; the other ranks hear of a problem when the flight is due."""

    __slots__ = ("fragment", "step", "due", "op", "problem")

    def __init__(self, fragment, step, due, op=None, problem=None):
        self.fragment = fragment
        self.step = step
        self.due = due
        self.op = op
        self.problem = problem
