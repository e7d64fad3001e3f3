// One engine message of every kind, every field set, for codec tests.
#ifndef CAUSEWAY_TESTS_UNIT_RUN_MESSAGES_H_
#define CAUSEWAY_TESTS_UNIT_RUN_MESSAGES_H_

#include <vector>

#include "daemon/engine/message.h"
#include "daemon/engine/record.h"

namespace causeway::testing {

inline engine::Hash256 HashOf(uint8_t seed) {
  engine::Hash256 out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(seed + i);
  return out;
}

inline engine::CommitRecord SomeCommit() {
  engine::CommitRecord out;
  out.fragment = 3;
  out.state = {2, 41, HashOf(1)};
  out.epoch = {7, 2};
  out.attempt = 4;
  out.contributors = {{0, 11, {5, 6}, 100, 1}, {2, 12, {8, 9}, 0, 0}};
  out.result = HashOf(2);
  out.previous_chain = HashOf(3);
  return out;
}

inline engine::Record SomeRecord() {
  engine::Record out;
  out.founding = 0xF00D5EED12345678;
  out.epoch = {7, 1};
  out.leader = 1;
  out.members = {0, 2};
  out.incarnations = {21, 0, 23};
  out.electorate.voters = {0, 1, 2};
  out.electorate.primary = 2;
  out.old_electorate = engine::Electorate{{0, 1}, std::nullopt};
  out.lineage = 5;
  out.base = {{10, HashOf(4)}, {0, HashOf(5)}};
  out.lineage_base = {{9, HashOf(6)}, {0, {}}};
  out.rolled_back = out.stopped = true;
  out.schema = HashOf(7);
  out.algorithm = HashOf(8);
  return out;
}

inline engine::Report SomeReport() {
  engine::Report out;
  out.promised = {9, 0};
  out.accepted = {8, 1};
  out.blank = false;
  out.stop = true;
  out.approves_rollback = true;
  out.kept_memory = out.installed = out.active = out.wants_join = out.leaving = out.draining = true;
  out.fetching = true;
  out.parameters = HashOf(11);
  out.growth = engine::Growth{HashOf(12), {HashOf(13), 7}, HashOf(14)};
  out.suspected = {1};
  engine::FragmentReport fragment;
  fragment.holds = true;
  fragment.offered = true;
  fragment.committed = {1, 2, HashOf(9)};
  fragment.complete = true;
  fragment.complete_epoch = {8, 1};
  fragment.complete_round = 3;
  fragment.complete_attempt = 1;
  fragment.complete_chain = HashOf(10);
  fragment.attempt_seen = true;
  fragment.attempt = 2;
  out.fragments = {fragment, {}};
  return out;
}

inline std::vector<engine::Message> EveryMessage() {
  using namespace engine;
  return {Join{true, HashOf(1), HashOf(2), 4, true, HashOf(3), true, {3, 1}},
          Heartbeat{SomeReport()},
          Ready{1, 2},
          Contribution{1, 2, {3, 4}, 5, 6},
          Withdraw{1, 2, 3, true},
          Cut{1, 2, 3, SomeCommit().contributors},
          Complete{1, 2, 3, HashOf(1), HashOf(2), HashOf(3)},
          Committed{SomeCommit()},
          Plan{4, 5, "body"},
          PreVote{},
          Grant{},
          Prepare{true},
          Promise{SomeReport(), SomeRecord()},
          Promise{SomeReport(), std::nullopt},
          Install{SomeRecord()},
          Accepted{},
          Installed{},
          Fetch{1, true, {1, 2, HashOf(3)}},
          State{1, {1, 2, HashOf(3)}, {SomeCommit()}}};
}

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_RUN_MESSAGES_H_
