"""The rule eager: a cluster goes on from a value of its own that runs ahead of the committed one.

The gateways commit DiLoCo's rule, theta <- theta - eta (D + mu u), u <- mu u + D, one round late for the trainer.
A cluster need not wait for its own part: with c its share of the mean and D' its newest work,

    u' <- mu u' + c D';   private = theta - eta (c D' + mu u')

is what theta becomes by the cluster's own work alone, u' being its share of the momentum. The step is linear, so
this equals a private (theta, u) driven by the cluster's newest work and the others' work of the round before, but
starts from the committed value each time: what it got wrong (rounding, codec, shares) never adds up. It is computed
by the gateways' arithmetic: the private value of a cluster that is alone is the next committed one, bit by bit.

The gateway knows nothing of private values: work is handed over as the snapshot theta - D', of which it sees
D' again, to the rounding of theta.
"""

import torch

from . import errors


class Ahead:
    """One fragment's private value and share of the momentum. Flat fp32 tensors, 8 bytes an element."""

    def __init__(self, eta, mu, value):
        if value.dtype != torch.float32:
            raise errors.AlgorithmError(f"rule eager needs float32 tensors (or masters), not {value.dtype}")
        self._eta, self._mu = eta, mu
        self._private = value.clone()  # that the local work starts from
        self._momentum = torch.zeros_like(value)
        self._before = None  # the momentum without the work that is not decided yet

    def decided(self, counted):
        """The last work was counted in its round, or in none."""
        if not counted and self._before is not None:
            self._momentum = self._before
        self._before = None

    def snapshot(self, now, newest):
        """What to submit against ``newest`` for the work that led from the private value to ``now``."""
        # Where the work began at the value itself its end needs no rounding.
        return torch.where(self._private == newest, now, newest - (self._private - now))

    def advance(self, now, newest, share):
        """The work is submitted: the next private value."""
        work = (newest - self.snapshot(now, newest)).mul_(share)  # as the gateway sees it
        self._before = self._momentum
        self._momentum = self._before.mul(self._mu).add_(work)
        # One operation at a time: none is fused, as none is in the gateway.
        self._private = newest - work.add_(self._momentum.mul(self._mu)).mul_(self._eta)
        return self._private

    def restart(self, value):
        """The work since the last submission is lost: on from a committed value."""
        self._private = value.clone()
        self.decided(counted=False)
