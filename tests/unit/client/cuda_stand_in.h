// A CUDA driver for tests without a GPU: the entry points that the shim uses, over host memory.
//
// Built as libcuda.so.1, so that the shim finds it as it finds the real one. Streams are queues
// that do nothing until somebody must wait for them, and then in the order that events demand: a
// copy that was not ordered after what it needs, or before what overwrites it, gives wrong bytes
// here. "Device" memory is host memory that only these calls are meant to touch. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace causeway::stand_in {

// Everything as new. Nothing that was made may be used any more.
void Reset();

// Fails the n-th call from now on (1: the next) of that entry point ("cuStreamCreate"), with
// `result`.
void Fail(const std::string& symbol, int n, int result);
// Copies end only after Release: event and stream waits block.
void Hold();
void Release();
void SetCapturing(bool capturing);
void SetShareable(bool shareable);    // virtual memory and descriptors
void SetDeviceBytes(uint64_t bytes);  // memory of the device

// What was called, in order.
std::vector<std::string> Calls();
int Count(const std::string& symbol);
// Allocations, mappings, streams, events, registrations and contexts that are still there.
std::string Leaks();

// A tensor of the device, as a trainer has it.
void* Allocate(const std::vector<float>& values);
std::vector<float> Read(void* memory, size_t count);  // what is there now, nothing waited for
void* NewStream();
void Synchronize(void* stream);
// A kernel of the trainer's: adds to every element, in stream order.
void EnqueueAdd(void* stream, void* memory, size_t count, float value);

// Work that a stream stops at until it is ready; both run under the stand-in's lock. Poke: look
// again.
void EnqueueWhen(void* stream, std::function<bool()> ready, std::function<void()> run);
void Poke();

}  // namespace causeway::stand_in
