// Owners by largest remainder, interleaved by who is furthest behind.
#include "daemon/planning/plan.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace causeway::planning {
namespace {

constexpr size_t kPlansKept = 16;  // beside the configured one

struct Owner {
  engine::ClusterId cluster;
  uint64_t chunks;     // that it gets in all
  uint64_t remainder;  // of its share, in 1/kShareParts chunks
  uint64_t given = 0;
};

std::vector<Owner> Apportion(const Plan& plan, uint32_t chunks) {
  std::vector<Owner> owners;
  uint64_t left = chunks;
  for (const auto& [cluster, parts] : plan.parts) {
    if (parts == 0) continue;
    const uint64_t scaled = static_cast<uint64_t>(chunks) * parts;
    owners.push_back({cluster, scaled / kShareParts, scaled % kShareParts});
    left -= scaled / kShareParts;
  }
  std::vector<Owner*> by_remainder;
  for (Owner& owner : owners) by_remainder.push_back(&owner);
  std::stable_sort(by_remainder.begin(), by_remainder.end(),
                   [](const Owner* a, const Owner* b) { return a->remainder > b->remainder; });
  for (size_t i = 0; i < left; ++i) ++by_remainder[i]->chunks;
  return owners;
}

}  // namespace

std::vector<engine::ClusterId> OwnersOf(const Plan& plan, uint32_t chunks) {
  std::vector<engine::ClusterId> out;
  if (plan.route != Route::kOwner) return out;
  std::vector<Owner> owners = Apportion(plan, chunks);
  assert(!owners.empty());
  out.reserve(chunks);
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    Owner* next = nullptr;
    for (Owner& owner : owners) {
      if (owner.given == owner.chunks) continue;
      // (given + 1/2) / chunks, compared without dividing.
      if (next == nullptr ||
          (2 * owner.given + 1) * next->chunks < (2 * next->given + 1) * owner.chunks)
        next = &owner;
    }
    ++next->given;
    out.push_back(next->cluster);
  }
  return out;
}

void PlanBook::Add(engine::PlanId id, Plan plan, std::optional<engine::ClusterId> told_by) {
  plans_.insert_or_assign(id, Entry{std::move(plan), told_by});
  const auto same = [&](const auto& entry) {
    return entry.first != 0 && entry.second.told_by == told_by;
  };
  if (std::count_if(plans_.begin(), plans_.end(), same) > static_cast<ptrdiff_t>(kPlansKept)) {
    plans_.erase(std::find_if(plans_.begin(), plans_.end(), same));
  }
}

const Plan* PlanBook::Find(engine::PlanId id) const {
  const auto found = plans_.find(id);
  return found == plans_.end() ? nullptr : &found->second.plan;
}

}  // namespace causeway::planning
