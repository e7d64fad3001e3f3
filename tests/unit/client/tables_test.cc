// Schemas, layouts and slices: what is refused, and that the refusal names the tensor.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "client/shim/layout.h"
#include "client/shim/schema.h"
#include "client/shim/slices.h"

namespace causeway::client {
namespace {

cw_tensor Tensor1(const char* name, uint64_t elements, int32_t alias_of = -1,
                  uint8_t dtype = CW_FP32) {
  cw_tensor tensor{};
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.dimensions = 1;
  tensor.alias_of = alias_of;
  tensor.shape[0] = elements;
  return tensor;
}

// Three tensors and an alias in one fragment: x at 0 (300), y at 512 (10), z at 768 (256); w
// aliases y.
struct Tables {
  Tables() {
    const cw_tensor tensors[] = {Tensor1("x", 300), Tensor1("y", 10), Tensor1("z", 256),
                                 Tensor1("w", 10, 1), Tensor1("empty", 0)};
    REQUIRE(Schema::Build(tensors, 5, schema).ok());
    fragment.elements = 1024;
    fragment.values_offset[1] = 4096;
    fragment.chunks = 1;
    const uint64_t firsts[] = {0, 512, 768, 512, 1024};
    const uint64_t sizes[] = {300, 10, 256, 10, 0};
    for (int i = 0; i < 5; ++i) {
      local::PlacementRecord place{};
      place.first_element = firsts[i];
      place.elements = sizes[i];
      places.push_back(place);
    }
    joined.fragments = 1;
    joined.tensors = 5;
    joined.snapshot_bytes = 4096;
    joined.values_bytes = 8192;
    joined.layout_bytes = LayoutBytes(1, 5);
  }
  Status Parse() {
    std::vector<uint8_t> bytes(LayoutBytes(1, static_cast<uint32_t>(places.size())));
    std::memcpy(bytes.data(), &fragment, sizeof(fragment));
    std::memcpy(bytes.data() + sizeof(fragment), places.data(), places.size() * sizeof(places[0]));
    return Layout::Parse(bytes.data(), joined, schema, layout);
  }
  Schema schema;
  Layout layout;
  local::FragmentRecord fragment{};
  std::vector<local::PlacementRecord> places;
  local::Joined joined{};
};

TEST_CASE("a schema refuses what no gateway could take") {
  Schema schema;
  const std::string long_name(192, 'n');
  struct Case {
    std::vector<cw_tensor> tensors;
    int code;
    const char* word;
  };
  cw_tensor wide = Tensor1("wide", 1);
  wide.dimensions = 9;
  cw_tensor huge = Tensor1("huge", uint64_t{1} << 40);
  huge.dimensions = 2;
  huge.shape[1] = 1 << 20;
  cw_tensor overflow = Tensor1("overflow", uint64_t{1} << 63);
  overflow.dimensions = 2;
  overflow.shape[1] = 2;
  const Case cases[] = {
      {{}, CW_ARGUMENT, "no tensors"},
      {{Tensor1(nullptr, 1)}, CW_SCHEMA, "tensor 0 has no name"},
      {{Tensor1("", 1)}, CW_SCHEMA, "no name"},
      {{Tensor1(long_name.c_str(), 1)}, CW_SCHEMA, "longer"},
      {{Tensor1("t", 1), Tensor1("t", 2)}, CW_SCHEMA, "'t'"},
      {{Tensor1("d", 1, -1, 3)}, CW_SCHEMA, "'d'"},
      {{wide}, CW_SCHEMA, "'wide'"},
      {{huge}, CW_SCHEMA, "'huge'"},
      {{overflow}, CW_SCHEMA, "'overflow'"},
      {{Tensor1("t", 1), Tensor1("self", 1, 1)}, CW_SCHEMA, "'self'"},
      {{Tensor1("t", 1), Tensor1("other", 2, 0)}, CW_SCHEMA, "'other'"},
      {{Tensor1("t", 1), Tensor1("u", 1, 0), Tensor1("chain", 1, 1)}, CW_SCHEMA, "'chain'"},
  };
  for (const Case& c : cases) {
    const Status status =
        Schema::Build(c.tensors.data(), static_cast<uint32_t>(c.tensors.size()), schema);
    INFO(c.word);
    REQUIRE(status.code() == c.code);
    REQUIRE(status.failure().text.find(c.word) != std::string::npos);
  }
}

TEST_CASE("a layout that fits is taken, and every kind of lie is refused") {
  Tables good;
  const Status taken = good.Parse();
  REQUIRE(taken.ok());
  REQUIRE(good.layout.fragments()[0].tensors == std::vector<uint32_t>{0, 1, 2});
  const std::vector<std::function<void(Tables&)>> lies = {
      [](Tables& t) { t.fragment.zero = 1; },
      [](Tables& t) { t.fragment.dtype = 3; },
      [](Tables& t) { t.fragment.dtype = 1; },
      [](Tables& t) { t.fragment.group = 1; },
      [](Tables& t) { t.fragment.elements = 1000; },
      [](Tables& t) { t.fragment.elements = uint64_t{1} << 62; },
      [](Tables& t) { t.fragment.snapshot_offset = 64; },
      [](Tables& t) { t.fragment.snapshot_offset = 8; },
      [](Tables& t) { t.fragment.snapshot_offset = UINT64_MAX - 63; },
      [](Tables& t) { t.fragment.values_offset[1] = 0; },
      [](Tables& t) { t.fragment.values_offset[1] = 4160; },
      [](Tables& t) { t.joined.snapshot_bytes = 100; },
      [](Tables& t) { t.joined.tensors = 4; },
      [](Tables& t) { t.joined.layout_bytes -= 1; },
      [](Tables& t) { t.places[0].fragment = 1; },
      [](Tables& t) { t.places[0].zero = 1; },
      [](Tables& t) { t.places[0].elements = 299; },
      [](Tables& t) { t.places[1].first_element = 511; },
      [](Tables& t) { t.places[1].first_element = 256; },   // inside x
      [](Tables& t) { t.places[2].first_element = 1024; },  // beyond the end
      [](Tables& t) { t.places[2].first_element = UINT64_MAX - 255; },
      [](Tables& t) { t.places[3].first_element = 768; },  // not where its original is
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    INFO("lie " << i);
    Tables tables;
    lies[i](tables);
    REQUIRE_FALSE(tables.Parse().ok());
  }
}

struct SliceCase {
  std::vector<cw_slice> slices;
  Coverage coverage;
  const char* word;  // null: accepted
};

TEST_CASE("slices must be inside, disjoint and complete") {
  Tables tables;
  REQUIRE(tables.Parse().ok());
  float memory[512] = {};
  auto slice = [&](uint32_t tensor, uint64_t first, uint64_t count) {
    return cw_slice{tensor, 0, 0, {}, first, count, memory, nullptr, nullptr};
  };
  const SliceCase cases[] = {
      {{slice(0, 0, CW_WHOLE), slice(1, 0, CW_WHOLE), slice(2, 0, CW_WHOLE)},
       Coverage::kWhole,
       nullptr},
      {{slice(2, 0, CW_WHOLE), slice(3, 0, CW_WHOLE), slice(0, 100, CW_WHOLE), slice(1, 0, 10),
        slice(0, 0, 100)},
       Coverage::kWhole,
       nullptr},
      {{slice(0, 0, CW_WHOLE), slice(2, 0, CW_WHOLE)}, Coverage::kWhole, "'y'"},
      {{slice(0, 0, CW_WHOLE), slice(1, 0, CW_WHOLE), slice(2, 0, 255)}, Coverage::kWhole, "'z'"},
      {{slice(0, 1, CW_WHOLE), slice(1, 0, CW_WHOLE), slice(2, 0, CW_WHOLE)},
       Coverage::kWhole,
       "'x'"},
      {{slice(0, 0, 200), slice(0, 199, 101)}, Coverage::kAny, "same elements"},
      {{slice(0, 301, 0)}, Coverage::kAny, "beyond"},
      {{slice(0, 200, 101)}, Coverage::kAny, "beyond"},
      {{slice(0, 2, UINT64_MAX - 1)}, Coverage::kAny, "beyond"},
      {{slice(9, 0, 1)}, Coverage::kAny, "tensor 9"},
      {{cw_slice{0, 0, 0, {}, 0, 1, nullptr, nullptr, nullptr}}, Coverage::kAny, "no memory"},
      {{cw_slice{0, 3, 0, {}, 0, 1, memory, nullptr, memory}}, Coverage::kAny, "cast_dtype"},
      {{slice(0, 250, CW_WHOLE), slice(2, 0, CW_WHOLE)}, Coverage::kAny, nullptr},
      {{slice(4, 0, CW_WHOLE)}, Coverage::kAny, nullptr},
      {{}, Coverage::kAny, nullptr},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    INFO("case " << i);
    std::vector<Part> parts;
    const Status status =
        PlaceSlices(tables.schema, tables.layout, 0, cases[i].slices.data(),
                    static_cast<uint32_t>(cases[i].slices.size()), cases[i].coverage, parts);
    if (cases[i].word == nullptr) {
      REQUIRE(status.ok());
    } else {
      REQUIRE_FALSE(status.ok());
      REQUIRE(status.failure().text.find(cases[i].word) != std::string::npos);
    }
  }
}

TEST_CASE("ranges are what the slices cover, neighbours joined, in the fragment's own order") {
  Tables tables;
  REQUIRE(tables.Parse().ok());
  float memory[512] = {};
  const auto slice = [&](uint32_t tensor, uint64_t first, uint64_t count) {
    return cw_slice{tensor, 0, 0, {}, first, count, memory, nullptr, nullptr};
  };
  const std::vector<cw_slice> slices = {slice(2, 0, 256), slice(0, 200, 100), slice(0, 100, 100),
                                        slice(1, 0, 0), slice(0, 0, 1)};
  std::vector<Part> parts;
  REQUIRE(PlaceSlices(tables.schema, tables.layout, 0, slices.data(),
                      static_cast<uint32_t>(slices.size()), Coverage::kAny, parts)
              .ok());
  const std::vector<Range> expected = {{0, 0, 1}, {0, 100, 200}, {0, 768, 256}};
  REQUIRE(RangesOf(parts) == expected);
  REQUIRE(RangesOf({}).empty());

  Descriptor memfd;
  REQUIRE(WriteRanges(expected, memfd).ok());
  local::SliceRecord records[4];
  REQUIRE(pread(memfd.get(), records, sizeof(records), 0) == 3 * sizeof(records[0]));
  REQUIRE(records[1].first_element == 100);
  REQUIRE(records[1].element_count == 200);
  REQUIRE(records[2].fragment == 0);
  REQUIRE(ftruncate(memfd.get(), 0) != 0);
}

}  // namespace
}  // namespace causeway::client
