// The outer state of one run on disk: written beside the rounds, read when the gateway starts.
//
// A fragment is captured between two rounds: while it is handed to the kernel its value stands
// still (no commit, no new contribution), the way to the disk is free of that. One fragment at a
// time, on a thread of its own; where that would cost more than a twentieth of the time it is done
// less often than the configuration asks. A failure is told once and tried again; rounds go on.
// Where the disk takes nothing for peer_timeout the value may change again: what was being written
// is void, and nothing more is until the disk lets go of it.
//
// The state of a round that a trainer has labelled is written under its label as soon as it is
// committed, and stands still until it is: it is the same moment in all clusters.
//
// What is found at the start is refused by name where it is torn, corrupt or of another run, schema
// or algorithm, and the one before it is looked at.
//
// Confined to the loop's thread, with writing on its own. Does not: decide what a restored value is
// worth; the engine does.
#ifndef CAUSEWAY_DAEMON_RUN_CHECKPOINTS_H_
#define CAUSEWAY_DAEMON_RUN_CHECKPOINTS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/checkpoint/schedule.h"
#include "daemon/checkpoint/snapshots.h"
#include "daemon/checkpoint/store.h"
#include "daemon/engine/event.h"
#include "daemon/exchange/exchange.h"
#include "daemon/outer/outer_state.h"
#include "daemon/run/roster.h"
#include "daemon/run/surroundings.h"
#include "daemon/schema/schema.h"
#include "daemon/work/worker_pool.h"

namespace causeway::admin::v1 {
class CheckpointStatus;
}  // namespace causeway::admin::v1

namespace causeway::run {

class Checkpoints {
 public:
  // What there is to keep. The exchange outlives the attachment.
  struct Data {
    std::shared_ptr<const schema::Schema> schema;       // shared with the writer
    std::shared_ptr<endpoint::LocalEndpoint> endpoint;  // shared with the writer
    std::shared_ptr<outer::OuterState> outer;           // shared with the writer
    exchange::Exchange* exchange = nullptr;
  };
  // The commit records that the engine keeps of a fragment, newest last.
  using RecordsOf = std::function<std::vector<engine::CommitRecord>(engine::FragmentId)>;
  // Which founding of the run the values here are of.
  using Founding = std::function<engine::FoundingId()>;

  Checkpoints(const Surroundings& around, const std::string& run, const Roster& roster,
              engine::Hash256 algorithm, RecordsOf records, Founding founding);
  ~Checkpoints();

  // ---- at the start
  // The schema of what is on disk of the run that `record` belongs to; nullopt: nothing usable.
  std::optional<schema::Schema> ReadSchema(const engine::Record& record);
  // Loads what is there into `data`, which is empty. Fragments that are not named have nothing.
  std::vector<engine::HeldFragment> Load(const engine::Record& record, const Data& data);
  // There is no record: what lies there belongs to a run that this gateway knows nothing of.
  void SetAside();

  // ---- while the run goes on
  void Attach(Data data);
  void Detach();  // before the data goes
  // The run's trainers came with more tensors: from now on a start may find that schema here, where
  // the record still names one that it extends. On disk when it returns. Not while writing().
  absl::Status KeepSchema(const schema::Schema& schema);
  bool writing() const { return busy_; }
  void OnChange(engine::FragmentId fragment);
  // What this round of the fragment commits is to be kept under a label. Once a round; the labels
  // of fragments that are given one after the other are one snapshot until a fragment comes again.
  void Keep(engine::FragmentId fragment, engine::RoundNumber round, const std::string& label);
  // Everything is to be on disk. Call until true: all of it is, or cannot be.
  bool Flush();
  // Forgets the run. Waits for what is being written.
  absl::Status Remove();

  // Fragments whose residual the disk had.
  bool residuals_restored() const { return residuals_restored_; }
  void FillStatus(admin::v1::CheckpointStatus* out) const;

 private:
  struct Job;
  struct Wanted {
    engine::RoundNumber round;
    std::string label;
  };

  std::optional<engine::HeldFragment> LoadFragment(const engine::Record& record, const Data& data,
                                                   engine::FragmentId fragment);
  absl::StatusOr<engine::HeldFragment> LoadFile(const engine::Record& record, const Data& data,
                                                engine::FragmentId fragment,
                                                const std::string& path);
  static engine::Hash256 SchemaOf(const Data& data, engine::FragmentId fragment);
  void Arm();
  void BeginDue();
  void Begin(engine::FragmentId fragment);
  void Capture(engine::FragmentId fragment);
  bool Readable(engine::FragmentId fragment) const;
  void HoldIfLabelled(engine::FragmentId fragment);
  void CaptureHeld();
  void NotKept(engine::FragmentId fragment, const std::string& label, const std::string& why);
  void Write(engine::FragmentId fragment, std::string label);
  void OnWritten(const std::shared_ptr<Job>& job);
  void Release(Job& job);
  void OnHanging(const std::shared_ptr<Job>& job);
  void OnFailure(engine::FragmentId fragment, const std::string& why);
  std::string Header(engine::FragmentId fragment) const;
  void Refused(const absl::Status& why);

  const Surroundings around_;
  const std::string run_;
  const Roster& roster_;
  const engine::Hash256 algorithm_;
  const RecordsOf records_;
  const Founding founding_;
  const checkpoint::Limits limits_;
  const checkpoint::Store store_;
  const checkpoint::Snapshots snapshots_;

  std::optional<Data> data_;
  std::vector<checkpoint::Schedule> schedules_;  // by fragment
  bool schema_written_ = false;
  bool busy_ = false;  // a fragment is being captured or written
  bool flushing_ = false;
  bool hanging_ = false;  // what is being written was given up
  loop::TimerId still_timer_ = 0;
  int64_t not_before_us_ = 0;
  loop::TimerId timer_ = 0;
  bool residuals_restored_ = false;

  std::map<engine::FragmentId, Wanted> labelled_;                // rounds to come
  std::deque<std::pair<engine::FragmentId, std::string>> held_;  // stand still until captured
  std::string label_;                                            // of the newest snapshot
  std::set<engine::FragmentId> label_fragments_;                 // that it was given
  bool label_begins_ = false;                                    // nothing of it is written yet

  std::string failure_;  // of the newest attempt; empty: none
  int64_t written_us_ = 0;
  uint64_t written_ = 0;

  std::unique_ptr<work::WorkerPool> writer_;  // one thread
  std::shared_ptr<bool> attached_;            // what the writer posts is void without it
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_CHECKPOINTS_H_
