// One rank's side of the NCCL bridge: what causeway_nccl.h promises.
//
// A call is: rank 0's word over the host, then one launch sequence in schema order on every rank,
// ended by a collective of one element, whose end says that all ranks have everything. One thread
// at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "client/include/causeway_nccl.h"
#include "client/nccl/nccl_api.h"
#include "client/shim/cuda_device.h"
#include "client/shim/failure.h"
#include "client/shim/schema.h"

namespace causeway::client::nccl {

class Bridge {
 public:
  static Status Open(const cw_nccl_options& options, std::unique_ptr<Bridge>& bridge);
  ~Bridge();
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  Status Reduce(const cw_slice* slices, uint32_t count);
  Status Collect(cw_handle* handle, uint64_t op, int64_t timeout_ms, int mode, float mix,
                 const cw_slice* slices, uint32_t count, cw_result& result);
  Status Read(cw_handle* handle, uint32_t fragment, int64_t round, const cw_slice* slices,
              uint32_t count);

 private:
  // What rank 0 says before anything is launched.
  enum class Kind : uint32_t { kReady = 1, kWait = 2, kError = 3 };
  struct Word {
    Kind kind;
    uint32_t zero;
    cw_error error;
    cw_result result;
    UniqueId id;
  };
  // A run of bytes that every rank gets, and where it ends up.
  struct Item {
    cuda::Pointer staged = 0;
    cuda::Pointer target = 0;
    uint64_t count = 0;
    uint8_t dtype = 0;
  };

  Bridge(const cw_nccl_options& options, const Calls& calls) : options_(options), calls_(calls) {}
  bool leads() const { return options_.rank == 0; }
  Status Broadcast(Word& word);
  // On rank 0 the action's outcome, on all ranks the same.
  Status Lead(const std::function<Status(Word&)>& action, Word& word);
  Status Connect();
  Status CheckSlices(const cw_slice* slices, uint32_t count) const;
  uint64_t CountOf(const cw_slice& slice) const;
  Status Stage(const cw_slice* slices, uint32_t count, std::vector<cw_slice>& staged,
               std::vector<Item>& items);
  // Rank 0's staging area to every rank's, then to the tensors.
  Status Spread(const std::vector<Item>& items);
  Status Launch(const std::function<Result()>& collectives);
  // Asks NCCL again and again until `step`, which gets the communicator's state, is done; aborts on
  // an error, and where nothing comes of it within timeout_ms.
  Status Poll(const std::string& what, const std::function<Status(Result state, bool& done)>& step);
  Status Settle(const char* what);  // until NCCL has taken what was called; aborts where it has not
  Status Await();                   // until what was launched has ended; aborts likewise
  Status Abort(std::string text);

  const cw_nccl_options options_;
  const Calls& calls_;
  Schema schema_;
  std::shared_ptr<cuda::Device> device_;  // shared with its events
  Communicator communicator_ = nullptr;
  Status broken_;  // what every later call answers
};

}  // namespace causeway::client::nccl
