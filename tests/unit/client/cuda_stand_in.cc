// See cuda_stand_in.h. Prototypes are cuda.h's, in the shim's own words (client/shim/cuda_api.h).
#include "tests/unit/client/cuda_stand_in.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "client/shim/cuda_api.h"

namespace causeway::stand_in {
namespace {

using namespace client::cuda;  // NOLINT: the driver's types

constexpr Result kInvalid = 1, kOutOfMemory = 2;
constexpr size_t kGranularity = 1 << 21;

struct Work {
  std::function<void()> run;
  std::function<bool()> ready;  // none: always
};
struct Queue {
  std::deque<Work> work;
  uint64_t enqueued = 0, done = 0;
};
struct Recorded {
  Queue* queue = nullptr;  // none: never recorded, so reached
  uint64_t position = 0;
};
struct Physical {
  int descriptor = -1;
  size_t bytes = 0;
};

struct Driver {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> calls;
  std::map<std::string, std::pair<int, Result>> failures;  // calls left until it, and with what
  bool held = false, capturing = false, shareable = true;
  uint64_t device_bytes = uint64_t{1} << 40, used_bytes = 0;
  Queue legacy;
  std::map<void*, std::unique_ptr<Queue>> streams;
  std::set<void*> of_the_test;  // streams
  std::map<void*, Recorded> events;
  std::map<Pointer, size_t> allocations, reserved, mapped;
  std::set<void*> registered;
  std::map<Allocation, Physical> physical;
  int contexts = 0, pushed = 0;
  uint64_t next = 1;
};

Driver& D() {
  static Driver driver;
  return driver;
}

using Lock = std::unique_lock<std::mutex>;

// Notes the call; not 0: it fails now.
Result Enter(const char* symbol) {
  Driver& d = D();
  d.calls.push_back(symbol);
  auto found = d.failures.find(symbol);
  if (found == d.failures.end() || --found->second.first > 0) return 0;
  const Result result = found->second.second;
  d.failures.erase(found);
  return result;
}

#define ENTER(symbol)   \
  Lock lock(D().mutex); \
  if (const Result result = Enter(symbol); result != 0) return result

Queue* QueueOf(void* stream) {
  if (stream == nullptr) return &D().legacy;
  auto found = D().streams.find(stream);
  return found == D().streams.end() ? nullptr : found->second.get();
}

// Runs what can be; whether that reached the position.
bool Run(Queue& queue, uint64_t position) {
  while (queue.done < position) {
    if (queue.work.front().ready && !queue.work.front().ready()) return false;
    const std::function<void()> run = std::move(queue.work.front().run);
    queue.work.pop_front();
    ++queue.done;
    run();
  }
  return true;
}

void Enqueue(Queue& queue, std::function<void()> run, std::function<bool()> ready = nullptr) {
  queue.work.push_back({std::move(run), std::move(ready)});
  ++queue.enqueued;
}

void Await(Lock& lock, const std::function<bool()>& done) {
  D().changed.wait(lock, [&] { return !D().held && done(); });
}

Result Copy(void* to, const void* from, size_t bytes, void* stream) {
  Queue* queue = QueueOf(stream);
  if (queue == nullptr) return kInvalid;
  Enqueue(*queue, [=] { std::memcpy(to, from, bytes); });
  return 0;
}

void* Memory(Pointer pointer) { return reinterpret_cast<void*>(static_cast<uintptr_t>(pointer)); }
Pointer PointerOf(void* memory) {
  return static_cast<Pointer>(reinterpret_cast<uintptr_t>(memory));
}

}  // namespace

void Reset() {
  const Lock lock(D().mutex);
  Driver& d = D();
  d.calls.clear();
  d.failures.clear();
  d.held = d.capturing = false;
  d.shareable = true;
  d.device_bytes = uint64_t{1} << 40;
  d.changed.notify_all();
}

void Fail(const std::string& symbol, int n, int result) {
  const Lock lock(D().mutex);
  D().failures[symbol] = {n, result};
}
void Hold() {
  const Lock lock(D().mutex);
  D().held = true;
}
void Release() {
  const Lock lock(D().mutex);
  D().held = false;
  D().changed.notify_all();
}
void SetCapturing(bool capturing) {
  const Lock lock(D().mutex);
  D().capturing = capturing;
}
void SetShareable(bool shareable) {
  const Lock lock(D().mutex);
  D().shareable = shareable;
}
void SetDeviceBytes(uint64_t bytes) {
  const Lock lock(D().mutex);
  D().device_bytes = bytes;
}

std::vector<std::string> Calls() {
  const Lock lock(D().mutex);
  return D().calls;
}
int Count(const std::string& symbol) {
  const Lock lock(D().mutex);
  return static_cast<int>(std::count(D().calls.begin(), D().calls.end(), symbol));
}

std::string Leaks() {
  const Lock lock(D().mutex);
  const Driver& d = D();
  std::string text;
  const auto note = [&text](size_t count, const char* what) {
    if (count != 0) text += std::to_string(count) + " " + what + " ";
  };
  note(d.streams.size() - d.of_the_test.size(), "streams");
  note(d.events.size(), "events");
  note(d.allocations.size(), "allocations");
  note(d.reserved.size(), "reservations");
  note(d.mapped.size(), "mappings");
  note(d.physical.size(), "handles");
  note(d.registered.size(), "registrations");
  note(static_cast<size_t>(d.contexts), "contexts");
  note(static_cast<size_t>(d.pushed), "pushed contexts");
  return text;
}

void* Allocate(const std::vector<float>& values) {
  auto* memory = new float[values.size()];
  std::copy(values.begin(), values.end(), memory);
  return memory;  // the trainer's, for the length of the test
}
std::vector<float> Read(void* memory, size_t count) {
  const auto* values = static_cast<const float*>(memory);
  return {values, values + count};
}
void* NewStream() {
  const Lock lock(D().mutex);
  void* const stream = Memory(D().next++ * 4096);
  D().streams[stream] = std::make_unique<Queue>();
  D().of_the_test.insert(stream);
  return stream;
}
void Synchronize(void* stream) {
  Lock lock(D().mutex);
  Queue& queue = *QueueOf(stream);
  Await(lock, [&queue, end = queue.enqueued] { return Run(queue, end); });
}
void EnqueueWhen(void* stream, std::function<bool()> ready, std::function<void()> run) {
  const Lock lock(D().mutex);
  Enqueue(*QueueOf(stream), std::move(run), std::move(ready));
}
void Poke() { D().changed.notify_all(); }
void EnqueueAdd(void* stream, void* memory, size_t count, float value) {
  const Lock lock(D().mutex);
  Enqueue(*QueueOf(stream), [=] {
    for (size_t i = 0; i < count; ++i) static_cast<float*>(memory)[i] += value;
  });
}

extern "C" {

Result cuInit(unsigned) {
  ENTER("cuInit");
  return 0;
}
Result cuGetErrorName(Result result, const char** name) {
  *name = result == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_LAUNCH_FAILED";
  return 0;
}
Result cuDeviceGet(DeviceHandle* device, int ordinal) {
  ENTER("cuDeviceGet");
  if (ordinal != 0) return 101;  // CUDA_ERROR_INVALID_DEVICE
  *device = ordinal;
  return 0;
}
Result cuDeviceGetAttribute(int* value, int, DeviceHandle) {
  ENTER("cuDeviceGetAttribute");
  *value = D().shareable ? 1 : 0;
  return 0;
}
Result cuDeviceGetUuid_v2(Uuid* uuid, DeviceHandle) {
  ENTER("cuDeviceGetUuid");
  std::memset(uuid->bytes, 7, sizeof(uuid->bytes));
  return 0;
}
Result cuDevicePrimaryCtxRetain(Context* context, DeviceHandle) {
  ENTER("cuDevicePrimaryCtxRetain");
  ++D().contexts;
  *context = reinterpret_cast<Context>(uintptr_t{1});
  return 0;
}
Result cuDevicePrimaryCtxRelease_v2(DeviceHandle) {
  ENTER("cuDevicePrimaryCtxRelease");
  --D().contexts;
  return 0;
}
Result cuCtxPushCurrent_v2(Context) {
  ENTER("cuCtxPushCurrent");
  ++D().pushed;
  return 0;
}
Result cuCtxPopCurrent_v2(Context*) {
  ENTER("cuCtxPopCurrent");
  --D().pushed;
  return 0;
}
Result cuStreamCreate(Stream* stream, unsigned) {
  ENTER("cuStreamCreate");
  void* const name = Memory(D().next++ * 4096);
  D().streams[name] = std::make_unique<Queue>();
  *stream = static_cast<Stream>(name);
  return 0;
}
Result cuStreamDestroy_v2(Stream stream) {
  ENTER("cuStreamDestroy");
  Queue* queue = QueueOf(stream);
  if (queue == nullptr) return kInvalid;
  Run(*queue, queue->enqueued);
  for (auto& [event, recorded] : D().events) {
    if (recorded.queue == queue) recorded.queue = nullptr;
  }
  D().streams.erase(stream);
  return 0;
}
Result cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  ENTER("cuStreamWaitEvent");
  Queue* queue = QueueOf(stream);
  auto found = D().events.find(event);
  if (queue == nullptr || found == D().events.end()) return kInvalid;
  const Recorded recorded = found->second;
  if (recorded.queue != nullptr) {
    Enqueue(
        *queue, [] {}, [recorded] { return Run(*recorded.queue, recorded.position); });
  }
  return 0;
}
Result cuStreamIsCapturing(Stream, int* status) {
  ENTER("cuStreamIsCapturing");
  *status = D().capturing ? 1 : 0;
  return 0;
}
Result cuStreamSynchronize(Stream stream) {
  ENTER("cuStreamSynchronize");
  Queue* queue = QueueOf(stream);
  if (queue == nullptr) return kInvalid;
  Await(lock, [queue, end = queue->enqueued] { return Run(*queue, end); });
  return 0;
}
Result cuEventCreate(Event* event, unsigned) {
  ENTER("cuEventCreate");
  void* const name = Memory(D().next++ * 4096);
  D().events[name] = {};
  *event = static_cast<Event>(name);
  return 0;
}
Result cuEventDestroy_v2(Event event) {
  ENTER("cuEventDestroy");
  return D().events.erase(event) == 1 ? 0 : kInvalid;
}
Result cuEventRecord(Event event, Stream stream) {
  ENTER("cuEventRecord");
  Queue* queue = QueueOf(stream);
  if (queue == nullptr || D().events.count(event) == 0) return kInvalid;
  D().events[event] = {queue, queue->enqueued};
  return 0;
}
Result cuEventQuery(Event event) {
  ENTER("cuEventQuery");
  if (D().held) return 600;  // CUDA_ERROR_NOT_READY
  auto found = D().events.find(event);
  if (found == D().events.end()) return kInvalid;
  const Recorded recorded = found->second;
  return recorded.queue == nullptr || Run(*recorded.queue, recorded.position) ? 0 : 600;
}
Result cuEventSynchronize(Event event) {
  ENTER("cuEventSynchronize");
  auto found = D().events.find(event);
  if (found == D().events.end()) return kInvalid;
  const Recorded recorded = found->second;
  Await(lock, [recorded] {
    return recorded.queue == nullptr || Run(*recorded.queue, recorded.position);
  });
  return 0;
}
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, Stream stream) {
  ENTER("cuMemcpyDtoHAsync");
  return Copy(to, Memory(from), bytes, stream);
}
Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, Stream stream) {
  ENTER("cuMemcpyHtoDAsync");
  return Copy(Memory(to), from, bytes, stream);
}
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, Stream stream) {
  ENTER("cuMemcpyDtoDAsync");
  return Copy(Memory(to), Memory(from), bytes, stream);
}
Result cuMemHostRegister_v2(void* memory, size_t, unsigned) {
  ENTER("cuMemHostRegister");
  return D().registered.insert(memory).second ? 0 : kInvalid;
}
Result cuMemHostUnregister(void* memory) {
  ENTER("cuMemHostUnregister");
  return D().registered.erase(memory) == 1 ? 0 : kInvalid;
}
Result cuMemAlloc_v2(Pointer* pointer, size_t bytes) {
  ENTER("cuMemAlloc");
  if (D().used_bytes + bytes > D().device_bytes) return kOutOfMemory;
  D().used_bytes += bytes;
  *pointer = PointerOf(new uint8_t[bytes]);
  D().allocations[*pointer] = bytes;
  return 0;
}
Result cuMemsetD8Async(Pointer to, unsigned char value, size_t bytes, Stream stream) {
  ENTER("cuMemsetD8Async");
  Queue* queue = QueueOf(stream);
  if (queue == nullptr) return kInvalid;
  Enqueue(*queue, [=] { std::memset(Memory(to), value, bytes); });
  return 0;
}
Result cuMemFree_v2(Pointer pointer) {
  ENTER("cuMemFree");
  auto found = D().allocations.find(pointer);
  if (found == D().allocations.end()) return kInvalid;
  D().used_bytes -= found->second;
  delete[] static_cast<uint8_t*>(Memory(pointer));
  D().allocations.erase(found);
  return 0;
}
Result cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties*, int) {
  ENTER("cuMemGetAllocationGranularity");
  *bytes = kGranularity;
  return 0;
}
Result cuMemCreate(Allocation* allocation, size_t bytes, const AllocationProperties* properties,
                   uint64_t) {
  ENTER("cuMemCreate");
  if (bytes % kGranularity != 0 || properties->handle_types != kPosixDescriptor) return kInvalid;
  if (D().used_bytes + bytes > D().device_bytes) return kOutOfMemory;
  Physical physical{memfd_create("stand-in device memory", MFD_CLOEXEC), bytes};
  if (ftruncate(physical.descriptor, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  const std::vector<char> left(bytes, 0x7f);  // of whoever had it before
  if (pwrite(physical.descriptor, left.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    return kOutOfMemory;
  }
  D().used_bytes += bytes;
  *allocation = D().next++;
  D().physical[*allocation] = physical;
  return 0;
}
Result cuMemRelease(Allocation allocation) {
  ENTER("cuMemRelease");
  auto found = D().physical.find(allocation);
  if (found == D().physical.end()) return kInvalid;
  D().used_bytes -= found->second.bytes;
  close(found->second.descriptor);
  D().physical.erase(found);
  return 0;
}
Result cuMemExportToShareableHandle(void* handle, Allocation allocation, int, uint64_t) {
  ENTER("cuMemExportToShareableHandle");
  auto found = D().physical.find(allocation);
  if (found == D().physical.end()) return kInvalid;
  const int copy = dup(found->second.descriptor);
  std::memcpy(handle, &copy, sizeof(copy));
  return 0;
}
Result cuMemAddressReserve(Pointer* pointer, size_t bytes, size_t, Pointer, uint64_t) {
  ENTER("cuMemAddressReserve");
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  *pointer = PointerOf(memory);
  D().reserved[*pointer] = bytes;
  return 0;
}
Result cuMemAddressFree(Pointer pointer, size_t bytes) {
  ENTER("cuMemAddressFree");
  if (D().reserved.erase(pointer) != 1 || D().mapped.count(pointer) != 0) return kInvalid;
  munmap(Memory(pointer), bytes);
  return 0;
}
Result cuMemMap(Pointer pointer, size_t bytes, size_t, Allocation allocation, uint64_t) {
  ENTER("cuMemMap");
  auto found = D().physical.find(allocation);
  if (found == D().physical.end() || D().reserved.count(pointer) == 0) return kInvalid;
  if (mmap(Memory(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.descriptor,
           0) == MAP_FAILED) {
    return kOutOfMemory;
  }
  D().mapped[pointer] = bytes;
  return 0;
}
Result cuMemUnmap(Pointer pointer, size_t bytes) {
  ENTER("cuMemUnmap");
  if (D().mapped.erase(pointer) != 1) return kInvalid;
  mmap(Memory(pointer), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return 0;
}
Result cuMemSetAccess(Pointer pointer, size_t bytes, const Access* access, size_t) {
  ENTER("cuMemSetAccess");
  if (D().mapped.count(pointer) == 0 || access->flags != kReadWrite) return kInvalid;
  return mprotect(Memory(pointer), bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : kInvalid;
}

}  // extern "C"

}  // namespace causeway::stand_in
