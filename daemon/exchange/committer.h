// Applies a decided round to the fragment's value: previous value, mean and momentum to the next
// value, on workers; and keeps commits apart from whoever reads or replaces values meanwhile.
//
// Order: a commit or a replacement waits while values are held; a replacement also waits for the
// commit before it.
// Confined to the loop's thread. Does not: settle contributions (fragment_exchange.h).
#ifndef CAUSEWAY_DAEMON_EXCHANGE_COMMITTER_H_
#define CAUSEWAY_DAEMON_EXCHANGE_COMMITTER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "daemon/engine/action.h"
#include "daemon/exchange/context.h"
#include "daemon/exchange/reduction.h"
#include "daemon/work/tasks.h"

namespace causeway::exchange {

class Committer {
 public:
  // `committed(action, reduction)`: the new value is published; the committer is free again.
  using Committed = std::function<void(const engine::Commit&, const Reduction&)>;
  Committer(const Context& context, engine::FragmentId fragment, Committed committed);

  // `reduction` is held whole. Shared with the tasks, which read its means.
  void Commit(const engine::Commit& action, std::shared_ptr<Reduction> reduction);
  // From the order to its end, held back or running: values are about to change.
  const engine::Commit* pending() const { return pending_ ? &pending_->action : nullptr; }

  // Values stay as they are until as many Allow as Hold were called.
  void Hold() { ++holds_; }
  void Allow();

  // The value is about to be replaced: from now on replacing(). `ready` is called, perhaps at once,
  // when nobody holds values and no commit and no earlier replacement is pending; none starts until
  // EndReplacing.
  void BeginReplacing(std::function<void()> ready);
  void EndReplacing();
  bool replacing() const { return replacing_now_ || !replacements_.empty(); }

 private:
  struct Pending {
    engine::Commit action;
    std::shared_ptr<Reduction> reduction;
    bool started = false;
    uint32_t left = 0;
  };

  void Start();
  void ReplaceNext();
  void StepOnWorker(uint32_t index, absl::Span<const float> previous, absl::Span<float> next);
  void Finish();

  const Context& context_;  // the exchange's
  const engine::FragmentId fragment_;
  const Committed committed_;
  std::optional<Pending> pending_;
  std::deque<std::function<void()>> replacements_;  // that wait; the engine orders few
  bool replacing_now_ = false;
  int holds_ = 0;
  work::Tasks tasks_;
};

}  // namespace causeway::exchange

#endif  // CAUSEWAY_DAEMON_EXCHANGE_COMMITTER_H_
