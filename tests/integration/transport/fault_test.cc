// Links under faults: lanes cut and frozen, links cut and frozen, processes that restart. The proxy
// does it; the tests wait for what must follow.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/transport/recorder.h"
#include "tests/integration/transport/tcp_proxy.h"

namespace causeway::transport {
namespace {

using Notes = Recorder::Notes;

constexpr uint64_t kWindow = 16 << 20;
constexpr size_t kBytes = 128 << 10;

// paris dials tokyo through a proxy.
struct Pair {
  explicit Pair(absl::Duration peer_timeout)
      : paris("paris", "tokyo", 11), tokyo("tokyo", "paris", 22) {
    paris.config.peer_timeout = tokyo.config.peer_timeout = peer_timeout;
    tokyo.AddPeer("paris", "");
    tokyo.recorder.on_chunk = [this](const std::string& peer, const ChunkHeader& header,
                                     memory::Buffer payload) {
      const size_t bytes = payload.size();
      payload.Reset();
      tokyo.transport().ReturnCredit(peer, header.run, bytes);
    };
    tokyo.Start();
    proxy = std::make_unique<TcpProxy>(tokyo.transport().port());
    paris.AddPeer("tokyo", proxy->address());
    paris.Start();
    REQUIRE(paris.WaitLanes("tokyo", 4));
    REQUIRE(tokyo.WaitLanes("paris", 4));
    FindControl();
  }

  void Open() { REQUIRE(tokyo.transport().SetWindow("paris", "demo", kWindow).ok()); }

  // A long message tells the control stream from the lanes, which carried only their hellos so far.
  void FindControl() {
    REQUIRE(paris.SendLongMessage("tokyo", "demo", 64 << 10).ok());
    REQUIRE(tokyo.recorder.Wait([](const Notes& n) { return n.messages.size() == 1; }));
    for (uint64_t id : proxy->Connections()) {
      if (control == 0 || proxy->Bytes(id) > proxy->Bytes(control)) control = id;
    }
    tokyo.recorder.Clear();
  }

  // The lane that carried most; 0: none is connected at the moment.
  uint64_t BusiestLane() {
    uint64_t best = 0;
    for (uint64_t id : proxy->Connections()) {
      if (id != control && (best == 0 || proxy->Bytes(id) > proxy->Bytes(best))) best = id;
    }
    return best;
  }

  uint64_t control = 0;
  Gateway paris;
  Gateway tokyo;
  std::unique_ptr<TcpProxy> proxy;
};

std::map<uint32_t, int> CountByIndex(const std::vector<ChunkNote>& chunks) {
  std::map<uint32_t, int> counts;
  for (const ChunkNote& note : chunks) ++counts[note.header.index];
  return counts;
}

TEST_CASE("a lane that is cut mid-flood costs only the chunks on it") {
  Pair pair(absl::Seconds(10));
  pair.Open();
  constexpr uint32_t kChunks = 600;
  for (uint32_t i = 0; i < kChunks; ++i)
    REQUIRE(pair.paris.SendChunk("tokyo", "demo", 1, i, kBytes).ok());
  for (uint32_t cuts = 1; cuts <= 3; ++cuts) {
    REQUIRE(
        pair.tokyo.recorder.Wait([&](const Notes& n) { return n.chunks.size() >= cuts * 100; }));
    REQUIRE(pair.proxy->Cut(pair.BusiestLane()));
  }
  REQUIRE(pair.paris.recorder.Wait([](const Notes& n) { return n.done.size() >= kChunks; }));

  const Notes sent = pair.paris.recorder.notes();
  const Notes received = pair.tokyo.recorder.notes();
  CHECK(sent.done.size() == kChunks);
  CHECK(
      std::all_of(sent.done.begin(), sent.done.end(), [](const auto& d) { return d.second.ok(); }));
  CHECK(received.chunks.size() == kChunks);
  CHECK(CountByIndex(received.chunks).size() == kChunks);
  CHECK(std::all_of(received.chunks.begin(), received.chunks.end(),
                    [](const auto& c) { return c.intact; }));
  CHECK(sent.downs.empty());
  CHECK(received.downs.empty());

  const PeerStatus status = pair.paris.Peer("tokyo");
  CHECK(status.lanes_broken == 3);
  CHECK(status.chunks_resent > 0);
  CHECK(status.chunks_sent == kChunks + status.chunks_resent);
  CHECK(pair.tokyo.Peer("paris").chunks_duplicate <= status.chunks_resent);
  CHECK(pair.tokyo.Peer("paris").chunks_received == kChunks);
  CHECK(pair.paris.WaitLanes("tokyo", 4));
}

TEST_CASE("every lane cut again and again, nothing is lost or doubled") {
  Pair pair(absl::Seconds(10));
  pair.Open();
  constexpr uint32_t kChunks = 1500;
  for (uint32_t i = 0; i < kChunks; ++i)
    REQUIRE(pair.paris.SendChunk("tokyo", "demo", 1, i, 20000).ok());
  for (uint32_t cuts = 1; cuts <= 24; ++cuts) {
    const auto progress = [&](const Notes& n) { return n.chunks.size() >= cuts * 50; };
    REQUIRE(pair.tokyo.recorder.Wait(progress));
    pair.proxy->Cut(pair.BusiestLane());
  }
  REQUIRE(pair.paris.recorder.Wait([](const Notes& n) { return n.done.size() >= kChunks; }));
  CHECK(pair.tokyo.recorder.notes().chunks.size() == kChunks);
  CHECK(CountByIndex(pair.tokyo.recorder.notes().chunks).size() == kChunks);
  CHECK(pair.paris.recorder.notes().downs.empty());
}

TEST_CASE("a frozen lane is given up for lack of progress and its chunks go over the others") {
  Pair pair(absl::Seconds(2));
  pair.Open();
  constexpr uint32_t kChunks = 300;
  for (uint32_t i = 0; i < kChunks; ++i)
    REQUIRE(pair.paris.SendChunk("tokyo", "demo", 1, i, kBytes).ok());
  REQUIRE(pair.tokyo.recorder.Wait([](const Notes& n) { return n.chunks.size() >= 60; }));
  pair.proxy->Freeze(pair.BusiestLane());
  REQUIRE(pair.paris.recorder.Wait([](const Notes& n) { return n.done.size() >= kChunks; }));
  CHECK(pair.tokyo.recorder.notes().chunks.size() == kChunks);
  const Notes notes = pair.paris.recorder.notes();
  CHECK(notes.downs.empty());
  // It carried something when it froze, or it was idle and nobody needs to know.
  if (pair.paris.Peer("tokyo").chunks_resent > 0) {
    REQUIRE(notes.lanes_broken.size() == 1);
    CHECK(std::string(notes.lanes_broken[0].message()).find("no progress") != std::string::npos);
  }
}

TEST_CASE(
    "a link whose control stream is cut comes back, and what was unacknowledged is reported") {
  Pair pair(absl::Seconds(10));
  pair.Open();
  constexpr uint32_t kChunks = 800;
  for (uint32_t i = 0; i < kChunks; ++i)
    REQUIRE(pair.paris.SendChunk("tokyo", "demo", 1, i, kBytes).ok());
  REQUIRE(pair.tokyo.recorder.Wait([](const Notes& n) { return n.chunks.size() >= 200; }));
  REQUIRE(pair.proxy->Cut(pair.control));
  REQUIRE(pair.paris.recorder.Wait([](const Notes& n) { return n.done.size() >= kChunks; }));
  REQUIRE(pair.paris.recorder.Wait(
      [](const Notes& n) { return n.links.size() == 2 && n.up.count("tokyo") != 0; }));
  REQUIRE(pair.tokyo.recorder.Wait(
      [](const Notes& n) { return n.links.size() == 1 && n.up.count("paris") != 0; }));
  CHECK(pair.paris.recorder.notes().downs.size() == 1);
  CHECK(pair.tokyo.recorder.notes().downs.size() == 1);

  // The sender repeats what it was not told was held; the receiver may see those twice, the others
  // once.
  std::map<uint32_t, bool> held;
  for (const auto& [header, status] : pair.paris.recorder.notes().done) {
    CHECK((status.ok() || absl::IsUnavailable(status)));
    held[header.index] = status.ok();
  }
  CHECK(held.size() == kChunks);
  pair.paris.recorder.Clear();
  size_t again = 0;
  for (const auto& [index, ok] : held) {
    if (ok) continue;
    ++again;
    REQUIRE(pair.paris.SendChunk("tokyo", "demo", 1, index, kBytes).ok());
  }
  CHECK(again > 0);
  REQUIRE(pair.paris.recorder.Wait([&](const Notes& n) { return n.done.size() >= again; }));
  const std::map<uint32_t, int> counts = CountByIndex(pair.tokyo.recorder.notes().chunks);
  CHECK(counts.size() == kChunks);
  for (const auto& [index, count] : counts) CHECK(count <= (held[index] ? 1 : 2));
}

TEST_CASE("a dark link is noticed by both sides within peer_timeout, and returns with the light") {
  Pair pair(absl::Milliseconds(500));
  pair.proxy->FreezeAll(true);
  for (Gateway* gateway : {&pair.paris, &pair.tokyo}) {
    REQUIRE(gateway->recorder.Wait([](const Notes& n) { return n.downs.size() == 1; }));
    const absl::Status reason = gateway->recorder.notes().downs[0];
    INFO(reason);
    CHECK(absl::IsDeadlineExceeded(reason));
    CHECK(std::string(reason.message()).find("nothing was received from cluster") !=
          std::string::npos);
  }
  pair.proxy->FreezeAll(false);
  REQUIRE(pair.paris.WaitUp("tokyo"));
  REQUIRE(pair.tokyo.WaitUp("paris"));
  REQUIRE(pair.paris.WaitLanes("tokyo", 4));
}

TEST_CASE("an idle link stays up") {
  Pair pair(absl::Seconds(2));
  const int before = pair.tokyo.recorder.notes().progress;
  // Many heartbeats pass; the count of them is what is waited for.
  REQUIRE(pair.tokyo.recorder.Wait([&](const Notes& n) { return n.progress >= before + 12; }));
  CHECK(pair.paris.recorder.notes().downs.empty());
  CHECK(pair.tokyo.recorder.notes().downs.empty());
}

TEST_CASE("a peer that was not there is dialled until it is; one that restarts gets a new link") {
  Gateway paris("paris", "tokyo", 11);
  auto tokyo = std::make_unique<Gateway>("tokyo", "paris", 22);
  tokyo->AddPeer("paris", "");
  tokyo->Start();
  TcpProxy proxy(tokyo->transport().port());
  proxy.Refuse(true);
  paris.AddPeer("tokyo", proxy.address());
  paris.Start();
  REQUIRE(paris.WaitStatus("tokyo", [&](const PeerStatus& s) { return !s.last_error.empty(); }));
  proxy.Refuse(false);
  REQUIRE(paris.WaitUp("tokyo"));

  const std::string address = tokyo->address();
  tokyo.reset();
  REQUIRE(paris.recorder.Wait([](const Notes& n) { return n.downs.size() == 1; }));
  tokyo = std::make_unique<Gateway>("tokyo", "paris", 23);
  tokyo->AddPeer("paris", "");
  tokyo->config.listen = address;
  tokyo->Start();
  REQUIRE(paris.recorder.Wait(
      [](const Notes& n) { return n.up.count("tokyo") != 0 && n.up.at("tokyo") == 23; }));
}

TEST_CASE("messages do not wait behind bulk") {
  Pair pair(absl::Seconds(10));
  constexpr uint32_t kChunks = 3000;
  for (uint32_t i = 0; i < kChunks; ++i)
    REQUIRE(pair.paris.SendChunk("tokyo", "demo", 1, i, 64 << 10).ok());
  pair.Open();
  REQUIRE(pair.paris.WaitStatus("tokyo", [](const PeerStatus& s) { return s.chunks_sent > 0; }));
  REQUIRE(pair.paris.SendReady("tokyo", "demo", 7).ok());
  REQUIRE(pair.tokyo.recorder.Wait([](const Notes& n) { return n.messages.size() == 1; }));
  // Queued behind all the chunks, it arrives before most of them.
  CHECK(pair.tokyo.recorder.notes().chunks.size() < kChunks / 2);
}

}  // namespace
}  // namespace causeway::transport
