// What an operator asks of a run, and what a disk that refuses makes of it.
#include <filesystem>

#include "tests/unit/run/member.h"

namespace causeway::testing {
namespace {

TEST_CASE("a run whose record cannot be removed is not forgotten, and goes on being kept on disk") {
  Gateway gateway(nullptr, "int8", {1, 1000});
  {
    Member member(gateway);
    member.Begin();
    member.Round(0);
    gateway.WaitLogged("state.checkpoint-written");
  }
  gateway.WaitGone(1);
  // What cannot be removed, whoever tries.
  const std::string record = gateway.OnDisk("demo.epoch");
  std::filesystem::rename(record, record + ".kept");
  std::filesystem::create_directory(record);
  const absl::Status refused = gateway.Forget();
  INFO(refused.message());
  CHECK(std::string(refused.message()).find(record) != std::string::npos);
  // The value here goes to disk again, without a further round.
  gateway.WaitLogged("state.checkpoint-written");
  CHECK(std::filesystem::exists(gateway.OnDisk("demo.state")));
  std::filesystem::remove(record);
  std::filesystem::rename(record + ".kept", record);
  REQUIRE(gateway.Forget().ok());
  CHECK_FALSE(std::filesystem::exists(gateway.OnDisk("demo.state")));
  CHECK_FALSE(std::filesystem::exists(record));
}

TEST_CASE("a record that cannot be written is named as such, and the run begins once it can") {
  Gateway gateway(nullptr);
  const std::string fresh = gateway.OnDisk("demo.epoch.new");
  std::filesystem::create_directory(fresh);
  Member member(gateway);
  Member::Write(member.snapshot, 0);
  member.trainer.Send(Make<local::Offer>(local::Type::kOffer));
  gateway.WaitLogged("run.record-failed");
  std::filesystem::remove(fresh);
  member.trainer.Receive<local::Ready>(local::Type::kReady);
  CHECK(std::filesystem::exists(gateway.OnDisk("demo.epoch")));
}

}  // namespace
}  // namespace causeway::testing
