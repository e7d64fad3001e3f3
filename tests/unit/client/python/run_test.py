"""Gradient averaging through the real library against the fake gateway."""

import logging
import os
import signal
import threading
import time
import unittest

import torch

import causeway
from causeway.run import check_optimizer
from support import JOIN, LEAVE, SUBMIT, Gateway, together


class Average(unittest.TestCase):
    def test_the_weighted_mean_lands_in_the_tensors_of_every_dtype(self):
        with Gateway("clusters=paris,tokyo", "fragments=2") as gateway:
            def cluster(name, value, weight):
                tensors = [torch.full((4, 3), value), torch.full((300,), value).bfloat16(),
                           torch.full((7,), value).half(), torch.full((), value)]
                with causeway.open("demo", gateway.socket(name)) as run:
                    for _ in range(3):
                        averaged = run.average(tensors, weight=weight)
                return tensors, averaged, run.stats()

            (paris, averaged, stats), (tokyo, _, _) = together(lambda: cluster("paris", 1.0, 3),
                                                               lambda: cluster("tokyo", 5.0, 1))
            for mine, theirs in zip(paris, tokyo):
                self.assertTrue(torch.equal(mine, theirs))
                self.assertTrue(bool((mine == 2.0).all()))
            self.assertEqual(averaged.round, 3)
            self.assertEqual(averaged.participants, 2)
            self.assertTrue(averaged.included)
            self.assertEqual(stats["steps"], 3)
            self.assertTrue(gateway.expect(LEAVE, 1))

    def test_strided_tensors_and_one_alone(self):
        with Gateway() as gateway, causeway.open("demo", gateway.socket()) as run:
            base = torch.arange(12.0).view(3, 4)
            expected = base.clone()
            run.average(base.t())  # not contiguous
            self.assertTrue(torch.equal(base, expected))

    def test_submit_lets_the_tensors_be_overwritten(self):
        with Gateway() as gateway, causeway.open("demo", gateway.socket()) as run:
            gateway.tell("hold")
            tensor = torch.ones(1000)
            pending = run.submit([tensor])
            tensor.fill_(7.0)
            self.assertFalse(pending.test())
            with self.assertRaises(causeway.Busy):
                run.submit([tensor])
            gateway.tell("release")
            result = pending.wait()
            self.assertTrue(bool((tensor == 1.0).all()))
            self.assertIs(pending.wait(), result)
            self.assertTrue(pending.test())

    def test_nonfinite_gradients_are_reported_in_the_result(self):
        with Gateway() as gateway, causeway.open("demo", gateway.socket()) as run:
            self.assertFalse(run.average([torch.ones(3)]).nonfinite)
            self.assertTrue(run.average([torch.tensor([1.0, float("nan"), 2.0])]).nonfinite)

    def test_tensors_that_change_between_steps_are_refused_by_name(self):
        with Gateway() as gateway, causeway.open("demo", gateway.socket()) as run:
            run.average([torch.ones(3)], names=["layer.weight"])
            with self.assertRaises(causeway.SchemaError) as caught:
                run.average([torch.ones(4)])
            self.assertEqual(caught.exception.tensor, "layer.weight")
            with self.assertRaises(causeway.SchemaError):
                run.average([torch.ones(3), torch.ones(3)])
            with self.assertRaises(causeway.SchemaError) as caught:
                causeway.open("demo", gateway.socket()).average([torch.ones(3, dtype=torch.float64)])
            self.assertIn("float64", str(caught.exception))

    def test_a_weight_that_is_no_number_of_samples_is_refused_before_anything_is_sent(self):
        with Gateway() as gateway:
            with self.assertRaisesRegex(causeway.InvalidCall, "weight must be a whole number"):
                causeway.open("demo", gateway.socket(), weight=-3)
            with causeway.open("demo", gateway.socket()) as run:
                for weight in (-1, 2.5, float("nan"), 1 << 64):
                    with self.assertRaisesRegex(causeway.InvalidCall, "not " + str(weight)):
                        run.average([torch.ones(4)], weight=weight)
                self.assertEqual(gateway.count(SUBMIT), 0)
                tensor = torch.ones(4)
                run.average([tensor], weight=torch.tensor(8))
                self.assertTrue(bool((tensor == 1.0).all()))

    def test_no_gateway_is_an_error_that_names_the_socket(self):
        with self.assertRaises(causeway.GatewayLost) as caught:
            causeway.open("demo", "/nonexistent/trainer.sock", connect_timeout=0)
        self.assertIn("/nonexistent/trainer.sock", str(caught.exception))
        self.assertTrue(caught.exception.retryable)
        os.environ["CAUSEWAY_SOCKET"] = "/nonexistent/from/environment"
        try:
            with self.assertRaises(causeway.GatewayLost) as caught:
                causeway.open("demo", connect_timeout=0)
        finally:
            del os.environ["CAUSEWAY_SOCKET"]
        self.assertIn("/nonexistent/from/environment", str(caught.exception))

    def test_a_gateway_restart_is_lived_through(self):
        with Gateway() as gateway, causeway.open("demo", gateway.socket()) as run:
            run.average([torch.ones(3)])
            gateway.tell("hold")
            tensor = torch.full((3,), 5.0)
            pending = run.submit([tensor])
            gateway.tell("stop")
            gateway.tell("forget")
            gateway.tell("release")
            tensor.zero_()
            pending.wait()
            self.assertTrue(bool((tensor == 5.0).all()))
            self.assertEqual(gateway.count(JOIN), 2)
            run.average([torch.ones(3)])
            self.assertEqual(gateway.count(SUBMIT), 4)  # one of them twice, counted once


class Waiting(unittest.TestCase):
    def test_a_wait_says_who_is_awaited_and_keeps_the_time_out_of_the_run(self):
        with Gateway("wait_timeout_ms=1500") as gateway:
            run = causeway.open("demo", gateway.socket(), progress_interval=0.3)
            gateway.tell("hold")
            with self.assertLogs("causeway", logging.WARNING) as lines:
                pending = run.submit([torch.ones(3)])
                with self.assertRaises(causeway.Timeout) as caught:
                    pending.wait()
            self.assertTrue(caught.exception.retryable)
            self.assertTrue(any("tokyo" in line for line in lines.output), lines.output)
            gateway.tell("release")
            pending.wait()  # nothing was lost
            run.close()

    def test_ctrl_c_ends_a_wait_and_the_operation_stays(self):
        with Gateway() as gateway, causeway.open("demo", gateway.socket()) as run:
            gateway.tell("hold")
            pending = run.submit([torch.ones(3)])
            waiting = threading.Event()
            done = threading.Event()

            def interrupt():
                waiting.wait()
                while not done.is_set():  # until one arrives inside the wait
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(0.05)

            sender = threading.Thread(target=interrupt)
            sender.start()
            caught = False
            try:
                waiting.set()
                pending.wait()
            except KeyboardInterrupt:
                caught = True
            finally:
                # The sender may be between its check and its kill.
                while sender.is_alive():
                    try:
                        done.set()
                        sender.join()
                    except KeyboardInterrupt:
                        pass
            self.assertTrue(caught)
            gateway.tell("release")
            self.assertEqual(pending.wait().round, 1)

    def test_other_threads_run_while_one_waits(self):
        with Gateway() as gateway, causeway.open("demo", gateway.socket()) as run:
            gateway.tell("hold")
            pending = run.submit([torch.ones(3)])
            progress = []

            def work():
                for index in range(1000):
                    progress.append(index)
                gateway.tell("release")

            worker = threading.Thread(target=work)
            worker.start()
            pending.wait()  # would never end if it held the interpreter
            worker.join()
            self.assertEqual(len(progress), 1000)

    def test_a_forked_child_is_refused(self):
        with Gateway() as gateway, causeway.open("demo", gateway.socket()) as run:
            run.average([torch.ones(3)])
            child = os.fork()
            if child == 0:
                try:
                    run.average([torch.ones(3)])
                except causeway.Forked:
                    os._exit(0)
                finally:
                    os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            run.average([torch.ones(3)])


class MomentumOfTheGateways(unittest.TestCase):
    """Where it replaces the optimizer's, an optimizer with one of its own is refused."""

    def parameters(self):
        return [torch.nn.Parameter(torch.zeros(3))]

    def test_sgd_without_momentum_goes_with_it(self):
        check_optimizer(torch.optim.SGD(self.parameters(), lr=0.1), "demo", 0.9)

    def test_without_it_anything_goes(self):
        check_optimizer(torch.optim.Adam(self.parameters()), "demo", 0.0)
        check_optimizer(None, "demo", 0.0)

    def test_momentum_of_sgd_is_refused(self):
        with self.assertRaisesRegex(causeway.AlgorithmError, "give it momentum=0"):
            check_optimizer(torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9), "demo", 0.9)

    def test_adam_and_its_kind_are_refused(self):
        for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop):
            with self.assertRaisesRegex(causeway.AlgorithmError, f"{kind.__name__} takes"):
                check_optimizer(kind(self.parameters()), "demo", 0.9)

    def test_where_none_is_given_it_says_what_to_mind(self):
        with self.assertLogs("causeway", "WARNING") as logs:
            check_optimizer(None, "demo", 0.9)
        self.assertIn("momentum=0", logs.output[0])


if __name__ == "__main__":
    unittest.main()
