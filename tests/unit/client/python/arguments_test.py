"""What a call is given is checked before anything is opened, by the argument's name."""

import pathlib
import unittest

import torch

import causeway
from support import HELLO, Gateway


def model():
    return torch.nn.Linear(3, 2)


NUMBERS = {
    "H": (0, -3, 2.5, True, "10", float("nan"), float("inf"), 1 << 32, [4]),
    "world": (0, -1, 1.5, "2", None, True, 1 << 32),
    "rank": (-1, 0.5, "0", None, 1, 7),  # of one rank there is only 0
    "connect_timeout": (-1, float("nan"), float("inf"), "5", None, True),
    "progress_interval": (-0.5, float("nan"), "soon", None),
    "weight": (-1, 0.5, None, "many"),
}
OTHERS = {
    "run": ("", 7, b"demo", "de\0mo"),
    "socket": (5, "", b"/run/causeway", "/a\0b"),
    "preset": ("quick", 3, ["fast"]),
    "init": ("theirs", None),
    "masters": ([1], {1: 2}, {torch.zeros(2): torch.zeros(3)}),
    "stages": ({"bias": -1}, {"bias": 1.5}, {"bias": 256}, {3: 1}),
    "shards": ({"weight": 5}, {"weight": ((2.5, 3), 0)}, {"weight": ((2, 3), "0")}, {"weight": ((2, 3), -1)}),
    "optimizer": ("sgd", torch.optim.SGD(model().parameters(), lr=0.1)),  # the second: another model's
}


class Arguments(unittest.TestCase):
    def refused(self, name, call):
        with self.assertRaises(causeway.InvalidCall) as caught:
            call()
        self.assertRegex(str(caught.exception), rf"^{name}\b")
        self.assertIsInstance(caught.exception, ValueError)
        self.assertFalse(caught.exception.retryable)
        return caught.exception

    def test_what_outer_is_given_is_refused_by_name(self):
        with Gateway() as gateway:
            for name, wrong in {**NUMBERS, **OTHERS}.items():
                for value in wrong:
                    with self.subTest(name=name, value=value):
                        options = {"run": "demo", "socket": gateway.socket(), name: value}
                        self.refused(name, lambda: causeway.Outer(model(), **options))
            self.assertEqual(gateway.count(HELLO), 0)

    def test_what_open_is_given_is_refused_by_name(self):
        for name in ("rank", "world", "connect_timeout", "progress_interval", "weight", "run", "socket"):
            for value in {**NUMBERS, **OTHERS}[name]:
                with self.subTest(name=name, value=value):
                    options = {"run": "demo", "socket": "/nonexistent", name: value}
                    self.refused(name, lambda: causeway.open(**options))
        self.refused("model", lambda: causeway.open("demo", "/nonexistent", model=[torch.zeros(2)]))

    def test_types_are_type_errors(self):
        for options in ({"H": 2.5}, {"world": "2"}, {"run": 7}, {"connect_timeout": "5"}, {"optimizer": "sgd"}):
            with self.assertRaises(TypeError):
                causeway.Outer(model(), **{"run": "demo", "socket": "/nonexistent", **options})
        with self.assertRaises(TypeError):
            causeway.Outer([torch.zeros(3)], run=None)

    def test_whole_numbers_of_other_libraries_and_paths_are_taken(self):
        with Gateway("local_steps=3") as gateway:
            socket = pathlib.Path(gateway.socket())
            outer = causeway.Outer(model(), run="demo", socket=socket, H=torch.tensor([3]).numpy()[0])
            self.assertEqual(outer.H, 3)

    def test_a_model_without_anything_to_exchange_says_what_is_exchanged(self):
        frozen = model().requires_grad_(False)
        for empty in (torch.nn.Module(), torch.nn.ReLU(), frozen):
            problem = self.refused("model", lambda: causeway.Outer(empty, run="demo", socket="/nonexistent"))
            self.assertIn("requires_grad", str(problem))

    def test_an_optimizer_of_this_model_or_none_is_taken(self):
        mine = model()
        for optimizer in (None, torch.optim.SGD(mine.parameters(), lr=0.1), torch.optim.SGD([mine.bias], lr=0.1)):
            causeway.Outer(mine, optimizer, run=None).finish()

    def test_ranks_of_one_group_have_one_handle(self):
        with self.assertRaisesRegex(causeway.InvalidCall, "process_group"):
            causeway.Outer(model(), run="demo", process_group=object(), world=2)

    def test_gradients_that_are_none_are_named(self):
        run = causeway.Run.__new__(causeway.Run)  # nothing is sent: no gateway is needed
        run._pending = None
        with self.assertRaisesRegex(TypeError, r"tensors\[1\]"):
            run.submit([torch.zeros(2), None])


if __name__ == "__main__":
    unittest.main()
