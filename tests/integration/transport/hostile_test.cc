// A peer that is authenticated but hostile: whatever it sends, the gateway names the fault, ends
// that link, holds no more memory, and serves the next link as before.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "daemon/transport/channel.h"
#include "daemon/transport/lane_frame.h"
#include "daemon/transport/wire_fields.h"
#include "proto/wan.pb.h"
#include "tests/integration/transport/raw_peer.h"
#include "tests/integration/transport/recorder.h"

namespace causeway::transport {
namespace {

using Notes = Recorder::Notes;

bool Says(const absl::Status& status, const std::string& words) {
  return std::string(status.message()).find(words) != std::string::npos;
}

// tokyo, dialled by a raw "paris".
struct Target {
  // Nobody sends heartbeats here, so nobody is missed for a while.
  explicit Target(absl::Duration peer_timeout = absl::Seconds(20)) : tokyo("tokyo", "paris", 22) {
    tokyo.AddPeer("paris", "");
    tokyo.budget_bytes = 32 << 20;
    tokyo.config.peer_timeout = peer_timeout;
    tokyo.Start();
    REQUIRE(tokyo.transport().SetWindow("paris", "demo", kWindowBytesMin).ok());
  }

  std::unique_ptr<RawPeer> Control(uint64_t link = 5) {
    auto control = std::make_unique<RawPeer>(tokyo.address(), kControlMethod);
    REQUIRE(control->Write(HelloFrame(link)));
    REQUIRE(control->Read().has_value());  // its hello
    REQUIRE(tokyo.WaitUp("paris"));
    return control;
  }

  std::unique_ptr<RawPeer> Lane(uint64_t link = 5, uint32_t index = 0) {
    auto lane = std::make_unique<RawPeer>(tokyo.address(), kLaneMethod);
    REQUIRE(lane->Write(EncodeLaneHello({"paris", 7, link, index})));
    REQUIRE(lane->Read().has_value());
    return lane;
  }

  void ExpectDown(const std::string& words) {
    REQUIRE(tokyo.recorder.Wait([](const Notes& n) { return !n.downs.empty(); }));
    const absl::Status reason = tokyo.recorder.notes().downs[0];
    INFO(reason);
    CHECK(Says(reason, words));
  }
  void ExpectRefused(const std::string& words) {
    REQUIRE(tokyo.recorder.Wait([](const Notes& n) { return !n.refused.empty(); }));
    const absl::Status reason = tokyo.recorder.notes().refused[0];
    INFO(reason);
    CHECK(Says(reason, words));
  }

  Gateway tokyo;
};

TEST_CASE("hostile hellos are refused with a reason") {
  Target target;
  const auto refuse = [&](const std::string& method, const std::string& frame,
                          const std::string& words) {
    target.tokyo.recorder.Clear();
    RawPeer peer(target.tokyo.address(), method);
    peer.Write(frame);  // may come too late for the refusal
    const absl::Status end = peer.Finish();
    INFO(end);
    CHECK(Says(end, words));
    target.ExpectRefused(words);
    CHECK(target.tokyo.recorder.notes().up.empty());
  };
  refuse(kControlMethod, "\xff\xff\xff", "malformed control frame");
  refuse(kControlMethod, "", "before the hello");
  refuse(kControlMethod, HelloFrame(5, 7, "oslo"), "the hello claims another");
  refuse(kControlMethod, HelloFrame(5, 0), "must not be 0");
  refuse(kControlMethod, HelloFrame(0), "must not be 0");
  refuse(kControlMethod, HelloFrame(5, 7, std::string(5000, 'p')), "claims another");
  refuse(kLaneMethod, EncodeLaneHello({"paris", 7, 5, 0}), "no link");
  refuse(kLaneMethod, EncodeChunkAck(1), "before the hello");
  refuse(kLaneMethod, "garbage", "malformed lane frame");
  refuse("/causeway.wan.v1.Gateway/Other", "", "no such method");

  wan::v1::ControlFrame no_lanes;
  REQUIRE(no_lanes.ParseFromString(HelloFrame(5)));
  no_lanes.mutable_hello()->set_lanes(0);
  refuse(kControlMethod, no_lanes.SerializeAsString(), "no lanes");
  CHECK(target.tokyo.transport().Status().streams_refused == 11);
  CHECK(target.tokyo.transport().Status().streams_pending == 0);
}

TEST_CASE("lanes must name the live link and an agreed index") {
  Target target;
  auto control = target.Control();
  const auto refuse = [&](const LaneHelloFrame& hello, const std::string& words) {
    target.tokyo.recorder.Clear();
    RawPeer peer(target.tokyo.address(), kLaneMethod);
    REQUIRE(peer.Write(EncodeLaneHello(hello)));
    CHECK(Says(peer.Finish(), words));
    target.ExpectRefused(words);
  };
  refuse({"paris", 7, 6, 0}, "no live link");
  refuse({"paris", 8, 5, 0}, "no live link");
  refuse({"paris", 7, 5, 2}, "lane 2 where 2 were agreed");
  refuse({"oslo", 7, 5, 0}, "claims another");
  CHECK(target.tokyo.recorder.notes().downs.empty());
  target.Lane();
}

TEST_CASE("hostile control frames end the link by name") {
  Target target;
  auto control = target.Control();
  wan::v1::ControlFrame frame;
  SECTION("a second hello") {
    REQUIRE(control->Write(HelloFrame(5)));
    target.ExpectDown("a second hello");
  }
  SECTION("garbage") {
    REQUIRE(control->Write("\x0a\xff"));
    target.ExpectDown("malformed control frame");
  }
  SECTION("a frame above the limit") {
    frame.mutable_goodbye()->set_reason(std::string(kControlFrameBytesMax, 'x'));
    REQUIRE(control->Write(frame.SerializeAsString()));
    target.ExpectDown("limit 1048576");
  }
  SECTION("a run's name above the limit") {
    frame.mutable_run()->set_run(std::string(kNameBytesMax + 1, 'r'));
    REQUIRE(control->Write(frame.SerializeAsString()));
    target.ExpectDown("too long a name");
  }
  SECTION("credit for ever new runs") {
    for (int i = 0; i <= kCreditRunsMax; ++i) {
      frame.mutable_credit()->set_run("run " + std::to_string(i));
      frame.mutable_credit()->set_granted_bytes(1);
      if (!control->Write(frame.SerializeAsString())) break;
    }
    target.ExpectDown("credit for more than 1024 runs");
  }
  SECTION("heartbeats that go backwards") {
    frame.mutable_heartbeat()->set_sequence(5);
    REQUIRE(control->Write(frame.SerializeAsString()));
    frame.mutable_heartbeat()->set_sequence(4);
    REQUIRE(control->Write(frame.SerializeAsString()));
    target.ExpectDown("heartbeats out of order");
  }
  // The peer is told, and its next link is served.
  bool told = false;
  while (auto bytes = control->Read()) {
    REQUIRE(frame.ParseFromString(*bytes));
    told = told || frame.has_goodbye();
  }
  CHECK(told);
  CHECK_FALSE(control->Finish().ok());
  target.Control(/*link=*/6);
}

TEST_CASE("hostile lane frames end the link by name, and no memory follows forged sizes") {
  Target target;
  auto control = target.Control();
  REQUIRE(ReadCredit(*control, "demo") == kWindowBytesMin);
  auto lane = target.Lane();
  const ChunkHeader header = RawHeader("demo");
  SECTION("a chunk larger than it says") {
    REQUIRE(lane->Write(EncodeChunkHead(1, 1, header, 10) + std::string(11, 'x')));
    target.ExpectDown("follow");
  }
  SECTION("a chunk smaller than it says, by gigabytes") {
    std::string body =
        "\x08\x01\x12\x04"
        "demo\x7a";
    AppendVarint(body, uint64_t{8} << 30);
    std::string frame;
    AppendBytesHead(frame, 3, body.size());
    REQUIRE(lane->Write(frame + body));
    target.ExpectDown("where 0 follow");
  }
  SECTION("a payload above the limit") {
    REQUIRE(lane->Write(EncodeChunkHead(1, 1, header, kChunkBytesMax + 1) +
                        std::string(kChunkBytesMax + 1, 'x')));
    target.ExpectDown("limit");
  }
  SECTION("a frame several times the limit") {
    lane->Write(std::string(3 << 20, 'x'));
    target.ExpectDown("3145728 bytes, limit 2098176");
  }
  SECTION("a message far above the limit never reaches us") {
    lane->Write(std::string(16 << 20, 'x'));
    REQUIRE(target.tokyo.recorder.Wait([](const Notes& n) { return !n.lanes_broken.empty(); }));
    CHECK(Says(target.tokyo.recorder.notes().lanes_broken[0], "far above every limit"));
    control->Write(HelloFrame(5));  // ends the link for the checks below
    target.ExpectDown("a second hello");
  }
  SECTION("more than the credit") {
    for (uint64_t i = 1; i <= 3; ++i) {
      lane->Write(EncodeChunkHead(i, i, header, 1 << 20) + std::string(1 << 20, 'x'));
    }
    target.ExpectDown("exceeds its credit");
  }
  SECTION("a run that was given no credit") {
    REQUIRE(lane->Write(EncodeChunkHead(1, 1, RawHeader("other"), 1) + "x"));
    target.ExpectDown("run other");
  }
  SECTION("a sequence with a gap") {
    REQUIRE(lane->Write(EncodeChunkHead(2, 1, header, 1) + "x"));
    target.ExpectDown("chunk 2 where 1 is due");
  }
  SECTION("a number from far away") {
    REQUIRE(lane->Write(EncodeChunkHead(1, uint64_t{1} << 40, header, 1) + "x"));
    target.ExpectDown("too far ahead");
  }
  SECTION("an acknowledgement of what was never sent") {
    REQUIRE(lane->Write(EncodeChunkAck(1)));
    target.ExpectDown("only 0 were sent");
  }
  SECTION("a second hello") {
    REQUIRE(lane->Write(EncodeLaneHello({"paris", 7, 5, 0})));
    target.ExpectDown("a second hello");
  }
  CHECK(target.tokyo.budget().usage().peak_bytes <= 2 * kWindowBytesMin + kChunkBytesMax);
  control.reset();
  lane.reset();
  target.Control(/*link=*/6);
}

TEST_CASE("a chunk sent twice is delivered once") {
  Target target;
  auto control = target.Control();
  REQUIRE(ReadCredit(*control, "demo") == kWindowBytesMin);
  auto first = target.Lane(5, 0);
  auto second = target.Lane(5, 1);
  const std::string payload(1000, 'x');
  REQUIRE(first->Write(EncodeChunkHead(1, 1, RawHeader("demo"), payload.size()) + payload));
  REQUIRE(target.tokyo.recorder.Wait([](const Notes& n) { return n.chunks.size() == 1; }));
  REQUIRE(second->Write(EncodeChunkHead(1, 1, RawHeader("demo"), payload.size()) + payload));
  REQUIRE(second->Write(EncodeChunkHead(2, 2, RawHeader("demo"), payload.size()) + payload));
  REQUIRE(target.tokyo.recorder.Wait([](const Notes& n) { return n.chunks.size() == 2; }));
  CHECK(target.tokyo.Peer("paris").chunks_duplicate == 1);
  CHECK(second->Read() == EncodeChunkAck(2));
  CHECK(target.tokyo.recorder.notes().chunks.size() == 2);
}

TEST_CASE("a goodbye for the sake of a new link is told apart from one for good, on either side") {
  Target target;
  auto control = target.Control();
  wan::v1::ControlFrame frame;
  frame.mutable_goodbye()->set_reason("replaced");
  frame.mutable_goodbye()->set_replaced(true);
  REQUIRE(control->Write(frame.SerializeAsString()));
  target.ExpectDown("goodbye: replaced");
  CHECK(absl::IsAborted(target.tokyo.recorder.notes().downs[0]));

  auto old = target.Control(/*link=*/6);
  auto fresh = target.Control(/*link=*/7);  // of the same process
  REQUIRE(target.tokyo.recorder.Wait([](const Notes& n) { return n.downs.size() == 2; }));
  CHECK(absl::IsAborted(target.tokyo.recorder.notes().downs[1]));
  bool told = false;
  while (const std::optional<std::string> bytes = old->Read()) {
    REQUIRE(frame.ParseFromString(*bytes));
    told = told || (frame.has_goodbye() && frame.goodbye().replaced());
  }
  CHECK(told);
}

TEST_CASE("streams without a hello are bounded in number and time") {
  Target target(absl::Seconds(2));
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < kPendingStreamsMax + 4; ++i) {
    silent.push_back(std::make_unique<RawPeer>(target.tokyo.address(), kControlMethod));
    REQUIRE(silent.back()->connected());
  }
  REQUIRE(target.tokyo.recorder.Wait([](const Notes& n) { return n.refused.size() >= 4; }));
  CHECK(Says(target.tokyo.recorder.notes().refused[0], "wait for their hello"));
  CHECK(target.tokyo.transport().Status().streams_pending <= kPendingStreamsMax);
  REQUIRE(target.tokyo.recorder.Wait([&](const Notes& n) {
    return n.refused.size() == silent.size() && Says(n.refused.back(), "no hello in time");
  }));
  CHECK(target.tokyo.transport().Status().streams_pending == 0);
  CHECK(Says(silent[0]->Finish(), "no hello in time"));
  silent.clear();
  target.Control();
}

}  // namespace
}  // namespace causeway::transport
