#!/usr/bin/python3
"""What a trainer or two configurations may get wrong: the exact error on every side, and a good run after it."""
import os
import unittest

from gateways import Pair, run_entry
from trainers import SHAPES, Trainer, TrainerError, both, join_both, main


class Refusals(unittest.TestCase):
    def raises(self, kind, call, *arguments, **more):
        with self.assertRaises(TrainerError) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.kind, kind, caught.exception.text)
        return caught.exception

    def good_run(self, pair, trainers=None):
        trainers = trainers or join_both(pair)
        looks = both(trainers, "steps", count=5)
        self.assertEqual(looks[0]["participants"], 2)
        ends = both(trainers, "finish")
        self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])

    def both_refused(self, pair, kind, texts, shapes=None):
        """Two trainers join and both hear `texts` (paris's, tokyo's)."""
        trainers = [Trainer(pair, "paris"), Trainer(pair, "tokyo")]
        for trainer, seed in zip(trainers, (1, 2)):
            trainer.tell_outer(seed=seed, **(shapes or {}).get(trainer.cluster, {}))
        for trainer, text in zip(trainers, texts):
            error = self.raises(kind, trainer.answer)
            self.assertIn(text, error.text)
            self.assertFalse(error.fields["retryable"])
        for cluster, text in zip(("paris", "tokyo"), texts):
            pair.gateways[cluster].until_event("trainer.refused", text.split(":")[0])
        for trainer in trainers:
            trainer.end()

    def test_schemas_that_differ_name_the_tensor(self):
        with Pair() as pair:
            other = {**SHAPES, "block.weight": (48, 65)}
            self.both_refused(
                pair, "SchemaError",
                ("the schema differs: tensor 1 'block.weight': fp32 parameter [48, 64] here, "
                 "fp32 parameter [48, 65] at tokyo",
                 "the schema differs: tensor 1 'block.weight': fp32 parameter [48, 65] here, "
                 "fp32 parameter [48, 64] at paris"),
                shapes={"tokyo": {"shapes": other}})
            # Another dtype, after the first refusal, on the other side.
            self.both_refused(
                pair, "SchemaError",
                ("tensor 0 'embed': bf16 parameter [64, 32] here, fp32 parameter [64, 32] at tokyo",
                 "tensor 0 'embed': fp32 parameter [64, 32] here, bf16 parameter [64, 32] at paris"),
                shapes={"paris": {"dtype": "bfloat16"}})
            self.good_run(pair)

    def test_a_run_that_the_other_side_has_by_another_name(self):
        with Pair(tokyo={"name": "dmo"}) as pair:
            trainer = Trainer(pair, "paris")
            trainer.tell_outer(seed=1)
            asked = "heard of this run from tokyo, which is linked: is run 'demo' in its configuration?"
            trainer.until_line(asked)  # the trainer's log says it, the status, and the other side's log
            self.assertIn(asked, pair.paris.run()["detail"])
            event = pair.tokyo.until_event("peer.refused", "no such run in this gateway's configuration")
            self.assertEqual((event["peer"], event["run"]), ("paris", "demo"))

    def check_difference(self, key, here, there, **paris_and_tokyo):
        with Pair(**paris_and_tokyo) as pair:
            self.both_refused(pair, "AlgorithmError",
                              (f"the algorithm differs: {key}: {here} here, {there} at tokyo",
                               f"the algorithm differs: {key}: {there} here, {here} at paris"))
            self.mend_tokyo(pair, **paris_and_tokyo)
            self.good_run(pair)

    def mend_tokyo(self, pair, paris=None, tokyo=None, **run):
        """tokyo's configuration becomes that of paris."""
        pair.tokyo.stop()
        with open(pair.tokyo.configuration_path) as file:
            text = file.read()
        wrong, right = run_entry(**{**run, **(tokyo or {})}), run_entry(**{**run, **(paris or {})})
        self.assertIn(wrong, text)
        with open(pair.tokyo.configuration_path, "w") as file:
            file.write(text.replace(wrong, right))
        pair.tokyo.start()
        pair.until_linked()

    def test_rules_that_differ(self):
        self.check_difference(
            "algorithm.rule", "average", "nesterov",
            tokyo={"algorithm": "{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 5}"})

    def test_local_steps_that_differ(self):
        self.check_difference("algorithm.local_steps", "5", "6",
                              tokyo={"algorithm": "{rule: average, local_steps: 6}"})

    def test_codecs_that_differ(self):
        self.check_difference("codec", "int4:b64:ef", "int8:b256",
                              tokyo={"codec": "{kind: int8}"})

    def test_what_one_trainer_gets_wrong(self):
        with Pair() as pair:
            trainer = Trainer(pair, "paris")
            error = self.raises("AlgorithmError", trainer.outer, seed=1, H=7)
            self.assertIn("algorithm.local_steps: 5 in this gateway's configuration, 7 asked by the trainer",
                          error.text)
            trainer.end()

            trainer = Trainer(pair, "paris")
            trainer.open()
            error = self.raises("AlgorithmError", trainer.do, "average", values=(1,), sizes=(10,))
            self.assertIn("algorithm.rule is 'average' in this gateway's configuration; the trainer asks for "
                          "averaged gradients", error.text)
            trainer.end()

            trainer = Trainer(pair, "paris", run="dmeo")
            error = self.raises("UnknownRun", trainer.outer, seed=1)
            self.assertIn("no run 'dmeo' in this gateway's configuration; it has: demo", error.text)
            trainer.end()

            path = os.path.join(pair.directory, "no-such.sock")
            trainer = Trainer(pair, "paris", socket=path)
            error = self.raises("GatewayLost", trainer.outer, seed=1, connect_timeout=0)
            self.assertIn(f"cannot reach the gateway at socket {path}: no such file; is causewayd running",
                          error.text)
            trainer.end()

            trainers = join_both(pair)
            twin = Trainer(pair, "tokyo")
            error = self.raises("IdentityTaken", twin.outer, seed=5)
            self.assertIn(str(trainers[1].pid), error.text)
            self.good_run(pair, trainers)

    def test_nan_at_join_names_the_tensor(self):
        with Pair() as pair:
            paris, tokyo = Trainer(pair, "paris"), Trainer(pair, "tokyo")
            tokyo.tell_outer(seed=2)
            error = self.raises("NonFinite", paris.outer, seed=1, poison="block.weight")
            self.assertEqual(error.fields["tensor"], "block.weight")
            self.assertIn("tensor 'block.weight' holds NaN or Inf: the run cannot begin from it", error.text)
            paris.end()
            # The other side only waits, and the run begins once there is something good to begin from.
            again = Trainer(pair, "paris")
            joined = again.outer(seed=1)
            self.assertEqual(joined["sha256"], tokyo.answer()["sha256"])
            self.good_run(pair, [again, tokyo])

    def test_nan_at_submit_names_the_tensor_and_is_mended(self):
        with Pair() as pair:
            paris, tokyo = join_both(pair)
            kept = paris.do("poison", name="block.bias")
            tokyo.tell("steps", count=5)
            error = self.raises("NonFinite", paris.steps, 5)
            self.assertEqual(error.fields["tensor"], "block.bias")
            self.assertEqual(error.fields["round"], 1)
            self.assertIn("tensor 'block.bias' holds NaN or Inf; nothing of it was sent", error.text)
            # The optimizer's step is mended; nothing of the bad one left, and tokyo only waited.
            tokyo.until_line("paris")
            paris.do("poison", name="block.bias", value=kept)
            looks = [paris.steps(5), tokyo.answer()]
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.assertEqual(looks[0]["participants"], 2)
            self.good_run(pair, [paris, tokyo])


if __name__ == "__main__":
    main()
