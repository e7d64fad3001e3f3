// Who holds an identity: duplicates, death behind forked children, resuming, tokens of the past.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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
using testing::Trainer;

local::Hello WithToken(local::Hello hello, const local::Welcome& welcome) {
  std::memcpy(hello.token, welcome.token, sizeof(hello.token));
  return hello;
}

TEST_CASE("a live duplicate of (run, rank) is refused and names who holds it") {
  Harness harness;
  Trainer first(harness.path());
  first.SayHello(MakeHello(2));
  Trainer second(harness.path());
  second.Send(MakeHello(2));
  const auto error = second.ReceiveError(local::Code::kIdentityTaken);
  CHECK(error.fatal == 1);
  CHECK(error.retryable == 0);
  CHECK(std::string(error.text).find(std::to_string(getpid())) != std::string::npos);
  CHECK(second.Closed());
  Trainer other(harness.path());
  other.SayHello(MakeHello(3));  // another rank is welcome
  CHECK(harness.SessionCount() == 2);
  CHECK(harness.recorder.Count("gone 2 closed") == 0);
}

// A child that says hello, forks a grandchild which keeps the socket open, and waits to be killed.
// Returns its pid; `hold` is the end of a pipe that the grandchild lives by.
pid_t SpawnTrainer(const std::string& path, loop::Descriptor& hold) {
  int hold_pipe[2], ready_pipe[2];
  REQUIRE(pipe2(hold_pipe, O_CLOEXEC) == 0);
  REQUIRE(pipe2(ready_pipe, O_CLOEXEC) == 0);
  local::Hello hello = MakeHello(0);
  hello.header.sequence = 1;
  const sockaddr_un address = testing::AddressOf(path);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {  // system calls only: the parent has threads
    close(hold_pipe[1]);
    const int socket_number = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char buffer[local::kMessageBytesMax];
    if (connect(socket_number, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        send(socket_number, &hello, sizeof(hello), 0) != sizeof(hello) ||
        recv(socket_number, buffer, sizeof(buffer), 0) != sizeof(local::Welcome)) {
      _exit(1);
    }
    if (fork() == 0) {
      char byte;
      (void)!read(hold_pipe[0], &byte, 1);  // until the test lets go
      _exit(0);
    }
    (void)!write(ready_pipe[1], "r", 1);
    pause();
    _exit(1);
  }
  close(hold_pipe[0]);
  close(ready_pipe[1]);
  char byte = 0;
  REQUIRE(read(ready_pipe[0], &byte, 1) == 1);
  close(ready_pipe[0]);
  hold = loop::Descriptor(hold_pipe[1]);
  return child;
}

TEST_CASE("death is seen although a forked child keeps the socket open") {
  Harness harness;
  loop::Descriptor hold;
  const pid_t child = SpawnTrainer(harness.path(), hold);
  CHECK(harness.SessionCount() == 1);

  Trainer rival(harness.path());
  rival.Send(MakeHello(0));
  const auto error = rival.ReceiveError(local::Code::kIdentityTaken);
  CHECK(std::string(error.text).find(std::to_string(child)) != std::string::npos);

  REQUIRE(kill(child, SIGKILL) == 0);
  CHECK(harness.recorder.Wait("gone 0 died"));
  CHECK(waitpid(child, nullptr, 0) == child);
  Trainer successor(harness.path());
  successor.SayHello(MakeHello(0));
  CHECK(harness.recorder.Count("hello 0") == 2);
}

TEST_CASE("a successor that is faster than the news of the death is welcome") {
  Harness harness;
  loop::Descriptor hold;
  const pid_t child = SpawnTrainer(harness.path(), hold);
  Trainer successor(harness.path());
  // Death and hello reach the loop in one turn, in whatever order.
  harness.Do([&] {
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    successor.Send(MakeHello(0));
  });
  (void)successor.Receive<local::Welcome>(Type::kWelcome);
  CHECK(harness.recorder.Wait("gone 0 died"));
  CHECK(harness.SessionCount() == 1);
}

TEST_CASE("a lost connection is resumed with the token, where it was") {
  Harness harness;
  Trainer first(harness.path());
  const auto welcome = BringUp(first);
  first.Close();
  REQUIRE(harness.recorder.Wait("detached 0"));
  CHECK(harness.SessionCount() == 1);
  harness.Do([&] {  // nobody there: dropped
    harness.service().Find(welcome.session)->SendSubmitted(0, 1, 1);
  });

  Trainer again(harness.path());
  const auto resumed = again.SayHello(WithToken(MakeHello(), welcome));
  CHECK(resumed.session == welcome.session);
  CHECK(std::memcmp(resumed.token, welcome.token, 16) == 0);
  CHECK(harness.recorder.Wait("resumed 0"));
  again.Send(MakeSubmit(4));  // still joined and ready
  CHECK(again.Receive<local::Submitted>(Type::kSubmitted).op == 4);
  CHECK(harness.recorder.Count("hello 0") == 1);
}

TEST_CASE("resuming takes over from a connection that is still there") {
  Harness harness;
  Trainer first(harness.path());
  const auto welcome = BringUp(first);
  Trainer again(harness.path());
  again.SayHello(WithToken(MakeHello(), welcome));
  CHECK(first.Closed());
  again.Send(MakeSubmit(1));
  CHECK(again.Receive<local::Submitted>(Type::kSubmitted).op == 1);
}

TEST_CASE("a token of another identity is refused") {
  Harness harness;
  Trainer first(harness.path());
  const auto welcome = first.SayHello(MakeHello(0));
  Trainer other(harness.path());
  other.Send(WithToken(MakeHello(1), welcome));
  other.ReceiveError(local::Code::kIdentityTaken);
  CHECK(harness.SessionCount() == 1);
}

TEST_CASE("a process that begins anew instead of resuming is let in") {
  Harness harness;
  Trainer first(harness.path());
  const auto welcome = first.SayHello(MakeHello());
  first.Close();
  REQUIRE(harness.recorder.Wait("detached 0"));
  Trainer again(harness.path());
  const auto fresh = again.SayHello(MakeHello());
  CHECK(fresh.session != welcome.session);
  CHECK(harness.recorder.Wait("gone 0 closed"));
  CHECK(harness.SessionCount() == 1);
}

TEST_CASE("a session that does not come back in time is gone, and its token with it") {
  Harness harness([](Config& config) { config.resume_timeout_us = 1000; });
  Trainer first(harness.path());
  const auto welcome = first.SayHello(MakeHello());
  first.Close();
  REQUIRE(harness.recorder.Wait("gone 0 closed"));
  Trainer late(harness.path());
  const auto fresh = late.SayHello(WithToken(MakeHello(), welcome));
  CHECK(fresh.session != welcome.session);  // it must not believe that it was resumed
  CHECK(std::memcmp(fresh.token, welcome.token, 16) != 0);
}

TEST_CASE("a trainer that outlived the daemon gets another token, and can ask for its old ops") {
  local::Welcome welcome;
  {
    Harness before;
    Trainer trainer(before.path());
    welcome = BringUp(trainer);
  }
  Harness after;
  Trainer trainer(after.path());
  const auto fresh = trainer.SayHello(WithToken(MakeHello(), welcome));
  CHECK(std::memcmp(fresh.token, welcome.token, 16) != 0);
  CHECK(fresh.session != welcome.session);
  auto query = Make<local::Query>(Type::kQuery);
  query.session = welcome.session;
  query.op = 1;
  trainer.Send(query);
  CHECK(trainer.Receive<local::OpState>(Type::kOpState).state ==
        static_cast<uint8_t>(local::State::kUnknown));
  CHECK(after.recorder.Wait("query other 1"));
}

TEST_CASE("after resuming, a request whose answer was lost is repeated and answered again") {
  Harness harness;
  Trainer first(harness.path());
  const auto welcome = BringUp(first);
  first.Close();
  Trainer again(harness.path());
  again.SayHello(WithToken(MakeHello(), welcome));
  testing::SendJoin(again);
  CHECK(again.Receive<local::Joined>(Type::kJoined).fragments == 2);
  again.Send(Make<local::Offer>(Type::kOffer));
  CHECK(again.Receive<local::Ready>(Type::kReady).fragments == 2);
  for (int i = 0; i < 2; ++i) {
    again.Send(Make<local::Finish>(Type::kFinish));
    CHECK(again.Receive<local::Finished>(Type::kFinished).values_hash[0] == 0xab);
  }
}

TEST_CASE("sessions and tokens differ") {
  Harness harness;
  std::set<uint64_t> sessions;
  std::set<std::string> tokens;
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (uint32_t rank = 0; rank < 8; ++rank) {
    trainers.push_back(std::make_unique<Trainer>(harness.path()));
    const auto welcome = trainers.back()->SayHello(MakeHello(rank));
    sessions.insert(welcome.session);
    tokens.insert(std::string(reinterpret_cast<const char*>(welcome.token), 16));
  }
  CHECK(sessions.size() == 8);
  CHECK(tokens.size() == 8);
}

}  // namespace
}  // namespace causeway::trainers
