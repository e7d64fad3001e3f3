// The daemon as a switchboard: from the trainers' socket, the transport and the admin service to
// the run that is meant. What names no run, or a run that the peer is no member of, ends here.
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/observe/events.h"
#include "daemon/run/daemon.h"
#include "daemon/run/version.h"
#include "proto/admin.pb.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

constexpr std::chrono::seconds kAdminWait{5};

absl::Status Busy() {
  return absl::UnavailableError("the gateway is busy or shutting down; try again");
}

const char* StateName(transport::PeerState state) {
  switch (state) {
    case transport::PeerState::kDown:
      return "down";
    case transport::PeerState::kConnecting:
      return "connecting";
    case transport::PeerState::kUp:
      return "up";
  }
  return "unknown";
}

void FillRate(const transport::DirectionRate& rate, admin::v1::RateStatus* out) {
  if (rate.bytes_per_s <= 0) return;
  out->set_bytes_per_s(rate.bytes_per_s);
  out->set_age_s(absl::ToDoubleSeconds(rate.age));
  out->set_confidence(rate.confidence);
}

}  // namespace

// ---------------------------------------------------------------- trainers

std::optional<trainers::Problem> Daemon::OnHello(trainers::Session& session) {
  Run* run = FindRun(session.run());
  if (run != nullptr) return run->OnHello(session);
  trainers::Problem problem;
  problem.code = local::Code::kRun;
  problem.fatal = true;
  std::vector<std::string> names;
  for (const std::unique_ptr<Run>& known : runs_) names.push_back(known->name());
  problem.text =
      absl::StrCat("no run '", session.run(), "' in this gateway's configuration; it has: ",
                   names.empty() ? "none" : absl::StrJoin(names, ", "));
  return problem;
}

void Daemon::OnJoin(trainers::Session& session, const trainers::JoinRequest& request,
                    schema::Schema schema) {
  FindRun(session.run())->OnJoin(session, request, std::move(schema));
}
void Daemon::OnShare(trainers::Session& session, const trainers::ShareRequest& request,
                     loop::Descriptor memory) {
  FindRun(session.run())->OnShare(session, request, memory);
}
void Daemon::OnOffer(trainers::Session& session, const trainers::OfferRequest& request,
                     std::vector<local::SliceRecord> slices) {
  FindRun(session.run())->OnOffer(session, request, std::move(slices));
}
void Daemon::OnSubmit(trainers::Session& session, const trainers::SubmitRequest& request) {
  FindRun(session.run())->OnSubmit(session, request);
}
void Daemon::OnApplied(trainers::Session& session, const trainers::AppliedRequest& request) {
  FindRun(session.run())->OnApplied(session, request);
}
void Daemon::OnAbandon(trainers::Session& session, uint64_t sequence, uint64_t op) {
  FindRun(session.run())->OnAbandon(session, sequence, op);
}
void Daemon::OnQuery(trainers::Session& session, uint64_t sequence, uint64_t op_session,
                     uint64_t op) {
  FindRun(session.run())->OnQuery(session, sequence, op_session, op);
}
void Daemon::OnAwait(trainers::Session& session, uint64_t sequence, uint64_t op) {
  FindRun(session.run())->OnAwait(session, sequence, op);
}
void Daemon::OnFinish(trainers::Session& session, uint64_t sequence) {
  FindRun(session.run())->OnFinish(session, sequence);
}
void Daemon::OnTurnedAway(const absl::Status& reason) {
  log_->Warning(
      event::kTrainerRefused, {},
      absl::StrCat("a connection to the trainers' socket was closed: ", reason.message()));
}
void Daemon::OnGone(trainers::Session& session, trainers::Gone gone, const std::string& detail) {
  FindRun(session.run())->OnGone(session, gone, detail);
}

// ---------------------------------------------------------------- peers

// Runs that the peer is a member of.
template <typename Function>
void Daemon::ForRunsOf(const std::string& peer, Function function) {
  for (std::unique_ptr<Run>& run : runs_) {
    if (run->HasPeer(peer)) function(*run);
  }
}

void Daemon::OnPeerUp(const std::string& peer, uint64_t incarnation,
                      const transport::LinkInfo& info) {
  OnLoop([this, peer, incarnation, info] {
    log_->Info(event::kPeerUp,
               {{"peer", peer},
                {"address", info.remote},
                {"dialled_here", info.dialled_here},
                {"version", info.version},
                {"software", info.peer_software}},
               "link established");
    ForRunsOf(peer, [&](Run& run) { run.OnPeerUp(peer, incarnation); });
  });
}

void Daemon::OnPeerDown(const std::string& peer, const absl::Status& reason) {
  OnLoop([this, peer, reason] {
    if (absl::IsAborted(reason)) {
      log_->Info(event::kPeerRelinked, {{"peer", peer}}, std::string(reason.message()));
    } else {
      log_->Warning(event::kPeerDown, {{"peer", peer}}, std::string(reason.message()));
    }
    ForRunsOf(peer, [&](Run& run) { run.OnPeerDown(peer); });
  });
}

void Daemon::OnRunMessage(const std::string& peer, wan::v1::RunMessage&& message) {
  auto held = std::make_shared<wan::v1::RunMessage>(std::move(message));  // functions are copied
  OnLoop([this, peer, held] {
    Run* run = FindRun(held->run());
    if (run != nullptr && run->HasPeer(peer)) {
      run->OnRunMessage(peer, *held);
      return;
    }
    metrics_.authorisation_denied.With({"run"}).Add(1);
    log_->Warning(event::kPeerRefused, {{"peer", peer}, {"run", held->run()}},
                  run == nullptr ? "no such run in this gateway's configuration"
                                 : "the peer is no member of this run");
  });
}

void Daemon::OnChunk(const std::string& peer, const transport::ChunkHeader& header,
                     memory::Buffer payload) {
  auto held = std::make_shared<memory::Buffer>(std::move(payload));  // functions are copied
  OnLoop([this, peer, header, held] {
    Run* run = FindRun(header.run);
    if (run != nullptr && run->HasPeer(peer)) {
      run->OnChunk(peer, header, std::move(*held));
      return;
    }
    transport_->ReturnCredit(peer, header.run, held->size());
    metrics_.authorisation_denied.With({"run"}).Add(1);
  });
}

void Daemon::OnChunkDone(const std::string& peer, const transport::ChunkHeader& header,
                         const absl::Status& status) {
  OnLoop([this, peer, header, status] {
    Run* run = FindRun(header.run);
    if (run != nullptr) run->OnChunkDone(peer, header, status);
  });
}

void Daemon::OnLaneBroken(const std::string& peer, int lane, const absl::Status& reason) {
  log_->Info(event::kLaneBroken, {{"peer", peer}, {"lane", lane}}, std::string(reason.message()));
}

void Daemon::OnProgress(const std::string& peer) {
  OnLoop([this, peer] { ForRunsOf(peer, [&](Run& run) { run.OnProgress(peer); }); });
}

void Daemon::OnRefused(const std::string& remote, const std::string& peer,
                       const absl::Status& reason) {
  metrics_.authorisation_denied.With({"identity"}).Add(1);
  log_->Warning(event::kPeerRefused, {{"address", remote}, {"peer", peer}},
                std::string(reason.message()));
}

// ---------------------------------------------------------------- operators

absl::Status Daemon::FillStatus(admin::v1::StatusReply* reply) {
  auto done =
      std::make_shared<std::promise<admin::v1::StatusReply>>();  // outlives a caller that left
  std::future<admin::v1::StatusReply> answer = done->get_future();
  OnLoop([this, done] {
    admin::v1::StatusReply out;
    out.set_cluster(config_.cluster);
    out.set_software(absl::StrCat("causeway ", kVersion));
    out.set_incarnation(incarnation_);
    out.set_uptime_s(static_cast<double>(loop::Now() - started_us_) / 1e6);
    out.set_draining(draining_);
    out.set_trainers(static_cast<uint32_t>(trainers_->Sessions().size()));
    const transport::TransportStatus status = transport_->Status();
    for (const transport::PeerStatus& peer : status.peers) {
      admin::v1::PeerStatus* p = out.add_peers();
      p->set_cluster(peer.cluster);
      p->set_state(StateName(peer.state));
      p->set_address(peer.address);
      if (peer.state == transport::PeerState::kUp) {
        p->set_dialled_by(peer.dialled_here ? config_.cluster : peer.cluster);
      }
      p->set_incarnation(peer.incarnation);
      p->set_lanes_up(static_cast<uint32_t>(peer.lanes_up));
      p->set_lanes_wanted(static_cast<uint32_t>(peer.lanes_wanted));
      p->set_rtt_ms(absl::ToDoubleMilliseconds(peer.rtt));
      p->set_silent_s(absl::ToDoubleSeconds(peer.silent));
      p->set_payload_bytes_sent(peer.payload_bytes_sent);
      p->set_payload_bytes_received(peer.payload_bytes_received);
      p->set_chunks_resent(peer.chunks_resent);
      p->set_last_error(peer.last_error);
      p->set_lanes_reason(peer.lanes_reason);
      p->set_relay(peer.relay);
      p->set_bytes_resent(peer.bytes_resent);
      p->set_tcp_segments_sent(peer.tcp_segments_sent);
      p->set_tcp_segments_resent(peer.tcp_segments_resent);
      absl::MutexLock lock(&certificates_mutex_);
      auto proven = authenticated_.find(peer.cluster);
      if (proven != authenticated_.end()) {
        p->set_certificate_not_after_unix_s(proven->second.certificate.not_after_s);
      }
    }
    const std::vector<transport::PeerRates> rates = transport_->Rates();
    for (admin::v1::PeerStatus& p : *out.mutable_peers()) {
      for (const transport::PeerRates& rate : rates) {
        if (rate.cluster != p.cluster()) continue;
        FillRate(rate.send, p.mutable_send_rate());
        FillRate(rate.receive, p.mutable_receive_rate());
      }
    }
    for (const transport::RelayedPair& pair : status.relayed) {
      admin::v1::RelayStatus* relayed = out.add_relayed();
      relayed->set_first(pair.first);
      relayed->set_second(pair.second);
      relayed->set_tunnels(static_cast<uint32_t>(pair.tunnels));
      relayed->set_bytes(pair.bytes);
    }
    for (const std::unique_ptr<Run>& run : runs_) run->FillStatus(out.add_runs());
    const memory::Usage total = budget_->usage();
    out.mutable_memory()->set_budget_bytes(total.limit_bytes);
    out.mutable_memory()->set_used_bytes(total.used_bytes);
    out.mutable_memory()->set_peak_bytes(total.peak_bytes);
    for (const memory::Usage& usage : budget_->accounts()) {
      (*out.mutable_memory()->mutable_used_by())[usage.name] = usage.used_bytes;
    }
    done->set_value(std::move(out));
  });
  if (closing_ || answer.wait_for(kAdminWait) != std::future_status::ready) return Busy();
  *reply = answer.get();
  return absl::OkStatus();
}

absl::StatusOr<std::string> Daemon::ChangeRun(const admin::v1::ChangeRunRequest& request) {
  // Outlives a caller that left.
  auto done = std::make_shared<std::promise<absl::StatusOr<std::string>>>();
  std::future<absl::StatusOr<std::string>> answer = done->get_future();
  OnLoop([this, done, request] {
    if (Run* run = FindRun(request.run())) {
      done->set_value(run->Change(request));
      return;
    }
    std::vector<std::string> names;
    for (const std::unique_ptr<Run>& known : runs_) names.push_back(known->name());
    done->set_value(absl::NotFoundError(
        absl::StrCat("no run '", request.run(),
                     "'; configured: ", names.empty() ? "none" : absl::StrJoin(names, ", "))));
  });
  if (closing_ || answer.wait_for(kAdminWait) != std::future_status::ready) return Busy();
  return answer.get();
}

}  // namespace causeway::run
