// Schemas from hostile records: every check, the digest, and the words for a difference.
#include "daemon/schema/schema.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/unit/schema/records.h"

namespace causeway::schema {
namespace {

using testing::BytesOf;
using testing::Record;
using Records = std::vector<local::TensorRecord>;

std::string Refusal(const Records& records) {
  const auto schema = Schema::Parse(BytesOf(records), static_cast<uint32_t>(records.size()));
  if (schema.ok()) return "";
  CHECK(absl::IsInvalidArgument(schema.status()));
  return std::string(schema.status().message());
}

bool Has(const std::string& text, const std::string& part) {
  INFO("in: " << text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

TEST_CASE("a legal schema is read as it was declared") {
  const Records records = {
      Record("embed", {128, 16}),
      Record("scale", {}, local::DType::kBf16),
      Record("bn.mean", {7}, local::DType::kFp32, local::Group::kBuffer),
      Record("head", {128, 16}, local::DType::kFp32, local::Group::kParameter, 0),
      Record("empty", {3, 0, 5}, local::DType::kFp16),
      Record("naïve.β", {2})};
  const auto schema = Schema::Parse(BytesOf(records), 6);
  REQUIRE(schema.ok());
  REQUIRE(schema->tensors().size() == 6);
  CHECK(schema->tensors()[0].elements == 2048);
  CHECK(schema->tensors()[1].elements == 1);
  CHECK(schema->tensors()[3].alias_of == 0);
  CHECK(schema->tensors()[4].elements == 0);
  CHECK(schema->elements() == 2048 + 1 + 7 + 2);  // the alias is counted once
  const std::vector<std::string> lines = schema->Lines();
  CHECK(lines[0] == "fp32 parameter [128, 16]\tembed");
  CHECK(lines[2] == "fp32 buffer [7]\tbn.mean");
  CHECK(lines[3] == "alias of 'embed'\thead");
  const std::vector<uint8_t> again = schema->Records();
  CHECK(absl::MakeConstSpan(again) == absl::MakeConstSpan(BytesOf(records)));
}

TEST_CASE("a fixed tensor keeps its shape, and its name's hash tells schemas apart") {
  const auto with = [](const std::string& name) {
    const Records records = {
        Record("w", {4}),
        Record(name, {uint64_t{1} << 40, 3}, local::DType::kFp32, local::Group::kFixed),
        Record("big", {uint64_t{1} << 41})};
    return *Schema::Parse(BytesOf(records), 3);
  };
  const Schema here = with("frozen#12ab");
  CHECK(here.tensors()[1].elements == 0);
  CHECK(here.elements() == 4 + (uint64_t{1} << 41));
  CHECK(here.Lines()[1] == "fp32 fixed [1099511627776, 3]\tfrozen#12ab");
  const std::vector<uint8_t> records = here.Records();
  CHECK(Schema::Parse(records, 3)->digest() == here.digest());
  Has(FirstDifference(here.Lines(), with("frozen#34cd").Lines(), "tokyo"), "frozen#34cd");
}

Records Staged(std::vector<uint8_t> stages) {
  Records records;
  for (uint8_t stage : stages) {
    records.push_back(Record("t" + std::to_string(records.size()), {4}));
    records.back().stage = stage;
  }
  return records;
}

TEST_CASE("the tensors up to a stage are the schema before the run grew") {
  const Records all = Staged({0, 0, 1, 2, 2});
  const auto schema = Schema::Parse(BytesOf(all), 5);
  REQUIRE(schema.ok());
  REQUIRE(schema->stages() == 3);
  const size_t ends[] = {2, 3, 5};
  for (uint32_t stage = 0; stage < 3; ++stage) {
    const Records some(all.begin(), all.begin() + static_cast<long>(ends[stage]));
    const auto before = Schema::Parse(BytesOf(some), static_cast<uint32_t>(some.size()));
    REQUIRE(before.ok());
    CHECK(before->digest() == schema->stage_digest(stage));
    CHECK(schema->StageOf(before->digest()) == stage);
    CHECK(before->StageOf(schema->digest()).has_value() == (stage == 2));
  }
  CHECK(schema->digest() == schema->stage_digest(2));
  CHECK(schema->Lines()[3] == "fp32 parameter [4] of stage 2\tt3");
  const std::vector<uint8_t> again = schema->Records();
  CHECK(absl::MakeConstSpan(again) == absl::MakeConstSpan(BytesOf(all)));
  CHECK(!schema->StageOf(Digest{}).has_value());
}

TEST_CASE("stages ascend from zero without gaps") {
  Has(Refusal(Staged({1})), "tensor 0 't0': it is of stage 1 after one of stage -1");
  Has(Refusal(Staged({0, 2})), "tensor 1 't1'");
  Has(Refusal(Staged({0, 1, 0})), "tensor 2 't2'");
  CHECK(Refusal(Staged({0, 1, 1, 2})).empty());
}

TEST_CASE("the digest is SHA-256 over the domain and the records") {
  const Records records = {Record("w", {4})};
  const auto schema = Schema::Parse(BytesOf(records), 1);
  REQUIRE(schema.ok());
  // python3: hashlib.sha256(b"causeway schema 1\0" + record), record = name "w" zero-padded to 192
  // bytes, 0, 0, 1, 0, int32 -1, uint64 4, 56 zero bytes.
  CHECK(Hex(schema->digest()) ==
        "6354ca736d5217ce7b1b3e895bc1df248bafc3e96cf1577858f7336d1acb2e06");
}

TEST_CASE("every field that differs changes the digest") {
  const Records base = {Record("a", {4, 4}), Record("b", {4, 4})};
  std::vector<Records> variants(6, base);
  variants[0][1] = Record("c", {4, 4});
  variants[1][1] = Record("b", {16});
  variants[2][1] = Record("b", {4, 4}, local::DType::kBf16);
  variants[3][1] = Record("b", {4, 4}, local::DType::kFp32, local::Group::kBuffer);
  variants[4][1] = Record("b", {4, 4}, local::DType::kFp32, local::Group::kParameter, 0);
  std::swap(variants[5][0], variants[5][1]);
  const auto schema = Schema::Parse(BytesOf(base), 2);
  REQUIRE(schema.ok());
  for (const Records& records : variants) {
    const auto other = Schema::Parse(BytesOf(records), 2);
    REQUIRE(other.ok());
    CHECK(other->digest() != schema->digest());
    CHECK(FirstDifference(schema->Lines(), other->Lines(), "tokyo") != "");
  }
}

TEST_CASE("hostile records are refused by name") {
  SECTION("counts and sizes") {
    const Records one = {Record("a", {1})};
    CHECK(!Schema::Parse({}, 0).ok());
    CHECK(!Schema::Parse(BytesOf(one), 2).ok());
    CHECK(!Schema::Parse(BytesOf(one).subspan(1), 1).ok());
    CHECK(!Schema::Parse({}, local::kTensorsMax + 1).ok());
    CHECK(!Schema::Parse({}, 0xffffffffu).ok());
  }
  SECTION("names") {
    Has(Refusal({Record("", {1})}), "name is empty");
    Has(Refusal({Record(std::string(192, 'x'), {1})}), "longer than 191");
    CHECK(Refusal({Record(std::string(191, 'x'), {1})}).empty());
    Records tail = {Record("a", {1})};
    tail[0].name[150] = 'z';
    Has(Refusal(tail), "after the name's end");
    Has(Refusal({Record("a", {1}), Record("b", {1}), Record("a", {2})}), "tensor 2 'a'");
    for (const std::string bad : {"a\nb", "a\x7f", "\xff", "\xc0\x80", "\xed\xa0\x80",
                                  "\xf4\x90\x80\x80", "\xe2\x82", "\x1b[31m"}) {
      Has(Refusal({Record(bad, {1})}), "printable UTF-8");
    }
  }
  SECTION("kinds and padding") {
    Records records = {Record("a", {1})};
    records[0].dtype = 3;
    Has(Refusal(records), "dtype 3");
    records[0].dtype = 0;
    records[0].group = 3;
    Has(Refusal(records), "group 3");
    records[0].group = 2;
    Has(Refusal(records), "nothing to exchange");
    records[0].group = 0;
    records[0].dimensions = 9;
    Has(Refusal(records), "9 dimensions");
    records[0].dimensions = 255;
    Has(Refusal(records), "255 dimensions");
    records[0].dimensions = 1;
    records[0].shape[1] = 1;
    Has(Refusal(records), "unused dimensions");
  }
  SECTION("element counts that overflow") {
    const uint64_t big = uint64_t{1} << 42;
    CHECK(Refusal({Record("a", {big})}).empty());
    Has(Refusal({Record("a", {big + 1})}), "dimension 0");
    Has(Refusal({Record("a", {uint64_t{1} << 40, uint64_t{1} << 40})}), "more than");
    Has(Refusal({Record("a", {~uint64_t{0}, ~uint64_t{0}})}), "dimension 0");
    Has(Refusal({Record("a", {uint64_t{1} << 32, uint64_t{1} << 32})}), "more than");
    Has(Refusal({Record("a", {big}), Record("b", {1})}), "tensor 1 'b'");
    CHECK(Refusal({Record("a", {uint64_t{1} << 42, 0, uint64_t{1} << 42})}).empty());
  }
  SECTION("aliases") {
    const auto alias = [](std::vector<uint64_t> shape, int32_t of) {
      return Record("t", shape, local::DType::kFp32, local::Group::kParameter, of);
    };
    Has(Refusal({Record("a", {4}), alias({4}, 1)}), "does not come before");
    Has(Refusal({Record("a", {4}), alias({4}, 7)}), "does not come before");
    Has(Refusal({Record("a", {4}), alias({4}, -2)}), "does not come before");
    Has(Refusal({Record("a", {4}), alias({4}, INT32_MIN)}), "does not come before");
    Has(Refusal({Record("a", {4}), alias({5}, 0)}), "differs from it");
    Has(Refusal({Record("a", {4}, local::DType::kBf16), alias({4}, 0)}), "differs from it");
    Has(Refusal({Record("a", {4}),
                 Record("b", {4}, local::DType::kFp32, local::Group::kParameter, 0),
                 alias({4}, 1)}),
        "an alias itself");
  }
}

TEST_CASE("the first difference is said in words") {
  const auto lines = [](const Records& records) {
    return Schema::Parse(BytesOf(records), static_cast<uint32_t>(records.size()))->Lines();
  };
  const auto here = lines({Record("e", {8}), Record("h.0.weight", {128, 384})});
  CHECK(FirstDifference(here, here, "tokyo").empty());
  CHECK(
      FirstDifference(here, lines({Record("e", {8}), Record("h.0.weight", {128, 512})}), "tokyo") ==
      "tensor 1 'h.0.weight': fp32 parameter [128, 384] here, fp32 parameter [128, 512] at tokyo");
  CHECK(FirstDifference(here, lines({Record("e", {8}), Record("h.0.bias", {128, 384})}), "tokyo") ==
        "tensor 1: 'h.0.weight' (fp32 parameter [128, 384]) here, 'h.0.bias' (fp32 parameter "
        "[128, 384]) at tokyo");
  CHECK(FirstDifference(here, lines({Record("e", {8})}), "tokyo") ==
        "tensor 1 'h.0.weight': fp32 parameter [128, 384] here, missing at tokyo");
  CHECK(FirstDifference(lines({Record("e", {8})}), here, "tokyo") ==
        "tensor 1 'h.0.weight': fp32 parameter [128, 384] missing here, present at tokyo");
  // Hostile lines neither reach a terminal raw nor grow without bound.
  const std::vector<std::string> hostile = {std::string(100000, '\x1b'), "x"};
  const std::string text = FirstDifference(here, hostile, "tokyo");
  CHECK(text.size() < 2000);
  CHECK(text.find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace causeway::schema
