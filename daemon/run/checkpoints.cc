// Capturing and writing. What is read at the start is in checkpoints_load.cc.
//
// The value stands still because the exchange takes the capture for a replacement of the value,
// which keeps commits, announcements and new contributions out. Rejected: a copy in memory, for
// which a large model has no room.
#include "daemon/run/checkpoints.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/observe/events.h"
#include "daemon/run/message_codec.h"
#include "proto/admin.pb.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

constexpr int64_t kBusyRetryUs = 100'000;  // a contribution was being encoded
constexpr int64_t kShare = 20;             // writing takes at most one part in so many of the time
// A slower disk than this keeps a value still for longer than it may.
constexpr int64_t kDiskBytesPerSecond = 50 << 20;

template <typename T>
absl::Span<const uint8_t> BytesOf(absl::Span<const T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

checkpoint::Limits LimitsOf(const config::Checkpoint& config) {
  return {config.rounds, config.interval_ms * 1000};
}

}  // namespace

// A fragment belongs to the schema that it came with, whatever the run has grown to since.
engine::Hash256 Checkpoints::SchemaOf(const Data& data, engine::FragmentId fragment) {
  return data.schema->stage_digest(data.endpoint->layout().StageOf(fragment));
}

// One fragment's way to the disk. Shared by the loop's thread and the writer, who hand it over.
struct Checkpoints::Job {
  engine::FragmentId fragment = 0;
  Data data;
  std::vector<uint8_t> schema;  // to be written first; empty: it is there
  std::string label;            // of the snapshot that it is for; empty: none
  bool begins = false;          // that snapshot
  std::string header;
  std::vector<absl::Span<const uint8_t>> sections;
  int64_t begun_us = 0;
  absl::Status result;
  std::atomic<bool> wanted{true};  // false: the value has changed under the writer's eyes
  bool released = false;           // the value may change again; the loop's thread
};

Checkpoints::Checkpoints(const Surroundings& around, const std::string& run, const Roster& roster,
                         engine::Hash256 algorithm, RecordsOf records, Founding founding)
    : around_(around),
      run_(run),
      roster_(roster),
      algorithm_(algorithm),
      records_(std::move(records)),
      founding_(std::move(founding)),
      limits_(LimitsOf(around.config->checkpoint)),
      store_(absl::StrCat(around.config->state_directory, "/", run, ".state")),
      snapshots_(absl::StrCat(around.config->state_directory, "/", run, ".snapshots")),
      writer_(std::make_unique<work::WorkerPool>(1)) {}

Checkpoints::~Checkpoints() { Detach(); }

void Checkpoints::Attach(Data data) {
  Detach();
  data_ = std::move(data);
  attached_ = std::make_shared<bool>(true);
  schedules_.assign(data_->exchange->size(), checkpoint::Schedule(limits_));
}

void Checkpoints::Detach() {
  attached_.reset();
  data_.reset();
  schedules_.clear();
  labelled_.clear();
  held_.clear();
  busy_ = flushing_ = schema_written_ = hanging_ = false;
  around_.loop->Cancel(timer_);
  around_.loop->Cancel(still_timer_);
  timer_ = still_timer_ = 0;
}

void Checkpoints::OnChange(engine::FragmentId fragment) {
  if (!data_) return;
  HoldIfLabelled(fragment);
  if (!limits_.enabled()) return;
  schedules_.at(fragment).OnChange(loop::Now());
  if (!busy_) BeginDue();
}

// The next one that is due, or a timer for it.
void Checkpoints::BeginDue() {
  around_.loop->Cancel(timer_);
  timer_ = 0;
  if (busy_ || !data_) return;
  if (!held_.empty()) {
    CaptureHeld();
    return;
  }
  const int64_t now = loop::Now();
  std::optional<int64_t> next;
  for (engine::FragmentId f = 0; f < schedules_.size(); ++f) {
    std::optional<int64_t> due = schedules_[f].Due(now);
    if (!due) continue;
    if (flushing_ && failure_.empty()) due = now;
    if (*due <= now && (flushing_ || now >= not_before_us_)) {
      Begin(f);
      return;
    }
    if (!flushing_) due = std::max(*due, not_before_us_);
    if (!next || *due < *next) next = due;
  }
  if (!next) return;
  timer_ = around_.loop->At(std::max(*next, now + 1000), [this] {
    timer_ = 0;
    BeginDue();
  });
}

void Checkpoints::Begin(engine::FragmentId fragment) {
  busy_ = true;
  data_->exchange->rounds(fragment).BeginReplacing(
      [this, fragment, attached = std::weak_ptr<bool>(attached_)] {
        if (!attached.expired()) Capture(fragment);
      });
}

// While the value is taken for being replaced: whoever is being sent it would be told that it is
// gone, and what is being encoded reads it.
bool Checkpoints::Readable(engine::FragmentId fragment) const {
  const endpoint::LocalEndpoint& endpoint = *data_->endpoint;
  const exchange::StateTransfer& state = data_->exchange->state(fragment);
  const bool busy = data_->exchange->rounds(fragment).encoding() || state.serving() ||
                    (endpoint.open(fragment) && !endpoint.Encoded(fragment));
  return !busy && endpoint.Holds(fragment, state.committed().round);
}

void Checkpoints::Keep(engine::FragmentId fragment, engine::RoundNumber round,
                       const std::string& label) {
  if (!data_ || fragment >= data_->exchange->size()) return;
  const auto known = labelled_.find(fragment);
  if (known != labelled_.end() && known->second.round == round) return;  // of another rank
  if (label != label_ || !label_fragments_.insert(fragment).second) {
    label_ = label;
    label_fragments_ = {fragment};
    label_begins_ = true;
  }
  labelled_[fragment] = {round, label};
}

// The value has changed. At the round that was labelled it stands still from here on.
void Checkpoints::HoldIfLabelled(engine::FragmentId fragment) {
  const auto labelled = labelled_.find(fragment);
  if (labelled == labelled_.end()) return;
  const auto committed = [this, fragment] { return data_->exchange->state(fragment).committed(); };
  const Wanted wanted = labelled->second;
  if (committed().round < wanted.round) return;
  labelled_.erase(labelled);
  if (around_.config->checkpoint.snapshots == 0) {
    NotKept(fragment, wanted.label, "checkpoint.snapshots is 0 in the configuration");
    return;
  }
  data_->exchange->rounds(fragment).BeginReplacing(
      [this, fragment, wanted, committed, attached = std::weak_ptr<bool>(attached_)] {
        if (attached.expired()) return;
        if (committed().round == wanted.round && Readable(fragment)) {
          held_.emplace_back(fragment, wanted.label);
          if (!busy_) BeginDue();
          return;
        }
        data_->exchange->rounds(fragment).EndReplacing();
        NotKept(fragment, wanted.label,
                absl::StrCat("round ", wanted.round, " has passed or is being sent to a joiner"));
      });
}

void Checkpoints::CaptureHeld() {
  const auto [fragment, label] = held_.front();
  held_.pop_front();
  busy_ = true;
  Write(fragment, label);
}

void Checkpoints::NotKept(engine::FragmentId fragment, const std::string& label,
                          const std::string& why) {
  around_.log->Error(event::kCheckpointFailed, {{"run", run_}, {"fragment", fragment}},
                     absl::StrCat("snapshot '", label, "' is incomplete: ", why));
}

// Nothing of the fragment changes until EndReplacing.
void Checkpoints::Capture(engine::FragmentId fragment) {
  if (!Readable(fragment)) {
    data_->exchange->rounds(fragment).EndReplacing();
    busy_ = false;
    timer_ = around_.loop->After(kBusyRetryUs, [this] {
      timer_ = 0;
      BeginDue();
    });
    return;
  }
  schedules_[fragment].OnBegun();
  Write(fragment, "");
}

// The value stands still; `label`: where it goes, empty: to the run's checkpoints.
void Checkpoints::Write(engine::FragmentId fragment, std::string label) {
  const endpoint::LocalEndpoint& endpoint = *data_->endpoint;
  const engine::StateId& state = data_->exchange->state(fragment).committed();
  auto job = std::make_shared<Job>();
  job->fragment = fragment;
  job->label = std::move(label);
  job->data = *data_;
  job->header = Header(fragment);
  job->begun_us = loop::Now();
  if (job->label.empty() ? !schema_written_ : label_begins_) job->schema = data_->schema->Records();
  if (!job->label.empty()) job->begins = std::exchange(label_begins_, false);
  const absl::Span<const float> values = endpoint.Value(fragment, state.round);
  absl::Span<const float> momentum;
  if (data_->outer->rule(fragment).UsesMomentum()) {
    momentum = {data_->outer->Momentum(fragment, 0).data(), values.size()};
  }
  const absl::Span<const std::byte> residual = endpoint.HasResidual(fragment)
                                                   ? endpoint.CommittedResidual(fragment)
                                                   : absl::Span<const std::byte>();
  job->sections = {BytesOf(momentum), BytesOf(residual), BytesOf(values)};

  // Posts to the loop, void once the data is another's.
  const auto post = [loop = around_.loop,
                     attached = std::weak_ptr<bool>(attached_)](std::function<void()> function) {
    loop->Post([attached, function = std::move(function)] {
      if (!attached.expired()) function();
    });
  };
  const auto release = [this, job] { Release(*job); };
  int64_t bytes = 0;
  for (const auto& section : job->sections) bytes += static_cast<int64_t>(section.size());
  const int64_t patience_us =
      around_.config->peer_timeout_ms * 1000 + bytes * 1'000'000 / kDiskBytesPerSecond;
  still_timer_ = around_.loop->After(patience_us, [this, job] { OnHanging(job); });
  const auto kept = static_cast<size_t>(around_.config->checkpoint.snapshots);
  writer_->Submit([this, job, post, release, kept, snapshots = snapshots_,
                   store = job->label.empty() ? store_ : snapshots_.Of(job->label)] {
    if (job->begins) job->result = snapshots.Begin(job->label, kept);
    if (job->result.ok() && !job->schema.empty()) job->result = store.WriteSchema(job->schema);
    if (job->result.ok()) {
      job->result = store.Write(
          job->fragment, job->header, job->sections,
          [&](size_t section) {
            if (section + 1 == job->sections.size()) post(release);
          },
          [&] { return job->wanted.load(); });
    }
    post([this, job, release] {
      release();
      OnWritten(job);
    });
  });
}

// The value may change again.
void Checkpoints::Release(Job& job) {
  if (std::exchange(job.released, true)) return;
  around_.loop->Cancel(still_timer_);
  still_timer_ = 0;
  data_->exchange->rounds(job.fragment).EndReplacing();
}

// No round waits for a disk that does not answer. Its thread hangs with it.
void Checkpoints::OnHanging(const std::shared_ptr<Job>& job) {
  still_timer_ = 0;
  job->wanted = false;
  hanging_ = true;
  Release(*job);
  OnFailure(job->fragment, absl::StrCat("the disk of ", store_.directory(), " does not answer"));
}

void Checkpoints::OnFailure(engine::FragmentId fragment, const std::string& why) {
  if (failure_.empty()) {
    around_.log->Error(event::kCheckpointFailed, {{"run", run_}, {"fragment", fragment}},
                       absl::StrCat(why, "; rounds go on, the newest checkpoint grows older"));
  }
  failure_ = why;
}

void Checkpoints::OnWritten(const std::shared_ptr<Job>& job) {
  busy_ = hanging_ = false;
  const int64_t now = loop::Now();
  if (!job->label.empty()) {
    if (!job->result.ok()) {
      NotKept(job->fragment, job->label, std::string(job->result.message()));
    } else {
      around_.log->Info(event::kCheckpointWritten, {{"run", run_}, {"fragment", job->fragment}},
                        absl::StrCat("kept under the label '", job->label, "'"));
    }
    BeginDue();
    return;
  }
  around_.metrics->checkpoints.With({run_, job->result.ok() ? "written" : "failed"}).Add(1);
  if (job->result.ok()) {
    schema_written_ = true;
    ++written_;
    written_us_ = now;
    not_before_us_ = now + kShare * (now - job->begun_us);
    around_.metrics->checkpoint_timestamp_seconds.With({run_}).Set(
        static_cast<double>(::time(nullptr)));
    if (!failure_.empty()) {
      around_.log->Info(event::kCheckpointWritten, {{"run", run_}},
                        "checkpoints are written again");
    }
    failure_.clear();
    around_.log->Debug(
        event::kCheckpointWritten,
        {{"run", run_}, {"fragment", job->fragment}, {"ms", (now - job->begun_us) / 1000}},
        "checkpoint on disk");
  } else {
    schedules_[job->fragment].OnFailed(now);
    OnFailure(job->fragment, std::string(job->result.message()));
  }
  BeginDue();
}

bool Checkpoints::Flush() {
  if (!data_ || !limits_.enabled()) return true;
  const bool dirty = std::any_of(schedules_.begin(), schedules_.end(),
                                 [](const checkpoint::Schedule& s) { return s.dirty(); });
  if (hanging_ || (!busy_ && (!dirty || !failure_.empty()))) return true;
  flushing_ = true;
  if (!busy_) BeginDue();
  return false;
}

absl::Status Checkpoints::KeepSchema(const schema::Schema& schema) {
  if (!limits_.enabled()) return absl::OkStatus();
  return store_.WriteSchema(schema.Records());
}

std::string Checkpoints::Header(engine::FragmentId fragment) const {
  CheckpointHeader header;
  header.run = run_;
  header.cluster = around_.config->cluster;
  header.schema = SchemaOf(*data_, fragment);
  header.algorithm = algorithm_;
  header.fragment = fragment;
  header.state = data_->exchange->state(fragment).committed();
  header.founding = founding_();
  header.state_hash = data_->outer->StateHash(fragment);
  // The engine may know more already than the value here.
  for (const engine::CommitRecord& record : records_(fragment)) {
    if (record.state.round <= header.state.round) header.records.push_back(record);
  }
  if (!header.records.empty() && header.records.back().state.chain != header.state.chain) {
    header.records.clear();
  }
  if (data_->endpoint->HasResidual(fragment)) {
    header.residual_weights = data_->endpoint->ResidualWeights(fragment);
  }
  header.rule_words = data_->outer->Words(fragment);
  return EncodeCheckpoint(roster_, header).SerializeAsString();
}

absl::Status Checkpoints::Remove() {
  if (hanging_) {
    return absl::UnavailableError(absl::StrCat("the disk of ", store_.directory(),
                                               " does not answer; try again once it does"));
  }
  Detach();
  writer_ = std::make_unique<work::WorkerPool>(1);  // the old one ends what it is writing first
  failure_.clear();
  written_us_ = 0;
  return store_.Remove();
}

void Checkpoints::FillStatus(admin::v1::CheckpointStatus* out) const {
  out->set_written(written_);
  out->set_failure(failure_);
  if (written_us_ != 0) out->set_age_s(static_cast<double>(loop::Now() - written_us_) / 1e6);
  for (const checkpoint::Schedule& schedule : schedules_) {
    if (schedule.dirty()) out->set_fragments_behind(out->fragments_behind() + 1);
  }
}

}  // namespace causeway::run
