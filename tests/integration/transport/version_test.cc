// Gateways of other versions, as bytes: a hello of another version is refused by name, and what a
// later build of the same version adds is skipped (proto/WIRE.md, "Versions").
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "daemon/transport/channel.h"
#include "daemon/transport/lane_frame.h"
#include "proto/wan.pb.h"
#include "tests/integration/transport/raw_peer.h"
#include "tests/integration/transport/recorder.h"

namespace causeway::transport {
namespace {

using Notes = Recorder::Notes;

// Hello of paris, incarnation 7, link 5, 2 lanes: versions 2 to 2, and a field 30 that version 1
// does not have.
constexpr const char* kHelloOfVersion2 =
    "0a1d"
    "080210021a057061726973"
    "2007"
    "2a0767617465776179"
    "30023805f20100";
// The same of versions 1 to 2.
constexpr const char* kHelloOfVersions1To2 =
    "0a1d"
    "080110021a057061726973"
    "2007"
    "2a0767617465776179"
    "30023805f20100";
// A frame of kind 14, which version 1 does not have.
constexpr const char* kFrameOfAnotherKind = "7203080110";
// Heartbeat 1 with a field 30; credit for run demo with one.
constexpr const char* kHeartbeatWithMore = "22050801f00105";

std::string Bytes(const char* hexadecimal) { return absl::HexStringToBytes(hexadecimal); }

// Appends field 30, a number, to the one field that a lane frame is.
std::string WithMore(const std::string& frame) {
  REQUIRE(static_cast<uint8_t>(frame[1]) < 0x80 - 3);
  std::string more = frame + std::string("\xf0\x01\x05", 3);
  more[1] = static_cast<char>(more[1] + 3);
  return more;
}

struct Tokyo {
  Tokyo() : gateway("tokyo", "paris", 22) {
    gateway.AddPeer("paris", "");
    gateway.config.peer_timeout = absl::Seconds(20);  // nobody here sends heartbeats
    gateway.Start();
  }
  Gateway gateway;
};

TEST_CASE("a recorded hello of another version is refused, naming both windows and the remedy") {
  Tokyo tokyo;
  RawPeer control(tokyo.gateway.address(), kControlMethod);
  REQUIRE(control.Write(Bytes(kHelloOfVersion2)));
  const absl::Status end = control.Finish();
  const std::string words =
      "no common protocol version: cluster tokyo speaks 1 to 1, cluster paris speaks 2 to 2; "
      "upgrade the older gateway";
  CHECK(absl::IsFailedPrecondition(end));
  CHECK(std::string(end.message()).find(words) != std::string::npos);
  REQUIRE(tokyo.gateway.recorder.Wait([](const Notes& n) { return !n.refused.empty(); }));
  const absl::Status refused = tokyo.gateway.recorder.notes().refused[0];
  CHECK(std::string(refused.message()).find(words) != std::string::npos);
  CHECK(tokyo.gateway.recorder.notes().up.empty());
}

TEST_CASE("fields and frames that a later build of the same version adds are skipped") {
  Tokyo tokyo;
  REQUIRE(tokyo.gateway.transport().SetWindow("paris", "demo", kWindowBytesMin).ok());
  RawPeer control(tokyo.gateway.address(), kControlMethod);
  REQUIRE(control.Write(Bytes(kHelloOfVersions1To2)));
  REQUIRE(control.Read().has_value());
  REQUIRE(tokyo.gateway.WaitUp("paris"));
  CHECK(tokyo.gateway.recorder.notes().links[0].version == 1);

  REQUIRE(control.Write(Bytes(kFrameOfAnotherKind)));
  REQUIRE(control.Write(Bytes(kHeartbeatWithMore)));
  RawPeer lane(tokyo.gateway.address(), kLaneMethod);
  REQUIRE(lane.Write(WithMore(EncodeLaneHello({"paris", 7, 5, 0}))));
  REQUIRE(lane.Read().has_value());
  const std::string chunk = EncodeChunkHead(1, 1, RawHeader("demo"), 0);
  REQUIRE(lane.Write(WithMore(chunk)));
  REQUIRE(tokyo.gateway.recorder.Wait([](const Notes& n) { return n.chunks.size() == 1; }));
  CHECK(lane.Read() == EncodeChunkAck(1));
  REQUIRE(lane.Write(WithMore(EncodeChunkAck(0))));

  // A run message of a kind that is not known goes to the run, which drops it by name.
  wan::v1::ControlFrame known;
  known.mutable_run()->set_run("demo");
  std::string unknown = known.SerializeAsString() + Bytes("8a0400");  // field 65, empty
  unknown[1] = static_cast<char>(unknown[1] + 3);
  REQUIRE(control.Write(unknown));
  REQUIRE(tokyo.gateway.recorder.Wait([](const Notes& n) { return n.messages.size() == 1; }));
  CHECK(tokyo.gateway.recorder.notes().downs.empty());
  CHECK(tokyo.gateway.recorder.notes().refused.empty());
}

}  // namespace
}  // namespace causeway::transport
