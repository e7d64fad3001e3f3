// bench_transport: one end of a link, told by lines on standard input, one JSON line back each:
//   up          waits until the link is up
//   start       begins to send without end      stop   ceases
//   send COUNT  sends so many chunks; seconds until the last one was acknowledged
//   mark        the time, what was received, processor time and memory so far
//   ping COUNT  round trips of single messages, in milliseconds
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "daemon/memory/allocator.h"
#include "daemon/transport/poller.h"
#include "tests/bench/transport/bench_end.h"

namespace causeway::bench {
namespace {

constexpr absl::Duration kUpLimit = absl::Seconds(30);

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

uint64_t PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  uint64_t kilobytes = 0;
  while (std::getline(status, line)) {
    if (line.rfind("VmHWM:", 0) == 0) {
      std::istringstream(line.substr(6)) >> kilobytes;
      break;
    }
  }
  return kilobytes * 1024;
}

void Say(const std::string& json) {
  std::printf("%s\n", json.c_str());
  std::fflush(stdout);
}

std::string Mark(BenchEnd& end) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const Counts counts = end.Count();
  return absl::StrCat(
      "{\"time_s\": ", absl::ToDoubleSeconds(transport::MonotonicNow() - absl::UnixEpoch()),
      ", \"bytes\": ", counts.bytes_received,
      ", \"cpu_s\": ", Seconds(usage.ru_utime) + Seconds(usage.ru_stime),
      ", \"peak_resident_bytes\": ", PeakResidentBytes(),
      ", \"bytes_unacknowledged\": ", counts.bytes_unacknowledged,
      ", \"chunks_resent\": ", counts.chunks_resent, ", \"bytes_resent\": ", counts.bytes_resent,
      ", \"lanes_broken\": ", counts.lanes_broken, ", \"lanes_up\": ", counts.lanes_up,
      ", \"lanes_reason\": \"", counts.lanes_reason, "\", \"links\": ", counts.links,
      ", \"down\": \"", counts.down, "\"}");
}

std::string Answer(BenchEnd& end, const std::string& line) {
  if (line == "up") {
    const absl::Time limit = absl::Now() + kUpLimit;
    while (!end.Up() && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(10));
    return end.Up() ? "{\"up\": true}" : "{\"up\": false}";
  }
  if (line == "mark") return Mark(end);
  if (line == "start") {
    end.StartSending();
    return "{}";
  }
  if (line == "stop") {
    end.StopSending();
    return "{}";
  }
  int count = 0;
  if (line.rfind("send ", 0) == 0 && absl::SimpleAtoi(line.substr(5), &count) && count > 0) {
    const absl::Duration took = end.Send(static_cast<uint64_t>(count));
    return absl::StrCat("{\"seconds\": ", absl::ToDoubleSeconds(took), "}");
  }
  if (line.rfind("ping ", 0) == 0 && absl::SimpleAtoi(line.substr(5), &count)) {
    return absl::StrCat("{\"ms\": [",
                        absl::StrJoin(end.Ping(count), ", ",
                                      [](std::string* out, absl::Duration trip) {
                                        absl::StrAppend(out, absl::ToDoubleMilliseconds(trip));
                                      }),
                        "]}");
  }
  return "{\"error\": \"no such command\"}";
}

int Main(int argc, char** argv) {
  memory::KeepFreedMemory();  // both like the daemon
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  Options options;
  bool raw = false;
  CLI::App app{"One end of a link; see tests/bench/run."};
  app.add_option("--cluster", options.cluster)->required();
  app.add_option("--peer", options.peer)->required();
  app.add_option("--pki", options.pki)->required();
  app.add_option("--listen", options.listen);
  app.add_option("--dial", options.dial);
  app.add_option("--lanes", options.lanes);
  app.add_option("--chunk-bytes", options.chunk_bytes);
  app.add_option("--window", options.window_bytes);
  app.add_option("--memory", options.memory_bytes);
  app.add_flag("--stall", options.stall);
  app.add_flag("--raw", raw);
  CLI11_PARSE(app, argc, argv);
  auto end = raw ? MakeRawTlsEnd(options) : MakeLanesEnd(options);
  if (!end.ok()) {
    std::cerr << end.status() << "\n";
    return 1;
  }
  Say("{\"ready\": true}");
  for (std::string line; std::getline(std::cin, line);) Say(Answer(**end, line));
  return 0;
}

}  // namespace
}  // namespace causeway::bench

int main(int argc, char** argv) { return causeway::bench::Main(argc, argv); }
