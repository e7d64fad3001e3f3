#!/usr/bin/python3
"""The libtorch example against real gateways: two clusters train, the loss falls, both end with the same bytes."""
import json
import os
import subprocess
import unittest

import gateways

PROGRAM = os.environ["CAUSEWAY_TRAIN_LIBTORCH"]
STEPS = 60
PATIENCE_S = 200
TEXT = ("In the beginning was the word, and the word went over a slow line. "
        "Every cluster ends each round with the same bytes, and nothing is lost or counted twice. ") * 80


class Libtorch(unittest.TestCase):
    def test_two_clusters_end_with_the_same_bytes_and_a_lower_loss(self):
        algorithm = "{rule: average, local_steps: 10, fragments: 2, delay: 1}"
        with gateways.Pair(algorithm=algorithm, codec=gateways.INT4_EF) as pair:
            text = os.path.join(pair.directory, "text")
            with open(text, "w") as file:
                file.write(TEXT)
            trainers = []
            for index, gateway in enumerate((pair.paris, pair.tokyo)):
                words = [PROGRAM, "--socket", gateway.trainer_socket, "--cluster", str(index), "--clusters", "2",
                         "--steps", str(STEPS), "--text", text]
                trainers.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                                 preexec_fn=gateways.die_with_parent))
                pair.at_end(trainers[-1].kill)
            results = []
            for trainer in trainers:
                out, problems = trainer.communicate(timeout=PATIENCE_S)
                self.assertEqual(trainer.returncode, 0, problems)
                results.append(json.loads(out.splitlines()[-1]))
            for result in results:
                self.assertLess(result["loss_last"], 0.7 * result["loss_first"])
                # Two fragments each ten steps, and the last round of each.
                self.assertEqual(result["rounds"], 2 * STEPS // 10 + 2)
            self.assertEqual(results[0]["values_sha256"], results[1]["values_sha256"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
