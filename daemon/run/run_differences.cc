// When clusters do not agree: finds the first tensor or key that differs and tells the trainer, in
// words.
//
// Both sides send their canonical lines to the other; whoever gets them compares. A peer that sends
// none in time leaves a verdict without the detail.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/observe/events.h"
#include "daemon/run/algorithm.h"
#include "daemon/run/run.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

constexpr int64_t kDetailTimeoutUs = 3'000'000;
constexpr int kDetailLinesMax = 4096;
constexpr size_t kDetailBytesMax = 512 * 1024;
constexpr int kDetailHashesMax = 1 << 16;

}  // namespace

void Run::Do(const engine::JoinRefused& action) {
  refused_ = action;
  if (action.cluster == self_) {
    RefuseTrainer(
        "the run was founded with another one; `causeway run forget` on every gateway "
        "begins it anew");
    return;
  }
  SendSchemaDetail(action.cluster);
  auto detail = details_.find(action.cluster);
  if (detail != details_.end()) {
    const wan::v1::SchemaDetail known = detail->second;
    OnSchemaDetail(action.cluster, known);
    if (!refused_) return;
  }
  around_.loop->Cancel(refusal_timer_);
  refusal_timer_ = around_.loop->After(kDetailTimeoutUs, [this] {
    refusal_timer_ = 0;
    if (refused_)
      RefuseTrainer("which part differs is not known: the other gateway sent no detail");
  });
}

void Run::SendSchemaDetail(engine::ClusterId to) {
  wan::v1::RunMessage message;
  wan::v1::SchemaDetail* detail = message.mutable_schema_detail();
  for (const std::string& line : AlgorithmLines(config_)) detail->add_algorithm(line);
  size_t bytes = 0;
  if (schema_) {
    for (const std::string& line : schema_->Lines()) {
      bytes += line.size();
      if (bytes > kDetailBytesMax || detail->tensors_size() >= kDetailLinesMax) break;
      detail->add_tensors(line);
    }
  }
  network_.Send(to, std::move(message));
}

void Run::OnSchemaDetail(engine::ClusterId from, const wan::v1::SchemaDetail& detail) {
  if (detail.tensors_size() > kDetailLinesMax || detail.algorithm_size() > kDetailLinesMax) return;
  details_[from] = detail;
  if (!refused_ || refused_->cluster != from) {
    TellStranger(from);
    return;
  }
  const std::vector<std::string> their_algorithm(detail.algorithm().begin(),
                                                 detail.algorithm().end());
  std::string difference =
      FirstDifferentKey(AlgorithmLines(config_), their_algorithm, roster_.Name(from));
  if (difference.empty() && schema_ && detail.tensors_size() > 0) {
    std::vector<std::string> ours = schema_->Lines();
    const std::vector<std::string> theirs(detail.tensors().begin(), detail.tensors().end());
    if (theirs.size() == static_cast<size_t>(kDetailLinesMax)) {
      ours.resize(std::min(ours.size(), theirs.size()));
    }
    difference = schema::FirstDifference(ours, theirs, roster_.Name(from));
  }
  if (difference.empty()) return;  // stale words; newer ones or the timer follow
  RefuseTrainer(difference);
}

// Whoever is no member, and tells what its trainer came with, was refused what this run is.
void Run::TellStranger(engine::ClusterId peer) {
  const engine::Status status = engine_->Snapshot();
  const bool active =
      status.phase == engine::Phase::kActive || status.phase == engine::Phase::kHalted;
  if (active && !status.record->members.Contains(peer)) SendSchemaDetail(peer);
}

void Run::RefuseTrainer(const std::string& difference) {
  const engine::JoinRefused refused = *std::exchange(refused_, std::nullopt);
  details_.erase(refused.cluster);
  around_.loop->Cancel(refusal_timer_);
  refusal_timer_ = 0;
  const bool schema = refused.kind == engine::FatalKind::kSchema;
  trainers::Problem problem;
  problem.code = schema ? local::Code::kSchema : local::Code::kAlgorithm;
  problem.fatal = true;
  problem.cluster = roster_.Name(refused.cluster);
  problem.text = absl::StrCat("run '", name(), "': the ", schema ? "schema" : "algorithm",
                              " differs: ", difference);
  around_.log->Error(event::kTrainerRefused, {{"run", name()}, {"peer", problem.cluster}},
                     problem.text);
  if (trainer_ && trainer_->session == refused.session) RefuseAll(problem);
}

// ---------------------------------------------------------------- results

void Run::Do(const engine::Fatal& action) {
  fatal_ = action;
  const std::string what =
      absl::StrCat(engine::FatalKindName(action.kind), " with ", roster_.Name(action.cluster),
                   ", fragment ", action.fragment, ", round ", action.round, ": ", action.detail);
  if (action.kind != engine::FatalKind::kHashMismatch || !exchange_) {
    Fail(what, local::Code::kInternal, action.cluster, "");
    return;
  }
  wan::v1::RunMessage message;
  wan::v1::HashDetail* detail = message.mutable_hash_detail();
  detail->set_fragment(action.fragment);
  detail->set_round(action.round);
  for (engine::Hash64 hash : exchange_->rounds(action.fragment).ResultHashes(action.round)) {
    if (detail->chunk_hashes_size() == kDetailHashesMax) break;
    detail->add_chunk_hashes(hash);
  }
  network_.Send(action.cluster, std::move(message));
  around_.loop->Cancel(fatal_timer_);
  fatal_timer_ = around_.loop->After(kDetailTimeoutUs, [this, what] {
    fatal_timer_ = 0;
    if (failure_.empty()) Fail(what, local::Code::kHashMismatch, fatal_->cluster, "");
  });
}

void Run::OnHashDetail(engine::ClusterId from, const wan::v1::HashDetail& detail) {
  if (!fatal_ || !failure_.empty() || !exchange_ || detail.fragment() >= exchange_->size() ||
      detail.fragment() != fatal_->fragment || detail.chunk_hashes_size() > kDetailHashesMax) {
    return;
  }
  const std::vector<engine::Hash64> ours =
      exchange_->rounds(detail.fragment()).ResultHashes(detail.round());
  const size_t shared = std::min(ours.size(), static_cast<size_t>(detail.chunk_hashes_size()));
  for (size_t chunk = 0; chunk < shared; ++chunk) {
    if (ours[chunk] == detail.chunk_hashes(static_cast<int>(chunk))) continue;
    const std::optional<uint32_t> tensor =
        layout_->TensorAt(detail.fragment(), chunk * compression::kChunkElements);
    const std::string tensor_name = tensor ? schema_->tensors()[*tensor].name : "";
    Fail(absl::StrCat("results differ from those of ", roster_.Name(from), " in round ",
                      detail.round(), " from tensor '", tensor_name, "' on (fragment ",
                      detail.fragment(), ", chunk ", chunk, ")"),
         local::Code::kHashMismatch, from, tensor_name);
    return;
  }
}

void Run::Fail(const std::string& text, local::Code code, engine::ClusterId cluster,
               const std::string& tensor) {
  around_.loop->Cancel(fatal_timer_);
  fatal_timer_ = 0;
  failure_ = text;
  around_.log->Error(event::kRunFailed, {{"run", name()}, {"peer", roster_.Name(cluster)}}, text);
  trainers::Problem problem;
  problem.code = code;
  problem.fatal = true;
  problem.cluster = roster_.Name(cluster);
  problem.tensor = tensor;
  problem.round = fatal_ ? fatal_->round : -1;
  problem.text = absl::StrCat("run '", name(), "' cannot go on: ", text);
  RefuseAll(problem);
}

}  // namespace causeway::run
