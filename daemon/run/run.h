// One run on this gateway: wires its engine to data, peers and trainers.
//
// The engine decides, the exchange moves data, the endpoint encodes; this class only passes events
// one way and actions the other, and keeps what a trainer is owed: its session, its operations, its
// errors. Confined to the loop's thread.
//
// Life: engine from the start; endpoint, outer state and exchange once a trainer has named the
// schema. A trainer whose schema or algorithm differs is refused in both sides' words; the next may
// join. A difference of results fails the run until the gateway is restarted.
#ifndef CAUSEWAY_DAEMON_RUN_RUN_H_
#define CAUSEWAY_DAEMON_RUN_RUN_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/engine/engine.h"
#include "daemon/exchange/entropy_pool.h"
#include "daemon/exchange/exchange.h"
#include "daemon/run/bad_chunks.h"
#include "daemon/run/checkpoints.h"
#include "daemon/run/durable_file.h"
#include "daemon/run/local_trainer.h"
#include "daemon/run/network.h"
#include "daemon/run/roster.h"
#include "daemon/run/run_planning.h"
#include "daemon/run/surroundings.h"
#include "daemon/trainers/service.h"

namespace causeway::admin::v1 {
class PlanStatus;
class ChangeRunRequest;
class RunStatus;
}  // namespace causeway::admin::v1

namespace causeway::run {

class Run final : private exchange::ExchangeListener {
 public:
  // Reads what the disk holds of the run. Errors name the file.
  static absl::StatusOr<std::unique_ptr<Run>> Create(const Surroundings& around,
                                                     const config::Run& config);
  ~Run() override;

  const std::string& name() const { return config_.name; }

  // ---- trainers (TrainerListener, for sessions of this run)
  std::optional<trainers::Problem> OnHello(trainers::Session& session);
  void OnJoin(trainers::Session& session, const trainers::JoinRequest& request,
              schema::Schema schema);
  void OnShare(trainers::Session& session, const trainers::ShareRequest& request,
               const loop::Descriptor& memory);
  void OnOffer(trainers::Session& session, const trainers::OfferRequest& request,
               std::vector<local::SliceRecord> slices);
  void OnSubmit(trainers::Session& session, const trainers::SubmitRequest& request);
  void OnApplied(trainers::Session& session, const trainers::AppliedRequest& request);
  void OnAbandon(trainers::Session& session, uint64_t sequence, uint64_t op);
  void OnQuery(trainers::Session& session, uint64_t sequence, uint64_t op_session, uint64_t op);
  void OnAwait(trainers::Session& session, uint64_t sequence, uint64_t op);
  void OnFinish(trainers::Session& session, uint64_t sequence);
  void OnGone(trainers::Session& session, trainers::Gone gone, const std::string& detail);

  // ---- peers
  bool HasPeer(const std::string& cluster) const { return roster_.Find(cluster).has_value(); }
  void OnPeerUp(const std::string& cluster, uint64_t incarnation);
  void OnPeerDown(const std::string& cluster);
  void OnRunMessage(const std::string& cluster, const wan::v1::RunMessage& message);
  void OnChunk(const std::string& cluster, const transport::ChunkHeader& header,
               memory::Buffer payload);
  void OnChunkDone(const std::string& cluster, const transport::ChunkHeader& header,
                   const absl::Status& status);
  void OnProgress(const std::string& cluster);

  // The transport runs from now on: peers may send what the restored data has room for.
  void OnTransportStarted();
  void Tick();  // about once a second

  // ---- operators
  void FillStatus(admin::v1::RunStatus* out) const;
  // What was done, in words (run_operators.cc).
  absl::StatusOr<std::string> Change(const admin::v1::ChangeRunRequest& request);
  // No new operations from now on; true once none is open and what is committed is on disk.
  void BeginDrain() { draining_ = true; }
  bool Drained();

 private:
  Run(const Surroundings& around, const config::Run& config);
  void StartEngine(engine::Durable durable, std::vector<engine::HeldFragment> held);
  std::vector<engine::HeldFragment> Restore(const engine::Durable& durable);
  void Reset();

  // ---- engine
  void Drive(const engine::Event& event);
  void ArmTimer();
  void Do(const engine::Send& action);
  void Do(const engine::Persist& action);
  void Do(const engine::StartContribution& action);
  void Do(const engine::ResendContribution& action);
  void Do(const engine::Reduce& action);
  void Do(const engine::Commit& action);
  void Do(const engine::DropAttempts& action);
  void Do(const engine::ReleaseRetained& action);
  void Do(const engine::FetchState& action);
  void Do(const engine::AdoptState& action);
  void Do(const engine::RolledBack& action);
  void Do(const engine::OpChanged& action);
  void Do(const engine::EpochInstalled& action);
  void Do(const engine::RunFormed& action);
  void Do(const engine::Fenced& action);
  void Do(const engine::Fatal& action);
  void Do(const engine::RollbackNeeded& action);
  void Do(const engine::PlanKnown& action);
  void Do(const engine::JoinRefused& action);
  void Do(const engine::ForeignRun& action);
  void Do(const engine::Note& action);

  // ---- exchange::ExchangeListener
  void OnResultHeld(const engine::ResultHeld& event) override;
  void OnCommitted(const exchange::CommitReport& report) override;
  void OnStateHeld(const engine::StateHeld& event) override;
  void OnStateFailed(const engine::StateFailed& event) override;
  void OnAdopted(engine::FragmentId fragment, const engine::StateId& state) override;
  void OnBadChunk(engine::ClusterId from, const exchange::ChunkAddress& address,
                  const absl::Status& status) override;
  void OnDeviceFailed(const absl::Status& status) override;
  void OnNote(const std::string& text) override;

  void SendAgain(engine::ClusterId peer, const std::vector<exchange::ChunkAddress>& chunks);

  // ---- joining
  absl::StatusOr<std::shared_ptr<const endpoint::DeviceSnapshots>> Map(
      const trainers::ShareRequest& request, const loop::Descriptor& memory);
  void DropData();
  // What depends on the schema.
  struct Data {
    std::shared_ptr<const schema::Schema> schema;
    std::shared_ptr<const schema::Layout> layout;
    std::shared_ptr<endpoint::LocalEndpoint> endpoint;
    std::shared_ptr<outer::OuterState> outer;
    std::unique_ptr<exchange::Reserve> reserve;
  };
  absl::StatusOr<Data> MakeData(std::shared_ptr<const schema::Schema> schema) const;
  exchange::Context ExchangeContext(const Data& data);
  void Use(Data data);
  absl::Status BuildData(std::shared_ptr<const schema::Schema> schema);
  void SendJoined(trainers::Session& session, const trainers::JoinRequest& request);

  // ---- growth (run_growth.cc)
  bool Extends(const schema::Schema& schema) const;
  void JoinLarger(const trainers::Session& session, const trainers::JoinRequest& request,
                  std::shared_ptr<const schema::Schema> schema);
  void GrowSoon();
  void GrowIfQuiet();
  absl::Status GrowData(std::shared_ptr<const schema::Schema> schema);
  uint32_t FragmentsBefore() const;
  std::vector<engine::SchemaId> Extended() const;
  void StartFetches();
  void Fetch(const engine::FetchState& action);
  bool FetchesFit() const;
  std::optional<trainers::Problem> CheckJoin(const trainers::JoinRequest& request,
                                             const schema::Schema& schema) const;
  trainers::Terms TermsOf() const;
  uint64_t WindowBytes(const schema::Layout& layout) const;
  absl::Status CheckSlices(uint32_t rank, const std::vector<local::SliceRecord>& slices);
  bool WholeSlices();
  void LookAtOffer();
  void AnnounceTrainer(const engine::Hash256& parameters);
  void MaybeReady();
  void SendReady(bool matches, const std::vector<int64_t>& rounds);
  std::vector<int64_t> CommittedRounds() const;
  bool Committing() const;
  uint64_t HoldValues();
  void AllowValues(uint64_t hold);

  // ---- plans (run_plans.cc)
  void TellLeader();
  void MeasureSite();
  void OnLinkReport(engine::ClusterId from, const wan::v1::LinkReport& message);
  void ProposePlan();
  std::string SharesText(const planning::Plan& plan) const;
  std::string HarderText(const planning::Plan& plan) const;
  void FillPlan(admin::v1::PlanStatus* out) const;

  // ---- differences (run_differences.cc)
  void SendSchemaDetail(engine::ClusterId to);
  void OnSchemaDetail(engine::ClusterId from, const wan::v1::SchemaDetail& detail);
  void TellStranger(engine::ClusterId peer);
  void RefuseTrainer(const std::string& difference);
  void OnHashDetail(engine::ClusterId from, const wan::v1::HashDetail& detail);
  void Fail(const std::string& text, local::Code code, engine::ClusterId cluster,
            const std::string& tensor);

  // ---- operators (run_operators.cc)
  absl::StatusOr<std::string> Forget();
  void KeepOnDisk();
  absl::StatusOr<std::string> ChangeVoters(const admin::v1::ChangeRunRequest& request);
  absl::Status CheckFounded() const;

  // ---- operations
  // Calls visit(session, rank's number, rank) for each rank whose session is there.
  template <typename Visit>
  void ForEachRank(Visit visit) {
    if (!trainer_) return;
    for (auto& [number, rank] : trainer_->ranks) {
      if (trainers::Session* session = around_.find_session(rank.session)) {
        visit(*session, number, rank);
      }
    }
  }
  void EndTrainer(const trainers::Session& gone, bool left);
  void RefuseAll(const trainers::Problem& problem);
  std::optional<trainers::Problem> CheckSubmit(const trainers::Session& session,
                                               const trainers::SubmitRequest& request);
  void OnWhole(const LocalOp& op);
  void EndRefused(const LocalOp& op, const trainers::Problem& problem);
  void EndRebased(const LocalOp& op, std::string text);
  void MakeDigest();
  void HandOver(uint32_t fragment);
  void StandsOn(engine::FragmentId fragment, const engine::StateId& state);
  void Deliver(engine::FragmentId fragment);
  // To every rank that has submitted its part.
  void Report(const LocalOp& op, local::State state, const engine::OpChanged* change);
  trainers::OpReport ReportOf(const LocalOp& op, local::State state,
                              const engine::OpChanged* change) const;
  std::string Awaited(engine::ClusterSet clusters) const;
  // What the run waits for, in words.
  std::string ReasonOf(const engine::Status& status) const;
  std::string ForeignText(engine::ClusterSet clusters) const;

  const Surroundings around_;
  const config::Run config_;
  const Roster roster_;
  const engine::ClusterId self_;
  const engine::Hash256 algorithm_digest_;
  DurableFile file_;
  Checkpoints checkpoints_;
  RunNetwork network_;
  RunPlanning planning_;
  // Shared with tasks on workers, also of exchanges that ended.
  const std::shared_ptr<exchange::EntropyPool> entropy_ = std::make_shared<exchange::EntropyPool>();
  engine::Incarnation engine_incarnation_;

  std::unique_ptr<engine::Engine> engine_;
  std::deque<engine::Event> events_;
  bool driving_ = false;
  loop::TimerId timer_ = 0;
  loop::TimerId persist_timer_ = 0;

  std::shared_ptr<const schema::Schema> schema_;       // shared with endpoint and workers
  std::shared_ptr<const schema::Layout> layout_;       // shared with sessions and workers
  std::shared_ptr<endpoint::LocalEndpoint> endpoint_;  // shared with tasks on workers
  std::shared_ptr<outer::OuterState> outer_;           // shared with tasks on workers
  std::unique_ptr<exchange::Reserve> reserve_;
  std::unique_ptr<exchange::Exchange> exchange_;
  std::vector<bool> adopted_;  // by fragment: a value of the run is here
  // Fetches that the engine asked for before a trainer has said what the tensors are.
  std::map<engine::FragmentId, engine::FetchState> fetches_;
  std::map<uint64_t, std::shared_ptr<void>> value_holds_;  // commits wait while workers read values
  uint64_t value_hold_ = 0;

  // Joins with other tensors than the data here, of a run that exists, until no fragment is under way.
  struct Growing {
    std::shared_ptr<const schema::Schema> schema;
    std::map<uint64_t, trainers::JoinRequest> joins;  // by session
  };
  std::optional<Growing> growing_;
  bool grow_posted_ = false;

  std::optional<LocalTrainer> trainer_;
  bool checking_ready_ = false;

  // A refused join waits for the other side's words, so that the difference can be named.
  std::optional<engine::JoinRefused> refused_;
  std::map<engine::ClusterId, wan::v1::SchemaDetail> details_;  // newest of each peer
  // A run that cannot go on.
  std::optional<engine::Fatal> fatal_;
  std::string failure_;
  loop::TimerId refusal_timer_ = 0;  // until a refusal goes without its detail
  loop::TimerId fatal_timer_ = 0;    // likewise a difference of results

  bool draining_ = false;
  bool residual_lost_ = false;
  bool finished_ = false;
  BadChunks bad_chunks_;
  std::string stall_reason_;
  uint64_t rounds_committed_ = 0;
  uint64_t rounds_excluded_ = 0;
  uint64_t chunk_bytes_received_ = 0;
  std::vector<double> last_round_s_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // tasks hold a weak reference
};

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_RUN_H_
