#include "daemon/cli/check_report.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/cli/json.h"
#include "daemon/cli/run_memory.h"
#include "daemon/cli/table.h"
#include "daemon/config/derived.h"
#include "daemon/config/scalars.h"

namespace causeway::cli {
namespace {

using config::FormatDurationMs;
using config::FormatSizeBytes;

struct NamedTime {
  const char* name;
  const char* what;
  int64_t ms;
};

std::vector<NamedTime> Times(const config::Config& config) {
  const config::Timeouts times = config::DeriveTimeouts(config);
  return {
      {"peer_timeout", "silence after which a peer is down (configured)", times.peer_timeout_ms},
      {"heartbeat", "between heartbeats on an otherwise silent link", times.heartbeat_ms},
      {"hello", "connect, TLS and greeting of one connection", times.hello_ms},
      {"lane_stall", "unacknowledged bytes without progress: the lane is dialled again",
       times.lane_stall_ms},
      {"redial_first", "pause before the second dial, doubling ...", times.redial_first_ms},
      {"redial_last", "... up to this", times.redial_last_ms},
      {"keepalive", "HTTP/2 ping of an idle connection, beneath the heartbeats",
       times.keepalive_ms},
      {"keepalive_lost", "without an answer to it the connection is closed",
       times.keepalive_lost_ms},
      {"trainer_told", "trainers know what is known about a dead peer's round",
       times.trainer_told_ms},
  };
}

std::string Delay(const config::Algorithm& algorithm) {
  if (algorithm.round_late) return "one round";
  return algorithm.delay.has_value() ? absl::StrCat(*algorithm.delay) : "auto";
}

std::string Bytes(uint64_t bytes) { return FormatSizeBytes(static_cast<int64_t>(bytes)); }

std::string RunHead(const config::Run& run) {
  const config::Algorithm& algorithm = run.algorithm;
  return absl::StrCat(
      "run ", run.name, ": ", absl::StrJoin(run.clusters, ", "), "; ", RuleName(algorithm.rule),
      ", ", Plural(algorithm.local_steps, "local step"), ", ",
      Plural(algorithm.fragments, "fragment"), ", delay ", Delay(algorithm), "; ",
      run.codec.ladder.empty()
          ? run.codec.kind
          : absl::StrCat("auto from ", run.codec.ladder.front(), " to ", run.codec.ladder.back()),
      "; seed ", run.seed, run.primary.empty() ? "" : absl::StrCat(", primary ", run.primary));
}

std::string RunText(const config::Config& config, const config::Run& run, uint64_t parameters) {
  const RunMemory memory = MemoryOf(config, run);
  const auto budget = static_cast<uint64_t>(config.memory_bytes);
  Table table({"  PART", "BYTES/PARAMETER", "HOLDS"});
  for (const MemoryPart& part : memory.parts) {
    table.Add({absl::StrCat("  ", part.name),
               part.bytes_per_parameter > 0 ? absl::StrFormat("%.3f", part.bytes_per_parameter)
                                            : absl::StrCat("+ ", Bytes(part.bytes_fixed)),
               part.what});
  }
  table.Add({"  sum", absl::StrFormat("%.3f", memory.bytes_per_parameter),
             memory.bytes_fixed > 0 ? absl::StrCat("+ ", Bytes(memory.bytes_fixed)) : ""});
  return absl::StrCat(RunHead(run), "\n", table.Format(), "  ", FormatCount(parameters),
                      " parameters: ", Bytes(memory.Total(parameters)), "; the budget of ",
                      Bytes(budget), " carries ", FormatCount(memory.ParametersMax(budget)),
                      " when the run is alone\n");
}

void WriteDiagnostics(const std::vector<config::Diagnostic>& found, JsonWriter* json) {
  json->BeginArray();
  for (const config::Diagnostic& diagnostic : found) {
    json->BeginObject().Key("line").Integer(diagnostic.line);
    json->Key("column").Integer(diagnostic.column).Key("key").String(diagnostic.key);
    json->Key("message").String(diagnostic.message).EndObject();
  }
  json->EndArray();
}

void WriteRun(const config::Config& config, const config::Run& run, uint64_t parameters,
              JsonWriter* json) {
  const RunMemory memory = MemoryOf(config, run);
  json->BeginObject().Key("name").String(run.name).Key("rule").String(RuleName(run.algorithm.rule));
  json->Key("codec").String(run.codec.kind).Key("memory").BeginObject();
  json->Key("parts").BeginArray();
  for (const MemoryPart& part : memory.parts) {
    json->BeginObject().Key("name").String(part.name).Key("what").String(part.what);
    json->Key("bytes_per_parameter").Number(part.bytes_per_parameter);
    json->Key("bytes_fixed").Unsigned(part.bytes_fixed);
    if (part.bytes_max != MemoryPart{}.bytes_max) json->Key("bytes_max").Unsigned(part.bytes_max);
    json->EndObject();
  }
  json->EndArray();
  json->Key("bytes_per_parameter").Number(memory.bytes_per_parameter);
  json->Key("bytes_fixed").Unsigned(memory.bytes_fixed);
  json->Key("parameters").Unsigned(parameters).Key("bytes").Unsigned(memory.Total(parameters));
  json->Key("parameters_max")
      .Unsigned(memory.ParametersMax(static_cast<uint64_t>(config.memory_bytes)));
  json->EndObject().EndObject();
}

}  // namespace

uint64_t TotalBytes(const config::Config& config, uint64_t parameters) {
  uint64_t total = 0;
  for (const config::Run& run : config.runs) total += MemoryOf(config, run).Total(parameters);
  return total;
}

std::string FormatCheck(const config::ParseResult& result, std::optional<uint64_t> parameters) {
  const config::Config& config = *result.config;
  std::string text = absl::StrCat(result.file, ": valid\n\nTime-outs\n");
  Table table({"  NAME", "TIME", "MEANS"});
  for (const NamedTime& time : Times(config)) {
    table.Add({absl::StrCat("  ", time.name), FormatDurationMs(time.ms), time.what});
  }
  absl::StrAppend(&text, table.Format());
  const uint64_t count = parameters.value_or(kExampleParameters);
  if (!config.runs.empty()) absl::StrAppend(&text, "\nMemory of fp32 parameters\n");
  for (const config::Run& run : config.runs) absl::StrAppend(&text, RunText(config, run, count));
  return text;
}

std::string FormatCheckJson(const config::ParseResult& result, std::optional<uint64_t> parameters) {
  JsonWriter json;
  json.BeginObject().Key("file").String(result.file).Key("valid").Bool(result.ok());
  json.Key("errors");
  WriteDiagnostics(result.errors, &json);
  json.Key("warnings");
  WriteDiagnostics(result.warnings, &json);
  if (result.ok()) {
    json.Key("timeouts_ms").BeginObject();
    for (const NamedTime& time : Times(*result.config)) json.Key(time.name).Integer(time.ms);
    json.EndObject().Key("memory_budget_bytes").Integer(result.config->memory_bytes);
    json.Key("runs").BeginArray();
    for (const config::Run& run : result.config->runs) {
      WriteRun(*result.config, run, parameters.value_or(kExampleParameters), &json);
    }
    json.EndArray();
  }
  return json.EndObject().text() + "\n";
}

}  // namespace causeway::cli
