"""What a cluster's trainer exchanges with the other clusters: nothing, every gradient, or parameters now and then.

Each class has `after_backward` (gradients are in, averaged over the cluster's ranks) and `after_step` (the
optimizer has moved the parameters). Rank 0 calls Causeway; what it received goes to the other ranks.
`blocked_s` is the time that rank 0 spent inside Causeway's calls.
"""
import contextlib
import time


class NoExchange:
    """One cluster alone."""

    def __init__(self):
        self.blocked_s = 0.0
        self.rounds = 0

    @contextlib.contextmanager
    def blocked(self):
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.blocked_s += time.perf_counter() - begin

    def after_backward(self):
        pass

    def after_step(self):
        pass

    def finish(self):
        pass

    def statistics(self):
        return {}


class EveryStep(NoExchange):
    """Synchronous data parallelism: the mean of all clusters' gradients, every step."""

    def __init__(self, local, optimizer, run, socket):
        super().__init__()
        self.local, self.optimizer = local, optimizer
        if local.leads:
            import causeway
            with self.blocked():
                self.run = causeway.open(run, socket=socket)
                # Two tensors: the status behind the gradient must not share a codec's block with it.
                self.run.join({"gradient": optimizer.gradient, "status": optimizer.status})

    def after_backward(self):
        if self.local.leads:
            with self.blocked():
                self.run.average([self.optimizer.gradient, self.optimizer.status])
            self.rounds += 1
        self.local.broadcast(self.optimizer.reduced)

    def finish(self):
        if self.local.leads:
            self.run.close()

    def statistics(self):
        return self.run.stats() if self.local.leads else {}


class OuterRule(NoExchange):
    """Local steps; the clusters' parameters are combined at the steps that the run's configuration says."""

    def __init__(self, local, model, optimizer, run, socket, weight):
        super().__init__()
        self.local, self.optimizer = local, optimizer
        if local.leads:
            import causeway
            with self.blocked():
                self.outer = causeway.Outer(model, optimizer, run=run, socket=socket, weight=weight)
        local.broadcast(optimizer.flat)

    def after_step(self):
        changed = False
        if self.local.leads:
            with self.blocked():
                changed = self.outer.step()
        if self.local.agree(changed):
            self.local.broadcast(self.optimizer.flat)
        self.rounds += changed

    def finish(self):
        if self.local.leads:
            with self.blocked():
                self.outer.finish()
        self.local.broadcast(self.optimizer.flat)

    def statistics(self):
        return self.outer.stats() if self.local.leads else {}
