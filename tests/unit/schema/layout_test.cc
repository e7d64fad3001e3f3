// Layouts of random schemas: every tensor in exactly one place, aligned, balanced, the same each
// time.
#include "daemon/schema/layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "compression/codec.h"
#include "tests/unit/schema/records.h"

namespace causeway::schema {
namespace {

using testing::BytesOf;
using testing::Record;
using Records = std::vector<local::TensorRecord>;

class Random {  // splitmix64
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t Below(uint64_t limit) { return Next() % limit; }

 private:
  uint64_t state_;
};

Schema Parse(const Records& records) {
  auto schema = Schema::Parse(BytesOf(records), static_cast<uint32_t>(records.size()));
  REQUIRE(schema.ok());
  return *std::move(schema);
}

Records RandomRecords(Random& random) {
  Records records;
  const uint64_t count = 1 + random.Below(40);
  for (uint64_t i = 0; i < count; ++i) {
    if (i > 0 && random.Below(8) == 0) {
      const auto target = static_cast<int32_t>(random.Below(i));
      if (records[target].alias_of < 0) {
        local::TensorRecord alias = records[target];
        std::memset(alias.name, 0, sizeof(alias.name));
        std::snprintf(alias.name, sizeof(alias.name), "alias.%d", static_cast<int>(i));
        alias.alias_of = target;
        records.push_back(alias);
        continue;
      }
    }
    const uint64_t sizes[] = {0, 1, 255, 256, 257, 4096, random.Below(600'000)};
    records.push_back(Record("t." + std::to_string(i), {sizes[random.Below(7)]},
                             static_cast<local::DType>(random.Below(3)),
                             static_cast<local::Group>(random.Below(4) == 0)));
  }
  return records;
}

void CheckProperties(const Schema& schema, const Layout& layout, uint32_t wanted) {
  const auto& tensors = schema.tensors();
  REQUIRE(layout.placements().size() == tensors.size());
  REQUIRE(!layout.fragments().empty());
  uint64_t snapshot_end = 0, values_end = 0;
  for (const local::FragmentRecord& fragment : layout.fragments()) {
    CHECK(fragment.elements >= local::kTensorAlignElements);
    CHECK(fragment.elements % local::kTensorAlignElements == 0);
    CHECK(fragment.chunks ==
          (fragment.elements + compression::kChunkElements - 1) / compression::kChunkElements);
    CHECK(fragment.snapshot_offset == snapshot_end);  // disjoint, in order, page-aligned
    CHECK(snapshot_end % 4096 == 0);
    snapshot_end +=
        (fragment.elements * DTypeBytes(static_cast<local::DType>(fragment.dtype)) + 4095) / 4096 *
        4096;
    for (uint64_t offset : fragment.values_offset) {
      CHECK(offset == values_end);
      values_end += (fragment.elements * 4 + 4095) / 4096 * 4096;
    }
  }
  CHECK(snapshot_end == layout.snapshot_bytes());
  CHECK(values_end == layout.values_bytes());

  std::map<uint32_t, uint64_t> cursor;  // by fragment: where its last tensor ended
  std::map<uint32_t, uint32_t> last;    // by fragment: its last tensor
  for (uint32_t t = 0; t < tensors.size(); ++t) {
    const local::PlacementRecord& place = layout.placements()[t];
    REQUIRE(place.fragment < layout.fragments().size());
    const local::FragmentRecord& fragment = layout.fragments()[place.fragment];
    CHECK(place.elements == tensors[t].elements);
    CHECK(place.first_element % local::kTensorAlignElements == 0);
    CHECK(place.first_element + place.elements <= fragment.elements);
    CHECK(fragment.dtype == static_cast<uint8_t>(tensors[t].dtype));
    CHECK(fragment.group == static_cast<uint8_t>(tensors[t].group));
    if (tensors[t].alias_of >= 0) {
      CHECK(std::memcmp(&place, &layout.placements()[tensors[t].alias_of], sizeof(place)) == 0);
      continue;
    }
    CHECK(place.first_element == cursor[place.fragment]);  // schema order, nothing left between
    cursor[place.fragment] += (place.elements + 255) / 256 * 256;
    last[place.fragment] = t;
    if (place.elements != 0) {
      CHECK(layout.TensorAt(place.fragment, place.first_element) == t);
      CHECK(layout.TensorAt(place.fragment, place.first_element + place.elements - 1) == t);
      CHECK(layout.NextOccupied(place.fragment, place.first_element) == place.first_element);
      if (place.elements % 256 != 0) {
        CHECK(!layout.TensorAt(place.fragment, place.first_element + place.elements));
      }
    }
  }
  CHECK(layout.parameter_fragments() <= std::max<uint32_t>(wanted, 3));
  CHECK((layout.note().empty() == (layout.parameter_fragments() == wanted)));
  for (uint32_t f = 0; f < layout.fragments().size(); ++f) {
    const bool parameter = layout.fragments()[f].group == 0;
    CHECK(parameter == (f < layout.parameter_fragments()));
    uint64_t sum = 0;
    for (uint32_t c = 0; c < layout.fragments()[f].chunks; ++c) sum += layout.ChunkElements(f, c);
    CHECK(sum == layout.fragments()[f].elements);
  }
}

TEST_CASE("layouts of random schemas keep every rule and are the same each time") {
  const uint64_t first = 20261130;
  for (uint64_t seed = first; seed < first + 300; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Schema schema = Parse(RandomRecords(random));
    const auto wanted = static_cast<uint32_t>(1 + random.Below(12));
    const auto layout = Layout::Build(schema, wanted);
    REQUIRE(layout.ok());
    CheckProperties(schema, *layout, wanted);
    const auto again = Layout::Build(schema, wanted);
    REQUIRE(again.ok());
    CHECK(again->Bytes() == layout->Bytes());
  }
}

// The least possible weight of the heaviest run, by trying every way to cut.
uint64_t BestByForce(const std::vector<uint64_t>& weights, size_t begin, size_t parts) {
  if (parts == 1) return std::accumulate(weights.begin() + begin, weights.end(), uint64_t{0});
  uint64_t best = UINT64_MAX, sum = 0;
  for (size_t end = begin + 1; weights.size() - end >= parts - 1; ++end) {
    sum += weights[end - 1];
    best = std::min(best, std::max(sum, BestByForce(weights, end, parts - 1)));
  }
  return best;
}

TEST_CASE("fixed tensors take no room and move nothing") {
  const auto fixed = [](const std::string& name) {
    return Record(name, {1000, 1000}, local::DType::kFp32, local::Group::kFixed);
  };
  const Layout without = *Layout::Build(Parse({Record("a", {300}), Record("b", {300})}), 2);
  const Records records = {fixed("f"), Record("a", {300}), fixed("g"), Record("b", {300})};
  const Layout with = *Layout::Build(Parse(records), 2);
  REQUIRE(with.fragments().size() == 2);
  CHECK(with.snapshot_bytes() == without.snapshot_bytes());
  for (uint32_t t : {0u, 1u}) {
    const local::PlacementRecord& before = without.placements()[t];
    CHECK(std::memcmp(&with.placements()[2 * t + 1], &before, sizeof(before)) == 0);
    CHECK(with.placements()[2 * t].elements == 0);
  }
  CHECK(with.TensorAt(0, 0) == 1);
}

TEST_CASE("cuts are balanced as well as whole tensors allow") {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<uint64_t> weights(1 + random.Below(11));
    for (uint64_t& weight : weights) weight = random.Below(5) == 0 ? 0 : random.Below(100) * 256;
    const size_t parts = 1 + random.Below(weights.size());
    const std::vector<size_t> ends = CutBalanced(weights, parts);
    REQUIRE(ends.size() == parts);
    CHECK(ends.back() == weights.size());
    uint64_t heaviest = 0;
    size_t begin = 0;
    for (size_t end : ends) {
      REQUIRE(end > begin);
      heaviest = std::max(
          heaviest, std::accumulate(weights.begin() + begin, weights.begin() + end, uint64_t{0}));
      begin = end;
    }
    CHECK(heaviest == BestByForce(weights, 0, parts));
  }
}

TEST_CASE("equal tensors are shared out evenly") {
  Records records;
  for (int i = 0; i < 10; ++i) records.push_back(Record("t" + std::to_string(i), {1024}));
  const auto layout = Layout::Build(Parse(records), 4);
  REQUIRE(layout.ok());
  std::vector<uint64_t> sizes;
  for (const auto& fragment : layout->fragments()) sizes.push_back(fragment.elements / 1024);
  std::sort(sizes.begin(), sizes.end());
  CHECK(sizes == std::vector<uint64_t>{2, 2, 3, 3});
}

TEST_CASE("fewer tensors than fragments, and only empty ones") {
  const auto few = Layout::Build(Parse({Record("a", {10}), Record("b", {10})}), 4);
  REQUIRE(few.ok());
  CHECK(few->fragments().size() == 2);
  CHECK(few->note().find("2 parameter fragments in place of 4") == 0);
  const auto empty = Layout::Build(Parse({Record("a", {0})}), 1);
  REQUIRE(empty.ok());
  REQUIRE(empty->fragments().size() == 1);
  CHECK(empty->fragments()[0].elements == 256);
  CHECK(empty->fragments()[0].chunks == 1);
  CHECK(!empty->TensorAt(0, 0));
  CHECK(!empty->NextOccupied(0, 0));
}

TEST_CASE("limits of fragments") {
  CHECK(!Layout::Build(Parse({Record("a", {1})}), 0).ok());
  CHECK(!Layout::Build(Parse({Record("a", {1})}), local::kFragmentsMax + 1).ok());
  Records records;
  for (uint32_t i = 0; i < local::kFragmentsMax; ++i) {
    records.push_back(Record("t" + std::to_string(i), {1}));
  }
  CHECK(Layout::Build(Parse(records), local::kFragmentsMax).ok());
  records.push_back(Record("mean", {1}, local::DType::kFp32, local::Group::kBuffer));
  CHECK(!Layout::Build(Parse(records), local::kFragmentsMax).ok());
}

// A chunk, which is what travels as one message, is cut from the fragment and not from tensors.
TEST_CASE("many small tensors share chunks") {
  Records records;
  for (int i = 0; i < 5000; ++i) records.push_back(Record("t" + std::to_string(i), {100}));
  const auto layout = Layout::Build(Parse(records), 1);
  REQUIRE(layout.ok());
  REQUIRE(layout->fragments().size() == 1);
  CHECK(layout->fragments()[0].elements == 5000 * 256);  // each is aligned
  CHECK(layout->fragments()[0].chunks == 5);
}

TEST_CASE("a tensor beyond 2^32 bytes is placed in 64-bit offsets") {
  const uint64_t elements = (uint64_t{5} << 30) + 3;
  const auto layout = Layout::Build(Parse({Record("a", {elements}), Record("b", {1})}), 1);
  REQUIRE(layout.ok());
  CHECK(layout->placements()[1].first_element == (uint64_t{5} << 30) + 256);
  CHECK(layout->TensorAt(0, elements - 1) == 0u);
  CHECK(layout->fragments()[0].values_offset[1] > (uint64_t{20} << 30));
}

TEST_CASE("what is placed stays where it is when a schema grows", "[growth]") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    Records records = RandomRecords(random);
    const uint32_t wanted = 1 + static_cast<uint32_t>(random.Below(6));
    Schema before = Parse(records);
    for (uint8_t stage = 1; stage <= 3; ++stage) {
      const uint64_t count = 1 + random.Below(4);
      for (uint64_t i = 0; i < count; ++i) {
        records.push_back(Record(
            "grown." + std::to_string(records.size()), {random.Below(900'000)}, local::DType::kFp32,
            random.Below(4) == 0 ? local::Group::kBuffer : local::Group::kParameter));
        records.back().stage = stage;
      }
      const Schema after = Parse(records);
      const auto small = Layout::Build(before, wanted);
      const auto large = Layout::Build(after, wanted);
      REQUIRE((small.ok() && large.ok()));
      const size_t fragments = small->fragments().size();
      REQUIRE(large->fragments().size() > fragments);
      CHECK(std::memcmp(large->fragments().data(), small->fragments().data(),
                        fragments * sizeof(local::FragmentRecord)) == 0);
      CHECK(std::memcmp(large->placements().data(), small->placements().data(),
                        small->placements().size() * sizeof(local::PlacementRecord)) == 0);
      CHECK(large->FragmentsUpTo(stage - 1u) == fragments);
      CHECK(large->FragmentsUpTo(stage) == large->fragments().size());
      CHECK(large->fragments()[fragments].snapshot_offset == small->snapshot_bytes());
      for (uint32_t f = 0; f < large->fragments().size(); ++f) {
        const uint32_t from = f == 0 ? 0 : large->StageOf(f - 1);
        CHECK((large->StageOf(f) == from || large->StageOf(f) == from + 1));
      }
      CHECK(large->StageOf(static_cast<uint32_t>(fragments)) == stage);
      before = after;
    }
  }
}

TEST_CASE("a stage has as many fragments as keep their size", "[growth]") {
  Records records;
  for (int i = 0; i < 8; ++i) records.push_back(Record("a" + std::to_string(i), {1024}));
  for (int i = 0; i < 4; ++i) {
    records.push_back(Record("b" + std::to_string(i), {1024}));
    records.back().stage = 1;
  }
  records.push_back(Record("c", {16}));
  records.back().stage = 2;
  const auto layout = Layout::Build(Parse(records), 4);
  REQUIRE(layout.ok());
  CHECK(layout->parameter_fragments() == 4);
  CHECK(layout->FragmentsUpTo(0) == 4);
  CHECK(layout->FragmentsUpTo(1) == 6);
  CHECK(layout->FragmentsUpTo(2) == 7);
}

}  // namespace
}  // namespace causeway::schema
