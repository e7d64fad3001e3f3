// Memory for one whole round of a run, set aside when the run begins, so that no two rounds wait
// for each other's memory.
//
// A round's buffers (own encoded chunks, means, results) come from the reserve while the round owns
// it and from the shared pool otherwise, which is only ever tried. The reserve belongs to one round
// at a time, from its first buffer to its last; an idle one goes to the oldest round that is open.
// Rounds have one order in a run: by number, then fragment; trainers of one run open them in one
// order, too. So the round that everybody waits for can always be encoded, combined and committed.
// What outlasts rounds, the residuals of owned chunks, has room of its own.
//
// Confined to the loop's thread, save that buffers may be freed anywhere.
#ifndef CAUSEWAY_DAEMON_EXCHANGE_RESERVE_H_
#define CAUSEWAY_DAEMON_EXCHANGE_RESERVE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/codec.h"
#include "daemon/engine/ids.h"
#include "daemon/memory/budget.h"
#include "daemon/memory/buffer_pool.h"
#include "daemon/schema/layout.h"

namespace causeway::exchange {

class Reserve {
 public:
  struct Sizes {
    uint64_t round_bytes = 0;     // what the largest round may hold, by whichever of the codecs
    uint64_t residual_bytes = 0;  // of all chunks, were this cluster to own them all; twice, since
                                  // an open round makes new ones
  };
  // `owner`: chunks may be reduced by owner.
  static Sizes SizesFor(const schema::Layout& layout,
                        const std::vector<compression::CodecSpec>& codecs, bool owner);

  // `shared` outlives it. RESOURCE_EXHAUSTED: `account` does not have the bytes.
  static absl::StatusOr<std::unique_ptr<Reserve>> Create(memory::BufferPool* shared,
                                                         std::shared_ptr<memory::Account> account,
                                                         const Sizes& sizes);

  // The fragment's round is open, until Close.
  void Open(engine::FragmentId fragment, engine::RoundNumber round) { open_[fragment] = round; }
  void Close(engine::FragmentId fragment) { open_.erase(fragment); }
  // The rounds that are open there are open here; what they hold already stays with the other.
  void Inherit(const Reserve& other) { open_ = other.open_; }

  // For the fragment's open round; once it is closed, from the shared pool. RESOURCE_EXHAUSTED: try
  // again when something was freed.
  absl::StatusOr<memory::Buffer> Allocate(engine::FragmentId fragment, size_t size);
  // For what encoding an owned chunk's mean loses.
  absl::StatusOr<memory::Buffer> AllocateResidual(size_t size) { return residuals_.Allocate(size); }

 private:
  using Name = std::pair<engine::RoundNumber, engine::FragmentId>;

  // A pool over bytes that are charged elsewhere already.
  struct Part {
    explicit Part(uint64_t bytes)
        : budget(memory::Budget::Create(bytes)),
          account(*budget->Open("reserve")),
          pool(budget, account, bytes) {}
    absl::StatusOr<memory::Buffer> Allocate(size_t size) { return pool.Allocate(size); }
    bool idle() const { return account->usage().used_bytes == pool.cached_bytes(); }

    const std::shared_ptr<memory::Budget> budget;  // shared with buffers that outlive the run
    const std::shared_ptr<memory::Account> account;
    memory::BufferPool pool;
  };

  Reserve(memory::BufferPool* shared, memory::Charge charge, const Sizes& sizes);
  bool Owns(const Name& name);

  memory::BufferPool* const shared_;
  const memory::Charge charge_;
  Part round_;
  Part residuals_;
  std::map<engine::FragmentId, engine::RoundNumber> open_;
  std::optional<Name> owner_;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_RESERVE_H_
