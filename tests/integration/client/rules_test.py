#!/usr/bin/python3
"""The outer rules from trainer to trainer, through real gateways: values against a float64 reference."""
import sys
import unittest

try:
    import torch
except ImportError:
    sys.exit(77)

import causeway
import gateways
from real_gateway_test import together

ELEMENTS = 300


def increments(cluster, step):
    """What a local step adds: another vector each time, of a few hundredths."""
    generator = torch.Generator().manual_seed(1000 * cluster + step)
    return torch.randn(ELEMENTS, generator=generator, dtype=torch.float64) * 0.02


def start():
    return torch.linspace(-1, 1, ELEMENTS, dtype=torch.float64)


def train(gateway, cluster, steps, run="demo", seen=None, weight=1):
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(start().float())
    outer = causeway.Outer(model, run=run, socket=gateway.trainer_socket, weight=weight)
    for step in range(steps):
        with torch.no_grad():
            model.weight.add_(increments(cluster, step).float())
        outer.step()
        if seen is not None:
            seen.append(model.weight.detach().clone())
    outer.finish()
    return model.weight.detach().clone(), outer


def work(cluster, first, last):
    """D of local steps first..last-1: base - snapshot."""
    return -sum(increments(cluster, step) for step in range(first, last))


class Rules(unittest.TestCase):
    def both(self, pair, steps, run="demo", **options):
        steps = steps if isinstance(steps, tuple) else (steps, steps)
        (paris, outer), (tokyo, _) = together(lambda: train(pair.paris, 0, steps[0], run, **options),
                                             lambda: train(pair.tokyo, 1, steps[1], run))
        self.assertTrue(torch.equal(paris, tokyo))
        return paris, outer

    def close(self, value, reference):
        self.assertLess((value.double() - reference).abs().max().item(), 2e-6)

    def test_co2_is_one_round_late_and_drains_its_last_work(self):
        algorithm = "{rule: co2, learning_rate: 0.8, momentum: 0.5, clip: 0.04, penalty: 1.25, local_steps: 4}"
        with gateways.Pair(codec=gateways.FP32, algorithm=algorithm) as pair:
            seen = []
            final, outer = self.both(pair, 18, seen=seen)
            theta, momentum, delivered = start(), torch.zeros(ELEMENTS, dtype=torch.float64), [start()]
            for first, last in ((0, 4), (4, 8), (8, 12), (12, 16), (16, 18)):
                mean = (work(0, first, last) + work(1, first, last)) / 2
                momentum = (0.5 * momentum + mean / 1.25).clamp(-0.04, 0.04)
                theta = theta - 0.8 * momentum
                delivered.append(theta)
            self.close(final, theta)
            # After a boundary a trainer stands on the value that the round before it made; the first one on the
            # first values.
            for round, step in enumerate((4, 8, 12, 16)):
                self.close(seen[step - 1], delivered[round])
            self.assertEqual(outer.stats()["staleness"], 2)

    def test_eager_runs_ahead_with_its_own_work_and_ends_with_the_committed_value(self):
        eta, mu = 0.7, 0.5
        algorithm = f"{{rule: eager, learning_rate: {eta}, momentum: {mu}, local_steps: 4}}"
        with gateways.Pair(codec=gateways.FP32, algorithm=algorithm) as pair:
            seen = []
            final, _ = self.both(pair, 18, seen=seen)

            def step(theta, u, d):
                u = mu * u + d
                return theta - eta * (d + mu * u), u

            zero = torch.zeros(ELEMENTS, dtype=torch.float64)
            canonical, private, others = (start(), zero), (start(), zero), zero
            for round, (first, last) in enumerate(((0, 4), (4, 8), (8, 12), (12, 16), (16, 18))):
                d = work(0, first, last), work(1, first, last)
                canonical = step(*canonical, (d[0] + d[1]) / 2)
                # The private pair of paris: its newest work, and tokyo's of the round before.
                private = step(*private, d[0] / 2 + others / 2)
                others = d[1]
                if last < 18:
                    self.close(seen[last - 1], private[0])
            self.close(final, canonical[0])

    def test_limit_co2_without_delay_penalty_clip_and_momentum_is_average(self):
        runs = [gateways.run_entry("late", algorithm="{rule: co2, learning_rate: 1, local_steps: 4, delay: 0}"),
                gateways.run_entry("mean", algorithm="{rule: average, local_steps: 4}")]
        with gateways.Pair(runs=runs) as pair:
            self.assertTrue(torch.equal(self.both(pair, 10, "late")[0], self.both(pair, 10, "mean")[0]))

    def test_a_late_result_is_mixed_with_what_was_trained_meanwhile(self):
        algorithm = "{rule: average, local_steps: 4, delay: 2, mix: 0.25}"
        with gateways.Pair(codec=gateways.FP32, algorithm=algorithm) as pair:
            seen = []
            self.both(pair, 8, seen=seen)
            sent = [start() - work(cluster, 0, 4) for cluster in (0, 1)]
            now = sent[0] - work(0, 4, 6)
            self.close(seen[5], 0.75 * (sent[0] + sent[1]) / 2 + 0.25 * now)

    def test_limit_one_fragment_without_delay_is_the_blocking_rule(self):
        rule = "rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 4"
        runs = [gateways.run_entry("blocking", algorithm=f"{{{rule}}}"),
                gateways.run_entry("streaming", algorithm=f"{{{rule}, fragments: 1, delay: 0}}")]
        with gateways.Pair(runs=runs) as pair:
            self.assertTrue(torch.equal(self.both(pair, 10, "blocking")[0], self.both(pair, 10, "streaming")[0]))

    def test_sparse_updates_keep_what_they_do_not_send(self):
        # Everything is kept of a chunk this small only if it is sent or stays in the residual: without decay,
        # the sum of many rounds is nearly the sum of the work.
        with gateways.Pair(algorithm="{rule: sparseloco, learning_rate: 1.0, local_steps: 2}",
                           codec="{kind: \"topk:k2000:v4:ef\"}") as pair:
            final, _ = self.both(pair, 40)
            reference = start() - (work(0, 0, 40) + work(1, 0, 40)) / 2
            apart = (final.double() - reference).norm() / (start() - reference).norm()
            self.assertLess(apart.item(), 0.35)

    def test_mean_of_senders_is_over_those_whose_value_is_not_zero(self):
        def part(cluster, step):  # paris changes the first two thirds, tokyo the last two
            change = increments(cluster, step)
            (change[200:] if cluster == 0 else change[:100]).zero_()
            return change

        def steps(gateway, cluster):
            model = torch.nn.Module()
            model.weight = torch.nn.Parameter(start().float())
            outer = causeway.Outer(model, run="demo", socket=gateway.trainer_socket)
            for step in range(6):
                with torch.no_grad():
                    model.weight.add_(part(cluster, step).float())
                outer.step()
            outer.finish()
            return model.weight.detach().clone()

        algorithm = "{rule: sparseloco, learning_rate: 0.75, local_steps: 2, mean: senders}"
        with gateways.Pair(codec=gateways.FP32, algorithm=algorithm) as pair:
            paris, tokyo = together(lambda: steps(pair.paris, 0), lambda: steps(pair.tokyo, 1))
        self.assertTrue(torch.equal(paris, tokyo))
        change = sum(part(0, step) + part(1, step) for step in range(6))
        change[100:200] /= 2
        self.close(paris, start() + 0.75 * change)

    def test_momentum_of_gradients_that_are_sent_late_grows_as_an_optimizers(self):
        mu, clip, half = 0.9, 3.0, ELEMENTS // 2
        algorithm = f"{{rule: gradients, momentum: {mu}, clip: {clip}}}"

        def gradient(cluster, step):  # each cluster's in its own half: the mean says who sent what
            whole = increments(cluster, step) * 10 + (torch.arange(ELEMENTS) % 11 == 0) * 0.1
            (whole[half:] if cluster == 0 else whole[:half]).zero_()
            return whole

        def average(gateway, cluster):
            means = []
            with causeway.open("demo", gateway.trainer_socket) as run:
                for step in range(30):
                    tensor = gradient(cluster, step).float()
                    run.average([tensor], names=["gradient"])
                    means.append(tensor.double())
            return means

        with gateways.Pair(codec='{kind: "topk:k400:v4:ef"}', algorithm=algorithm) as pair:
            means, others = together(lambda: average(pair.paris, 0), lambda: average(pair.tokyo, 1))
        for mine, theirs in zip(means, others):
            self.assertTrue(torch.equal(mine, theirs))
        for cluster, own in ((0, slice(0, half)), (1, slice(half, ELEMENTS))):
            u, v = torch.zeros(half).double(), torch.zeros(half).double()
            for step in range(30):
                g = gradient(cluster, step)[own]
                share = clip / 2 ** 0.5
                g = g * min(1.0, share / g.norm().item())
                u = mu * u + g
                v = v + u
                sent = 2 * means[step][own]
                there = sent != 0
                self.assertGreater(there.sum().item(), 0)
                # Four bits for the values; what is kept is bf16.
                self.assertLess((sent - v)[there].abs().max().item(), 0.1 * v.abs().max().item())
                self.assertGreater(v[there].abs().min().item(), 0.95 * v[~there].abs().max().item())
                u[there] = 0
                v[there] -= sent[there]

    def test_ranks_with_parts_of_the_model_give_the_bytes_of_the_whole(self):
        size = {"weight": ELEMENTS, "bias": 7}

        def steps(gateway, cluster, rank=0, parts=None, world=1):
            """``parts``: first and last element of this rank's, by name."""
            model = torch.nn.Module()
            for name, count in size.items():
                first, last = (parts or {}).get(name, (0, count))
                setattr(model, name, torch.nn.Parameter(start()[first:last].float()))
            outer = causeway.Outer(model, run="demo", socket=gateway.trainer_socket, rank=rank, world=world,
                                   weight=2 // world, shards=parts and {n: ((size[n],), parts[n][0]) for n in parts})
            for step in range(14):
                with torch.no_grad():
                    for name, tensor in model.named_parameters():
                        first = (parts or {}).get(name, (0,))[0]
                        change = increments(cluster, step)[first:first + tensor.numel()]
                        tensor.add_(change.float())
                outer.step()
            values = outer.finish()
            return values, {name: tensor.detach().clone() for name, tensor in model.named_parameters()}

        run = {"codec": gateways.INT4_EF,
               "algorithm": "{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 4, fragments: 2, "
                            "delay: 1}"}
        with gateways.Pair(**run) as pair:
            (hash_of_whole, whole), _ = together(lambda: steps(pair.paris, 0), lambda: steps(pair.tokyo, 1))
        with gateways.Pair(**run) as pair:
            (hash_of_parts, one), (_, two), _ = together(
                lambda: steps(pair.paris, 0, 0, {"weight": (0, 130), "bias": (0, 0)}, 2),
                lambda: steps(pair.paris, 0, 1, {"weight": (130, ELEMENTS), "bias": (0, 7)}, 2),
                lambda: steps(pair.tokyo, 1))
        self.assertEqual(hash_of_parts, hash_of_whole)
        for name, tensor in whole.items():
            self.assertTrue(torch.equal(torch.cat([one[name], two[name]]), tensor))

    def test_clusters_may_take_unequal_steps_and_be_normalised(self):
        runs = [gateways.run_entry("plain", codec=gateways.FP32,
                                   algorithm="{rule: average, local_steps: {paris: 2, tokyo: 6}}"),
                gateways.run_entry("normal", codec=gateways.FP32,
                                   algorithm="{rule: average, local_steps: {paris: 2, tokyo: 6}, "
                                             "normalise: steps}")]
        with gateways.Pair(runs=runs) as pair:
            plain = normal = start()
            for round in range(3):
                d = work(0, 2 * round, 2 * round + 2), work(1, 6 * round, 6 * round + 6)
                plain = plain - (2 * d[0] + 6 * d[1]) / 8  # by steps
                normal = normal - (2 * (4 / 2) * d[0] + 6 * (4 / 6) * d[1]) / 8
            self.close(self.both(pair, (6, 18), "plain")[0], plain)
            self.close(self.both(pair, (6, 18), "normal")[0], normal)


if __name__ == "__main__":
    unittest.main(verbosity=2)
