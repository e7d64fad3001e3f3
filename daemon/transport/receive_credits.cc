// Totals rather than increments: a grant repeated, merged or overtaken by a newer one does no harm.
#include "daemon/transport/receive_credits.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "daemon/transport/limits.h"

namespace causeway::transport {

// Outstanding: granted and not received yet, which the peer may send all at once.
uint64_t ReceiveCredits::Run::Grantable(uint64_t outstanding_max) const {
  const uint64_t room = window_bytes > held_bytes ? window_bytes - held_bytes : 0;
  return std::max(granted_bytes, received_bytes + std::min(room, outstanding_max));
}

uint64_t ReceiveCredits::OutstandingMax() const {
  return limit_.limited() ? std::max<uint64_t>(limit_.burst_bytes(), kChunkBytesMax)
                          : std::numeric_limits<uint64_t>::max();
}

void ReceiveCredits::SetWindow(const std::string& run, uint64_t window_bytes) {
  if (window_bytes == 0) {
    // The entry stays while the link or the consumer may still refer to it.
    auto found = runs_.find(run);
    if (found == runs_.end()) return;
    found->second.window_bytes = 0;
    if (found->second.held_bytes == 0 && found->second.granted_bytes == 0) runs_.erase(found);
    return;
  }
  runs_[run].window_bytes = window_bytes;
}

void ReceiveCredits::BeginLink() {
  for (auto entry = runs_.begin(); entry != runs_.end();) {
    Run& run = entry->second;
    run.received_bytes = 0;
    run.granted_bytes = 0;
    const bool idle = run.window_bytes == 0 && run.held_bytes == 0;
    entry = idle ? runs_.erase(entry) : std::next(entry);
  }
}

absl::StatusOr<ReceiveCredits::Verdict> ReceiveCredits::Receive(const std::string& run,
                                                                uint64_t payload_bytes) {
  auto found = runs_.find(run);
  if (found == runs_.end() || found->second.granted_bytes == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("chunk for run ", run, ", for which this link was given no credit"));
  }
  Run& entry = found->second;
  const uint64_t cost = ChunkCredit(payload_bytes);
  if (cost > entry.granted_bytes - entry.received_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("chunk of ", payload_bytes, " bytes for run ", run, " exceeds its credit: ",
                     entry.received_bytes, " of ", entry.granted_bytes, " bytes are used"));
  }
  entry.received_bytes += cost;
  if (entry.window_bytes == 0) return Verdict::kUnwanted;
  entry.held_bytes += cost;
  return Verdict::kDeliver;
}

void ReceiveCredits::Return(const std::string& run, uint64_t payload_bytes) {
  auto found = runs_.find(run);
  if (found == runs_.end()) return;  // closed, and its link is gone
  Run& entry = found->second;
  entry.held_bytes -= std::min(entry.held_bytes, ChunkCredit(payload_bytes));
}

std::vector<ReceiveCredits::Grant> ReceiveCredits::TakeGrants(bool all, absl::Time now) {
  struct Growth {
    const std::string* name;
    Run* run;
    uint64_t bytes;
  };
  std::vector<Growth> growing;
  for (auto& [name, run] : runs_) {
    const uint64_t growth = run.Grantable(OutstandingMax()) - run.granted_bytes;
    const uint64_t worth = std::min(run.window_bytes, OutstandingMax()) / 8;
    if (growth > 0 && (all || growth >= worth)) growing.push_back({&name, &run, growth});
  }
  // The smallest first, so that what it leaves of its share is shared by the others.
  std::sort(growing.begin(), growing.end(),
            [](const Growth& a, const Growth& b) { return a.bytes < b.bytes; });
  std::vector<Grant> grants;
  size_t sharing = growing.size();
  for (const Growth& growth : growing) {
    uint64_t bytes = growth.bytes;
    if (limit_.limited()) {
      const double share = limit_.Tokens(now) / static_cast<double>(sharing);
      bytes = std::min(bytes, static_cast<uint64_t>(std::max(share, 0.0)));
      limit_.Take(bytes);
    }
    --sharing;
    if (bytes == 0) continue;
    growth.run->granted_bytes += bytes;
    grants.push_back({*growth.name, growth.run->granted_bytes});
  }
  return grants;
}

}  // namespace causeway::transport
