// Escaping: no value can break out of its place.
#include "daemon/observe/log_line.h"

#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <vector>

namespace causeway::observe {
namespace {

constexpr LineHead kHead{Level::kInfo, false, 1'893'553'445'678, "peer.up", 0};

std::string Text(std::vector<Field> fields, std::string_view text = "") {
  return FormatLine(LogFormat::kText, kHead, fields, text);
}
std::string Json(std::vector<Field> fields, std::string_view text = "") {
  return FormatLine(LogFormat::kJson, kHead, fields, text);
}

TEST_CASE("a line as text") {
  CHECK(Text({{"peer", "tokyo"}, {"round", 12}, {"rtt_ms", 98.5}, {"primary", true}},
             "link established") ==
        "time=2030-01-02T03:04:05.678Z level=info event=peer.up peer=tokyo round=12 rtt_ms=98.5 "
        "primary=true text=\"link established\"");
}

TEST_CASE("a line as JSON") {
  CHECK(Json({{"peer", "tokyo"}, {"round", 12}, {"rtt_ms", 98.5}, {"primary", true}}, "up") ==
        "{\"time\":\"2030-01-02T03:04:05.678Z\",\"level\":\"info\",\"event\":\"peer.up\","
        "\"peer\":\"tokyo\",\"round\":12,\"rtt_ms\":98.5,\"primary\":true,\"text\":\"up\"}");
}

TEST_CASE("journald gets a priority and no second time") {
  const auto line = [](Level level) {
    return FormatLine(LogFormat::kText, {level, true, 0, "a", 0}, {}, "");
  };
  CHECK(line(Level::kDebug) == "<7>level=debug event=a");
  CHECK(line(Level::kInfo) == "<6>level=info event=a");
  CHECK(line(Level::kWarning) == "<4>level=warning event=a");
  CHECK(line(Level::kError) == "<3>level=error event=a");
}

TEST_CASE("values that try to forge") {
  const std::string head = "time=2030-01-02T03:04:05.678Z level=info event=peer.up ";
  CHECK(Text({{"a", "x level=error"}}) == head + "a=\"x level=error\"");
  CHECK(Text({{"a", "x\ntime=1"}}) == head + "a=\"x\\ntime=1\"");
  CHECK(Text({{"a", "\" b=\""}}) == head + "a=\"\\\" b=\\\"\"");
  CHECK(Text({{"a", "c:\\x"}}) == head + "a=\"c:\\\\x\"");
  CHECK(Text({{"a", ""}}) == head + "a=\"\"");
  CHECK(Text({{"a", "\x1b[31m"}}) == head + "a=\"\\x1b[31m\"");
  CHECK(Text({{"a", "é"}}) == head + "a=\"\\xc3\\xa9\"");
  CHECK(Text({{"a", std::string_view("\0", 1)}}) == head + "a=\"\\x00\"");
  const std::string json = Json({{"a", "\"}\n\x7f"}});
  CHECK(json.find("\"a\":\"\\\"}\\n\\u007f\"}") != std::string::npos);
}

TEST_CASE("numbers at their limits") {
  CHECK(Text({{"a", std::numeric_limits<uint64_t>::max()}}).ends_with("a=18446744073709551615"));
  CHECK(Text({{"a", std::numeric_limits<int64_t>::min()}}).ends_with("a=-9223372036854775808"));
  CHECK(Text({{"a", std::numeric_limits<double>::quiet_NaN()}}).ends_with("a=nan"));
  CHECK(Json({{"a", std::numeric_limits<double>::infinity()}}).ends_with("\"a\":null}"));
}

TEST_CASE("long values and many fields are cut, and say so") {
  const std::string value(100'000, 'x');
  const std::string line = Text({{"a", value}});
  CHECK(line.size() < kLogValueBytesMax + 100);
  CHECK(line.ends_with("...\""));
  const std::vector<Field> fields(20, Field("a", value));
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string cut = FormatLine(format, kHead, fields, "short");
    CHECK(cut.size() <= kLogLineBytesMax);
    CHECK(cut.find(format == LogFormat::kText ? "cut=true" : "\"cut\":true}") != std::string::npos);
    CHECK(cut.find("short") != std::string::npos);
  }
}

TEST_CASE("any bytes give one printable line") {
  const uint64_t seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 500; ++i) {
    std::string value(random() % 200, '\0');
    for (char& c : value) c = static_cast<char>(random());
    for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
      const Field field("a", value);
      for (const char c : FormatLine(format, kHead, absl::MakeConstSpan(&field, 1), value)) {
        REQUIRE(c >= ' ');
        REQUIRE(c <= '~');
      }
    }
  }
}

}  // namespace
}  // namespace causeway::observe
