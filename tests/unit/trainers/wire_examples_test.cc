// Replays the worked examples of proto/WIRE.md: the document and the structs say the same bytes.
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/schema/layout.h"
#include "daemon/schema/schema.h"
#include "daemon/trainers/request.h"
#include "daemon/trainers/session.h"
#include "tests/unit/schema/records.h"

namespace causeway::trainers {
namespace {

using local::Type;
using Bytes = std::vector<uint8_t>;

// Blocks "```local NAME", hexadecimal bytes; "00*64" repeats one.
std::map<std::string, Bytes> ReadExamples() {
  std::ifstream document(CAUSEWAY_WIRE_DOCUMENT);
  REQUIRE(document.good());
  std::map<std::string, Bytes> examples;
  std::string line;
  Bytes* current = nullptr;
  while (std::getline(document, line)) {
    if (line.rfind("```", 0) == 0) {
      const std::string fence = "```local ";
      current = line.rfind(fence, 0) == 0 ? &examples[line.substr(fence.size())] : nullptr;
      continue;
    }
    if (current == nullptr) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const auto byte = static_cast<uint8_t>(std::stoul(word.substr(0, 2), nullptr, 16));
      const size_t times = word.size() > 2 ? std::stoul(word.substr(3)) : 1;
      current->insert(current->end(), times, byte);
    }
  }
  return examples;
}

template <size_t kSize>
void Put(char (&field)[kSize], const std::string& text) {
  std::memcpy(field, text.data(), text.size());
}

template <typename Message>
Message Make(Type type, uint64_t sequence, uint64_t answers = 0) {
  Message message{};
  message.header.magic = local::kMagic;
  message.header.version = 1;
  message.header.type = static_cast<uint16_t>(type);
  message.header.size = sizeof(Message);
  message.header.sequence = sequence;
  message.header.answers = answers;
  return message;
}

template <typename Struct>
void Same(const std::map<std::string, Bytes>& examples, const std::string& name,
          const Struct& expected) {
  INFO(name);
  REQUIRE(examples.count(name) == 1);
  const Bytes& bytes = examples.at(name);
  REQUIRE(bytes.size() == sizeof(expected));
  Bytes mine(sizeof(expected));
  std::memcpy(mine.data(), &expected, sizeof(expected));
  CHECK(bytes == mine);
}

TEST_CASE("requests of the document are parsed to what the document says") {
  const auto examples = ReadExamples();
  const auto parse = [&](const std::string& name, size_t descriptors = 0) {
    INFO(name);
    REQUIRE(examples.count(name) == 1);
    auto request = ParseRequest(examples.at(name), descriptors, name == "Hello" ? 0 : 1);
    INFO(request.status().message());
    REQUIRE(request.ok());
    CHECK(RequestName(*request) == name);
    return *request;
  };
  const auto hello = std::get<HelloRequest>(parse("Hello"));
  CHECK(hello.run == "demo");
  CHECK(hello.world == 2);
  CHECK(hello.sequence == 1);
  const auto join = std::get<JoinRequest>(parse("Join", 1));
  CHECK(join.tensors == 1);
  CHECK(join.outer);
  CHECK(join.local_steps == 20);
  CHECK(std::get<OfferRequest>(parse("Offer", 1)).slices == 1);
  const auto share = std::get<ShareRequest>(parse("Share", 1));
  CHECK(share.bytes == uint64_t{2} << 20);
  CHECK(share.device[1] == 0xb1);
  const auto applied = std::get<AppliedRequest>(parse("Applied"));
  CHECK(applied.round == 5);
  CHECK(applied.computing_us == 1'000'000);
  const auto submit = std::get<SubmitRequest>(parse("Submit"));
  CHECK(submit.op == 1);
  CHECK(submit.base_round == 5);
  CHECK(submit.weight == 320);
  CHECK(submit.label == "before");
  CHECK(submit.memory == local::Memory::kHost);
  CHECK(std::get<AbandonRequest>(parse("Abandon")).op == 1);
  CHECK(std::get<QueryRequest>(parse("Query")).session == 0x1122334455667788u);
  CHECK(std::get<AwaitRequest>(parse("Await")).op == 0);
  parse("Finish");
  CHECK(std::get<LeaveRequest>(parse("Leave")).sequence == 10);
}

TEST_CASE("answers of the document are what this code sends") {
  const auto examples = ReadExamples();
  auto welcome = Make<local::Welcome>(Type::kWelcome, 1, 1);
  for (int i = 0; i < 16; ++i) welcome.token[i] = static_cast<uint8_t>(0xa0 + i);
  welcome.incarnation = 7;
  welcome.session = 0x1122334455667788u;
  Put(welcome.cluster, "paris");
  Same(examples, "Welcome", welcome);

  auto joined = Make<local::Joined>(Type::kJoined, 2, 2);
  joined.fragments = joined.tensors = 1;
  joined.snapshot_bytes = 196608;
  joined.values_bytes = 393216;
  joined.layout_bytes = sizeof(local::FragmentRecord) + sizeof(local::PlacementRecord);
  joined.local_steps = 20;
  joined.outer = 1;
  joined.peer_timeout_ms = 10000;
  Put(joined.rule, "nesterov");
  Put(joined.codec, "int4:b64:ef");
  joined.learning_rate = 0.75f;
  joined.momentum = 0.5f;
  Same(examples, "Joined", joined);

  local::SliceRecord slice{16384, 32768, 0, 0};
  Same(examples, "SliceRecord", slice);

  auto shared = Make<local::Shared>(Type::kShared, 9, 11);
  Put(shared.reason, "no GPU");
  Same(examples, "Shared", shared);

  auto ready = Make<local::Ready>(Type::kReady, 3, 3);
  ready.start = static_cast<uint8_t>(local::Start::kReplace);
  ready.fragments = 1;
  ready.members = 2;
  ready.round[0] = 5;
  Same(examples, "Ready", ready);

  auto submitted = Make<local::Submitted>(Type::kSubmitted, 4, 5);
  submitted.op = 1;
  submitted.round = 6;
  Same(examples, "Submitted", submitted);

  auto state = Make<local::OpState>(Type::kOpState, 5);
  state.op = 1;
  state.state = static_cast<uint8_t>(local::State::kCommitted);
  state.round = 6;
  state.participants = 2;
  state.staleness = 1;
  state.raw_bytes = 196608;
  state.wire_bytes = 26144;
  state.exchange_us = 183000;
  Same(examples, "OpState", state);

  auto awaiting = Make<local::Awaiting>(Type::kAwaiting, 6, 8);
  awaiting.waited_us = 2'500'000;
  Put(awaiting.awaited, "tokyo");
  Put(awaiting.reason, "its contribution");
  Same(examples, "Awaiting", awaiting);

  auto finished = Make<local::Finished>(Type::kFinished, 7, 9);
  for (int i = 0; i < 32; ++i) finished.values_hash[i] = static_cast<uint8_t>(i);
  Same(examples, "Finished", finished);

  Problem problem;
  problem.code = local::Code::kNonfinite;
  problem.fatal = true;
  problem.round = 6;
  problem.cluster = "paris";
  problem.tensor = "h.0.weight";
  problem.text = "tensor 'h.0.weight' holds NaN; the step that made it must be mended";
  auto error = Make<local::Error>(Type::kError, 8);
  FillError(problem, 0, error);
  Same(examples, "Error", error);
}

TEST_CASE("the document's schema gives the document's layout") {
  const auto examples = ReadExamples();
  REQUIRE(examples.count("TensorRecord") == 1);
  const auto schema = schema::Schema::Parse(examples.at("TensorRecord"), 1);
  REQUIRE(schema.ok());
  CHECK(schema->Lines()[0] == "fp32 parameter [128, 384]\th.0.weight");
  const auto layout = schema::Layout::Build(*schema, 1);
  REQUIRE(layout.ok());
  Same(examples, "FragmentRecord", layout->fragments()[0]);
  Same(examples, "PlacementRecord", layout->placements()[0]);
  CHECK(layout->snapshot_bytes() == 196608);
  CHECK(layout->values_bytes() == 393216);
}

}  // namespace
}  // namespace causeway::trainers
