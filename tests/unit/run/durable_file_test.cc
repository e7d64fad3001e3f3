// The engine's words on disk: whole, or refused by name.
#include "daemon/run/durable_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/unit/run/messages.h"

namespace causeway::run {
namespace {

struct Fixture {
  Fixture() {
    std::string pattern = (std::filesystem::temp_directory_path() / "causeway-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    directory = pattern;
  }
  ~Fixture() { std::filesystem::remove_all(directory); }
  std::string Bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string directory;
  const Roster roster{{"lima", "paris", "tokyo"}};
};

TEST_CASE_METHOD(Fixture, "nothing on disk is a blank disk; what is written is read; removal forgets") {
  DurableFile file(directory, "demo", roster);
  CHECK(file.Read()->Blank());
  engine::Durable durable{{5, 1}, testing::SomeRecord(), true};
  REQUIRE(file.Write(durable).ok());
  CHECK(file.Read()->accepted == durable.accepted);
  CHECK((std::filesystem::status(file.path()).permissions() & std::filesystem::perms::others_all) ==
        std::filesystem::perms::none);
  REQUIRE(file.Remove().ok());
  CHECK(file.Remove().ok());
  CHECK(file.Read()->Blank());
}

TEST_CASE_METHOD(Fixture, "numbers that no run reaches are refused by name") {
  DurableFile file(directory, "demo", roster);
  const auto refused = [&](const engine::Durable& durable, const char* word) {
    REQUIRE(file.Write(durable).ok());
    const absl::Status status = file.Read().status();
    INFO(status.message());
    return status.code() == absl::StatusCode::kDataLoss &&
           status.message().find(word) != absl::string_view::npos;
  };
  const engine::Record good = testing::SomeRecord();
  CHECK(refused({{engine::kEpochCounterMax + 1, 1}, good, true}, "epoch.counter"));
  engine::Record bad = good;
  bad.epoch.counter = engine::kEpochCounterMax + 1;
  CHECK(refused({good.epoch, bad, true}, "epoch.counter"));
  bad = good;
  bad.lineage = bad.epoch.counter;
  CHECK(refused({good.epoch, bad, true}, "record.lineage"));
  bad = good;
  bad.base.at(0).round = engine::kRoundMax + 1;
  CHECK(refused({good.epoch, bad, true}, "round"));
  REQUIRE(file.Write({{engine::kEpochCounterMax, 1}, good, true}).ok());
  CHECK(file.Read().ok());
}

TEST_CASE_METHOD(Fixture, "every torn or altered file is refused with its path") {
  DurableFile file(directory, "demo", roster);
  REQUIRE(file.Write({{5, 1}, testing::SomeRecord(), true}).ok());
  const std::string whole = Bytes(file.path());
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(file.path(), std::ios::binary) << whole.substr(0, size);
    REQUIRE(file.Read().status().code() == absl::StatusCode::kDataLoss);
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 1);
    std::ofstream(file.path(), std::ios::binary) << altered;
    const absl::Status status = file.Read().status();
    REQUIRE(status.code() == absl::StatusCode::kDataLoss);
    REQUIRE(status.message().find(file.path()) != absl::string_view::npos);
  }
}

// Opening one would wait for whoever writes into it, and the daemon with it.
TEST_CASE_METHOD(Fixture, "a pipe in the file's place is refused") {
  const DurableFile file(directory, "demo", roster);
  REQUIRE(mkfifo(file.path().c_str(), 0600) == 0);
  CHECK(file.Read().status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE_METHOD(Fixture, "a file of other clusters says so") {
  REQUIRE(DurableFile(directory, "demo", roster).Write({{5, 1}, testing::SomeRecord(), true}).ok());
  const Roster other({"oslo", "rome"});
  const absl::Status status = DurableFile(directory, "demo", other).Read().status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(status.message().find("does not fit this configuration") != absl::string_view::npos);
}

TEST_CASE_METHOD(Fixture, "a directory that cannot be written is named") {
  const absl::Status status =
      DurableFile(directory + "/missing", "demo", roster).Write(engine::Durable{});
  CHECK(status.message().find(directory + "/missing") != absl::string_view::npos);
}

}  // namespace
}  // namespace causeway::run
