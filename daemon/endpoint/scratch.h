// ScratchSet: a fixed number of chunk-sized fp32 buffers that concurrent encoders borrow.
//
// Any thread. Borrowing waits for a buffer to come back: holders never wait for anything
// themselves, so the wait ends with an encoding in progress. Memory is allocated (and was charged)
// at creation.
#ifndef CAUSEWAY_DAEMON_ENDPOINT_SCRATCH_H_
#define CAUSEWAY_DAEMON_ENDPOINT_SCRATCH_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "compression/codec.h"
#include "daemon/endpoint/private_memory.h"

namespace causeway::endpoint {

class ScratchSet {
 public:
  static constexpr uint64_t kBufferBytes = uint64_t{compression::kChunkElements} * sizeof(float);

  // `memory` holds `buffers` x kBufferBytes.
  ScratchSet(PrivateMemory memory, uint32_t buffers) : memory_(std::move(memory)) {
    for (uint32_t i = 0; i < buffers; ++i) {
      free_.push_back(reinterpret_cast<float*>(memory_.data() + i * kBufferBytes));
    }
  }

  // kChunkElements floats, given back on destruction.
  class Loan {
   public:
    explicit Loan(ScratchSet& set) : set_(set), data_(set.Take()) {}
    ~Loan() { set_.Return(data_); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    float* data() const { return data_; }

   private:
    ScratchSet& set_;
    float* const data_;
  };

 private:
  bool HasFree() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !free_.empty(); }

  float* Take() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &ScratchSet::HasFree));
    float* data = free_.back();
    free_.pop_back();
    return data;
  }

  void Return(float* data) {
    absl::MutexLock lock(&mutex_);
    free_.push_back(data);
  }

  PrivateMemory memory_;
  absl::Mutex mutex_;
  std::vector<float*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace causeway::endpoint

#endif  // CAUSEWAY_DAEMON_ENDPOINT_SCRATCH_H_
