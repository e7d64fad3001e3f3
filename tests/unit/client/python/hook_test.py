"""Gradients through DistributedDataParallel's communication hook, against the fake gateway."""

import unittest

import torch
import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel

import causeway
from ranks import RANKS, cluster
from support import Gateway, together


def _network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.Tanh(), torch.nn.Linear(60, 50),
                               torch.nn.Tanh(), torch.nn.Linear(50, 1, bias=False))


def _gradients(model, scale):
    """What one rank's backward pass gives: the model is small, the input says which rank it is."""
    model.zero_grad()
    (model(torch.linspace(-1, 1, 80).view(2, 40) * scale).sum() * scale).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def step_three_times(rank, socket, scale):
    """Three steps, so that DDP has rebuilt its buckets; the sum of each step's gradients."""
    model = _network()
    run = causeway.open("demo", socket, process_group=distributed.group.WORLD, model=model, weight=1)
    # Buckets of a few kilobytes: several of them.
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.004)
    ddp.register_comm_hook(run, causeway.ddp_hook)
    sums = []
    for step in range(3):
        scaled = scale * (1 + rank) * (1 + step)
        sums.append([g.double().sum().item() for g in _gradients(ddp, scaled)])
    rounds = run.last.round
    run.finish()
    return {"sums": sums, "round": rounds}


def use_another_model(rank, socket):
    run = causeway.open("demo", socket, process_group=distributed.group.WORLD, model=_network())
    ddp = DistributedDataParallel(_network())
    ddp.register_comm_hook(run, causeway.ddp_hook)
    try:
        _gradients(ddp, 1.0)
    except (causeway.SchemaError, RuntimeError) as problem:
        return {"text": str(problem)}
    finally:
        run.close()
    return {}


class Hook(unittest.TestCase):
    def test_buckets_come_back_as_the_mean_over_clusters_and_ranks(self):
        with Gateway("clusters=paris,tokyo", "fragments=2") as gateway:
            answers = together(*(lambda name=name, scale=scale: cluster(step_three_times, gateway.socket(name), scale)
                                 for name, scale in (("paris", 0.5), ("tokyo", 0.7))))
        model = _network()
        for step in range(3):
            parts = [_gradients(model, scale * (1 + rank) * (1 + step)) for scale in (0.5, 0.7)
                     for rank in range(RANKS)]
            expected = [torch.stack(tensors).mean(0).double().sum().item() for tensors in zip(*parts)]
            for answer in answers[0] + answers[1]:
                for mine, theirs in zip(answer["sums"][step], expected):
                    self.assertAlmostEqual(mine, theirs, places=4)
        for answer in answers[0] + answers[1]:
            self.assertEqual(answer["sums"], answers[0][0]["sums"])  # the same bytes
            self.assertEqual(answer["round"], 3)

    def test_another_model_than_ddp_wraps_is_an_error_in_backward(self):
        with Gateway() as gateway:
            for answer in cluster(use_another_model, gateway.socket()):
                self.assertIn("the model given to causeway.open does not have", answer["text"])

    def test_without_a_model_it_says_what_to_do(self):
        with Gateway() as gateway:
            run = causeway.open("demo", gateway.socket())
            with self.assertRaisesRegex(causeway.InvalidCall, "model="):
                causeway.ddp_hook(run, None)
            run.close()


if __name__ == "__main__":
    unittest.main()
