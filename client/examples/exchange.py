"""What a cluster exchanges with the other clusters: nothing, every gradient, or parameters now and then.

All ranks of the cluster make the same calls; Causeway's calls let rank 0 talk to the gateway and give every
rank the same bytes. `blocked_s` is the time spent inside them.
"""
import contextlib
import logging
import time

import torch.distributed as dist


class NoExchange:
    """One cluster alone."""

    def __init__(self):
        self.blocked_s = 0.0

    @contextlib.contextmanager
    def blocked(self):
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.blocked_s += time.perf_counter() - begin

    def after_backward(self):
        """Gradients are in, averaged over the cluster's ranks. Returns whether the step counts."""
        return True

    def after_step(self):
        """The optimizer has moved the parameters."""

    def finish(self):
        """The last step is done; afterwards all clusters hold the same parameters."""

    def statistics(self):
        return {"rounds": 0}


class EveryStep(NoExchange):
    """Synchronous data parallelism: the mean of all clusters' gradients, every step."""

    def __init__(self, optimizer, run, socket, weight):
        super().__init__()
        import causeway
        self.optimizer, self.weight = optimizer, weight
        with self.blocked():
            self.run = causeway.open(run, socket=socket, process_group=dist.group.WORLD)

    def after_backward(self):
        with self.blocked():
            # Two tensors: the status behind the gradient must not share a codec's block with it.
            averaged = self.run.average([self.optimizer.gradient, self.optimizer.status],
                                        weight=self.weight, names=["gradient", "status"])
        return not averaged.nonfinite

    def finish(self):
        with self.blocked():
            self.run.finish()

    def statistics(self):
        return self.run.stats()


class OuterRule(NoExchange):
    """Local steps; the clusters' parameters are combined when the run's configuration says so."""

    def __init__(self, model, optimizer, run, socket, weight):
        super().__init__()
        import causeway
        if dist.get_rank() == 0:
            logging.getLogger("causeway").setLevel(logging.INFO)  # the delay that was chosen, who is awaited
        with self.blocked():
            self.outer = causeway.Outer(model, optimizer, run=run, socket=socket, weight=weight,
                                        process_group=dist.group.WORLD)

    def after_step(self):
        with self.blocked():
            self.outer.step()

    def finish(self):
        with self.blocked():
            self.outer.finish()

    def statistics(self):
        return self.outer.stats()
