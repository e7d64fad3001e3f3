#include "daemon/config/scalars.h"

#include <arpa/inet.h>

#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace causeway::config {
namespace {

constexpr size_t kNumberBytesMax = 32;
constexpr size_t kHostBytesMax = 253;
constexpr size_t kLabelBytesMax = 63;

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

absl::Status Wrong(std::string_view text, std::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", Absl(text.substr(0, 64)), "' is not ", Absl(rule)));
}

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array<Unit, 4> kDurationUnits = {
    {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}}};
constexpr std::array<Unit, 4> kRateUnits = {
    {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}};
constexpr std::array<Unit, 5> kSizeUnits = {
    {{"B", 1}, {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1ull << 40}}};

// Splits "10ms" into 10 and "ms". False where the text does not start with a plain decimal number.
bool SplitUnit(std::string_view text, double* number, std::string_view* unit) {
  size_t digits = 0;
  while (digits < text.size() && (absl::ascii_isdigit(text[digits]) || text[digits] == '.')) {
    ++digits;
  }
  if (digits == 0 || digits > kNumberBytesMax) return false;
  *unit = text.substr(digits);
  while (!unit->empty() && unit->front() == ' ') unit->remove_prefix(1);
  return absl::SimpleAtod(Absl(text.substr(0, digits)), number);
}

template <size_t N>
absl::StatusOr<int64_t> Scale(std::string_view text, double number, std::string_view unit,
                              const std::array<Unit, N>& units, std::string_view rule) {
  for (const Unit& known : units) {
    if (unit != known.name) continue;
    const double scaled = number * known.factor;
    if (scaled > 9e15) return Wrong(text, "that large in earnest; the value overflows");
    return static_cast<int64_t>(std::llround(scaled));
  }
  return Wrong(text, rule);
}

bool IsHostName(std::string_view host) {
  if (host.empty() || host.size() > kHostBytesMax) return false;
  for (const absl::string_view label : absl::StrSplit(Absl(host), '.')) {
    if (label.empty() || label.size() > kLabelBytesMax) return false;
    if (label.front() == '-' || label.back() == '-') return false;
    for (const char c : label) {
      if (!absl::ascii_isalnum(c) && c != '-' && c != '_') return false;
    }
  }
  return true;
}

bool IsAddress(int family, const std::string& host) {
  std::array<char, sizeof(in6_addr)> bytes;
  return inet_pton(family, host.c_str(), bytes.data()) == 1;
}

bool LooksNumeric(std::string_view host) {
  return host.find_first_not_of("0123456789.") == std::string_view::npos;
}

absl::StatusOr<uint16_t> ParsePort(std::string_view text, std::string_view port) {
  uint32_t value = 0;
  const bool digits = port.find_first_not_of("0123456789") == std::string_view::npos;
  if (!digits || port.empty() || port.size() > 5 || !absl::SimpleAtoi(Absl(port), &value) ||
      value == 0 || value > std::numeric_limits<uint16_t>::max()) {
    return Wrong(text, "an address: the port after the last ':' is a number from 1 to 65535");
  }
  return static_cast<uint16_t>(value);
}

absl::StatusOr<Address> ParseAddress(std::string_view text, bool names) {
  Address address;
  const std::string_view form =
      names ? "an address; write host:port or [IPv6 address]:port"
            : "an address to listen on; write 0.0.0.0:port, [::]:port or another address:port";
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return Wrong(text, form);
  std::string_view host = text.substr(0, colon);
  const absl::StatusOr<uint16_t> port = ParsePort(text, text.substr(colon + 1));
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return Wrong(text, form);
    address.host = std::string(host.substr(1, host.size() - 2));
    if (!IsAddress(AF_INET6, address.host)) {
      return Wrong(text, "an address: what stands in brackets is no IPv6 address");
    }
  } else {
    if (host.find(':') != std::string_view::npos) {
      return Wrong(text, "an address; an IPv6 address needs brackets, as [2001:db8::1]:7443");
    }
    address.host = std::string(host);
    const bool ipv4 = IsAddress(AF_INET, address.host);
    if (!ipv4 && (!names || LooksNumeric(host) || !IsHostName(host))) return Wrong(text, form);
  }
  if (!port.ok()) return port.status();
  address.port = *port;
  return address;
}

}  // namespace

absl::StatusOr<int64_t> ParseDurationMs(std::string_view text) {
  constexpr std::string_view kRule = "a duration; write a number and a unit, as 500ms, 10s, 2m, 1h";
  double number = 0;
  std::string_view unit;
  if (!SplitUnit(text, &number, &unit)) return Wrong(text, kRule);
  if (unit.empty() && number == 0) return 0;
  if (unit.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Absl(text), "' has no unit; did you mean '", Absl(text), "s'?"));
  }
  return Scale(text, number, unit, kDurationUnits, kRule);
}

absl::StatusOr<int64_t> ParseSizeBytes(std::string_view text) {
  constexpr std::string_view kRule = "a size; write a number and a unit, as 512MiB, 4GiB";
  double number = 0;
  std::string_view unit;
  if (!SplitUnit(text, &number, &unit)) return Wrong(text, kRule);
  if (unit.size() == 2 && unit[1] == 'B' &&
      absl::StrContains("kKMGT", unit.substr(0, 1).data()[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Absl(text), "' leaves open whether 1000 or 1024 is meant; did you mean '",
                     number, std::string(1, absl::ascii_toupper(unit[0])), "iB'?"));
  }
  return Scale(text, number, unit, kSizeUnits, kRule);
}

absl::StatusOr<int64_t> ParseRateBits(std::string_view text) {
  constexpr std::string_view kRule = "a rate; write a number and a unit, as 200mbit, 1gbit";
  double number = 0;
  std::string_view unit;
  if (!SplitUnit(text, &number, &unit)) return Wrong(text, kRule);
  return Scale(text, number, unit, kRateUnits, kRule);
}

absl::StatusOr<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  if (text.empty() || text.size() > kNumberBytesMax ||
      text.find_first_not_of("+-0123456789") != std::string_view::npos ||
      !absl::SimpleAtoi(Absl(text), &value)) {
    return Wrong(text, "a whole number");
  }
  return value;
}

absl::StatusOr<double> ParseNumber(std::string_view text) {
  double value = 0;
  if (text.empty() || text.size() > kNumberBytesMax ||
      text.find_first_not_of("+-.eE0123456789") != std::string_view::npos ||
      !absl::SimpleAtod(Absl(text), &value) || !std::isfinite(value)) {
    return Wrong(text, "a number");
  }
  return value;
}

absl::StatusOr<bool> ParseBool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return Wrong(text, "true or false");
}

absl::StatusOr<uint32_t> ParseMode(std::string_view text) {
  uint32_t mode = 0;
  const bool octal = text.size() >= 2 && text.size() <= 5 && text.front() == '0' &&
                     text.find_first_not_of("01234567") == std::string_view::npos;
  if (!octal) return Wrong(text, "a file mode; write it in octal with a leading zero, as 0660");
  for (const char c : text) mode = mode * 8 + static_cast<uint32_t>(c - '0');
  return mode;
}

absl::StatusOr<Address> ParseDialAddress(std::string_view text) { return ParseAddress(text, true); }

absl::StatusOr<Address> ParseListenAddress(std::string_view text) {
  return ParseAddress(text, false);
}

std::string FormatDurationMs(int64_t ms) {
  if (ms % 1000 != 0) {
    return ms < 1000 ? absl::StrFormat("%dms", ms) : absl::StrFormat("%gs", ms / 1000.0);
  }
  const int64_t s = ms / 1000;
  if (s < 120) return absl::StrFormat("%ds", s);
  if (s % 60 != 0) return absl::StrFormat("%dm %ds", s / 60, s % 60);
  const int64_t m = s / 60;
  if (m < 120) return absl::StrFormat("%dm", m);
  return m % 60 == 0 ? absl::StrFormat("%dh", m / 60) : absl::StrFormat("%dh %dm", m / 60, m % 60);
}

std::string FormatRateBits(int64_t bits) {
  for (size_t i = kRateUnits.size(); i-- > 1;) {
    if (static_cast<double>(bits) >= kRateUnits[i].factor) {
      return absl::StrFormat("%.4g%s", static_cast<double>(bits) / kRateUnits[i].factor,
                             std::string(kRateUnits[i].name));
    }
  }
  return absl::StrFormat("%dbit", bits);
}

std::string FormatSizeBytes(int64_t bytes) {
  for (size_t i = kSizeUnits.size(); i-- > 1;) {
    if (static_cast<double>(bytes) >= kSizeUnits[i].factor) {
      return absl::StrFormat("%.4g %s", static_cast<double>(bytes) / kSizeUnits[i].factor,
                             std::string(kSizeUnits[i].name));
    }
  }
  return absl::StrFormat("%d B", bytes);
}

}  // namespace causeway::config
