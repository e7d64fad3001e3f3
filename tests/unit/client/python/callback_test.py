"""The trainer's callback against a stand-in that calls as the Hugging Face Trainer does; presets; pace."""

import types
import unittest

import torch

import causeway
from causeway import pace, presets
from support import SUBMIT, Gateway


class StandIn:
    """What of that trainer the callback meets: its loop, its events and their arguments, on one process."""

    def __init__(self, model, callbacks, steps, accumulate=2):
        self.model, self.callbacks, self.steps, self.accumulate = model, callbacks, steps, accumulate
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.args, self.state = types.SimpleNamespace(), types.SimpleNamespace(global_step=0)
        self.control = types.SimpleNamespace(should_training_stop=False)
        self.logs = {"loss": 1.0}

    def call(self, event, **more):
        for callback in self.callbacks:
            control = getattr(callback, event)(self.args, self.state, self.control, model=self.model,
                                               optimizer=self.optimizer, lr_scheduler=None, **more)
            self.control = self.control if control is None else control

    def train(self):
        self.call("on_train_begin")
        self.call("on_epoch_begin")
        for _ in range(self.steps):
            for part in range(self.accumulate):
                self.call("on_step_begin" if part == 0 else "on_substep_end")
                self.model(torch.ones(1, 4)).sum().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.state.global_step += 1
            self.call("on_step_end")
        self.call("on_log", logs=self.logs)
        self.call("on_epoch_end")
        self.call("on_train_end")


class Callback(unittest.TestCase):
    def test_a_trainer_that_calls_back_trains_in_rounds(self):
        with Gateway("local_steps=3") as gateway:
            callback = causeway.OuterCallback(run="demo", socket=gateway.socket())
            model = torch.nn.Linear(4, 2)
            trainer = StandIn(model, [callback], steps=7)
            trainer.train()
            self.assertEqual(gateway.count(SUBMIT), 3)  # two rounds, and what was left
            self.assertEqual(callback.outer.stats()["steps"], 7)
            self.assertTrue(callback.outer.values_hash)
            self.assertEqual(trainer.logs["causeway_rounds"], 2)
            self.assertEqual(trainer.logs["loss"], 1.0)

    def test_a_wrapped_model_is_exchanged_under_its_own_names(self):
        with Gateway() as gateway:
            inner = torch.nn.Linear(4, 2)
            callback = causeway.OuterCallback(run="demo", socket=gateway.socket())
            callback.on_train_begin(None, types.SimpleNamespace(global_step=40), None,
                                    model=types.SimpleNamespace(module=inner), optimizer=None)
            self.assertEqual(callback.outer.state_dict()["steps"], 40)
            callback.on_train_end(None, None, None)


class Presets(unittest.TestCase):
    def test_a_run_that_is_configured_otherwise_is_refused_with_what_to_write(self):
        with Gateway("local_steps=10") as gateway:  # rule average, codec fp32
            with self.assertRaises(causeway.AlgorithmError) as caught:
                causeway.Outer(torch.nn.Linear(2, 2), run="demo", socket=gateway.socket(), preset="quality")
            self.assertIn("preset quality has codec int4:b256:ef, the gateways' configuration fp32",
                          str(caught.exception))
            self.assertIn("algorithm: {rule: average, local_steps: 10", str(caught.exception))

    def test_each_is_accepted_as_it_describes_itself(self):
        for name, terms in presets.PRESETS.items():
            presets.check(name, dict(terms))
            presets.check(name, dict(terms, fragments=1))
            with self.assertRaises(causeway.AlgorithmError):
                presets.check(name, dict(terms, local_steps=7))

    def test_an_unknown_one_is_refused(self):
        with self.assertRaisesRegex(causeway.InvalidCall, "quality, fast, extreme"):
            causeway.preset("best")


class Pace(unittest.TestCase):
    def test_steps_beside_an_exchange_are_compared_with_quiet_ones(self):
        measured = pace.Pace()
        self.assertIsNone(measured.inflation())
        for _ in range(3):
            measured.add_step(1.0)
            measured.add_step(1.25, exchanging=True)
        self.assertAlmostEqual(measured.inflation(), 0.25)

    def test_the_gateways_time_is_seen_where_it_runs_on_this_host(self):
        with Gateway() as gateway:
            outer = causeway.Outer(torch.nn.Linear(2, 2), run="demo", socket=gateway.socket())
            self.assertGreaterEqual(outer.stats()["gateway_cpu_s"], 0)
            outer.finish()
        self.assertIsNone(pace.GatewayCpu(0).seconds())


if __name__ == "__main__":
    unittest.main()
