// What the fake gateway answers, and how it lays out, averages and delivers.
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "client/shim/number.h"
#include "tests/unit/client/fake_gateway.h"

namespace causeway::fake {
namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::abort();
}

uint64_t BytesOf(uint8_t dtype) { return dtype == 0 ? 4 : 2; }

float Load(const uint8_t* memory, uint64_t element, uint8_t dtype) {
  if (dtype == 0) {
    float value;
    std::memcpy(&value, memory + 4 * element, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, memory + 2 * element, 2);
  return dtype == 1 ? client::FromBf16(half) : client::FromFp16(half);
}

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

void FakeGateway::Handle(size_t index, const Received& message, int descriptor) {
  Cluster& cluster = clusters_[index];
  switch (message.type) {
    case local::Type::kHello:
      return OnHello(cluster, message.As<local::Hello>());
    case local::Type::kJoin:
      return OnJoin(cluster, message.As<local::Join>(), descriptor);
    case local::Type::kShare:
      return OnShare(cluster, message.As<local::Share>(), descriptor);
    case local::Type::kOffer:
      return OnOffer(cluster, message.As<local::Header>().sequence);
    case local::Type::kSubmit:
      return OnSubmit(cluster, message.As<local::Submit>());
    case local::Type::kQuery:
      return OnQuery(cluster, message.As<local::Query>());
    case local::Type::kAwait: {
      local::Awaiting answer{};
      answer.header = Head(cluster, local::Type::kAwaiting, sizeof(answer),
                           message.As<local::Header>().sequence);
      answer.waited_us = 1'500'000;
      std::strcpy(answer.awaited, "tokyo");
      std::strcpy(answer.reason, "no contribution yet");
      return Send(cluster, &answer, sizeof(answer));
    }
    case local::Type::kAbandon: {
      const uint64_t op = message.As<local::Abandon>().op;
      for (auto& [fragment, submission] : cluster.open) {
        if (submission.op != op) continue;
        const Submission given_up = submission;
        const uint32_t which = fragment;
        cluster.open.erase(which);
        return Deliver(cluster, which, given_up, local::State::kAbandoned);
      }
      return;
    }
    case local::Type::kFinish: {
      local::Finished answer{};
      answer.header = Head(cluster, local::Type::kFinished, sizeof(answer),
                           message.As<local::Header>().sequence);
      std::memset(answer.values_hash, 0x5a, sizeof(answer.values_hash));
      return Send(cluster, &answer, sizeof(answer));
    }
    case local::Type::kLeave:
      return Close(cluster);
    default:
      return;
  }
}

void FakeGateway::OnHello(Cluster& cluster, const local::Hello& hello) {
  if (options_.silent) return;
  const bool known = options_.keep_sessions && cluster.session != 0 &&
                     std::equal(cluster.token.begin(), cluster.token.end(), hello.token);
  if (!known) {
    ++tokens_;
    cluster.token.fill(static_cast<uint8_t>(tokens_));
    cluster.session = tokens_;
    cluster.joined = cluster.offered = cluster.ready = false;
    cluster.open.clear();
  }
  local::Welcome answer{};
  answer.header = Head(cluster, local::Type::kWelcome, sizeof(answer), hello.header.sequence);
  std::copy(cluster.token.begin(), cluster.token.end(), answer.token);
  answer.incarnation = incarnation_;
  answer.session = cluster.session;
  cluster.name.copy(answer.cluster, sizeof(answer.cluster) - 1);
  Send(cluster, &answer, sizeof(answer));
}

// Contiguous runs of one dtype and group; parameters are cut into `fragments` of about equal size.
void FakeGateway::BuildLayout(const std::vector<local::TensorRecord>& tensors) {
  fragments_.clear();
  placements_.assign(tensors.size(), {});
  uint64_t parameters = 0;
  for (const auto& tensor : tensors) parameters += tensor.group == 0 && tensor.alias_of < 0 ? 1 : 0;
  const uint64_t each =
      std::max<uint64_t>(1, (parameters + options_.fragments - 1) / options_.fragments);
  std::map<std::pair<int, int>, std::pair<uint32_t, uint64_t>>
      current;  // of (group, dtype): fragment, tensors
  for (size_t i = 0; i < tensors.size(); ++i) {
    const local::TensorRecord& tensor = tensors[i];
    local::PlacementRecord& place = placements_[i];
    if (tensor.alias_of >= 0) {
      place = placements_[tensor.alias_of];
      continue;
    }
    if (tensor.group == 2) continue;  // fixed: takes no room
    place.elements = 1;
    for (int d = 0; d < tensor.dimensions; ++d) place.elements *= tensor.shape[d];
    auto found = current.find({tensor.group, tensor.dtype});
    if (found == current.end() || (tensor.group == 0 && found->second.second >= each)) {
      Fragment fragment;
      fragment.record.dtype = tensor.dtype;
      fragment.record.group = tensor.group;
      fragments_.push_back(fragment);
      found = current
                  .insert_or_assign(
                      {tensor.group, tensor.dtype},
                      std::make_pair(static_cast<uint32_t>(fragments_.size() - 1), uint64_t{0}))
                  .first;
    }
    place.fragment = found->second.first;
    found->second.second += 1;
    local::FragmentRecord& record = fragments_[place.fragment].record;
    place.first_element = record.elements;
    record.elements += RoundUp(place.elements, local::kTensorAlignElements);
  }
  uint64_t snapshot = 0, values = 0;
  for (Fragment& fragment : fragments_) {
    fragment.record.snapshot_offset = snapshot;
    snapshot += RoundUp(fragment.record.elements * BytesOf(fragment.record.dtype), 4096);
    for (uint64_t& offset : fragment.record.values_offset) {
      offset = values;
      values += RoundUp(fragment.record.elements * 4, 4096);
    }
    fragment.record.chunks =
        static_cast<uint32_t>((fragment.record.elements + (1 << 18) - 1) >> 18);
    fragment.values.assign(fragment.record.elements, 0.0f);
  }
}

void FakeGateway::OnJoin(Cluster& cluster, const local::Join& join, int schema) {
  std::vector<local::TensorRecord> tensors(join.tensors);
  const auto bytes = static_cast<ssize_t>(tensors.size() * sizeof(local::TensorRecord));
  Require(pread(schema, tensors.data(), static_cast<size_t>(bytes), 0) == bytes, "schema memfd");
  const int seals = fcntl(schema, F_GET_SEALS);
  Require((seals & F_SEAL_WRITE) != 0, "the schema memfd is not sealed");
  outer_ = join.outer != 0;
  if (fragments_.empty()) BuildLayout(tensors);
  uint64_t snapshot = 4096, values = 4096;
  for (const Fragment& fragment : fragments_) {
    snapshot += RoundUp(fragment.record.elements * BytesOf(fragment.record.dtype), 4096);
    values += 2 * RoundUp(fragment.record.elements * 4, 4096);
  }
  const uint64_t tables = fragments_.size() * sizeof(local::FragmentRecord) +
                          placements_.size() * sizeof(local::PlacementRecord);
  cluster.snapshot = std::make_shared<Memory>();
  cluster.values = std::make_shared<Memory>();
  cluster.layout = std::make_shared<Memory>();
  cluster.snapshot->Make(snapshot, options_.sealed);
  cluster.values->Make(values, options_.sealed);
  cluster.layout->Make(tables, options_.sealed);
  uint8_t* out = cluster.layout->data;
  for (const Fragment& fragment : fragments_) {
    std::memcpy(out, &fragment.record, sizeof(fragment.record));
    out += sizeof(fragment.record);
  }
  std::memcpy(out, placements_.data(), placements_.size() * sizeof(local::PlacementRecord));
  cluster.joined = true;
  local::Joined answer{};
  answer.header = Head(cluster, local::Type::kJoined, sizeof(answer), join.header.sequence);
  answer.fragments = static_cast<uint32_t>(fragments_.size());
  answer.tensors = join.tensors;
  answer.snapshot_bytes = snapshot;
  answer.values_bytes = values;
  answer.layout_bytes = tables;
  answer.local_steps = options_.local_steps;
  answer.delay_steps = options_.delay_steps;
  answer.mix = options_.mix;
  answer.apply_mode = static_cast<uint8_t>(options_.apply_mode);
  answer.outer = outer_ ? 1 : 0;
  answer.wait_timeout_ms = options_.wait_timeout_ms;
  answer.peer_timeout_ms = 10'000;
  std::strcpy(answer.rule, "average");
  std::strcpy(answer.codec, "fp32");
  Send(cluster, &answer, sizeof(answer),
       {cluster.layout->descriptor, cluster.snapshot->descriptor, cluster.values->descriptor});
}

void FakeGateway::OnShare(Cluster& cluster, const local::Share& share, int memory) {
  local::Shared answer{};
  answer.header = Head(cluster, local::Type::kShared, sizeof(answer), share.header.sequence);
  answer.accepted = options_.share ? 1 : 0;
  if (options_.share) {
    cluster.device = std::make_shared<Memory>();
    cluster.device->Map(dup(memory), share.bytes);
  } else {
    std::strcpy(answer.reason, "no GPU here");
  }
  Send(cluster, &answer, sizeof(answer));
}

void FakeGateway::OnOffer(Cluster& cluster, uint64_t sequence) {
  cluster.offered = true;
  cluster.offer_sequence = sequence;
  FormIfComplete();
}

void FakeGateway::FormIfComplete() {
  for (const Cluster& cluster : clusters_) {
    if (!cluster.offered) return;
  }
  if (!formed_ && outer_) {
    // The first cluster seeds the run.
    for (Fragment& fragment : fragments_) {
      const uint8_t* offered = clusters_[0].snapshot->data + fragment.record.snapshot_offset;
      for (uint64_t e = 0; e < fragment.record.elements; ++e) {
        fragment.values[e] = Load(offered, e, fragment.record.dtype);
      }
    }
  }
  formed_ = true;
  for (Cluster& cluster : clusters_) {
    if (cluster.ready) continue;
    cluster.ready = true;
    local::Ready answer{};
    for (uint32_t f = 0; f < fragments_.size(); ++f) {
      const Fragment& fragment = fragments_[f];
      const uint8_t* offered = cluster.snapshot->data + fragment.record.snapshot_offset;
      for (uint64_t e = 0; outer_ && e < fragment.record.elements; ++e) {
        if (Load(offered, e, fragment.record.dtype) != fragment.values[e]) answer.start = 1;
      }
      answer.round[f] = fragment.round;
      WriteValue(cluster, f);
    }
    answer.header = Head(cluster, local::Type::kReady, sizeof(answer), cluster.offer_sequence);
    answer.fragments = static_cast<uint32_t>(fragments_.size());
    answer.members = static_cast<uint32_t>(clusters_.size());
    Send(cluster, &answer, sizeof(answer));
  }
}

void FakeGateway::WriteValue(Cluster& cluster, uint32_t fragment) {
  const Fragment& known = fragments_[fragment];
  std::memcpy(cluster.values->data + known.record.values_offset[known.round % 2],
              known.values.data(), known.values.size() * sizeof(float));
}

void FakeGateway::OnSubmit(Cluster& cluster, const local::Submit& submit) {
  if (submit.base_round != fragments_[submit.fragment].round) {
    local::Error error{};
    error.header = Head(cluster, local::Type::kError, sizeof(error), submit.header.sequence);
    error.code = static_cast<uint16_t>(local::Code::kRebase);
    error.retryable = 1;
    error.rank = UINT32_MAX;
    error.round = fragments_[submit.fragment].round;
    std::strcpy(error.text, "base_round is not known here");
    return Send(cluster, &error, sizeof(error));
  }
  Submission submission;
  submission.op = submit.op;
  submission.session = cluster.session;
  submission.round = submit.base_round + 1;
  submission.weight = submit.weight;
  submission.on_device = submit.memory == static_cast<uint8_t>(local::Memory::kDevice);
  cluster.open[submit.fragment] = submission;
  local::Submitted answer{};
  answer.header = Head(cluster, local::Type::kSubmitted, sizeof(answer), submit.header.sequence);
  answer.op = submit.op;
  answer.round = submission.round;
  Send(cluster, &answer, sizeof(answer));
  if (!options_.hold) CommitComplete();
}

void FakeGateway::OnQuery(Cluster& cluster, const local::Query& query) {
  local::OpState answer{};
  answer.header = Head(cluster, local::Type::kOpState, sizeof(answer), query.header.sequence);
  answer.op = query.op;
  for (const auto& [fragment, submission] : cluster.open) {
    if (submission.op != query.op || submission.session != query.session) continue;
    answer.state = static_cast<uint8_t>(submission.state);
    answer.fragment = fragment;
    answer.round = submission.round;
  }
  const auto ended = cluster.ended.find(query.op);
  if (ended != cluster.ended.end() && ended->second.second.session == query.session) {
    answer.state = static_cast<uint8_t>(ended->second.second.state);
    answer.fragment = ended->second.first;
    answer.round = ended->second.second.round;
  }
  Send(cluster, &answer, sizeof(answer));
}

void FakeGateway::CommitComplete() {
  for (uint32_t f = 0; f < fragments_.size(); ++f) {
    if (!std::all_of(clusters_.begin(), clusters_.end(),
                     [f](const Cluster& cluster) { return cluster.open.count(f) != 0; })) {
      continue;
    }
    Fragment& fragment = fragments_[f];
    double total = 0;
    for (const Cluster& cluster : clusters_)
      total += static_cast<double>(cluster.open.at(f).weight);
    const float scale = total > 0 ? static_cast<float>(1.0 / total) : 0.0f;
    for (uint64_t e = 0; e < fragment.record.elements; ++e) {
      float sum = 0;
      for (const Cluster& cluster : clusters_) {
        const Memory& memory = cluster.open.at(f).on_device ? *cluster.device : *cluster.snapshot;
        const float sent =
            Load(memory.data + fragment.record.snapshot_offset, e, fragment.record.dtype);
        const float delta = outer_ ? fragment.values[e] - sent : sent;
        sum += static_cast<float>(cluster.open.at(f).weight) * delta;
      }
      fragment.values[e] = outer_ ? fragment.values[e] - sum * scale : sum * scale;
    }
    fragment.round += 1;
    for (Cluster& cluster : clusters_) {
      const Submission submission = cluster.open.at(f);
      cluster.open.erase(f);
      WriteValue(cluster, f);
      Deliver(cluster, f, submission, local::State::kCommitted);
    }
  }
}

void FakeGateway::Deliver(Cluster& cluster, uint32_t fragment, const Submission& submission,
                          local::State state) {
  Submission ended = submission;
  ended.state = state;
  cluster.ended[submission.op] = {fragment, ended};
  local::OpState message{};
  message.header = Head(cluster, local::Type::kOpState, sizeof(message), 0);
  message.op = submission.op;
  message.fragment = fragment;
  message.state = static_cast<uint8_t>(state);
  message.round = fragments_[fragment].round;
  message.participants = static_cast<uint32_t>(clusters_.size());
  message.staleness = 1;
  message.raw_bytes = fragments_[fragment].record.elements * 4;
  message.wire_bytes = fragments_[fragment].record.elements;
  message.exchange_us = options_.exchange_us;
  for (float value : fragments_[fragment].values) {
    if (!(value - value == 0.0f)) message.nonfinite = 1;
  }
  Send(cluster, &message, sizeof(message));
}

}  // namespace causeway::fake
