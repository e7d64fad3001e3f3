"""Several ranks of a cluster: equal bytes and equal errors everywhere, and nobody hangs."""

import os
import signal
import unittest

import torch
import torch.distributed as distributed

import causeway
from ranks import RANKS, cluster
from support import Gateway, together


def _network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.Linear(5, 5))


def _sums(model):
    return [parameter.double().sum().item() for parameter in model.parameters()]


def train(rank, socket, amount):
    model = _network(seed=rank)  # every rank from another seed: the run's values make them equal
    outer = causeway.Outer(model, run="demo", socket=socket, process_group=distributed.group.WORLD)
    delays = []
    for _ in range(10):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(amount)
        outer.step()
        delays.append(outer.delay)
    with outer.global_parameters():
        base = _sums(model)
    outer.finish()
    return {"values": _sums(model), "base": base, "delays": delays, "hash": outer.values_hash}


def average(rank, socket, value):
    run = causeway.open("demo", socket, process_group=distributed.group.WORLD)
    tensors = [torch.full((300,), value), torch.full((4,), value).bfloat16()]
    for _ in range(3):
        averaged = run.average(tensors, weight=1)
    run.finish()
    return {"values": [tensor.double().sum().item() for tensor in tensors], "round": averaged.round}


def fail(rank, socket):
    model = _network(seed=1)
    outer = causeway.Outer(model, run="demo", socket=socket, process_group=distributed.group.WORLD)
    for _ in range(8):
        outer.step()
    return {}


def succeed(rank, sockets, value):
    """Everything that goes well, in one start of the processes: they take long to start."""
    return {"gradients": average(rank, sockets[0], value),
            "trained": [train(rank, socket, value) for socket in sockets[1:]]}


def fail_twice(rank, socket):
    answers = []
    for where in ("/nonexistent/trainer.sock", socket):
        try:
            answers.append(fail(rank, where))
        except causeway.Error as problem:
            answers.append(problem.describe())
    return answers


class LocalRanks(unittest.TestCase):
    def test_all_ranks_of_two_clusters_hold_the_same_bytes(self):
        names = "clusters=paris,tokyo"
        with Gateway(names) as one, Gateway(names, "fragments=2") as two, \
                Gateway(names, "fragments=2", "delay=auto") as three:
            def sockets(cluster_name):
                return [gateway.socket(cluster_name) for gateway in (one, two, three)]

            paris, tokyo = together(lambda: cluster(succeed, sockets("paris"), 1.0),
                                    lambda: cluster(succeed, sockets("tokyo"), 3.0))
            for answer in paris + tokyo:
                self.assertEqual(answer["gradients"], {"values": [600.0, 8.0], "round": 3})
                for trained, first in zip(answer["trained"], paris[0]["trained"]):
                    self.assertEqual(trained["values"], first["values"])
                    self.assertEqual(trained["hash"], first["hash"])
            for answers in (paris, tokyo):
                for answer in answers:
                    for trained, first in zip(answer["trained"], answers[0]["trained"]):
                        self.assertEqual(trained["base"], first["base"])
                        self.assertEqual(trained["delays"], first["delays"])

    def test_errors_are_the_same_on_every_rank(self):
        with Gateway("wait_timeout_ms=2500") as gateway:
            gateway.tell("hold")  # while the leader waits, the others hear of it every second
            answers = cluster(fail_twice, gateway.socket())
            for answer in answers:
                self.assertEqual(answer, answers[0])
            self.assertEqual([problem["code"] for problem in answers[0]], ["GATEWAY_LOST", "TIMEOUT"])
            self.assertIn("/nonexistent/trainer.sock", answers[0][0]["text"])

    def test_ctrl_c_on_the_leader_frees_the_others(self):
        with Gateway() as gateway:
            gateway.tell("hold")

            def interrupt(processes):
                while gateway.count(7) == 0:
                    pass
                os.kill(processes[0].pid, signal.SIGINT)

            answers = cluster(fail, gateway.socket(), ready=interrupt)
            self.assertEqual(answers[0], {"interrupted": True})
            for answer in answers[1:]:
                # The leader's word, or, where its process ends before that is delivered, the broken group.
                self.assertIn(answer["error"]["code"], ("INTERRUPTED", "COMM"))

    def test_a_leader_that_dies_is_an_error_on_the_others(self):
        with Gateway() as gateway:
            gateway.tell("hold")

            def kill(processes):
                while gateway.count(7) == 0:
                    pass
                processes[0].kill()

            answers = cluster(fail, gateway.socket(), ready=kill, answering=range(1, RANKS))
            for answer in answers:
                self.assertEqual(answer["error"]["code"], "COMM")


if __name__ == "__main__":
    unittest.main()
