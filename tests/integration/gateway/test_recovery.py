#!/usr/bin/python3
"""Outer state on disk: gateways that all end and come back, files that are torn, disks that are full."""
import glob
import os
import subprocess
import unittest

from gateways import Pair, until
from trainers import both, join_all, main

OFTEN = "checkpoint: {rounds: 1, interval: 1h}\n"  # every round
NESTEROV = "{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 5, fragments: 2}"


def until_saved(pair, rounds):
    """Every gateway has every fragment's round on disk."""
    for gateway in pair.gateways.values():
        gateway.until_run(lambda run: run["checkpoint"]["fragments_behind"] == 0 and
                          all(f["round"] >= rounds for f in run["fragments"]), "is on disk")


def restart_all(pair):
    for gateway in pair.gateways.values():
        gateway.kill()
    for gateway in pair.gateways.values():
        gateway.start(wait=False)


def made_fifo(path):
    try:
        os.mkfifo(path)
    except FileExistsError:
        return False
    return True


class Recovery(unittest.TestCase):
    def assert_goes_on(self, trainers):
        looks = both(trainers, "exchange", count=2)
        self.assertEqual(len({look["sha256"] for look in looks}), 1)
        ends = both(trainers, "finish")
        self.assertEqual(len({end["values"] for end in ends}), 1)

    def test_all_gateways_killed_the_run_goes_on_from_disk(self):
        with Pair(settings=OFTEN, algorithm=NESTEROV) as pair:
            trainers = join_all(pair)
            both(trainers, "exchange", count=3)
            until_saved(pair, 3)
            restart_all(pair)
            self.assert_goes_on(trainers)
            for gateway in pair.gateways.values():
                self.assertEqual(len(gateway.events("state.checkpoint-loaded")), 2)
                self.assertTrue(gateway.events("run.rolled-back"))

    def test_new_trainers_find_the_values_of_before(self):
        with Pair(settings=OFTEN) as pair:
            trainers = join_all(pair)
            before = both(trainers, "exchange", count=3)[0]["sha256"]
            until_saved(pair, 3)
            for trainer in trainers:
                trainer.kill()
            for gateway in pair.gateways.values():
                gateway.stop()
            for gateway in pair.gateways.values():
                gateway.start(wait=False)
            trainers = join_all(pair, seeds=(7, 8))
            self.assertEqual({trainer.joined["sha256"] for trainer in trainers}, {before})
            self.assertEqual(trainers[0].joined["rounds"], [3])
            self.assert_goes_on(trainers)

    def test_a_restarted_gateway_fetches_nothing_that_it_has(self):
        for residual in ("bf16", "fp32"):
            codec = f"{{kind: int4, error_feedback: true, residual: {residual}}}"
            with self.subTest(residual=residual), Pair(settings=OFTEN, codec=codec) as pair:
                trainers = join_all(pair, seeds=(1, 1))
                both(trainers, "exchange", count=2)
                until_saved(pair, 2)
                pair.tokyo.kill()
                pair.tokyo.start()
                self.assert_goes_on(trainers)
                self.assertTrue(pair.tokyo.events("state.checkpoint-loaded"))
                fetched = [e for e in pair.tokyo.events("state.fetched") if "fetching" in e["text"]]
                self.assertEqual(fetched, [])
                self.assertFalse(pair.tokyo.run()["residual_lost"])

    def test_a_damaged_file_is_refused_by_name_and_the_one_before_used(self):
        with Pair(settings=OFTEN) as pair:
            trainers = join_all(pair)
            both(trainers, "exchange", count=3)
            until_saved(pair, 3)
            for gateway in pair.gateways.values():
                gateway.kill()
            path = os.path.join(pair.tokyo.state_directory, "demo.state", "fragment-0.current")
            with open(path, "r+b") as file:
                file.seek(os.path.getsize(path) // 2)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 1]))
            for gateway in pair.gateways.values():
                gateway.start(wait=False)
            self.assert_goes_on(trainers)
            refused = pair.tokyo.until_event("state.checkpoint-refused", path)
            self.assertIn("corrupt at byte", refused["text"])
            self.assertIn("previous", pair.tokyo.events("state.checkpoint-loaded")[0]["text"])

    def test_forgetting_forgets_the_checkpoints_too(self):
        with Pair(settings=OFTEN) as pair:
            trainers = join_all(pair)
            both(trainers, "exchange", count=2)
            both(trainers, "finish")
            until_saved(pair, 2)
            for gateway in pair.gateways.values():
                gateway.until_run(lambda run: run["trainers"] == 0, "no trainer is attached")
                gateway.forget()
                self.assertEqual(glob.glob(os.path.join(gateway.state_directory, "demo*")), [])
            trainers = join_all(pair, seeds=(5, 6))
            self.assertEqual(trainers[0].joined["rounds"], [0])
            self.assertFalse(trainers[0].joined["replaced"])
            self.assert_goes_on(trainers)

    def test_checkpoints_without_their_record_are_set_aside(self):
        with Pair(settings=OFTEN) as pair:
            trainers = join_all(pair)
            both(trainers, "exchange", count=2)
            until_saved(pair, 2)
            pair.tokyo.kill()
            os.remove(os.path.join(pair.tokyo.state_directory, "demo.epoch"))
            pair.tokyo.start()
            aside = os.path.join(pair.tokyo.state_directory, "demo.state.set-aside")
            self.assertTrue(os.path.exists(os.path.join(aside, "fragment-0.current")))
            self.assert_goes_on(trainers)

    @unittest.skipUnless(os.geteuid() == 0, "a small file system needs root")
    def test_a_full_disk_does_not_stop_the_rounds(self):
        shapes = {f"layer{i}": (256, 512) for i in range(2)}
        with Pair(settings=OFTEN, start=False) as pair:
            directory = pair.tokyo.state_directory
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "tmpfs", directory], check=True)
            pair.at_end(lambda: subprocess.run(["umount", "-l", directory], check=True))
            for gateway in pair.gateways.values():
                gateway.start(wait=False)
            trainers = join_all(pair, shapes=shapes)
            both(trainers, "exchange", count=1)
            until_saved(pair, 1)
            filler = os.path.join(directory, "filler")
            fill = open(filler, "wb", buffering=0)
            with self.assertRaises(OSError):
                while True:
                    fill.write(bytes(4096))
            both(trainers, "exchange", count=2)
            run = pair.tokyo.until_run(lambda run: run["checkpoint"]["failure"], "tells the failure")
            self.assertIn("No space left", run["checkpoint"]["failure"])
            self.assertEqual(run["state"], "running")
            self.assertEqual(len(pair.tokyo.events("state.checkpoint-failed")), 1)
            # What was there before is whole; with room again it goes on by itself.
            fill.close()
            os.remove(filler)
            pair.tokyo.until_run(lambda run: not run["checkpoint"]["failure"], "is written again")
            both(trainers, "exchange", count=1)
            until_saved(pair, 4)
            restart_all(pair)
            self.assert_goes_on(trainers)

    def test_a_disk_that_hangs_does_not_hold_up_the_rounds(self):
        with Pair(settings=OFTEN) as pair:
            trainers = join_all(pair)
            both(trainers, "exchange", count=1)
            until_saved(pair, 1)
            # Whoever opens this to write hangs until somebody reads.
            fifo = os.path.join(pair.tokyo.state_directory, "demo.state", "fragment-0.new")
            until(lambda: made_fifo(fifo), "no file is being written there")
            both(trainers, "exchange", count=3)
            run = pair.tokyo.until_run(lambda run: run["checkpoint"]["failure"], "tells the failure")
            self.assertIn("does not answer", run["checkpoint"]["failure"])
            self.assertGreaterEqual(run["fragments"][0]["round"], 3)
            self.assertEqual(len(pair.tokyo.events("state.checkpoint-failed")), 1)
            # The disk wakes: what it took is void, a new file is written, and it is whole.
            os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
            pair.tokyo.until_run(lambda run: not run["checkpoint"]["failure"], "is written again")
            both(trainers, "exchange", count=1)
            until_saved(pair, 5)
            restart_all(pair)
            self.assert_goes_on(trainers)


if __name__ == "__main__":
    main()
