// What a starting gateway makes of the checkpoints it finds. Files may be anything: each is used
// only when its own digests, its names, the chain of its records and the hash of the state agree.
#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/digest/digest.h"
#include "daemon/engine/chain.h"
#include "daemon/observe/events.h"
#include "daemon/run/checkpoints.h"
#include "daemon/run/message_codec.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

enum Section { kMomentum, kResidual, kValues, kSections };

template <typename T>
absl::Span<uint8_t> BytesOf(absl::Span<T> values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(T)};
}

absl::Status Foreign(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

// In bf16 or fp32.
bool ResidualFits(uint64_t bytes, uint64_t elements) {
  return bytes == elements * sizeof(uint16_t) || bytes == elements * sizeof(float);
}

// The records lead to the state, each from the one before.
bool ChainAgrees(const CheckpointHeader& header) {
  engine::Config config;
  config.hash = [](std::span<const uint8_t> bytes) {
    return digest::Sha256({bytes.data(), bytes.size()});
  };
  const engine::CommitRecord* before = nullptr;
  for (const engine::CommitRecord& record : header.records) {
    if (record.fragment != header.fragment) return false;
    if (engine::CommitChain(config, record) != record.state.chain) return false;
    if (before != nullptr && before->state.chain != record.previous_chain) return false;
    before = &record;
  }
  return before == nullptr || before->state.chain == header.state.chain;
}

// Why the file is not of this run; empty: it is.
std::string WhyForeign(const CheckpointHeader& header, const CheckpointHeader& expected,
                       engine::Lineage newest) {
  if (header.run != expected.run) return absl::StrCat("of run '", header.run.substr(0, 64), "'");
  if (header.cluster != expected.cluster) {
    return absl::StrCat("of cluster '", header.cluster.substr(0, 64), "'");
  }
  if (header.schema != expected.schema) return "of another schema";
  if (header.algorithm != expected.algorithm) {
    return "of another algorithm: what the run computes was changed in the configuration since";
  }
  if (header.fragment != expected.fragment) {
    return absl::StrCat("of fragment ", header.fragment);
  }
  if (!engine::SameFounding(header.founding, expected.founding)) {
    return "of another founding of this run: it was forgotten and founded anew since";
  }
  if (header.state.lineage > newest) return "of a later lineage than this gateway knows";
  if (!ChainAgrees(header)) return "the chain of its rounds does not agree";
  return "";
}

}  // namespace

void Checkpoints::Refused(const absl::Status& why) {
  around_.log->Error(event::kCheckpointRefused, {{"run", run_}}, std::string(why.message()));
}

void Checkpoints::SetAside() {
  const absl::StatusOr<bool> aside = store_.SetAside();
  if (!aside.ok()) {
    Refused(aside.status());
  } else if (*aside) {
    around_.log->Warning(event::kCheckpointRefused, {{"run", run_}},
                         absl::StrCat("checkpoints without a record of their run are not used; ",
                                      "they lie in ", store_.directory(), ".set-aside"));
  }
}

std::optional<schema::Schema> Checkpoints::ReadSchema(const engine::Record& record) {
  absl::StatusOr<std::vector<uint8_t>> records = store_.ReadSchema();
  if (absl::IsNotFound(records.status())) return std::nullopt;
  if (!records.ok()) {
    Refused(records.status());
    return std::nullopt;
  }
  const auto count = static_cast<uint32_t>(records->size() / sizeof(local::TensorRecord));
  absl::StatusOr<schema::Schema> schema = schema::Schema::Parse(*records, count);
  if (!schema.ok()) {
    Refused(Foreign(store_.directory() + "/schema", std::string(schema.status().message())));
    return std::nullopt;
  }
  if (!schema->StageOf(record.schema)) {
    Refused(Foreign(store_.directory() + "/schema", "of another schema than the run's"));
    return std::nullopt;
  }
  return *std::move(schema);
}

std::vector<engine::HeldFragment> Checkpoints::Load(const engine::Record& record,
                                                    const Data& data) {
  std::vector<engine::HeldFragment> held;
  residuals_restored_ = data.endpoint->KeepsResidual();
  const size_t fragments = std::min(data.exchange->size(), record.base.size());
  for (engine::FragmentId f = 0; f < fragments; ++f) {
    std::optional<engine::HeldFragment> found = LoadFragment(record, data, f);
    residuals_restored_ = residuals_restored_ && found && data.endpoint->HasResidual(f);
    if (found) held.push_back(*std::move(found));
  }
  return held;
}

std::optional<engine::HeldFragment> Checkpoints::LoadFragment(const engine::Record& record,
                                                              const Data& data,
                                                              engine::FragmentId fragment) {
  for (const std::string& path : store_.Files(fragment)) {
    absl::StatusOr<engine::HeldFragment> held = LoadFile(record, data, fragment, path);
    if (held.ok()) {
      around_.log->Info(event::kCheckpointLoaded,
                        {{"run", run_}, {"fragment", fragment}, {"round", held->state.round}},
                        path);
      return *std::move(held);
    }
    Refused(held.status());
    data.outer->Reset(fragment);
    data.endpoint->ResetResidual(fragment);
  }
  return std::nullopt;
}

absl::StatusOr<engine::HeldFragment> Checkpoints::LoadFile(const engine::Record& record,
                                                           const Data& data,
                                                           engine::FragmentId fragment,
                                                           const std::string& path) {
  absl::StatusOr<checkpoint::File> file = checkpoint::File::Open(path);
  if (!file.ok()) return file.status();
  wan::v1::Checkpoint message;
  if (!message.ParseFromString(file->header()))
    return Foreign(path, "its header is no checkpoint's");
  absl::StatusOr<CheckpointHeader> header = DecodeCheckpoint(roster_, message);
  if (!header.ok()) return Foreign(path, std::string(header.status().message()));
  CheckpointHeader expected;
  expected.run = run_;
  expected.cluster = around_.config->cluster;
  expected.schema = SchemaOf(data, fragment);
  expected.algorithm = algorithm_;
  expected.fragment = fragment;
  expected.founding = record.founding;
  if (const std::string why = WhyForeign(*header, expected, record.lineage); !why.empty()) {
    return Foreign(path, why);
  }

  const local::FragmentRecord& shape = data.endpoint->layout().fragments()[fragment];
  const bool has_momentum = data.outer->rule(fragment).UsesMomentum();
  const bool has_residual = !header->residual_weights.empty();
  const bool fits = file->sections() == kSections &&
                    file->size(kValues) == shape.elements * sizeof(float) &&
                    file->size(kMomentum) == (has_momentum ? shape.elements * sizeof(float) : 0) &&
                    ResidualFits(file->size(kResidual), has_residual ? shape.elements : 0) &&
                    (!has_residual || header->residual_weights.size() == shape.chunks);
  if (!fits) return Foreign(path, "its sizes are not the fragment's");

  const absl::Span<float> values = data.endpoint->WritableValue(fragment, header->state.round);
  absl::Status read = file->Read(kValues, BytesOf(values));
  if (read.ok() && has_momentum) {
    float* momentum = data.outer->Momentum(fragment, 0).data();
    read = file->Read(kMomentum, BytesOf(absl::Span<float>(momentum, values.size())));
  }
  // One of another type, from before the configuration changed, is left: it starts at zero.
  const size_t residual_size = compression::DTypeBytes(data.endpoint->options().residual);
  if (read.ok() && has_residual && data.endpoint->KeepsResidual() &&
      file->size(kResidual) == shape.elements * residual_size) {
    read = file->Read(kResidual,
                      BytesOf(data.endpoint->RestoreResidual(fragment, header->residual_weights)));
  }
  if (read.ok()) read = data.outer->SetWords(fragment, header->rule_words);
  if (!read.ok()) return read;
  for (uint32_t chunk = 0; chunk < shape.chunks; ++chunk) {
    data.outer->HashChunk(fragment, chunk,
                          values.subspan(uint64_t{chunk} * compression::kChunkElements,
                                         data.endpoint->layout().ChunkElements(fragment, chunk)));
  }
  if (data.outer->StateHash(fragment) != header->state_hash) {
    return Foreign(path, "its values do not have the hash that it names");
  }
  data.endpoint->Publish(fragment, header->state.round);
  data.exchange->state(fragment).SetCommitted(header->state);
  data.exchange->rounds(fragment).SetCommitted(header->state.round, false);
  return engine::HeldFragment{fragment, header->state, std::move(header->records)};
}

}  // namespace causeway::run
