#!/usr/bin/python3
"""A run that grows: trainers go on with more tensors, what was there stays, and gateways live through it."""
import sys
import threading
import unittest

try:
    import torch
except ImportError:
    sys.exit(77)

import causeway
import gateways
from real_gateway_test import PATIENCE_S, together

ALGORITHM = "{rule: nesterov, learning_rate: 1.0, momentum: 0.5, local_steps: 4, fragments: 2}"


class Blocks(torch.nn.Module):
    """Blocks of one parameter each, after which comes what reads them: new ones come in the middle."""

    def __init__(self, count, first):
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(16, 16, bias=False) for _ in range(count))
        self.register_buffer("mean", torch.zeros(8))
        self.head = torch.nn.Linear(16, 4)
        with torch.no_grad():
            for index, parameter in enumerate(self.parameters()):
                parameter.fill_(first + index)


def grown(model, count, first):
    larger = Blocks(count, first)
    larger.load_state_dict(model.state_dict(), strict=False)
    return larger


def train(outer, model, steps, by=0.25):
    for _ in range(steps):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(by)
        outer.step()


def tensors(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def equal(mine, theirs):
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


class Growth(unittest.TestCase):
    def test_a_run_grows_twice_and_a_new_trainer_joins_what_it_has_become(self):
        with gateways.Pair(codec=gateways.FP32, algorithm=ALGORITHM) as pair:
            def run(gateway, first):
                model = Blocks(2, first)
                outer = causeway.Outer(model, run="demo", socket=gateway.trainer_socket)
                train(outer, model, 10)
                rounds = []
                for count in (3, 4):
                    smaller, model = model, grown(model, count, 10 * first)
                    outer = outer.grow(model)
                    rounds.append(list(outer._rounds))
                    before, after = tensors(smaller), tensors(model)
                    self.assertTrue(all(torch.equal(before[name], after[name]) for name in before))
                    news = f"blocks.{count - 1}.weight"
                    self.assertEqual(after[news].unique().tolist(), [10.0 + count - 1])  # those of paris
                    train(outer, model, 10)
                outer.finish()
                return tensors(model), outer, rounds

            (paris, outer, rounds), (tokyo, _, _) = together(lambda: run(pair.paris, 1.0),
                                                             lambda: run(pair.tokyo, 2.0))
            self.assertTrue(equal(paris, tokyo))
            self.assertEqual(outer.stages, {"blocks.2.weight": 1, "blocks.3.weight": 2})
            for found in rounds:  # the new tensors' first round is yet to come
                self.assertEqual(found[-1], 0)
                self.assertTrue(all(round > 0 for round in found[:-1]))

            def again(gateway):  # a trainer that knows nothing but what came when
                model = Blocks(4, 99.0)
                outer = causeway.Outer(model, run="demo", socket=gateway.trainer_socket, stages=outer_stages)
                joined = tensors(model)
                train(outer, model, 4)
                outer.finish()
                return joined, tensors(model)

            outer_stages = outer.stages
            (joined, mine), (_, theirs) = together(lambda: again(pair.paris), lambda: again(pair.tokyo))
            self.assertTrue(equal(joined, paris))
            self.assertTrue(equal(mine, theirs))

            with self.assertRaises(causeway.SchemaError) as caught:
                causeway.Outer(Blocks(2, 1.0), run="demo", socket=pair.paris.trainer_socket)
            self.assertIn("blocks.2.weight", str(caught.exception))

    def test_frozen_tensors_are_compared_and_may_be_trained_after_a_growth(self):
        def build(value):
            model = Blocks(2, 1.0)
            model.blocks[1].weight.requires_grad_(False).fill_(value)
            return model

        def steps(outer, model, by):
            for _ in range(8):
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.add_(by if parameter.requires_grad else 0)
                outer.step()

        def run(gateway, value, by):
            model = build(value)
            outer = causeway.Outer(model, run="demo", socket=gateway.trainer_socket)
            steps(outer, model, by)
            model.blocks[1].weight.requires_grad_(True)
            outer = outer.grow(model)
            steps(outer, model, by)
            outer.finish()
            return tensors(model), outer.stages

        with gateways.Pair(codec=gateways.FP32, algorithm=ALGORITHM) as pair:
            (paris, stages), (tokyo, _) = together(lambda: run(pair.paris, 5.0, 0.25),
                                                   lambda: run(pair.tokyo, 5.0, 0.5))
            self.assertTrue(equal(paris, tokyo))
            self.assertGreater(paris["blocks.1.weight"].min().item(), 7.0)
            self.assertEqual(stages.pop("blocks.1.weight"), 1)
            self.assertRegex(list(stages)[0], "^blocks[.]1[.]weight#")

            def again(gateway):
                model = Blocks(2, 99.0)
                outer = causeway.Outer(model, run="demo", socket=gateway.trainer_socket,
                                       stages={**stages, "blocks.1.weight": 1})
                outer.finish()
                return tensors(model)

            joined, other = together(lambda: again(pair.paris), lambda: again(pair.tokyo))
            self.assertTrue(equal(joined, paris) and equal(other, paris))
        with gateways.Pair(codec=gateways.FP32, algorithm=ALGORITHM) as pair:
            def refused(gateway, value):
                with self.assertRaises(causeway.SchemaError) as caught:
                    causeway.Outer(build(value), run="demo", socket=gateway.trainer_socket)
                return str(caught.exception)

            for text in together(lambda: refused(pair.paris, 5.0), lambda: refused(pair.tokyo, 6.0)):
                self.assertIn("blocks.1.weight#", text)

    def test_new_tensors_that_differ_are_named_on_both_sides(self):
        with gateways.Pair(codec=gateways.FP32, algorithm=ALGORITHM) as pair:
            def run(gateway, width):
                model = Blocks(2, 1.0)
                outer = causeway.Outer(model, run="demo", socket=gateway.trainer_socket)
                train(outer, model, 4)
                model.extra = torch.nn.Linear(16, width, bias=False)
                with self.assertRaises(causeway.SchemaError) as caught:
                    outer.grow(model)
                return str(caught.exception)

            for text in together(lambda: run(pair.paris, 4), lambda: run(pair.tokyo, 5)):
                self.assertIn("extra.weight", text)
                self.assertIn("stage 1", text)

    def test_gateways_that_die_around_the_growth(self):
        with gateways.Pair(codec=gateways.FP32, algorithm=ALGORITHM) as pair:
            # Each trainer meets the test alone, tokyo's first.
            barrier = threading.Barrier(2, timeout=PATIENCE_S)

            def run(gateway, first, late):
                model = Blocks(2, first)
                outer = causeway.Outer(model, run="demo", socket=gateway.trainer_socket, progress_interval=0.5)
                train(outer, model, 6)
                model = grown(model, 3, first)
                outer.finish()
                if late:
                    barrier.wait()  # the other waits for this cluster to grow, and its gateway dies
                    barrier.wait()
                outer = outer.grow(model)
                train(outer, model, 6)
                if not late:
                    barrier.wait()  # both have grown; this gateway dies with what it had in flight
                    barrier.wait()
                train(outer, model, 6)
                outer.finish()
                return tensors(model)

            def meanwhile():
                barrier.wait()
                pair.paris.until_event("run.grows")
                self.restart(pair.paris)
                barrier.wait()
                barrier.wait()
                self.restart(pair.paris)
                barrier.wait()

            paris, tokyo = together(lambda: run(pair.paris, 1.0, False), lambda: run(pair.tokyo, 2.0, True),
                                    meanwhile=meanwhile)
            self.assertTrue(equal(paris, tokyo))

    def test_all_gateways_restart_after_the_growth(self):
        """From what is on disk: each fragment's checkpoint is of the stage in which it came."""
        with gateways.Pair(codec=gateways.FP32, algorithm=ALGORITHM,
                           settings="checkpoint: {rounds: 1, interval: 1h}\n") as pair:
            barrier = threading.Barrier(3, timeout=PATIENCE_S)

            def run(gateway, first):
                model = Blocks(2, first)
                outer = causeway.Outer(model, run="demo", socket=gateway.trainer_socket, progress_interval=0.5)
                train(outer, model, 6)
                outer = outer.grow(model := grown(model, 3, first))
                train(outer, model, 10)
                barrier.wait()  # all gateways die
                barrier.wait()
                train(outer, model, 10)
                outer.finish()
                return tensors(model), len(outer._rounds)

            def meanwhile():
                barrier.wait()
                for gateway in pair.gateways.values():
                    gateway.until_run(lambda run: run["checkpoint"]["fragments_behind"] == 0 and
                                      all(f["round"] > 0 for f in run["fragments"]), "all is on disk")
                for gateway in pair.gateways.values():
                    gateway.kill()
                for gateway in pair.gateways.values():
                    gateway.start(wait=False)
                barrier.wait()

            (paris, fragments), (tokyo, _) = together(lambda: run(pair.paris, 1.0), lambda: run(pair.tokyo, 2.0),
                                                      meanwhile=meanwhile)
            self.assertTrue(equal(paris, tokyo))
            self.assertGreater(fragments, 2)
            for gateway in pair.gateways.values():
                self.assertEqual(len(gateway.events("state.checkpoint-loaded")), fragments)
                self.assertTrue(gateway.events("run.rolled-back"))

    def restart(self, gateway):
        gateway.kill()
        gateway.start(wait=False)


if __name__ == "__main__":
    unittest.main(verbosity=2)
