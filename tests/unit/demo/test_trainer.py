#!/usr/bin/python3
"""Tests of the reference trainer's parts. Skipped (77) without torch."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "client", "examples"))

import linear_algebra  # noqa: E402

linear_algebra.prepare()
try:
    import numpy as np
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import corpus  # noqa: E402
import local_ranks  # noqa: E402
from flat_adamw import FlatAdamW, Schedule  # noqa: E402
from flat_muon import FlatMuon, orthogonal  # noqa: E402
from gpt import Gpt  # noqa: E402

SEED = 3


def small_model():
    torch.manual_seed(SEED)
    return Gpt(width=16, layers=1, heads=2, context=12, previous=2)


def batch():
    random = np.random.RandomState(SEED)
    data = torch.from_numpy(random.randint(0, 256, (4, 13)).astype(np.int64))
    return data[:, :-1], data[:, 1:]


class Model(unittest.TestCase):
    def test_reference_size(self):
        self.assertEqual(sum(p.numel() for p in Gpt().parameters()), 544256)

    def test_is_causal(self):
        model = small_model()
        tokens, targets = batch()
        changed = tokens.clone()
        changed[:, -1] = (changed[:, -1] + 1) % 256
        outputs = []
        model.norm.register_forward_hook(lambda module, inputs, output: outputs.append(output))
        with torch.no_grad():
            model(tokens, targets)
            model(changed, targets)
        self.assertTrue(torch.equal(outputs[0][:, :-1], outputs[1][:, :-1]))
        self.assertFalse(torch.equal(outputs[0][:, -1], outputs[1][:, -1]))

    def test_untrained_loss_is_that_of_guessing(self):
        with torch.no_grad():
            self.assertAlmostEqual(small_model()(*batch()).item(), np.log(256), delta=0.1)


class Optimizer(unittest.TestCase):
    def test_equals_torch_adamw_with_clipping(self):
        ours, theirs = small_model(), small_model()
        flat = FlatAdamW(ours.parameters(), 1e-2, clip=0.5)
        groups = [{"params": [p for p in theirs.parameters() if p.dim() == 2], "weight_decay": 0.1},
                  {"params": [p for p in theirs.parameters() if p.dim() != 2], "weight_decay": 0.0}]
        reference = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.99), eps=1e-8)
        for _ in range(10):
            for model, optimizer in ((ours, flat), (theirs, reference)):
                optimizer.zero_grad()
                model(*batch()).backward()
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
            flat.step()
            reference.step()
        for mine, other in zip(ours.parameters(), theirs.parameters()):
            self.assertTrue(torch.allclose(mine, other, atol=2e-5), (mine - other).abs().max())

    def test_parameters_and_gradients_are_views(self):
        model = small_model()
        flat = FlatAdamW(model.parameters(), 1e-2)
        flat.flat.zero_()
        self.assertEqual(sum(p.abs().sum().item() for p in model.parameters()), 0)
        model(*batch()).backward()
        flat.zero_grad()
        self.assertTrue(all(p.grad.abs().sum() == 0 for p in model.parameters()))

    def test_muon_makes_singular_values_about_one(self):
        for shape in ((16, 48), (48, 16), (16, 16)):
            torch.manual_seed(SEED)
            values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
            self.assertGreater(values.min().item(), 0.3)
            self.assertLess(values.max().item(), 1.3)

    def test_muon_steps_hidden_matrices_and_adamw_the_rest(self):
        adamw, muon = small_model(), small_model()
        for model, optimizer in ((adamw, FlatAdamW(adamw.parameters(), 1e-2)), (muon, FlatMuon(muon, 1e-2))):
            optimizer.zero_grad()
            model(*batch()).backward()
            optimizer.step()
        hidden = {name for name, p in muon.named_parameters() if name.startswith("blocks.") and p.dim() == 2}
        for (name, mine), other in zip(muon.named_parameters(), adamw.parameters()):
            self.assertEqual(torch.allclose(mine, other, atol=1e-6), name not in hidden, name)

    def test_schedule(self):
        schedule = Schedule(1.0, 1000)
        self.assertAlmostEqual(schedule.at(0), 1 / 50, places=5)
        self.assertGreater(schedule.at(49), 0.99)
        self.assertAlmostEqual(schedule.at(1000), 0.1)


class Corpus(unittest.TestCase):
    def test_every_sixteenth_block_is_held_out(self):
        text = np.arange(40 * corpus.BLOCK_BYTES, dtype=np.int64) // corpus.BLOCK_BYTES
        train, held_out = corpus.split(text.astype(np.uint8))
        self.assertEqual(sorted(set(held_out.tolist())), [7, 23, 39])
        self.assertEqual(len(train) + len(held_out), len(text))

    def test_ranks_share_the_clusters_batch(self):
        train = np.random.RandomState(SEED).randint(0, 256, 10000).astype(np.uint8)
        whole = corpus.Sampler(train, 1, 2, 0, 1, 4, 16, SEED).next()[0]
        halves = [corpus.Sampler(train, 1, 2, rank, 2, 4, 16, SEED).next()[0] for rank in range(2)]
        self.assertTrue(torch.equal(whole, torch.cat(halves)))
        other = corpus.Sampler(train, 0, 2, 0, 1, 4, 16, SEED).next()[0]
        self.assertFalse(torch.equal(whole, other))

    def test_targets_are_the_next_bytes(self):
        tokens, targets = corpus.validation_set(np.arange(200, dtype=np.uint8), 8, count=5)
        self.assertTrue(torch.equal(tokens + 1, targets))


def average_and_compare(local, expected):
    tensor = torch.tensor([float(local.rank)])
    local.average(tensor)
    if tensor.item() != expected or local.gather(local.rank) != [0, 1]:
        sys.exit(3)
    local.close()


def die_alone(local):
    if local.rank == 1:
        sys.exit(5)
    local.average(torch.zeros(1))


class Ranks(unittest.TestCase):
    def test_collectives(self):
        self.assertEqual(local_ranks.launch(average_and_compare, 2, 0.5), 0)

    def test_a_rank_that_dies_ends_all(self):
        self.assertNotEqual(local_ranks.launch(die_alone, 2), 0)


if __name__ == "__main__":
    unittest.main()
