// See command.h.
#include "tests/wan/emulator/command.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace causeway::wan_emulator {
namespace {

constexpr double kQuantityMax = 1e15;

struct Unit {
  std::string_view name;
  double factor;
};

absl::StatusOr<double> ParseQuantity(std::string_view text, std::string_view what,
                                     std::initializer_list<Unit> units) {
  const size_t digits = std::min(text.find_first_not_of("0123456789.eE+"), text.size());
  double value;
  // "1e9" is a number but "1ms" must not swallow an e; SimpleAtod judges what was taken.
  if (absl::SimpleAtod(absl::string_view(text.data(), digits), &value) && value >= 0) {
    const std::string_view suffix = text.substr(digits);
    for (const Unit& unit : units) {
      if (suffix == unit.name && value * unit.factor <= kQuantityMax) return value * unit.factor;
    }
  }
  std::string names;
  for (const Unit& unit : units) absl::StrAppend(&names, " '", std::string(unit.name), "'");
  return absl::InvalidArgumentError(absl::StrCat("'", std::string(text), "' is no ",
                                                 std::string(what),
                                                 ": a number and one of the units", names));
}

absl::Status Set(std::string_view key, std::string_view value, PipeSettings& settings) {
  const auto whole = [](absl::StatusOr<int64_t> parsed, int64_t& field) {
    if (parsed.ok()) field = *parsed;
    return parsed.status();
  };
  if (key == "rate") {
    absl::StatusOr<double> rate = ParseRate(value);
    if (rate.ok()) settings.rate_bits_per_second = *rate;
    return rate.status();
  }
  if (key == "delay") return whole(ParseDuration(value), settings.delay_ns);
  if (key == "jitter") return whole(ParseDuration(value), settings.jitter_ns);
  if (key == "queue") return whole(ParseBytes(value), settings.queue_bytes);
  if (key == "mtu-hole") return whole(ParseBytes(value), settings.mtu_hole);
  if (key == "loss") {
    absl::StatusOr<double> loss = ParseQuantity(value, "probability", {{"", 1}, {"%", 0.01}});
    if (!loss.ok()) return loss.status();
    if (*loss > 1) return absl::InvalidArgumentError("a loss is at most 1 (or 100%)");
    settings.loss = *loss;
    return absl::OkStatus();
  }
  if (key == "dark" && (value == "0" || value == "1")) {
    settings.dark = value == "1";
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(key), "=", std::string(value),
                   "' is no setting: rate, delay, jitter, loss, queue, mtu-hole, dark=0|1"));
}

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += std::iscntrl(static_cast<unsigned char>(c)) ? ' ' : c;
  }
  return quoted + "\"";
}

}  // namespace

absl::StatusOr<double> ParseRate(std::string_view text) {
  if (text == "unlimited") return 0.0;
  return ParseQuantity(text, "rate",
                       {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"", 1}});
}

absl::StatusOr<int64_t> ParseDuration(std::string_view text) {
  absl::StatusOr<double> ns =
      ParseQuantity(text, "duration", {{"ms", 1e6}, {"s", 1e9}, {"us", 1e3}, {"ns", 1}});
  if (!ns.ok()) return ns.status();
  return std::llround(*ns);
}

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  absl::StatusOr<double> bytes =
      ParseQuantity(text, "size", {{"", 1}, {"KiB", 1024}, {"MiB", 1048576}});
  if (!bytes.ok()) return bytes.status();
  return std::llround(*bytes);
}

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  const std::string terminated(text);
  Address address{};
  if (inet_pton(AF_INET6, terminated.c_str(), address.data()) == 1) return address;
  if (inet_pton(AF_INET, terminated.c_str(), address.data() + 12) == 1) {
    address[10] = address[11] = 0xff;
    return address;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", terminated, "' is no IP address"));
}

absl::Status ApplySettings(std::string_view text, Network& network) {
  const std::vector<std::string> words =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ' ', absl::SkipEmpty());
  if (words.size() < 2) {
    return absl::InvalidArgumentError("settings are FROM>TO key=value ...");
  }
  const auto change = [&words](PipeSettings& settings) {
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string_view word = words[i];
      const size_t equals = std::min(word.find('='), word.size());
      const std::string_view value = equals < word.size() ? word.substr(equals + 1) : "";
      absl::Status status = Set(word.substr(0, equals), value, settings);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  };
  PipeSettings scratch;
  if (absl::Status status = change(scratch); !status.ok()) return status;
  return network.Configure(words[0], change);
}

Reply RunCommand(std::string_view line, Network& network, int64_t now_ns) {
  if (line == "stats") return {network.StatsJson(now_ns), false};
  if (line == "quit") return {"{\"ok\":true}", true};
  absl::Status status = absl::InvalidArgumentError("commands are set, stats, quit");
  if (line.substr(0, 4) == "set ") status = ApplySettings(line.substr(4), network);
  if (status.ok()) return {"{\"ok\":true}", false};
  return {absl::StrCat("{\"error\":", Quote(std::string(status.message())), "}"), false};
}

}  // namespace causeway::wan_emulator
