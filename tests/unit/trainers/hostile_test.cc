// Trainers that lie, flood, do not read, or bring the wrong descriptors: each costs itself its
// session.
#include <dirent.h>
#include <sys/resource.h>

#include <cstring>
#include <limits>
#include <set>

#include "tests/unit/trainers/harness.h"

namespace causeway::trainers {
namespace {

using local::Type;
using testing::BringUp;
using testing::Harness;
using testing::Make;
using testing::MakeHello;
using testing::MakeSubmit;
using testing::Memfd;
using testing::SendJoin;
using testing::SmallSchema;
using testing::Trainer;

size_t OpenDescriptors() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// Every bad message is answered by a protocol error that says `part`, and ends the session.
void ExpectRefused(Trainer& trainer, const std::string& part) {
  const auto error = trainer.ReceiveError(local::Code::kProtocol);
  INFO(error.text);
  CHECK(std::string(error.text).find(part) != std::string::npos);
  CHECK(error.fatal == 1);
  CHECK(trainer.Closed());
}

TEST_CASE("malformed messages before hello") {
  Harness harness;
  const auto refused = [&](const std::function<void(local::Hello&)>& spoil,
                           const std::string& part) {
    Trainer trainer(harness.path());
    local::Hello hello = MakeHello();
    spoil(hello);
    trainer.Send(hello);
    ExpectRefused(trainer, part);
  };
  refused([](local::Hello& h) { h.header.magic ^= 1; }, "magic");
  refused([](local::Hello& h) { h.header.size -= 1; }, "the datagram has 128");
  refused([](local::Hello& h) { h.header.size = 0xffffffff; }, "header says 4294967295");
  refused([](local::Hello& h) { h.header.type = 7; }, "first message must be Hello");
  refused([](local::Hello& h) { h.header.type = 999; }, "first message must be Hello");
  refused([](local::Hello& h) { h.header.zero = 1; }, "padding");
  refused([](local::Hello& h) { h.header.answers = 5; }, "answers");
  refused([](local::Hello& h) { h.zero = 1; }, "padding");
  refused([](local::Hello& h) { h.rank = 8; }, "rank 8");
  refused([](local::Hello& h) { h.world = 0; }, "world 0");
  refused([](local::Hello& h) { h.world = 0xffffffff; }, "world");
  refused([](local::Hello& h) { std::memset(h.run, 'x', sizeof(h.run)); }, "not terminated");
  refused([](local::Hello& h) { h.run[0] = 0; }, "run is empty");
  refused([](local::Hello& h) { h.run[60] = 'x'; }, "bytes after the end of");
  refused([](local::Hello& h) { h.run[1] = '\n'; }, "printable");
  refused([](local::Hello& h) { h.version_min = h.header.version = 3; }, "no window");
  refused(
      [](local::Hello& h) {
        h.version_min = h.header.version = 2;
        h.version_max = 9;
      },
      "versions 2 to 9, this daemon 1 to 1");
  // A version without overlap is no malformed message.
  CHECK(harness.Counters().protocol_errors == 16);
  CHECK(harness.SessionCount() == 0);
}

TEST_CASE("datagrams of impossible sizes") {
  Harness harness;
  for (size_t size : {1u, 31u, 32u, 127u, 129u, 4096u, 4097u, 60000u}) {
    INFO(size);
    Trainer trainer(harness.path());
    std::vector<uint8_t> bytes(size, 0);
    local::Hello hello = MakeHello();
    hello.header.sequence = 1;
    hello.header.size = static_cast<uint32_t>(size);
    std::memcpy(bytes.data(), &hello, std::min(size, sizeof(hello)));
    REQUIRE(trainer.SendBytes(bytes));
    ExpectRefused(trainer, size > 4096 ? "more than 4096"
                           : size < 32 ? "datagram of"
                                       : "expected 128");
  }
}

TEST_CASE("messages out of order") {
  Harness harness;
  SECTION("hello twice") {
    Trainer trainer(harness.path());
    trainer.SayHello(MakeHello());
    trainer.Send(MakeHello());
    ExpectRefused(trainer, "Hello was said already");
  }
  SECTION("submit before joining") {
    Trainer trainer(harness.path());
    trainer.SayHello(MakeHello());
    trainer.Send(MakeSubmit(1));
    ExpectRefused(trainer, "Submit before Joined");
  }
  SECTION("submit before ready") {
    Trainer trainer(harness.path());
    trainer.SayHello(MakeHello());
    SendJoin(trainer);
    (void)trainer.Receive<local::Joined>(Type::kJoined);
    trainer.Send(MakeSubmit(1));
    ExpectRefused(trainer, "Submit before Ready");
  }
  SECTION("finish before ready") {
    Trainer trainer(harness.path());
    trainer.SayHello(MakeHello());
    trainer.Send(Make<local::Finish>(Type::kFinish));
    ExpectRefused(trainer, "Finish before Joined");
  }
  SECTION("submit after finished") {
    Trainer trainer(harness.path());
    BringUp(trainer);
    trainer.Send(Make<local::Finish>(Type::kFinish));
    (void)trainer.Receive<local::Finished>(Type::kFinished);
    trainer.Send(MakeSubmit(1));
    ExpectRefused(trainer, "after Finished");
  }
  SECTION("a sequence number that comes again") {
    Trainer trainer(harness.path());
    BringUp(trainer);
    local::Submit submit = MakeSubmit(1);
    submit.header.sequence = 2;
    REQUIRE(trainer.SendBytes({reinterpret_cast<const uint8_t*>(&submit), sizeof(submit)}));
    ExpectRefused(trainer, "does not ascend");
  }
  SECTION("another version in mid-session") {
    Trainer trainer(harness.path());
    BringUp(trainer);
    local::Submit submit = MakeSubmit(1);
    submit.header.version = 2;
    trainer.Send(submit);
    ExpectRefused(trainer, "version 2");
  }
  CHECK(harness.recorder.Wait("gone 0 protocol error"));
}

TEST_CASE("submissions that leave the layout") {
  Harness harness;
  const auto refused = [&](const std::function<void(local::Submit&)>& spoil,
                           const std::string& part) {
    Trainer trainer(harness.path());
    BringUp(trainer);
    local::Submit submit = MakeSubmit(1);
    spoil(submit);
    trainer.Send(submit);
    ExpectRefused(trainer, part);
  };
  refused([](local::Submit& s) { s.fragment = 2; }, "fragment 2 of 2");
  refused([](local::Submit& s) { s.fragment = 0xffffffff; }, "fragment 4294967295");
  refused([](local::Submit& s) { s.memory = 1; }, "not shared");
  refused([](local::Submit& s) { s.memory = 2; }, "memory 2");
  refused([](local::Submit& s) { s.base_round = -1; }, "negative");
  refused([](local::Submit& s) { s.base_round = std::numeric_limits<int64_t>::max(); }, "no round");
  refused([](local::Submit& s) { s.op = 0; }, "op 0");
  refused([](local::Submit& s) { s.zero[1] = 1; }, "padding");
  refused([](local::Submit& s) { s.origin = 2; }, "origin");
  refused([](local::Submit& s) { s.label[0] = '.'; }, "label");
  refused([](local::Submit& s) { s.label[1] = 'a'; }, "label");
  refused([](local::Submit& s) { std::strcpy(s.label, "../etc"); }, "label");
  refused([](local::Submit& s) { std::memset(s.label, 'a', sizeof(s.label)); }, "label");
  refused(
      [](local::Submit& s) {
        s.origin = 1;
        s.base_round = 0;
      },
      "no value before");
}

TEST_CASE("slices that leave the layout") {
  Harness harness;
  const auto refused = [&](std::vector<local::SliceRecord> slices, uint32_t announced,
                           const std::string& part) {
    Trainer trainer(harness.path());
    trainer.SayHello(MakeHello());
    testing::SendJoin(trainer);
    (void)trainer.Receive<local::Joined>(Type::kJoined);
    const auto* bytes = reinterpret_cast<const uint8_t*>(slices.data());
    const loop::Descriptor memfd = testing::Memfd({bytes, slices.size() * sizeof(slices[0])});
    auto offer = Make<local::Offer>(Type::kOffer);
    offer.slices = announced;
    trainer.Send(offer, {memfd.get()});
    ExpectRefused(trainer, part);
  };
  refused({{0, 513, 0, 0}}, 1, "leaves fragment 0");
  refused({{512, 1, 0, 0}}, 1, "leaves fragment 0");
  refused({{UINT64_MAX, 2, 0, 0}}, 1, "leaves fragment 0");
  refused({{1, UINT64_MAX, 0, 0}}, 1, "leaves fragment 0");
  refused({{0, 1, 2, 0}}, 1, "fragment 2 of 2");
  refused({{0, 1, 0, 1}}, 1, "padding");
  refused({{0, 1, 0, 0}}, 2, "slices");
  refused({{0, 1, 0, 0}}, 0, "1 descriptors beside a message that takes 0");
  refused({{0, 1, 0, 0}}, local::kSlicesMax + 1, "at most");
}

TEST_CASE("wrong descriptors are refused and none is leaked") {
  Harness harness;
  const size_t before = OpenDescriptors();
  {
    const loop::Descriptor memfd = Memfd(testing::BytesOf(SmallSchema()));
    int pipe_ends[2];
    REQUIRE(pipe2(pipe_ends, O_CLOEXEC) == 0);
    const loop::Descriptor pipe_read(pipe_ends[0]), pipe_write(pipe_ends[1]);
    auto join = Make<local::Join>(Type::kJoin);
    join.tensors = 2;
    const auto refused = [&](const std::vector<int>& descriptors, const std::string& part) {
      Trainer trainer(harness.path());
      trainer.SayHello(MakeHello());
      trainer.Send(join, descriptors);
      ExpectRefused(trainer, part);
    };
    refused({}, "0 descriptors beside");
    refused({memfd.get(), memfd.get()}, "2 descriptors beside");
    refused(std::vector<int>(8, memfd.get()), "8 descriptors");
    refused(std::vector<int>(9, memfd.get()), "more than");
    refused(std::vector<int>(200, memfd.get()), "more than");
    refused({pipe_read.get()}, "no memfd");  // would block its reader
    REQUIRE(ftruncate(memfd.get(), 100) == 0);
    refused({memfd.get()}, "has 100 bytes; expected 528");
    REQUIRE(ftruncate(memfd.get(), off_t{1} << 40) == 0);  // sparse: nothing is allocated for it
    refused({memfd.get()}, "has 1099511627776 bytes");

    Trainer trainer(harness.path());
    BringUp(trainer);
    trainer.Send(MakeSubmit(1), {memfd.get()});
    ExpectRefused(trainer, "1 descriptors beside a message that takes 0");
  }
  CHECK(harness.SessionCount() == 0);
  CHECK(OpenDescriptors() == before);
}

TEST_CASE("an illegal schema is a schema error that names the tensor") {
  Harness harness;
  Trainer trainer(harness.path());
  trainer.SayHello(MakeHello());
  const uint64_t sequence =
      SendJoin(trainer, {testing::Record("a", {4}), testing::Record("a", {4})});
  const auto error = trainer.ReceiveError(local::Code::kSchema);
  CHECK(error.header.answers == sequence);
  CHECK(std::string(error.text).find("tensor 1 'a'") != std::string::npos);
  CHECK(trainer.Closed());
  CHECK(harness.recorder.Wait("gone 0 refused"));
}

TEST_CASE("a trainer that does not read is cut off, others are served, and it may resume") {
  Harness harness;
  Trainer slow(harness.path());
  const auto welcome = BringUp(slow);
  Trainer other(harness.path());
  BringUp(other, MakeHello(1));
  // Each request asks for an answer that is never read.
  auto await = Make<local::Await>(Type::kAwait);
  bool cut_off = false;
  for (uint64_t i = 0; i < 1'000'000 && !cut_off; ++i) {
    await.header.sequence = 1000 + i;
    cut_off = !slow.SendBytes({reinterpret_cast<const uint8_t*>(&await), sizeof(await)});
    if (i % 500 == 0) {
      other.Send(MakeSubmit(i + 1));
      CHECK(other.Receive<local::Submitted>(Type::kSubmitted).op == i + 1);
      (void)other.Receive<local::OpState>(Type::kOpState);
    }
  }
  CHECK(cut_off);
  CHECK(harness.recorder.Wait("detached 0"));
  CHECK(harness.Counters().slow_readers == 1);
  local::Hello hello = MakeHello();
  std::memcpy(hello.token, welcome.token, sizeof(hello.token));
  Trainer again(harness.path());
  CHECK(again.SayHello(hello).session == welcome.session);
}

TEST_CASE("connections are limited, and the one too many is told") {
  Harness harness([](Config& config) { config.sessions_max = 3; });
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    trainers.push_back(std::make_unique<Trainer>(harness.path()));
    trainers.back()->SayHello(MakeHello(rank));
  }
  Trainer extra(harness.path());
  const auto error = extra.ReceiveError(local::Code::kMemory);
  CHECK(error.retryable == 1);
  CHECK(std::string(error.text).find("at most 3") != std::string::npos);
  CHECK(extra.Closed());
  CHECK(harness.recorder.Wait("turned away"));
  trainers.pop_back();  // closed, but its session waits to be resumed
  REQUIRE(harness.recorder.Wait("detached 2"));
  Trainer fourth(harness.path());
  fourth.Send(MakeHello(5));
  fourth.ReceiveError(local::Code::kMemory);
  Trainer back(harness.path());
  back.SayHello(MakeHello(2));  // the same process takes its own place
  CHECK(harness.SessionCount() == 3);
}

TEST_CASE("running out of descriptors puts off new connections and ends nothing") {
  Harness harness;
  Trainer first(harness.path());
  BringUp(first);
  Trainer waiting(harness.path(), Trainer::Connected::kNo);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;  // the lowest numbers are in use: nothing can be opened
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool connected = waiting.Connect(harness.path());  // the kernel queues it
  first.Send(MakeSubmit(1));
  const auto submitted = first.Receive<local::Submitted>(Type::kSubmitted);
  CHECK(harness.Counters().connections_accepted == 1);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(connected);
  CHECK(submitted.op == 1);
  waiting.SayHello(MakeHello(1));  // served as soon as there are descriptors again
  CHECK(harness.SessionCount() == 2);
}

TEST_CASE("a connection that never says hello is closed") {
  Harness harness([](Config& config) { config.hello_timeout_us = 1000; });
  Trainer silent(harness.path());
  ExpectRefused(silent, "no Hello came in time");
}

TEST_CASE("random datagrams never reach the listener nor harm the service") {
  Harness harness;
  uint64_t state = 20261130;
  INFO("seed " << state);
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33);
  };
  for (int round = 0; round < 300; ++round) {
    Trainer trainer(harness.path());
    if (round % 2 == 0) trainer.SayHello(MakeHello());
    std::vector<uint8_t> bytes(1 + next() % 400);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(next());
    if (round % 3 == 0 && bytes.size() >= sizeof(local::Header)) {
      auto header = Make<local::Offer>(static_cast<Type>(next() % 20)).header;
      header.size = static_cast<uint32_t>(bytes.size());
      header.sequence = 1 + next() % 5;
      std::memcpy(bytes.data(), &header, sizeof(header));
    }
    REQUIRE(trainer.SendBytes(bytes));
    (void)trainer.ReceiveBytes();  // an answer or the end; never silence
    trainer.Close();
  }
  Trainer good(harness.path());
  BringUp(good, MakeHello(7));
}

}  // namespace
}  // namespace causeway::trainers
