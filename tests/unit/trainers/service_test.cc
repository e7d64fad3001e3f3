// A trainer's ordinary life: hello, join, offer, submit, applied, finish, leave; and the
// descriptors.
#include "daemon/trainers/service.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "tests/unit/trainers/harness.h"

namespace causeway::trainers {
namespace {

using local::Type;
using testing::BringUp;
using testing::Harness;
using testing::Make;
using testing::MakeHello;
using testing::MakeSubmit;
using testing::SendJoin;
using testing::Trainer;

TEST_CASE("a session from hello to leave") {
  Harness harness;
  Trainer trainer(harness.path());
  const auto welcome = trainer.SayHello(MakeHello(3));
  CHECK(std::string(welcome.cluster) == "paris");
  CHECK(welcome.incarnation == 77);
  CHECK(welcome.session != 0);

  const uint64_t join = SendJoin(trainer);
  const auto joined = trainer.Receive<local::Joined>(Type::kJoined);
  CHECK(joined.header.answers == join);
  CHECK(joined.fragments == 2);
  CHECK(joined.tensors == 2);
  CHECK(joined.layout_bytes ==
        2 * sizeof(local::FragmentRecord) + 2 * sizeof(local::PlacementRecord));
  CHECK(joined.local_steps == 20);
  CHECK(std::string(joined.rule) == "nesterov");
  CHECK(std::string(joined.codec).size() == 31);  // clipped, terminated
  REQUIRE(trainer.received.size() == 3);

  const int layout = trainer.received[0].get();
  CHECK(fcntl(layout, F_GET_SEALS) == (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
  local::FragmentRecord fragments[2];
  REQUIRE(pread(layout, fragments, sizeof(fragments), 0) == sizeof(fragments));
  CHECK(fragments[0].elements == 512);
  CHECK(fragments[1].elements == 256);
  CHECK(ftruncate(layout, 0) == -1);
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, layout, 0) == MAP_FAILED);

  const uint64_t offer = trainer.Send(Make<local::Offer>(Type::kOffer));
  const auto ready = trainer.Receive<local::Ready>(Type::kReady);
  CHECK(ready.header.answers == offer);
  CHECK(ready.fragments == 2);
  CHECK(ready.members == 2);
  CHECK(ready.start == static_cast<uint8_t>(local::Start::kReplace));
  CHECK(ready.round[0] == 5);
  CHECK(ready.round[1] == 6);
  CHECK(ready.round[2] == 0);

  auto applied = Make<local::Applied>(Type::kApplied);
  applied.fragment = 1;
  applied.round = 6;
  trainer.Send(applied);
  CHECK(harness.recorder.Wait("applied 3 1 6"));

  const uint64_t submit = trainer.Send(MakeSubmit(1));
  const auto submitted = trainer.Receive<local::Submitted>(Type::kSubmitted);
  CHECK(submitted.header.answers == submit);
  CHECK(submitted.op == 1);
  CHECK(submitted.round == 6);
  const auto state = trainer.Receive<local::OpState>(Type::kOpState);
  CHECK(state.header.answers == 0);
  CHECK(state.state == static_cast<uint8_t>(local::State::kCommitted));
  CHECK(std::string(state.awaited).size() == 255);

  auto query = Make<local::Query>(Type::kQuery);
  query.session = welcome.session;
  query.op = 9;
  trainer.Send(query);
  CHECK(trainer.Receive<local::OpState>(Type::kOpState).op == 9);
  CHECK(harness.recorder.Wait("query own 9"));

  auto await = Make<local::Await>(Type::kAwait);
  trainer.Send(await);
  CHECK(std::string(trainer.Receive<local::Awaiting>(Type::kAwaiting).awaited) == "tokyo");

  auto abandon = Make<local::Abandon>(Type::kAbandon);
  abandon.op = 1;
  trainer.Send(abandon);
  CHECK(harness.recorder.Wait("abandon 3 1"));

  trainer.Send(Make<local::Finish>(Type::kFinish));
  CHECK(trainer.Receive<local::Finished>(Type::kFinished).values_hash[0] == 0xab);
  trainer.Send(Make<local::Leave>(Type::kLeave));
  CHECK(trainer.Closed());
  CHECK(harness.recorder.Wait("gone 3 left"));
  CHECK(harness.SessionCount() == 0);
}

TEST_CASE("a run that is not configured is refused, and the connection ends") {
  Harness harness;
  Trainer trainer(harness.path());
  const uint64_t sequence = trainer.Send(MakeHello(0, "other"));
  const auto error = trainer.ReceiveError(local::Code::kRun);
  CHECK(error.header.answers == sequence);
  CHECK(error.fatal == 1);
  CHECK(trainer.Closed());
  CHECK(harness.SessionCount() == 0);
}

TEST_CASE("a fatal error of the listener ends the session, after the message") {
  Harness harness;
  Trainer trainer(harness.path());
  const auto welcome = BringUp(trainer);
  harness.Do([&] {
    Problem problem;
    problem.code = local::Code::kNonfinite;
    problem.fatal = true;
    problem.tensor = "h.0.weight";
    problem.cluster = "paris";
    problem.round = 6;
    problem.text = std::string(5000, 'y');
    Session* session = harness.service().Find(welcome.session);
    REQUIRE(session != nullptr);
    session->SendError(0, problem);
    session->SendSubmitted(0, 1, 1);  // dropped: the fatal message is the last
  });
  const auto error = trainer.ReceiveError(local::Code::kNonfinite);
  CHECK(std::string(error.tensor) == "h.0.weight");
  CHECK(error.round == 6);
  CHECK(std::string(error.text).size() == local::kErrorTextMax);
  CHECK(trainer.Closed());
  CHECK(harness.recorder.Wait("gone 0 refused"));
}

TEST_CASE("a draining service takes no new trainer and keeps the ones it has") {
  Harness harness;
  Trainer first(harness.path());
  BringUp(first);
  Trainer waiting(harness.path());  // connected, has not said hello
  CHECK(harness.Counters().connections_accepted == 2);
  harness.Do([&] { harness.service().StopListening(); });
  waiting.Send(MakeHello(1));
  const auto error = waiting.ReceiveError(local::Code::kDraining);
  CHECK(error.retryable == 1);
  CHECK(access(harness.path().c_str(), F_OK) == -1);  // the socket is gone
  first.Send(MakeSubmit(1));
  CHECK(first.Receive<local::Submitted>(Type::kSubmitted).op == 1);
}

TEST_CASE("stopping the service tells every session") {
  Harness harness;
  Trainer first(harness.path()), second(harness.path());
  BringUp(first, MakeHello(0));
  BringUp(second, MakeHello(1));
  CHECK(harness.SessionCount() == 2);
  // The harness resets the service at its end; here through the same path.
  first.Send(Make<local::Leave>(Type::kLeave));
  CHECK(harness.recorder.Wait("gone 0 left"));
  CHECK(harness.SessionCount() == 1);
}

}  // namespace
}  // namespace causeway::trainers
