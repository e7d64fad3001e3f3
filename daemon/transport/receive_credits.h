// ReceiveCredits: how many bytes of each run's chunks one peer may still send us.
//
// For each run: window = what we are willing to hold; held = what arrived and was not returned,
// over all links; granted - received = what the peer may still put on the wire. held + (granted -
// received) never exceeds the largest window set, which is the promise that bounds the receiver's
// memory. Confined to the poller thread; no I/O.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_RECEIVE_CREDITS_H_
#define CAUSEWAY_DAEMON_TRANSPORT_RECEIVE_CREDITS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/transport/rate_limit.h"

namespace causeway::transport {

class ReceiveCredits {
 public:
  enum class Verdict { kDeliver, kUnwanted };
  struct Grant {
    std::string run;
    uint64_t total_bytes;  // since the link began
  };

  // `limit`: credit grows no faster than this over all runs, and none is given that a burst of it
  // does not use up.
  explicit ReceiveCredits(RateLimit limit = RateLimit(0, absl::ZeroDuration())) : limit_(limit) {}

  // 0 closes the run: chunks still in flight will be unwanted.
  void SetWindow(const std::string& run, uint64_t window_bytes);
  // A new link: totals begin again, what is held stays held.
  void BeginLink();
  // A chunk arrived. kUnwanted: its run was closed after the credit was given; drop it.
  // FAILED_PRECONDITION: the peer had no credit for it, which ends the link.
  absl::StatusOr<Verdict> Receive(const std::string& run, uint64_t payload_bytes);
  void Return(const std::string& run, uint64_t payload_bytes);

  // Grants that have grown enough to be worth a frame (an eighth of the window), or by anything if
  // `all`.
  std::vector<Grant> TakeGrants(bool all, absl::Time now);

 private:
  struct Run {
    uint64_t window_bytes = 0;
    uint64_t held_bytes = 0;
    uint64_t received_bytes = 0;  // this link
    uint64_t granted_bytes = 0;   // this link, as announced

    uint64_t Grantable(uint64_t outstanding_max) const;
  };

  uint64_t OutstandingMax() const;

  RateLimit limit_;
  std::map<std::string, Run> runs_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_RECEIVE_CREDITS_H_
