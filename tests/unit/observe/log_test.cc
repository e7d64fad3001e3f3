// The logger: levels, limits, threads.
#include "daemon/observe/log.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "daemon/observe/events.h"

namespace causeway::observe {
namespace {

struct Recorder {
  std::vector<std::string> lines;
  int64_t now_ms = 0;

  LogOptions Options() {
    LogOptions options;
    options.sink = [this](std::string_view line) { lines.emplace_back(line); };
    options.unix_time_ms = [] { return 0; };
    options.monotonic_ms = [this] { return now_ms; };
    return options;
  }
};

TEST_CASE("levels") {
  Recorder recorder;
  const auto at = [&](Level level) {
    LogOptions options = recorder.Options();
    options.level = level;
    return options;
  };
  Logger usual(recorder.Options());
  usual.Debug(event::kPeerUp, {}, "hidden");
  CHECK(recorder.lines.empty());
  CHECK_FALSE(usual.Enabled(Level::kDebug));
  Logger talkative(at(Level::kDebug));
  talkative.Debug(event::kPeerUp, {}, "seen");
  Logger terse(at(Level::kError));
  terse.Warning(event::kPeerDown, {}, "hidden");
  terse.Error(event::kPeerDown, {{"peer", "oslo"}}, "seen");
  REQUIRE(recorder.lines.size() == 2);
  CHECK(recorder.lines[1] ==
        "time=1970-01-01T00:00:00.000Z level=error event=peer.down peer=oslo text=seen");
}

TEST_CASE("a noisy event is limited and accounted for") {
  Recorder recorder;
  {
    Logger log(recorder.Options());
    for (int i = 0; i < 100; ++i) log.Warning(event::kPeerRefused, {{"i", i}}, "no");
    CHECK(recorder.lines.size() == kLogBurst);
    log.Info(event::kPeerUp, {}, "others are not limited by it");
    CHECK(recorder.lines.size() == kLogBurst + 1);
    recorder.now_ms = 1000;
    log.Warning(event::kPeerRefused, {}, "no");
    CHECK(recorder.lines.back().ends_with("suppressed=" + std::to_string(100 - kLogBurst)));
    log.Warning(event::kPeerRefused, {}, "no");
    log.Warning(event::kPeerRefused, {}, "no");
  }
  CHECK(recorder.lines.back().find("event=log.suppressed of=peer.refused") != std::string::npos);
  CHECK(recorder.lines.back().ends_with("suppressed=1"));
}

TEST_CASE("lines of many threads stay whole") {
  Recorder recorder;
  LogOptions options = recorder.Options();
  options.level = Level::kDebug;
  Logger log(std::move(options));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log, t] {
      for (int i = 0; i < 200; ++i) log.Debug(event::kRoundCommitted, {{"thread", t}}, "x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(recorder.lines.size() == 800);
  for (const std::string& line : recorder.lines) CHECK(line.ends_with(" text=x"));
}

TEST_CASE("standard error gets every queued line before the logger ends") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int saved = dup(STDERR_FILENO);
  REQUIRE(dup2(ends[1], STDERR_FILENO) >= 0);
  {
    LogOptions options;
    options.level = Level::kDebug;
    Logger log(std::move(options));
    for (int i = 0; i < 100; ++i) log.Debug(event::kRoundCommitted, {{"i", i}}, "x");
  }
  REQUIRE(dup2(saved, STDERR_FILENO) >= 0);
  close(saved);
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  for (int i = 0; i < 100; ++i) {
    CHECK(text.find(" i=" + std::to_string(i) + " text=x\n") != std::string::npos);
  }
}

TEST_CASE("names of levels and formats") {
  CHECK(*ParseLevel("warning") == Level::kWarning);
  CHECK_FALSE(ParseLevel("loud").ok());
  CHECK(*ParseLogFormat("json") == LogFormat::kJson);
  CHECK_FALSE(ParseLogFormat("xml").ok());
}

TEST_CASE("journald's stream is recognised by device and inode") {
  struct stat info;
  REQUIRE(fstat(STDERR_FILENO, &info) == 0);
  const auto stream = [](uint64_t device, uint64_t inode) {
    return std::to_string(device) + ":" + std::to_string(inode);
  };
  setenv("JOURNAL_STREAM", stream(info.st_dev, info.st_ino).c_str(), 1);
  CHECK(StandardErrorIsJournal());
  setenv("JOURNAL_STREAM", stream(info.st_dev, info.st_ino + 1).c_str(), 1);
  CHECK_FALSE(StandardErrorIsJournal());
  setenv("JOURNAL_STREAM", "garbage", 1);
  CHECK_FALSE(StandardErrorIsJournal());
  unsetenv("JOURNAL_STREAM");
  CHECK_FALSE(StandardErrorIsJournal());
}

}  // namespace
}  // namespace causeway::observe
