// Waits for copies off the GPU, in their order, and tells the session when each has arrived.
//
// A thread of the library's own, only in trainers whose tensors are a GPU's: no call of theirs
// would otherwise be running when a copy ends. Nothing is told after the destructor has begun.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "client/shim/cuda_device.h"
#include "client/shim/failure.h"

namespace causeway::client {

class Announcer {
 public:
  using Told = std::function<void(uint64_t op, Status status)>;  // from this thread

  Announcer(std::shared_ptr<cuda::Device> device, Told told);
  ~Announcer();  // waits for the copy that is under way; never under the session's lock

  void Add(uint64_t op, std::shared_ptr<cuda::Mark> mark);

 private:
  struct Copying {
    uint64_t op;
    std::shared_ptr<cuda::Mark> mark;  // shared with nobody; made by the device
  };
  void Run();

  const std::shared_ptr<cuda::Device> device_;  // shared with the session
  const Told told_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Copying> copying_;  // at most one a fragment
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace causeway::client
