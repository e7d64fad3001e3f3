#!/usr/bin/python3
"""Several ranks of a cluster, each with slices of its own, against real gateways: the bytes of the unsharded run,
a death that takes the cluster's contribution back, gateways that go and come, and what is refused."""
import importlib.util
import json
import os
import subprocess
import sys
import unittest

if importlib.util.find_spec("numpy") is None:
    print("skipped: numpy is missing (package python3-numpy)")
    sys.exit(77)

import gateways

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slice_rank.py")
AVERAGE = "{rule: average, local_steps: 2, fragments: 2}"
NESTEROV = "{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 2, fragments: 2}"


class Refused(Exception):
    def __init__(self, answer):
        super().__init__(f"{answer['error']}: {answer.get('text')}")
        self.kind, self.fields = answer["error"], answer


class Rank:
    def __init__(self, pair, cluster, rank, world, seed, **more):
        options = {"socket": pair.gateways[cluster].trainer_socket, "rank": rank, "world": world, "seed": seed,
                   **more}
        self.process = subprocess.Popen(["/usr/bin/python3", PROGRAM, json.dumps(options)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=gateways.die_with_parent)
        pair.at_end(self.kill)

    def tell(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, f"a rank ended with {self.process.wait()}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer)
        return answer["value"]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def together(ranks, what):
    for rank in ranks:
        rank.tell(what)
    return [rank.answer() for rank in ranks]


def cluster(pair, name, world, seed, **more):
    return [Rank(pair, name, rank, world, seed, **more) for rank in range(world)]


class Slices(unittest.TestCase):
    def exchange(self, worlds, rounds=3, outer=True, **run):
        """Trains with that many ranks on paris and tokyo: what each piece is in the end, and the run's hash."""
        with gateways.Pair(**run) as pair:
            ranks = cluster(pair, "paris", worlds[0], 1, outer=outer) + \
                    cluster(pair, "tokyo", worlds[1], 2, outer=outer)
            together(ranks, "join")
            for round in range(1, rounds + 1):
                together(ranks, "submit")
                for results in together(ranks, "collect"):
                    self.assertEqual(results, [["committed", round, 2]] * len(results))
            paris, tokyo = {}, {}
            for index, parts in enumerate(together(ranks, "parts")):
                (paris if index < worlds[0] else tokyo).update(parts)
            self.assertEqual(paris, tokyo)
            hashes = set(together(ranks, "finish"))
            self.assertEqual(len(hashes), 1)
            return paris, hashes.pop()

    def test_two_ranks_give_the_bytes_of_the_unsharded_run(self):
        run = {"algorithm": NESTEROV, "codec": gateways.INT4_EF}
        whole = self.exchange((1, 1), **run)
        self.assertEqual(self.exchange((2, 1), **run), whole)
        self.assertEqual(self.exchange((3, 2), **run), whole)

    def test_gradients_of_two_ranks(self):
        run = {"algorithm": "{rule: gradients}", "codec": gateways.INT4_EF, "outer": False}
        self.assertEqual(self.exchange((2, 2), **run), self.exchange((1, 1), **run))

    def test_a_rank_that_dies_takes_the_clusters_contribution_back(self):
        with gateways.Pair(algorithm=AVERAGE, codec=gateways.FP32) as pair:
            paris, tokyo = cluster(pair, "paris", 2, 1), cluster(pair, "tokyo", 1, 2)
            together(paris + tokyo, "join")
            together(paris + tokyo, "submit")
            together(paris + tokyo, "collect")
            together([paris[0], tokyo[0]], "submit")
            paris[1].kill()
            with self.assertRaises(Refused) as caught:
                together([paris[0]], "collect")
            self.assertEqual((caught.exception.kind, caught.exception.fields["rank"]), ("CommError", 1))
            self.assertIn("rank 1", caught.exception.fields["text"])
            paris[0].kill()
            for state, round, participants in together(tokyo, "collect")[0]:
                self.assertEqual((state, round, participants), ("committed", 2, 1))
            again = cluster(pair, "paris", 2, 3)
            for joined in together(again, "join"):
                self.assertTrue(joined["replaced"])
            ranks = again + tokyo
            # The gateway may have stood back from the next round before its trainer was there again.
            for _ in range(4):
                together(ranks, "submit")
                ends = together(ranks, "collect")
                if all(end[0] == "committed" and end[2] == 2 for results in ends for end in results):
                    break
            self.assertEqual(ends, [ends[0]] * len(ends))
            self.assertEqual({(state, members) for state, _, members in ends[0]}, {("committed", 2)})
            parts = together(ranks, "parts")
            self.assertEqual({**parts[0], **parts[1]}, parts[2])

    def test_what_other_ranks_have_not_submitted_can_be_taken_back(self):
        with gateways.Pair(algorithm=AVERAGE, codec=gateways.FP32) as pair:
            ranks = cluster(pair, "paris", 2, 1) + cluster(pair, "tokyo", 1, 2)
            together(ranks, "join")
            together([ranks[0]], "submit")
            self.assertEqual(together([ranks[0]], "abandon"), [["abandoned"] * 2])
            together(ranks, "submit")
            for results in together(ranks, "collect"):
                self.assertEqual(results, [["committed", 1, 2]] * len(results))

    def test_a_gateway_that_dies_between_the_ranks_submissions(self):
        with gateways.Pair(algorithm=AVERAGE, codec=gateways.FP32) as pair:
            paris, tokyo = cluster(pair, "paris", 2, 1), cluster(pair, "tokyo", 1, 2)
            ranks = paris + tokyo
            together(ranks, "join")
            together(ranks, "submit")
            together(ranks, "collect")
            together([paris[0], tokyo[0]], "submit")
            pair.paris.kill()
            pair.paris.start(wait=False)
            for rank in (paris[0], tokyo[0]):
                rank.tell("collect")  # the library reconnects while somebody waits
            together([paris[1]], "submit")
            paris[1].tell("collect")
            for rank in ranks:
                results = rank.answer()
                self.assertEqual(results, [["committed", 2, 2]] * len(results))
            parts = together(ranks, "parts")
            self.assertEqual({**parts[0], **parts[1]}, parts[2])
            self.assertEqual(len(set(together(ranks, "finish"))), 1)

    def test_a_rank_that_calls_nothing_while_its_gateway_goes_and_comes(self):
        with gateways.Pair(algorithm=AVERAGE, codec=gateways.FP32) as pair:
            paris, tokyo = cluster(pair, "paris", 2, 1), cluster(pair, "tokyo", 1, 2)
            ranks = paris + tokyo
            together(ranks, "join")
            together(ranks, "submit")
            pair.paris.kill()
            pair.paris.start(wait=False)
            # As in a step that begins with a collective of the ranks: the other one is not heard of before
            # this one has its result.
            # How many took part is not always known to a gateway that was not there when it was decided.
            for ranks_now in ([paris[0], tokyo[0]], [paris[1]]):
                for results in together(ranks_now, "collect"):
                    self.assertEqual([result[:2] for result in results], [["committed", 1]] * len(results))
            parts = together(ranks, "parts")
            self.assertEqual({**parts[0], **parts[1]}, parts[2])
            self.assertEqual(len(set(together(ranks, "finish"))), 1)

    def test_what_is_refused(self):
        with gateways.Pair(algorithm=AVERAGE, codec=gateways.FP32) as pair:
            missing = [Rank(pair, "paris", 0, 2, 1, leave_out=(1, 96)), Rank(pair, "paris", 1, 2, 1)]
            for rank in missing:
                rank.tell("join")
            for rank in missing:
                with self.assertRaises(Refused) as caught:
                    rank.answer()
                self.assertEqual(caught.exception.kind, "SchemaError")
                self.assertIn("element 96 of tensor 'weight'", caught.exception.fields["text"])
                rank.kill()
            twice = [Rank(pair, "paris", 0, 2, 1), Rank(pair, "paris", 1, 2, 1, all_of_it=True)]
            for rank in twice:
                rank.tell("join")
            texts = []
            for rank in twice:
                with self.assertRaises(Refused) as caught:
                    rank.answer()
                texts.append(caught.exception.fields["text"])
                rank.kill()
            self.assertTrue(any("overlap" in text for text in texts), texts)
            first, other = Rank(pair, "paris", 0, 2, 1), Rank(pair, "paris", 1, 3, 1)
            first.tell("parts")
            first.answer()
            other.tell("parts")
            with self.assertRaises(Refused) as caught:
                other.answer()
            self.assertIn("world 2", caught.exception.fields["text"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
