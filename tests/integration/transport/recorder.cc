#include "tests/integration/transport/recorder.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <catch2/catch.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/wan.pb.h"

namespace causeway::transport {
namespace {

uint64_t Mix(uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccd;
  value ^= value >> 33;
  return value;
}

std::byte PayloadByte(const ChunkHeader& header, size_t index) {
  return static_cast<std::byte>(Mix((static_cast<uint64_t>(header.round) << 40) +
                                    (uint64_t{header.index} << 24) + index / 8) >>
                                (index % 8 * 8));
}

}  // namespace

void FillPayload(const ChunkHeader& header, absl::Span<std::byte> payload) {
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = PayloadByte(header, i);
}

bool CheckPayload(const ChunkHeader& header, absl::Span<const std::byte> payload) {
  for (size_t i = 0; i < payload.size(); ++i) {
    if (payload[i] != PayloadByte(header, i)) return false;
  }
  return true;
}

bool Recorder::Wait(const std::function<bool(const Notes&)>& condition) {
  const absl::Time deadline = absl::Now() + kPatience;
  absl::MutexLock lock(&mutex_);
  while (!condition(notes_)) {
    if (changed_.WaitWithTimeout(&mutex_, deadline - absl::Now())) return condition(notes_);
  }
  return true;
}

Recorder::Notes Recorder::notes() {
  absl::MutexLock lock(&mutex_);
  return notes_;
}

void Recorder::Clear() {
  absl::MutexLock lock(&mutex_);
  auto up = notes_.up;
  auto faults = notes_.faults;
  notes_ = Notes();
  notes_.up = std::move(up);
  notes_.faults = std::move(faults);
}

void Recorder::OnPeerUp(const std::string& peer, uint64_t incarnation, const LinkInfo& info) {
  {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
    changed_.SignalAll();
    if (notes_.up.count(peer) != 0) notes_.faults.push_back("up twice: " + peer);
    notes_.up[peer] = incarnation;
    notes_.links.push_back(info);
  }
  if (on_up) on_up(peer);
}

void Recorder::OnPeerDown(const std::string& peer, const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  changed_.SignalAll();
  if (notes_.up.erase(peer) == 0) notes_.faults.push_back("down without up: " + peer);
  notes_.downs.push_back(reason);
}

void Recorder::OnRunMessage(const std::string&, wan::v1::RunMessage&& message) {
  absl::MutexLock lock(&mutex_);
  changed_.SignalAll();
  notes_.messages.emplace_back(message.run(), message.ready().fragment());
  notes_.message_times.push_back(absl::Now());
}

void Recorder::OnChunk(const std::string& peer, const ChunkHeader& header, memory::Buffer payload) {
  const ChunkNote note{header, payload.size(), CheckPayload(header, payload.span())};
  if (on_chunk) on_chunk(peer, header, std::move(payload));
  absl::MutexLock lock(&mutex_);
  changed_.SignalAll();
  notes_.chunks.push_back(note);
}

void Recorder::OnChunkDone(const std::string&, const ChunkHeader& header,
                           const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  changed_.SignalAll();
  notes_.done.emplace_back(header, status);
}

void Recorder::OnProgress(const std::string&) {
  absl::MutexLock lock(&mutex_);
  changed_.SignalAll();
  ++notes_.progress;
}

void Recorder::OnLaneBroken(const std::string&, int, const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  changed_.SignalAll();
  notes_.lanes_broken.push_back(reason);
}

void Recorder::OnRefused(const std::string&, const std::string&, const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  changed_.SignalAll();
  notes_.refused.push_back(reason);
}

Gateway::Gateway(std::string cluster, std::string believed_peer, uint64_t incarnation) {
  config.cluster = std::move(cluster);
  config.incarnation = incarnation;
  config.software = "test";
  config.listen = "127.0.0.1:0";
  config.server_credentials = grpc::InsecureServerCredentials();
  config.identity = [peer = std::move(believed_peer)](const grpc::AuthContext&,
                                                      const std::string&) { return peer; };
}

Gateway::~Gateway() { Stop(); }

void Gateway::AddPeer(const std::string& cluster, const std::string& address) {
  config.peers.push_back({cluster, address, grpc::InsecureChannelCredentials()});
}

void Gateway::Start() {
  budget_ = memory::Budget::Create(budget_bytes);
  pool_ = std::make_unique<memory::BufferPool>(budget_, *budget_->Open("transport"), cached_bytes);
  auto created = Transport::Create(config, pool_.get(), &recorder);
  INFO(created.status());
  REQUIRE(created.ok());
  transport_ = std::move(*created);
  const absl::Status started = transport_->Start();
  INFO(started);
  REQUIRE(started.ok());
}

void Gateway::Stop() {
  if (transport_ == nullptr) return;
  transport_->Stop();
  CHECK(recorder.notes().faults.empty());
}

std::string Gateway::address() const { return absl::StrCat("127.0.0.1:", transport_->port()); }

bool Gateway::WaitUp(const std::string& peer) {
  return recorder.Wait([&](const Recorder::Notes& notes) { return notes.up.count(peer) != 0; });
}

bool Gateway::WaitStatus(const std::string& peer,
                         const std::function<bool(const PeerStatus&)>& condition) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline) {
    if (condition(Peer(peer))) return true;
    absl::SleepFor(absl::Milliseconds(2));  // polls a snapshot; the condition decides
  }
  return false;
}

bool Gateway::WaitLanes(const std::string& peer, int lanes) {
  return WaitStatus(peer, [lanes](const PeerStatus& status) { return status.lanes_up == lanes; });
}

PeerStatus Gateway::Peer(const std::string& peer) {
  PeerStatus found;  // stays empty while a starved poller has not given any status
  for (PeerStatus& status : transport_->Status().peers) {
    if (status.cluster == peer) found = std::move(status);
  }
  return found;
}

absl::Status Gateway::SendChunk(const std::string& peer, const std::string& run, int64_t round,
                                uint32_t index, size_t bytes, uint64_t priority) {
  ChunkHeader header;
  header.run = run;
  header.epoch = {1, config.cluster};
  header.round = round;
  header.incarnation = config.incarnation;
  header.index = index;
  absl::StatusOr<memory::Buffer> payload = pool_->Allocate(bytes);
  if (!payload.ok()) return payload.status();
  FillPayload(header, payload->span());
  return transport_->SendChunk(peer, header, memory::SharedBuffer(std::move(*payload)), priority);
}

absl::Status Gateway::SendLongMessage(const std::string& peer, const std::string& run,
                                      size_t bytes) {
  wan::v1::RunMessage message;
  message.set_run(run);
  message.mutable_schema_detail()->add_tensors(std::string(bytes, 't'));
  return transport_->SendRunMessage(peer, message);
}

absl::Status Gateway::SendReady(const std::string& peer, const std::string& run,
                                uint32_t fragment) {
  wan::v1::RunMessage message;
  message.set_run(run);
  message.mutable_ready()->set_fragment(fragment);
  return transport_->SendRunMessage(peer, message);
}

}  // namespace causeway::transport
