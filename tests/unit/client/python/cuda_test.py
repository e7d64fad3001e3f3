"""Tensors of a GPU through the real library, against a stand-in for the driver and a fake gateway.

Torch has no GPU here: a tensor of the "device" is memory of the stand-in, which only its driver's copies are meant
to touch, seen through an object that says it lies on a GPU.
"""

import ctypes
import types
import unittest

import torch

import causeway
from causeway import _library as c
from causeway import cuda, tensors
from causeway.handle import Handle
from support import SUBMIT, Gateway, together

driver = ctypes.CDLL("libcuda.so.1")
COUNT = 700


class Device:
    type, index = "cuda", 0


class OnDevice:
    """What the package asks of a tensor."""

    def __init__(self, values):
        address = ctypes.c_ulonglong()
        assert driver.cuInit(0) == 0
        assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4 * len(values))) == 0
        memory = (ctypes.c_float * len(values)).from_address(address.value)
        self.memory = torch.frombuffer(memory, dtype=torch.float32)
        self.memory.copy_(values)
        self.device = Device()

    def __getattr__(self, name):
        return getattr(self.memory, name)


def joined(gateway, name, values):
    handle = Handle("demo", gateway.socket(name))
    found = tensors.TensorSet([tensors.Entry("weight", OnDevice(values))])
    layout = handle.join(found.schema(), outer=True)
    found.place([handle.placement(0).fragment], layout.fragments)
    return handle, found


def settle():
    assert driver.cuStreamSynchronize(None) == 0


class Cuda(unittest.TestCase):
    def test_values_are_taken_from_the_device_and_put_back_there(self):
        def cluster(name, change):
            handle, found = joined(gateway, name, torch.zeros(COUNT))
            tensor = found.entries[0].tensor
            self.assertIsNotNone(cuda.use(handle, found.entries, current=lambda device: 0))
            slices, hosts = found.read_slices(found.all_indices())
            self.assertEqual(slices[0].memory, c.MEMORY_CUDA)
            self.assertEqual(slices[0].data, tensor.data_ptr())
            handle.offer(slices)
            handle.ready()
            settle()
            tensor.memory.add_(change)
            op = handle.submit(0, found.read_slices([0])[0], weight=1)
            result = handle.wait(op)
            settle()
            tensor.memory.add_(1.0)  # trained meanwhile: carried over
            slices, hosts = found.in_place_slices(0)
            handle.apply(op, c.CARRY, 0.0, slices)
            found.commit(0, hosts)
            handle.applied(0, result.round)
            settle()
            kept = tensor.memory.clone()
            staged, _ = found.staged_slices(0)
            self.assertEqual(staged[0].memory, c.MEMORY_HOST)
            handle.read(0, result.round, staged)
            handle.leave()
            handle.close()
            return kept, found.flat(0)[0].clone()

        with Gateway("clusters=paris,tokyo") as gateway:
            for kept, value in together(lambda: cluster("paris", 2.0), lambda: cluster("tokyo", 4.0)):
                self.assertTrue(torch.equal(value, torch.full((COUNT,), 3.0)))
                self.assertTrue(torch.equal(kept, torch.full((COUNT,), 4.0)))
            self.assertEqual(gateway.count(SUBMIT), 1)

    def test_the_library_is_told_when_the_stream_changes(self):
        told, now = [], [7]
        handle = types.SimpleNamespace(use_cuda=lambda device, stream: told.append((device, stream)))
        stream = cuda.Stream(handle, Device(), lambda device: now[0])
        stream.follow()
        now[0] = 9
        stream.follow()
        stream.follow()
        self.assertEqual(told, [(0, 7), (0, 9)])

    def test_without_a_driver_that_works_tensors_go_through_host_memory(self):
        def fail(device, stream):
            raise causeway.CudaError("cuInit failed")

        entry = types.SimpleNamespace(in_place=False, tensor=types.SimpleNamespace(device=Device()))
        with self.assertLogs("causeway", "WARNING") as logs:
            self.assertIsNone(cuda.use(types.SimpleNamespace(use_cuda=fail), [entry], lambda device: 0))
        self.assertIn("cuInit failed", logs.output[0])
        self.assertFalse(entry.in_place)

    def test_tensors_of_the_host_need_no_driver(self):
        self.assertIsNone(cuda.use(None, [tensors.Entry("weight", torch.zeros(3))]))


if __name__ == "__main__":
    unittest.main()
