// Contents are compared by chain hash and by the modelled value, so an engine that agrees on names
// but not on bytes is found too.
#include "tests/sim/oracle.h"

#include <algorithm>

namespace causeway::sim {
namespace {

std::string Name(int cluster) { return std::string(1, static_cast<char>('A' + cluster)); }

std::string Describe(const engine::CommitRecord& record) {
  return "f" + std::to_string(record.fragment) + " " + engine::ToString(record.state) + " E" +
         engine::ToString(record.epoch) + " a" + std::to_string(record.attempt);
}

std::string Describe(engine::OpId op) {
  return std::to_string(op.session) + ":" + std::to_string(op.sequence);
}

}  // namespace

uint64_t Oracle::Encode(const Encoded& encoded) {
  encoded_.push_back(encoded);
  return encoded_.size();
}

int Oracle::EntryOf(engine::FragmentId fragment, const engine::Hash256& chain) const {
  const auto it = by_chain_.find({fragment, chain});
  return it == by_chain_.end() ? -1 : it->second;
}

bool Oracle::OnChain(int entry, int head) const {
  while (head >= 0 && head != entry) head = entries_[static_cast<size_t>(head)].previous;
  return head == entry;
}

void Oracle::Installed(int who, const engine::Record& record) {
  const auto [seen, fresh] = seen_records_.emplace(record.epoch, records_.size());
  if (!fresh) {
    if (!(records_[static_cast<size_t>(seen->second)] == record)) {
      throw Violation("FORK: two records of epoch " + engine::ToString(record.epoch));
    }
    return;
  }
  records_.push_back(record);
  ++counts_.epochs;
  if (record.rolled_back) ++counts_.rollbacks;
  for (engine::FragmentId id = 0; id < record.base.size(); ++id) {
    const engine::FragmentBase& base = record.base[id];
    const auto [start, first] = lineage_base_.emplace(
        Place{record.lineage, id, record.lineage_base[id].round}, record.lineage_base[id].chain);
    if (!first && start->second != record.lineage_base[id].chain) {
      throw Violation("LINEAGE: two bases of lineage " + std::to_string(record.lineage));
    }
    const std::string where = "E" + engine::ToString(record.epoch) + " of " + Name(who) +
                              " lineage " + std::to_string(record.lineage) + " f" +
                              std::to_string(id) + " r" + std::to_string(base.round);
    const auto here = decided_.find({record.lineage, id, base.round});
    if (here != decided_.end() && here->second != base.chain) {
      throw Violation("FORK: " + where + " decides otherwise than committed");
    }
    if (base.round > record.lineage_base[id].round) {
      decided_[{record.lineage, id, base.round}] = base.chain;
    }
    const auto above = decided_.find({record.lineage, id, base.round + 1});
    if (above != decided_.end()) {
      const int entry = EntryOf(id, above->second);
      if (entry < 0 || entries_[static_cast<size_t>(entry)].record.epoch < record.epoch) {
        throw Violation("LOST: " + where + " aborts the round above, which was committed");
      }
    }
  }
}

void Oracle::Committed(int who, const engine::CommitRecord& record, Value value,
                       const std::vector<uint64_t>& parts) {
  const Place place{record.state.lineage, record.fragment, record.state.round};
  const auto known = decided_.find(place);
  if (known != decided_.end() && known->second != record.state.chain) {
    throw Violation("FORK: " + Name(who) + " commits " + Describe(record) +
                    " where another content is committed");
  }
  const ChainKey key{record.fragment, record.state.chain};
  const int have = EntryOf(record.fragment, record.state.chain);
  if (have >= 0) {
    if (entries_[static_cast<size_t>(have)].value != value) {
      throw Violation("BYTES: " + Name(who) + " holds other bytes after " + Describe(record));
    }
    return;
  }
  const auto before =
      decided_.find({record.state.lineage, record.fragment, record.state.round - 1});
  const auto base =
      lineage_base_.find({record.state.lineage, record.fragment, record.state.round - 1});
  const engine::Hash256* expected = before != decided_.end()      ? &before->second
                                    : base != lineage_base_.end() ? &base->second
                                                                  : nullptr;
  if (!expected || *expected != record.previous_chain) {
    throw Violation("PREFIX: " + Describe(record) + " does not extend the committed chain");
  }
  Entry entry{record, value, parts, EntryOf(record.fragment, record.previous_chain)};
  CheckContributions(entry);
  const int index = static_cast<int>(entries_.size());
  entries_.push_back(entry);
  by_chain_[key] = index;
  decided_[place] = record.state.chain;
  values_[key] = value;
  for (const engine::Contributor& part : record.contributors) {
    counted_[{part.cluster, part.op}].push_back(index);
  }
  ++counts_.commits;
  if (record.attempt > 0) ++counts_.cuts;
}

// Exactly once, and encoded under the residual that the last counted contribution left.
void Oracle::CheckContributions(const Entry& entry) {
  for (size_t i = 0; i < entry.parts.size(); ++i) {
    const Encoded& part = At(entry.parts[i]);
    const engine::Contributor& named = entry.record.contributors[i];
    if (part.cluster != named.cluster || part.op != named.op) {
      throw Violation("BYTES: " + Describe(entry.record) + " holds another operation's bytes");
    }
    for (int earlier : counted_[{part.cluster, part.op}]) {
      if (OnChain(earlier, entry.previous)) {
        throw Violation("TWICE: op " + Describe(part.op) + " of " + Name(part.cluster) +
                        " counts again in " + Describe(entry.record));
      }
    }
    const auto told = told_excluded_.find({part.cluster, part.op});
    // A member that slept through a rollback may complete what the others have undone.
    if (told != told_excluded_.end() && entry.record.state.lineage >= told->second) {
      throw Violation("GUESS: op " + Describe(part.op) + " of " + Name(part.cluster) +
                      " was told excluded and counts in " + Describe(entry.record));
    }
    uint64_t last = 0;
    for (int at = entry.previous; at >= 0 && last == 0;
         at = entries_[static_cast<size_t>(at)].previous) {
      for (uint64_t number : entries_[static_cast<size_t>(at)].parts) {
        if (At(number).cluster == part.cluster) last = number;
      }
    }
    const bool same_memory = last != 0 && At(last).memory == part.memory;
    const uint64_t expected = same_memory ? last : 0;
    if (part.residual_of != expected) {
      throw Violation("RESIDUAL: " + Name(part.cluster) + " encoded for " + Describe(entry.record) +
                      " under the wrong residual (" + std::to_string(part.residual_of) +
                      " instead of " + std::to_string(expected) + ")");
    }
  }
}

void Oracle::Adopted(int who, engine::FragmentId fragment, const engine::StateId& state,
                     Value value) {
  const auto [known, fresh] = values_.emplace(ChainKey{fragment, state.chain}, value);
  if (!fresh && known->second != value) {
    throw Violation("BYTES: " + Name(who) + " adopts other bytes as f" + std::to_string(fragment) +
                    " " + engine::ToString(state));
  }
  const auto decided = decided_.find({state.lineage, fragment, state.round});
  if (decided != decided_.end() && decided->second != state.chain) {
    throw Violation("FORK: " + Name(who) + " adopts what is not committed");
  }
}

bool Oracle::CountedOn(engine::FragmentId fragment, engine::OpId op,
                       const engine::Hash256& head) const {
  for (int at = EntryOf(fragment, head); at >= 0; at = entries_[static_cast<size_t>(at)].previous) {
    for (const engine::Contributor& part : entries_[static_cast<size_t>(at)].record.contributors) {
      if (part.op == op) return true;
    }
  }
  return false;
}

void Oracle::Told(int who, engine::FragmentId fragment, engine::OpId op, engine::OpState state,
                  const engine::StateId& committed) {
  const bool counted = CountedOn(fragment, op, committed.chain);
  if (state == engine::OpState::kCommitted && !counted) {
    throw Violation("GUESS: " + Name(who) + " tells COMMITTED for op " + Describe(op) +
                    ", which does not count");
  }
  if (state == engine::OpState::kExcluded) {
    if (counted) {
      throw Violation("GUESS: " + Name(who) + " tells EXCLUDED for op " + Describe(op) +
                      ", which counts");
    }
    told_excluded_[{who, op}] = committed.lineage;
    ++counts_.excluded;
  }
}

}  // namespace causeway::sim
