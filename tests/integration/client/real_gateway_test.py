#!/usr/bin/python3
"""libcauseway against real gateways: what the fake gateway of the unit tests promises, held by causewayd."""
import errno
import fcntl
import mmap
import os
import socket
import struct
import subprocess
import sys
import threading
import unittest

try:
    import torch
except ImportError:
    sys.exit(77)

import causeway
import gateways

PATIENCE_S = 40  # only reached when something hangs
MAGIC, HELLO, WELCOME, JOIN, JOINED = 0x4C575743, 1, 2, 3, 4


def together(*functions, meanwhile=None):
    """Runs functions in threads and ``meanwhile`` in this one; the functions' results, or the first exception."""
    results, problems = [None] * len(functions), []

    def run(index):
        try:
            results[index] = functions[index]()
        except BaseException as problem:  # handed to the test's thread
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(functions))]
    for thread in threads:
        thread.start()
    if meanwhile is not None:
        meanwhile()
    for thread in threads:
        thread.join(timeout=PATIENCE_S)
    if problems:
        raise problems[0]
    assert not any(thread.is_alive() for thread in threads), "a trainer hangs"
    return results


def network():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8))
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view(parameter.shape) * (index + 1))
    return model


def values(model):
    return [tensor.detach().clone() for tensor in model.state_dict().values()]


class RealGateways(unittest.TestCase):
    def test_a_trainer_in_c_on_either_side(self):
        with gateways.Pair(codec=gateways.FP32) as pair:
            def run(gateway):
                done = subprocess.run([os.environ["CAUSEWAY_TRAINER_IN_C"], gateway.trainer_socket],
                                      capture_output=True, text=True, timeout=gateways.PATIENCE_S)
                return done.stdout + done.stderr

            self.assertEqual(together(lambda: run(pair.paris), lambda: run(pair.tokyo)), ["done\n"] * 2)

    def test_a_gateway_that_dies_in_flight_is_lived_through_and_nothing_counts_twice(self):
        algorithm = "{rule: average, local_steps: 4, fragments: 2, delay: 1}"
        with gateways.Pair(codec=gateways.FP32, algorithm=algorithm) as pair:
            barrier = threading.Barrier(3, timeout=gateways.PATIENCE_S)

            def train(gateway):
                model = network()
                outer = causeway.Outer(model, run="demo", socket=gateway.trainer_socket, progress_interval=0.5)
                for step in range(1, 25):
                    with torch.no_grad():
                        for parameter in model.parameters():
                            parameter.add_(0.5)
                    outer.step()
                    if step == 8:  # fragment 0 was submitted in this step and is due in the next
                        barrier.wait()
                        barrier.wait()
                outer.finish()
                return model, outer

            (paris, outer), (tokyo, _) = together(lambda: train(pair.paris), lambda: train(pair.tokyo),
                                                 meanwhile=lambda: self.restart(pair.paris, barrier))
            for mine, theirs in zip(values(paris), values(tokyo)):
                self.assertTrue(torch.equal(mine, theirs))
            stats = outer.stats()
            self.assertEqual(stats["excluded"], 0)
            # Every step of both clusters counted once: 24 steps of 0.5, whatever was asked again.
            if stats["rebases"] == 0:
                for before, after in zip(network().parameters(), paris.parameters()):
                    self.assertTrue(torch.allclose(after - before, torch.tensor(12.0), atol=1e-4))

    def test_gradients_with_a_gateway_that_dies(self):
        with gateways.Pair(codec=gateways.FP32, algorithm="{rule: gradients}") as pair:
            barrier = threading.Barrier(3, timeout=gateways.PATIENCE_S)

            def train(gateway, value):
                seen = []
                with causeway.open("demo", gateway.trainer_socket) as run:
                    for step in range(8):
                        gradient = torch.full((1000,), value + step)
                        run.average([gradient], names=["gradient"])
                        seen.append(gradient[999].item())
                        if step == 3:
                            barrier.wait()
                            barrier.wait()
                return seen

            paris, tokyo = together(lambda: train(pair.paris, 1.0), lambda: train(pair.tokyo, 3.0),
                                    meanwhile=lambda: self.restart(pair.tokyo, barrier))
            self.assertEqual(paris, [2.0 + step for step in range(8)])
            self.assertEqual(tokyo, paris)

    def test_a_trainer_cannot_harm_the_memory_it_is_given(self):
        with gateways.Pair() as pair:
            layout, snapshot, shared_values, peer = self.join_by_hand(pair.paris.trainer_socket)
            try:
                for descriptor in (layout, snapshot, shared_values):
                    size = os.fstat(descriptor).st_size
                    for length in (0, size - 1, size + 4096):
                        with self.assertRaises(OSError) as caught:
                            os.ftruncate(descriptor, length)
                        self.assertIn(caught.exception.errno, (errno.EPERM, errno.EINVAL))
                for descriptor in (layout, shared_values):
                    with self.assertRaises(PermissionError):
                        mmap.mmap(descriptor, 0, prot=mmap.PROT_READ | mmap.PROT_WRITE)
                    with self.assertRaises(OSError):
                        os.write(descriptor, b"x")
                mmap.mmap(snapshot, 0, prot=mmap.PROT_READ | mmap.PROT_WRITE).close()
            finally:
                for descriptor in (layout, snapshot, shared_values):
                    os.close(descriptor)
                peer.close()

    def restart(self, gateway, barrier):
        """While both trainers stand still. In the main thread: a gateway dies with the thread that starts it."""
        barrier.wait()
        gateway.kill()
        gateway.start(wait=False)
        barrier.wait()

    def join_by_hand(self, path):
        """Hello and Join from their bytes; the three descriptors and the socket."""
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.settimeout(gateways.PATIENCE_S)
        peer.connect(path)

        def header(kind, size, sequence):
            return struct.pack("<IHHIIQQ", MAGIC, 1, kind, size, 0, sequence, 0)

        peer.send(header(HELLO, 128, 1) + struct.pack("<HHIII16s64s", 1, 1, 0, 1, 0, b"", b"demo"))
        self.assertEqual(struct.unpack_from("<H", peer.recv(4096), 6)[0], WELCOME)
        schema = os.memfd_create("schema", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(schema, struct.pack("<192sBBBBi8Q", b"weight", 0, 0, 1, 0, -1, 1000, *[0] * 7))
        fcntl.fcntl(schema, fcntl.F_ADD_SEALS,
                    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)
        socket.send_fds(peer, [header(JOIN, 48, 2) + struct.pack("<IBBHII", 1, 0, 1, 0, 0, 0)], [schema])
        os.close(schema)
        message, descriptors, _, _ = socket.recv_fds(peer, 4096, 4)
        self.assertEqual(struct.unpack_from("<H", message, 6)[0], JOINED, message)
        self.assertEqual(len(descriptors), 3)
        return (*descriptors, peer)


if __name__ == "__main__":
    unittest.main(verbosity=2)
