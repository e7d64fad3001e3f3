#!/usr/bin/python3
"""Good runs between two real gateways: equal bytes at the end, nothing sent where nothing differs."""
import unittest

from gateways import FP32, INT4_EF, Pair, run_entry
from trainers import Trainer, both, join_both, main


class Exchange(unittest.TestCase):
    def end_equal(self, trainers):
        """Finishes all; they hold the same bytes, and the gateways the same values."""
        ends = both(trainers, "finish")
        self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])
        self.assertEqual(ends[0]["values"], ends[1]["values"])
        return ends[0]

    def test_average_int4_from_different_beginnings(self):
        with Pair() as pair:
            trainers = join_both(pair)
            paris, tokyo = trainers
            self.assertFalse(paris.joined["replaced"])  # the seed: the lowest name
            self.assertTrue(tokyo.joined["replaced"])
            self.assertEqual(paris.joined["sha256"], tokyo.joined["sha256"])
            self.assertEqual(paris.joined["H"], 5)
            looks = both(trainers, "steps", count=15)
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.assertEqual(looks[0]["rounds"], 3)
            self.assertEqual(looks[0]["participants"], 2)
            self.end_equal(trainers)
            run = pair.paris.until_run(lambda run: run["state"] == "finished", "the run is finished")
            self.assertEqual(run["rounds_committed"], 4)
            self.assertEqual(run["rounds_excluded"], 0)
            self.assertFalse(run["residual_lost"])

    def test_equal_beginnings_move_no_state(self):
        with Pair() as pair:
            trainers = join_both(pair, seeds=(7, 7))
            for trainer in trainers:
                self.assertFalse(trainer.joined["replaced"])
            for gateway, other in ((pair.paris, "tokyo"), (pair.tokyo, "paris")):
                peer = gateway.peer(other)
                self.assertEqual((peer["payload_bytes_sent"], peer["payload_bytes_received"]), (0, 0))
                self.assertEqual(gateway.run()["wire_bytes_sent"], 0)
            both(trainers, "steps", count=5)
            # 4 bits an element and a scale a block of 64: far less than the values themselves.
            run = pair.paris.run()
            self.assertGreater(run["wire_bytes_sent"], run["elements"] / 2)
            self.assertLess(run["wire_bytes_sent"], run["elements"])
            self.end_equal(trainers)

    def test_nesterov_with_fragments_and_delay(self):
        with Pair(algorithm="{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 8, "
                            "fragments: 4, delay: 1}",
                  codec=INT4_EF) as pair:
            shapes = {f"layer{i}.weight": (32, 24) for i in range(8)}
            trainers = join_both(pair, shapes=shapes)
            self.assertEqual(trainers[0].joined["fragments"], 4)
            looks = both(trainers, "steps", count=24)
            self.assertGreaterEqual(looks[0]["rounds"], 8)
            self.assertEqual(looks[0]["excluded"], 0)
            self.assertNotEqual(looks[0]["sha256"], looks[1]["sha256"])  # local work is carried
            self.end_equal(trainers)

    def test_every_other_codec_trains(self):
        codecs = ("fp16", "fp32x", "bf16x", "patch", "int8:ef", "fp8:ef", "nf4:ef", "mxfp4:ef", "e3m0:ef",
                  "cosine:ef", "2bit:ef", "sign:ef", "topk:k1000:ef")
        precise = ("2bit:ef", "nf4:ef")  # their residuals in fp32
        names = {codec: "of-" + codec.replace(":", "-") for codec in codecs}
        runs = [run_entry(names[codec], codec=f'{{kind: "{codec}"{", residual: fp32" if codec in precise else ""}}}')
                for codec in codecs]
        shapes = {"a.weight": (70, 50), "b.weight": (33, 9), "b.bias": (9,), "one": (1,)}
        with Pair(runs=runs) as pair:
            trainers = [Trainer(pair, "paris"), Trainer(pair, "tokyo")]
            for codec in codecs:
                with self.subTest(codec=codec):
                    for trainer, seed in zip(trainers, (3, 4)):
                        trainer.run = names[codec]
                        trainer.tell_outer(seed=seed, shapes=shapes)
                    for trainer in trainers:
                        trainer.answer()
                    before = both(trainers, "descend", count=1)
                    after = both(trainers, "descend", count=4)
                    self.assertEqual(after[0]["sha256"], after[1]["sha256"])
                    self.assertEqual((after[0]["rounds"], after[0]["participants"]), (5, 2))
                    self.assertLess(after[0]["loss"], before[0]["loss"])
                    self.end_equal(trainers)

    def test_odd_shapes_and_16_bits(self):
        """No elements at all, fewer than fragments, hundreds of tiny tensors, one element beyond a chunk."""
        odd = {"nothing": ("float32", {"e": (0,), "f": (0, 4)}),
               "scalar": ("float16", {"s": (), "e": (3, 0)}),
               "tiny": ("bfloat16", {f"t{i}": (1 + i % 3,) for i in range(700)}),
               "beyond": ("float16", {"w": ((1 << 18) + 1,), "v": (257,)})}
        runs = [run_entry(name, algorithm="{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 3, "
                                          "fragments: 3}") for name in odd]
        with Pair(runs=runs) as pair:
            trainers = [Trainer(pair, "paris"), Trainer(pair, "tokyo")]
            for name, (dtype, shapes) in odd.items():
                with self.subTest(shapes=name):
                    for trainer, seed in zip(trainers, (3, 4)):
                        trainer.run = name
                        trainer.tell_outer(seed=seed, shapes=shapes, dtype=dtype)
                    for trainer in trainers:
                        trainer.answer()
                    looks = both(trainers, "exchange", count=2)
                    self.assertEqual((looks[0]["excluded"], looks[0]["participants"]), (0, 2))
                    self.end_equal(trainers)

    def test_low_rank(self):
        with Pair(codec="{kind: lowrank:r4, error_feedback: true}") as pair:
            shapes = {"a.weight": (300, 200), "a.bias": (300,), "b.weight": (700, 400)}
            trainers = join_both(pair, seeds=(7, 7), shapes=shapes)
            looks = both(trainers, "steps", count=15)
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.assertEqual(looks[0]["rounds"], 3)
            run = pair.paris.run()
            # (500 + 1100) x 4 factors of 2 bytes and a few values a round, of 340,000 values.
            self.assertLess(run["wire_bytes_sent"], 3 * run["elements"] / 8)
            self.end_equal(trainers)

    def test_auto_begins_with_integers_that_may_be_packed(self):
        with Pair(codec="{kind: auto}") as pair:
            trainers = join_both(pair, shapes={"a.weight": (300, 200), "b.weight": (700, 400)})
            self.assertEqual(pair.paris.run()["plan"]["codec"], "int4:b64:ef:zstd")
            looks = both(trainers, "steps", count=25)
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.assertEqual(looks[0]["rounds"], 5)
            self.end_equal(trainers)

    def test_bf16_model(self):
        with Pair(codec=INT4_EF) as pair:
            trainers = join_both(pair, dtype="bfloat16")
            self.assertEqual(trainers[0].joined["sha256"], trainers[1].joined["sha256"])
            both(trainers, "steps", count=10)
            self.end_equal(trainers)

    def test_gradients_are_averaged_by_weight_and_flag_nan(self):
        with Pair(algorithm="{rule: gradients}", codec=FP32) as pair:
            trainers = [Trainer(pair, "paris"), Trainer(pair, "tokyo")]
            for trainer in trainers:
                trainer.open()
            for values, expected in (((1, 10), (2.0, 11.0)), ((5, -4), (6.0, -3.0))):
                trainers[0].tell("average", values=values, sizes=(1000, 300), weight=3)
                trainers[1].tell("average", values=[v + 4 for v in values], sizes=(1000, 300), weight=1)
                answers = [trainer.answer() for trainer in trainers]
                for answer in answers:
                    self.assertEqual(tuple(answer["values"]), expected)
                    self.assertFalse(answer["nonfinite"])
                    self.assertEqual(answer["participants"], 2)
                self.assertEqual(answers[0]["sha256"], answers[1]["sha256"])
            trainers[0].tell("average", values=(float("nan"), 1), sizes=(1000, 300))
            trainers[1].tell("average", values=(1, 1), sizes=(1000, 300))
            answers = [trainer.answer() for trainer in trainers]
            self.assertTrue(all(answer["nonfinite"] for answer in answers))  # all skip the same step
            self.assertEqual(answers[0]["sha256"], answers[1]["sha256"])
            answers = both(trainers, "average", values=(2, 2), sizes=(1000, 300))
            self.assertFalse(any(answer["nonfinite"] for answer in answers))
            both(trainers, "close")

    def test_a_trainer_that_left_joins_again(self):
        with Pair() as pair:
            paris, tokyo = join_both(pair)
            both([paris, tokyo], "steps", count=5)
            tokyo.do("leave")
            pair.tokyo.until_run(lambda run: run["trainers"] == 0, "its trainer has left")
            look = paris.steps(5)  # goes on without tokyo
            self.assertEqual(look["participants"], 1)
            again = Trainer(pair, "tokyo")
            joined = again.outer(seed=99)
            self.assertTrue(joined["replaced"])
            self.assertEqual(joined["sha256"], look["sha256"])
            # A round that is under way may end without the newcomer; the next ones count both.
            looks = both([paris, again], "steps", count=10)
            self.assertEqual(looks[0]["participants"], 2)
            self.assertEqual(looks[0]["sha256"], looks[1]["sha256"])
            self.end_equal([paris, again])


if __name__ == "__main__":
    main()
