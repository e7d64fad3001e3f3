#include "daemon/config/scalars.h"

#include <catch2/catch.hpp>

namespace causeway::config {
namespace {

TEST_CASE("durations") {
  CHECK(*ParseDurationMs("500ms") == 500);
  CHECK(*ParseDurationMs("10s") == 10'000);
  CHECK(*ParseDurationMs("0.25s") == 250);
  CHECK(*ParseDurationMs("2 m") == 120'000);
  CHECK(*ParseDurationMs("1h") == 3'600'000);
  CHECK(*ParseDurationMs("0") == 0);
  for (const char* wrong : {"", "s", "-1s", "10", "10 sec", "1.2.3s", "ten", "1e3s", "9e99s",
                            "99999999999999999999h"}) {
    INFO(wrong);
    CHECK_FALSE(ParseDurationMs(wrong).ok());
  }
}

TEST_CASE("durations survive formatting") {
  for (const int64_t ms : {1, 200, 999, 1000, 1500, 10'000, 120'000, 7'200'000}) {
    INFO(ms << " " << FormatDurationMs(ms));
    CHECK(*ParseDurationMs(FormatDurationMs(ms)) == ms);
  }
  CHECK(FormatDurationMs(150'000) == "2m 30s");
  CHECK(FormatDurationMs(9'000'000) == "2h 30m");
}

TEST_CASE("sizes") {
  CHECK(*ParseSizeBytes("64MiB") == int64_t{64} << 20);
  CHECK(*ParseSizeBytes("1.5 GiB") == int64_t{3} << 29);
  CHECK(*ParseSizeBytes("100B") == 100);
  CHECK(ParseSizeBytes("4GB").status().message().find("'4GiB'") != std::string::npos);
  CHECK(ParseSizeBytes("4kB").status().message().find("'4KiB'") != std::string::npos);
  for (const char* wrong : {"", "4", "GiB", "4Gi", "4gib", "-4GiB", "99999999999TiB"}) {
    INFO(wrong);
    CHECK_FALSE(ParseSizeBytes(wrong).ok());
  }
  CHECK(FormatSizeBytes(int64_t{3} << 29) == "1.5 GiB");
  CHECK(FormatSizeBytes(100) == "100 B");
}

TEST_CASE("rates") {
  CHECK(*ParseRateBits("200mbit") == 200'000'000);
  CHECK(*ParseRateBits("1.5 gbit") == 1'500'000'000);
  for (const char* wrong : {"", "200", "mbit", "200Mb", "200MB/s", "-1mbit"}) {
    INFO(wrong);
    CHECK_FALSE(ParseRateBits(wrong).ok());
  }
  CHECK(FormatRateBits(1'500'000'000) == "1.5gbit");
  CHECK(FormatRateBits(999) == "999bit");
}

TEST_CASE("addresses") {
  CHECK(ParseDialAddress("a-b.example.org:7443")->host == "a-b.example.org");
  CHECK(ParseDialAddress("a:65535")->port == 65535);
  CHECK(ParseDialAddress("[2001:db8::1]:7443")->host == "2001:db8::1");
  CHECK(ParseListenAddress("0.0.0.0:1")->host == "0.0.0.0");
  CHECK(ParseListenAddress("[::]:7443")->host == "::");
  for (const char* wrong :
       {"",      ":",       ":1",          "a",      "a:",    "a:0",    "a:65536",
        "a:-1",  "a: 1",    "a:1x",        "[]:1",   "[::1]", "[::1:1", "[fe80::zz]:1",
        "::1:1", "1.2.3:1", "1.2.3.4.5:1", "a..b:1", "-a:1",  "a/b:1",  "a b:1"}) {
    INFO(wrong);
    CHECK_FALSE(ParseDialAddress(wrong).ok());
  }
  CHECK_FALSE(ParseListenAddress("localhost:1").ok());
}

TEST_CASE("numbers") {
  CHECK(*ParseInteger("-5") == -5);
  CHECK(*ParseNumber("1e-3") == 1e-3);
  CHECK(*ParseMode("0660") == 0660);
  for (const char* wrong : {"", "0x10", "1_000", "nan", "inf", ".nan", "1,5", "--1", "1e999"}) {
    INFO(wrong);
    CHECK_FALSE(ParseInteger(wrong).ok());
    CHECK_FALSE(ParseNumber(wrong).ok());
  }
  for (const char* wrong : {"", "0", "660", "0888", "rw-rw----", "0000660"}) {
    INFO(wrong);
    CHECK_FALSE(ParseMode(wrong).ok());
  }
}

}  // namespace
}  // namespace causeway::config
