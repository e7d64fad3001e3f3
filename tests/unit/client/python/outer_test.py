"""Training in rounds through the real library against the fake gateway."""

import copy
import threading
import unittest

import torch

import causeway
from causeway import tensors
from support import APPLIED, JOIN, SUBMIT, Gateway, together


_building = threading.Lock()  # torch has one random generator for all threads


def network(seed, tied=False):
    with _building:
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh(), torch.nn.Linear(6, 6))
    if tied:
        model[2].weight = model[0].weight
    return model


def nudge(model, amount):
    """A local step: every parameter moves by ``amount``."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(amount)


def values(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second))


class Rounds(unittest.TestCase):
    def train(self, gateway, cluster, seed, steps, amount, model=None, weight=1, **options):
        model = model or network(seed)
        outer = causeway.Outer(model, run="demo", socket=gateway.socket(cluster), weight=weight, **options)
        started = values(model)
        for _ in range(steps):
            nudge(model, amount)
            outer.step()
        outer.finish()
        return model, outer, started

    def test_two_clusters_start_and_end_with_the_same_bytes(self):
        for options in ([], ["fragments=2"], ["fragments=2", "delay=1"], ["fragments=4", "delay=auto"],
                        ["fragments=2", "delay=2", "apply=1", "mix=0.5"]):
            with self.subTest(options=options), Gateway("clusters=paris,tokyo", *options) as gateway:
                (paris, outer, begun), (tokyo, _, other) = together(
                    lambda: self.train(gateway, "paris", 1, 21, 0.01),
                    lambda: self.train(gateway, "tokyo", 2, 21, 0.03))
                self.assertTrue(equal(begun, other))
                self.assertTrue(equal(begun, values(network(1))))  # the first cluster's
                self.assertTrue(equal(values(paris), values(tokyo)))
                stats = outer.stats()
                self.assertEqual(stats["steps"], 21)
                self.assertEqual(stats["excluded"], 0)
                self.assertGreaterEqual(stats["rounds"], 5)
                self.assertEqual(len(outer.values_hash), 64)

    def test_without_delay_the_values_are_exactly_the_rounds(self):
        with Gateway("clusters=paris,tokyo") as gateway:
            def run(cluster, amount):
                model = network(1)
                outer = causeway.Outer(model, run="demo", socket=gateway.socket(cluster))
                seen = []
                for step in range(1, 9):
                    nudge(model, amount)
                    outer.step()
                    if step % outer.H == 0:
                        with outer.global_parameters():
                            seen.append(values(model))
                        self.assertTrue(equal(seen[-1], values(model)))
                outer.finish()
                return seen

            paris, tokyo = together(lambda: run("paris", 0.25), lambda: run("tokyo", 0.75))
            start = values(network(1))
            for number, (mine, theirs) in enumerate(zip(paris, tokyo)):
                self.assertTrue(equal(mine, theirs))
                for before, after in zip(start, mine):
                    self.assertTrue(torch.allclose(after - before, torch.tensor(2.0 * (number + 1))))

    def test_with_delay_the_local_steps_meanwhile_are_carried(self):
        with Gateway("delay=2") as gateway:
            model = network(1)
            outer = causeway.Outer(model, run="demo", socket=gateway.socket())
            start = values(model)
            for step in range(1, 12):
                nudge(model, 0.5)
                outer.step()
                # One cluster, average: its own steps come back, and those since the snapshot stay.
                for before, after in zip(start, values(model)):
                    self.assertTrue(torch.allclose(after - before, torch.tensor(0.5 * step)))
            with outer.global_parameters():
                for before, after in zip(start, values(model)):
                    self.assertTrue(torch.allclose(after - before, torch.tensor(0.5 * 8)))
            for before, after in zip(start, values(model)):
                self.assertTrue(torch.allclose(after - before, torch.tensor(0.5 * 11)))
            outer.finish()
            self.assertEqual(outer.stats()["rounds"], 3)

    def test_weights_count_steps_that_no_round_has_counted(self):
        with Gateway("clusters=paris,tokyo") as gateway:
            (paris, _, start), (tokyo, _, _) = together(
                lambda: self.train(gateway, "paris", 1, 4, 1.0, weight=3),
                lambda: self.train(gateway, "tokyo", 1, 4, 3.0, weight=1))
            for before, after in zip(start, values(paris)):
                self.assertTrue(torch.allclose(after - before, torch.tensor(6.0)))  # (3*4 + 1*12)/4
            self.assertTrue(equal(values(paris), values(tokyo)))

    def test_unequal_step_counts_end_with_the_same_bytes(self):
        with Gateway("clusters=paris,tokyo") as gateway:
            (paris, _, _), (tokyo, _, _) = together(lambda: self.train(gateway, "paris", 1, 9, 0.1),
                                                    lambda: self.train(gateway, "tokyo", 2, 11, 0.2))
            self.assertTrue(equal(values(paris), values(tokyo)))

    def test_steps_between_rounds_do_not_talk_to_the_gateway(self):
        with Gateway("local_steps=10") as gateway:
            model = network(1)
            outer = causeway.Outer(model, run="demo", socket=gateway.socket())
            for _ in range(9):
                outer.step()
            self.assertEqual(gateway.count(SUBMIT), 0)
            outer.step()
            self.assertEqual(gateway.count(SUBMIT), 1)
            self.assertTrue(gateway.expect(APPLIED, 1))


class Models(unittest.TestCase):
    def test_tied_weights_are_sent_once_and_stay_tied(self):
        entries = tensors.model_entries(network(1, tied=True))
        self.assertEqual([entry.name for entry in entries], ["0.weight", "0.bias", "2.weight", "2.bias"])
        self.assertEqual([entry.alias_of for entry in entries], [-1, -1, 0, -1])
        with Gateway() as gateway:
            model = network(1, tied=True)
            outer = causeway.Outer(model, run="demo", socket=gateway.socket())
            for _ in range(4):
                nudge(model, 1.0)
                outer.step()
            outer.finish()
            self.assertEqual(model[2].weight.data_ptr(), model[0].weight.data_ptr())

    def test_views_of_one_buffer_are_not_tied(self):
        flat = torch.zeros(20)
        model = torch.nn.Module()
        model.first = torch.nn.Parameter(flat[:10])
        model.second = torch.nn.Parameter(flat[10:])
        self.assertEqual([entry.alias_of for entry in tensors.model_entries(model)], [-1, -1])

    def test_what_of_a_model_is_exchanged_and_what_compared(self):
        def build(bias):
            model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
            model[0].bias.requires_grad_(False).fill_(bias)
            model.register_buffer("mask", torch.full((2,), float("-inf")), persistent=False)
            model.register_buffer("table", torch.arange(2000))
            model.register_buffer("state", torch.tensor([1 << 60]))
            return tensors.model_entries(model)

        entries = build(1.0)
        self.assertEqual([(entry.name, entry.group) for entry in entries],
                         [("0.weight", 0), ("1.weight", 0), ("1.bias", 0), ("1.running_mean", 1),
                          ("1.running_var", 1), ("0.bias", 2), ("table", 2), ("state", 2),
                          ("1.num_batches_tracked", 1)])
        names = [entry.schema_name() for entry in entries]
        self.assertEqual(names[:5], [entry.name for entry in entries[:5]])
        self.assertRegex(names[5], "^0[.]bias#[0-9a-f]{16}$")
        self.assertEqual(names, [entry.schema_name() for entry in build(1.0)])
        changed = [entry.schema_name() for entry in build(1.5)]
        self.assertEqual([a == b for a, b in zip(names, changed)], [True] * 5 + [False] + [True] * 3)
        long = tensors.Fixed("\u03b2" * 120, torch.ones(2)).schema_name().encode()
        self.assertLessEqual(len(long), 191)

    def test_counters_end_as_the_rounded_mean_everywhere(self):
        with Gateway("clusters=paris,tokyo", "delay=1") as gateway:
            def run(cluster, each):
                model = torch.nn.BatchNorm1d(5)
                outer = causeway.Outer(model, run="demo", socket=gateway.socket(cluster))
                for _ in range(9):
                    model.num_batches_tracked += each
                    outer.step()
                outer.finish()
                return model.num_batches_tracked

            paris, tokyo = together(lambda: run("paris", 2), lambda: run("tokyo", 3))
            self.assertEqual(paris.dtype, torch.int64)
            self.assertEqual(paris.item(), tokyo.item())
            self.assertAlmostEqual(paris.item(), 22.5, delta=0.6 * 3)  # rounded in each of three rounds

    def test_tensors_that_are_only_compared_are_left_alone(self):
        with Gateway("clusters=paris,tokyo", "fragments=2") as gateway:
            def run(cluster, value):
                model = network(1)
                model[0].weight.requires_grad_(False).fill_(7.0)
                with torch.no_grad():
                    model[2].weight.fill_(value)
                outer = causeway.Outer(model, run="demo", socket=gateway.socket(cluster))
                self.assertEqual(outer.fragments, 2)
                for _ in range(5):
                    with torch.no_grad():
                        model[2].weight.add_(value)
                    outer.step()
                outer.finish()
                return model

            paris, tokyo = together(lambda: run("paris", 1.0), lambda: run("tokyo", 3.0))
            self.assertTrue(equal(values(paris), values(tokyo)))
            self.assertTrue(bool((paris[0].weight == 7.0).all()))

    def test_what_is_left_out_is_said_by_name(self):
        model = torch.nn.BatchNorm1d(3)
        model.bias.requires_grad_(False)
        for options, names in (({"compare": False}, "bias"), ({"world": 2}, "bias"), ({"buffers": False}, "running_var")):
            with self.assertLogs("causeway", "INFO") as logged, self.assertRaises(causeway.GatewayLost):
                causeway.Outer(model, run="demo", socket="/nonexistent", connect_timeout=0, **options)
            self.assertRegex(logged.output[0], rf"not exchanged.*: .*\b{names}\b")

    def test_float64_is_refused_by_name(self):
        with self.assertRaises(causeway.SchemaError) as caught:
            causeway.Outer(torch.nn.Linear(2, 2).double(), run="demo")
        self.assertEqual(caught.exception.tensor, "weight")

    def test_batch_statistics_are_averaged_in_a_fragment_of_their_own(self):
        with Gateway("clusters=paris,tokyo") as gateway:
            def run(cluster, value):
                model = torch.nn.BatchNorm1d(5)
                outer = causeway.Outer(model, run="demo", socket=gateway.socket(cluster))
                self.assertEqual(outer.fragments, 2)
                model.running_mean.fill_(value)
                outer.finish()
                return model

            paris, tokyo = together(lambda: run("paris", 1.0), lambda: run("tokyo", 3.0))
            # No step was made, so nothing has weight: the run's own values stay.
            self.assertTrue(torch.equal(paris.running_mean, tokyo.running_mean))

    def test_masters_are_exchanged_and_the_model_holds_their_cast(self):
        for dtype in (torch.bfloat16, torch.float16):
            with self.subTest(dtype=dtype), Gateway("clusters=paris,tokyo", "delay=1") as gateway:
                def run(cluster, amount):
                    model = network(1).to(dtype)
                    masters = [parameter.detach().float() for parameter in model.parameters()]
                    optimizer = torch.optim.SGD(masters, lr=1.0)
                    outer = causeway.Outer(model, optimizer, run="demo", socket=gateway.socket(cluster))
                    self.assertIs(outer._set.entries[0].tensor, masters[0])
                    for _ in range(9):
                        with torch.no_grad():
                            for parameter, master in zip(model.parameters(), masters):
                                master.add_(amount)
                                parameter.copy_(master)
                        outer.step()
                        for parameter, master in zip(model.parameters(), masters):
                            self.assertTrue(torch.equal(parameter, master.to(dtype)))
                    outer.finish()
                    return masters

                paris, tokyo = together(lambda: run("paris", 1e-3), lambda: run("tokyo", 2e-3))
                self.assertTrue(equal(paris, tokyo))

    def test_pure_16_bit_models_carry_exactly_without_delay(self):
        with Gateway("clusters=paris,tokyo") as gateway:
            def run(cluster, amount):
                model = network(1).bfloat16()
                outer = causeway.Outer(model, run="demo", socket=gateway.socket(cluster))
                for _ in range(8):
                    nudge(model, amount)
                    outer.step()
                result = values(model)
                outer.finish()
                return result

            paris, tokyo = together(lambda: run("paris", 0.1), lambda: run("tokyo", 0.2))
            self.assertTrue(equal(paris, tokyo))

    def test_masters_that_do_not_pair_are_refused_with_the_remedy(self):
        model = network(1).half()
        optimizer = torch.optim.SGD([torch.zeros(5)], lr=1.0)
        with self.assertRaises(causeway.SchemaError) as caught:
            causeway.Outer(model, optimizer, run="demo")
        self.assertIn("masters=", str(caught.exception))
        named = {p: p.detach().float() for p in model.parameters()}
        self.assertEqual(len(tensors.model_entries(model, optimizer, named)), 4)


class Trouble(unittest.TestCase):
    def test_a_restarted_gateway_is_lived_through_in_flight(self):
        with Gateway("delay=2") as gateway:
            model = network(1)
            outer = causeway.Outer(model, run="demo", socket=gateway.socket())
            start = values(model)
            for step in range(1, 13):
                nudge(model, 1.0)
                outer.step()
                if step == 5:
                    gateway.tell("stop")
                    gateway.tell("start")
            outer.finish()
            for before, after in zip(start, values(model)):
                self.assertTrue(torch.allclose(after - before, torch.tensor(12.0)))
            self.assertEqual(outer.stats()["rebases"], 0)

    def test_a_run_that_went_on_without_us_rebases_and_says_what_was_lost(self):
        with Gateway() as gateway:
            model = network(1)
            outer = causeway.Outer(model, run="demo", socket=gateway.socket())
            for _ in range(6):
                nudge(model, 1.0)
                outer.step()
            gateway.tell("stop")
            gateway.tell("advance 0 9 0.5")
            gateway.tell("forget")
            with self.assertLogs("causeway", "WARNING"):
                for _ in range(2):
                    outer.step()
            for parameter in model.parameters():
                self.assertTrue(bool((parameter == 0.5).all()))
            self.assertEqual(outer.stats()["rebases"], 1)
            self.assertEqual(outer.stats()["steps_lost"], 4)
            for _ in range(4):
                nudge(model, 1.0)
                outer.step()
            outer.finish()
            for parameter in model.parameters():
                self.assertTrue(torch.allclose(parameter, torch.tensor(4.5)))

    def test_a_nonfinite_tensor_is_named(self):
        with Gateway() as gateway:
            model = network(1)
            outer = causeway.Outer(model, run="demo", socket=gateway.socket())
            gateway.tell("hold")
            for _ in range(3):
                outer.step()

            def fail():
                while gateway.count(SUBMIT) == 0:
                    pass
                gateway.tell("fail 1 19")

            with self.assertRaises(causeway.NonFinite) as caught:
                together(fail, outer.step)
            self.assertEqual(caught.exception.tensor, "layer.weight")
            self.assertFalse(caught.exception.retryable)

    def test_wrong_use_is_refused(self):
        with self.assertRaises(causeway.InvalidCall):
            causeway.Outer(network(1), run=None, H=0)
        for weight in (-1, 0.5, float("nan"), float("inf"), 1 << 64, "5", None):
            with self.assertRaisesRegex(causeway.InvalidCall, "weight must be a whole number"):
                causeway.Outer(network(1), run=None, weight=weight)
        with Gateway() as gateway:
            with self.assertRaises(causeway.InvalidCall):
                causeway.Outer(network(1), run="demo", socket=gateway.socket(), init="whatever")
            outer = causeway.Outer(network(1), run="demo", socket=gateway.socket())
            outer.finish()
            self.assertEqual(outer.finish(), outer.values_hash)
            with self.assertRaises(causeway.InvalidCall):
                outer.step()


class State(unittest.TestCase):
    def test_the_rhythm_goes_on_from_a_saved_state(self):
        with Gateway("fragments=2") as gateway:
            first = causeway.Outer(network(1), run="demo", socket=gateway.socket())
            for _ in range(6):
                first.step()
            state = copy.deepcopy(first.state_dict())
            self.assertEqual(state["steps"], 6)
            self.assertEqual(len(state["rounds"]), 2)
            del first
            second = causeway.Outer(network(2), run="demo", socket=gateway.socket())
            self.assertEqual(gateway.count(JOIN), 2)
            second.load_state_dict(state)
            before = gateway.count(SUBMIT)
            second.step()
            self.assertEqual(gateway.count(SUBMIT), before)
            second.step()  # step 8: fragment 0
            self.assertEqual(gateway.count(SUBMIT), before + 1)
            state["H"] = 99
            with self.assertRaises(causeway.AlgorithmError) as caught:
                second.load_state_dict(state)
            self.assertIn("H", str(caught.exception))

    def test_without_a_run_nothing_is_exchanged(self):
        model = network(1)
        outer = causeway.Outer(model, run=None, H=5)
        before = values(model)
        for _ in range(12):
            outer.step()
        with outer.global_parameters():
            self.assertTrue(equal(values(model), before))
        outer.finish()
        self.assertTrue(equal(values(model), before))
        self.assertEqual(outer.stats()["steps"], 12)
        self.assertEqual(outer.stats()["rounds"], 0)


if __name__ == "__main__":
    unittest.main()
