"""The rule eager: a cluster that is alone trains on what its gateway commits, to the last bit."""

import random
import unittest

import torch

from causeway import eager

ELEMENTS = 500
LOCAL_STEPS = 5


class Gateway:
    """Nesterov as the gateways commit it: fp32, one operation at a time."""

    def __init__(self, eta, mu, value):
        self.eta, self.mu = eta, mu
        self.value, self.momentum = value.clone(), torch.zeros_like(value)

    def commit(self, snapshot):
        work = self.value - snapshot
        self.momentum = self.momentum.mul(self.mu).add(work)
        self.value = self.value - work.add(self.momentum.mul(self.mu)).mul(self.eta)


def start(generator):
    return torch.randn(ELEMENTS, generator=generator)


def steps(now, generator):
    for _ in range(LOCAL_STEPS):
        now = now + torch.randn(ELEMENTS, generator=generator) * 0.01
    return now


class AloneIsDiLoCo(unittest.TestCase):
    def test_limit_one_cluster_is_nesterov(self):
        seed = random.randrange(2 ** 31)
        for eta, mu in ((0.7, 0.5), (0.9, 0.0), (1.0, 0.9)):
            with self.subTest(seed=seed, eta=eta, mu=mu):
                generator = torch.Generator().manual_seed(seed)
                waiting = Gateway(eta, mu, start(generator))
                for _ in range(20):
                    waiting.commit(steps(waiting.value, generator))

                generator = torch.Generator().manual_seed(seed)
                late = Gateway(eta, mu, start(generator))
                ahead, now = eager.Ahead(eta, mu, late.value), late.value
                for _ in range(20):
                    now = steps(now, generator)
                    newest = late.value  # the round before is decided only now
                    snapshot = ahead.snapshot(now, newest)
                    now = ahead.advance(now, newest, 1.0)
                    ahead.decided(counted=True)
                    late.commit(snapshot)
                    self.assertTrue(torch.equal(now, late.value))
                self.assertTrue(torch.equal(late.value, waiting.value))

    def test_work_that_did_not_count_leaves_no_momentum(self):
        generator = torch.Generator().manual_seed(1)
        value = start(generator)
        ahead = eager.Ahead(0.7, 0.5, value)
        ahead.advance(steps(value, generator), value, 0.5)
        ahead.decided(counted=False)
        now = steps(value, generator)
        ahead.restart(value)
        fresh = eager.Ahead(0.7, 0.5, value)
        self.assertTrue(torch.equal(ahead.advance(now, value, 0.5), fresh.advance(now, value, 0.5)))


if __name__ == "__main__":
    unittest.main()
