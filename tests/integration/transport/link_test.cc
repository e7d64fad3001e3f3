// Links on loopback: coming up, messages, chunks both ways, credits, and going down.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/transport/recorder.h"
#include "tests/integration/transport/tcp_proxy.h"

namespace causeway::transport {
namespace {

using Notes = Recorder::Notes;

constexpr uint64_t kWindow = 8 << 20;

// Payloads that a reader keeps, and a way to wait for some.
class Shelf {
 public:
  void Put(memory::Buffer payload) {
    absl::MutexLock lock(&mutex_);
    held_.push_back(std::move(payload));
    changed_.Signal();
  }
  // All that are there, once there are some; none after kPatience.
  std::vector<memory::Buffer> Take() {
    const absl::Time deadline = absl::Now() + kPatience;
    absl::MutexLock lock(&mutex_);
    while (held_.empty() && !changed_.WaitWithTimeout(&mutex_, deadline - absl::Now())) {
    }
    return std::exchange(held_, {});
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<memory::Buffer> held_;
};

// Chunks are consumed as they come: the buffer is freed and its credit returned.
void ConsumeAtOnce(Gateway& gateway) {
  gateway.recorder.on_chunk = [&gateway](const std::string& peer, const ChunkHeader& header,
                                         memory::Buffer payload) {
    const size_t bytes = payload.size();
    payload.Reset();
    gateway.transport().ReturnCredit(peer, header.run, bytes);
  };
}

TEST_CASE("a link comes up, carries messages in order and chunks both ways, and says goodbye") {
  Gateway paris("paris", "tokyo", 11);
  Gateway tokyo("tokyo", "paris", 22);
  tokyo.AddPeer("paris", "");
  ConsumeAtOnce(paris);
  ConsumeAtOnce(tokyo);
  tokyo.Start();
  paris.AddPeer("tokyo", tokyo.address());
  paris.Start();
  REQUIRE(paris.WaitUp("tokyo"));
  REQUIRE(tokyo.WaitUp("paris"));
  CHECK(paris.recorder.notes().up["tokyo"] == 22);
  CHECK(tokyo.recorder.notes().up["paris"] == 11);
  CHECK(paris.recorder.notes().links[0].dialled_here);
  CHECK_FALSE(tokyo.recorder.notes().links[0].dialled_here);
  CHECK(tokyo.recorder.notes().links[0].version == kVersionMax);
  REQUIRE(paris.WaitLanes("tokyo", 4));
  REQUIRE(tokyo.WaitLanes("paris", 4));

  REQUIRE(paris.transport().SetWindow("tokyo", "demo", kWindow).ok());
  REQUIRE(tokyo.transport().SetWindow("paris", "demo", kWindow).ok());
  constexpr uint32_t kMessages = 500;
  constexpr uint32_t kChunks = 200;
  for (uint32_t i = 0; i < kMessages; ++i) REQUIRE(paris.SendReady("tokyo", "demo", i).ok());
  for (uint32_t i = 0; i < kChunks; ++i) {
    const size_t bytes = i % 10 == 0 ? i : 100000 + i;
    REQUIRE(paris.SendChunk("tokyo", "demo", 1, i, bytes).ok());
    REQUIRE(tokyo.SendChunk("paris", "demo", 2, i, bytes).ok());
  }
  for (Gateway* gateway : {&paris, &tokyo}) {
    REQUIRE(gateway->recorder.Wait([](const Notes& notes) {
      return notes.chunks.size() >= kChunks && notes.done.size() >= kChunks;
    }));
    const Notes notes = gateway->recorder.notes();
    CHECK(notes.chunks.size() == kChunks);
    CHECK(notes.done.size() == kChunks);
    std::set<uint32_t> indices;
    for (const ChunkNote& note : notes.chunks) {
      indices.insert(note.header.index);
      CHECK(note.intact);
      CHECK(note.bytes ==
            (note.header.index % 10 == 0 ? note.header.index : 100000 + note.header.index));
    }
    CHECK(indices.size() == kChunks);
    for (const auto& [header, status] : notes.done) CHECK(status.ok());
  }
  REQUIRE(
      tokyo.recorder.Wait([](const Notes& notes) { return notes.messages.size() >= kMessages; }));
  const Notes notes = tokyo.recorder.notes();
  for (uint32_t i = 0; i < kMessages; ++i)
    CHECK(notes.messages[i] == std::make_pair(std::string("demo"), i));

  PeerStatus status = paris.Peer("tokyo");
  CHECK(status.state == PeerState::kUp);
  CHECK(status.chunks_sent == kChunks);
  CHECK(status.chunks_resent == 0);
  CHECK(status.bytes_queued == 0);
  CHECK(status.rtt > absl::ZeroDuration());
  CHECK(tokyo.Peer("paris").rtt > absl::ZeroDuration());
  CHECK(notes.progress > 0);
  // A control stream and four lanes, each on a connection of its own.
  CHECK(paris.WaitStatus("tokyo", [](const PeerStatus& s) {
    return s.tcp_connections == 5 && s.tcp_segments_sent > 0;
  }));
  CHECK(tokyo.WaitStatus("paris", [](const PeerStatus& s) { return s.tcp_connections == 5; }));

  paris.transport().Drain(absl::Seconds(20));
  REQUIRE(tokyo.recorder.Wait([](const Notes& n) { return !n.downs.empty(); }));
  CHECK(std::string(tokyo.recorder.notes().downs[0].message()).find("goodbye") !=
        std::string::npos);
  CHECK(paris.recorder.notes().downs.size() == 1);
}

TEST_CASE("nothing is sent to a peer without a link, and chunks wait for credit") {
  Gateway paris("paris", "tokyo");
  Gateway tokyo("tokyo", "paris");
  tokyo.AddPeer("paris", "");
  ConsumeAtOnce(tokyo);
  tokyo.Start();
  CHECK(absl::IsUnavailable(tokyo.SendReady("paris", "demo", 1)));
  CHECK(absl::IsUnavailable(tokyo.SendChunk("paris", "demo", 1, 1, 10)));
  CHECK(absl::IsNotFound(tokyo.SendReady("oslo", "demo", 1)));
  CHECK(absl::IsInvalidArgument(tokyo.transport().SetWindow("paris", "demo", kWindowBytesMin - 1)));

  paris.AddPeer("tokyo", tokyo.address());
  paris.Start();
  REQUIRE(paris.WaitUp("tokyo"));
  REQUIRE(paris.WaitLanes("tokyo", 4));
  for (uint32_t i = 0; i < 20; ++i) REQUIRE(paris.SendChunk("tokyo", "demo", 1, i, 50000).ok());
  // A message overtakes what has no credit.
  REQUIRE(paris.SendReady("tokyo", "demo", 1).ok());
  REQUIRE(tokyo.recorder.Wait([](const Notes& notes) { return notes.messages.size() == 1; }));
  CHECK(paris.Peer("tokyo").chunks_queued == 20);
  CHECK(tokyo.recorder.notes().chunks.empty());

  paris.transport().CancelChunks("tokyo",
                                 [](const ChunkHeader& header) { return header.index >= 15; });
  REQUIRE(paris.recorder.Wait([](const Notes& notes) { return notes.done.size() == 5; }));
  for (const auto& [header, status] : paris.recorder.notes().done) CHECK(absl::IsCancelled(status));
  REQUIRE(tokyo.transport().SetWindow("paris", "demo", kWindow).ok());
  REQUIRE(paris.recorder.Wait([](const Notes& notes) { return notes.done.size() == 20; }));
  CHECK(tokyo.recorder.notes().chunks.size() == 15);
}

TEST_CASE("a reader that stalls bounds what both sides hold; others go on") {
  Gateway paris("paris", "tokyo");
  Gateway tokyo("tokyo", "paris");
  tokyo.AddPeer("paris", "");
  tokyo.budget_bytes = 24 << 20;
  tokyo.cached_bytes = 4 << 20;
  Shelf stalled;
  tokyo.recorder.on_chunk = [&](const std::string& peer, const ChunkHeader& header,
                                memory::Buffer payload) {
    if (header.run == "stalled") {
      stalled.Put(std::move(payload));
      return;
    }
    const size_t bytes = payload.size();
    payload.Reset();
    tokyo.transport().ReturnCredit(peer, header.run, bytes);
  };
  tokyo.Start();
  paris.AddPeer("tokyo", tokyo.address());
  paris.Start();
  REQUIRE(paris.WaitLanes("tokyo", 4));
  REQUIRE(tokyo.transport().SetWindow("paris", "stalled", 4 << 20).ok());
  REQUIRE(tokyo.transport().SetWindow("paris", "flowing", 4 << 20).ok());
  for (uint32_t i = 0; i < 300; ++i) {
    REQUIRE(paris.SendChunk("tokyo", "stalled", 1, i, 128 << 10).ok());
    REQUIRE(paris.SendChunk("tokyo", "flowing", 1, i, 128 << 10).ok());
  }
  const auto of_run = [](const Notes& notes, const std::string& run) {
    return std::count_if(notes.chunks.begin(), notes.chunks.end(),
                         [&](const ChunkNote& note) { return note.header.run == run; });
  };
  REQUIRE(tokyo.recorder.Wait([&](const Notes& notes) { return of_run(notes, "flowing") == 300; }));
  CHECK(of_run(tokyo.recorder.notes(), "stalled") == 32);  // 4 MiB of 128 KiB
  CHECK(paris.Peer("tokyo").chunks_queued == 268);
  CHECK(tokyo.budget().usage().peak_bytes <= 24 << 20);
  CHECK(tokyo.Peer("paris").chunks_without_memory == 0);

  // The reader wakes: everything arrives.
  tokyo.recorder.Clear();
  size_t returned = 0;
  while (returned < 300) {
    std::vector<memory::Buffer> ready = stalled.Take();
    REQUIRE_FALSE(ready.empty());
    for (memory::Buffer& buffer : ready) {
      const size_t bytes = buffer.size();
      buffer.Reset();
      tokyo.transport().ReturnCredit("paris", "stalled", bytes);
      ++returned;
    }
  }
  REQUIRE(paris.recorder.Wait([](const Notes& notes) { return notes.done.size() == 600; }));
}

TEST_CASE("a lane waits when the pool is full, and goes on when it is not") {
  Gateway paris("paris", "tokyo");
  Gateway tokyo("tokyo", "paris");
  tokyo.AddPeer("paris", "");
  tokyo.budget_bytes = 1 << 20;  // less than the window: somebody else has the rest
  tokyo.cached_bytes = 0;
  Shelf held;
  tokyo.recorder.on_chunk = [&](const std::string&, const ChunkHeader&, memory::Buffer payload) {
    held.Put(std::move(payload));
  };
  tokyo.Start();
  paris.AddPeer("tokyo", tokyo.address());
  paris.Start();
  REQUIRE(paris.WaitLanes("tokyo", 4));
  REQUIRE(tokyo.transport().SetWindow("paris", "demo", kWindow).ok());
  for (uint32_t i = 0; i < 40; ++i) REQUIRE(paris.SendChunk("tokyo", "demo", 1, i, 128 << 10).ok());
  REQUIRE(tokyo.WaitStatus(
      "paris", [](const PeerStatus& status) { return status.chunks_without_memory > 0; }));
  for (size_t freed = 0; freed < 40;) {
    const size_t some = held.Take().size();
    REQUIRE(some > 0);
    freed += some;
  }
  REQUIRE(paris.recorder.Wait([](const Notes& notes) { return notes.done.size() == 40; }));
  const Notes notes = tokyo.recorder.notes();
  CHECK(notes.chunks.size() == 40);
  CHECK(std::all_of(notes.chunks.begin(), notes.chunks.end(),
                    [](const ChunkNote& n) { return n.intact; }));
}

TEST_CASE("IPv6 and names are dialled like any address") {
  Gateway tokyo("tokyo", "paris");
  tokyo.AddPeer("paris", "");
  tokyo.config.listen = "[::]:0";
  tokyo.Start();
  for (const char* host : {"[::1]", "localhost", "127.0.0.1"}) {
    CAPTURE(host);
    Gateway paris("paris", "tokyo");
    paris.AddPeer("tokyo", absl::StrCat(host, ":", tokyo.transport().port()));
    paris.Start();
    REQUIRE(paris.WaitLanes("tokyo", 4));
    CHECK(paris.WaitStatus("tokyo", [](const PeerStatus& s) { return s.tcp_connections == 5; }));
    paris.Stop();
    REQUIRE(tokyo.recorder.Wait([](const Notes& n) { return n.up.empty(); }));
  }
}

// 192.0.2.1 is nobody's (RFC 5737): what matters is that it is taken up, and loopback is not.
TEST_CASE("an advertised address is dialled by a peer that has none, unless it leads back") {
  Gateway paris("paris", "tokyo", 11);
  Gateway tokyo("tokyo", "paris", 22);
  tokyo.AddPeer("paris", "");
  const bool good = GENERATE(true, false);
  CAPTURE(good);
  paris.config.advertise = good ? "192.0.2.1:7443" : "127.0.1.1:7443";
  tokyo.Start();
  paris.AddPeer("tokyo", tokyo.address());
  paris.Start();
  REQUIRE(tokyo.WaitUp("paris"));
  if (good) {
    CHECK(tokyo.Peer("paris").address == "192.0.2.1:7443");
    CHECK(tokyo.recorder.notes().refused.empty());
  } else {
    REQUIRE(tokyo.recorder.Wait([](const Notes& n) { return !n.refused.empty(); }));
    CHECK(std::string(tokyo.recorder.notes().refused[0].message()).find("leads back here") !=
          std::string::npos);
    CHECK(tokyo.Peer("paris").address.empty());
  }
}

}  // namespace
}  // namespace causeway::transport
