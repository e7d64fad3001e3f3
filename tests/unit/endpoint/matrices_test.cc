// Which matrices chunks hold, and that a run's contributions send them.
#include "daemon/endpoint/matrices.h"

#include <numeric>

#include "compression/low_rank.h"
#include "tests/unit/endpoint/model.h"

namespace causeway::endpoint {
namespace {

using compression::MatrixPiece;
using testing::Model;
using testing::Record;

TEST_CASE("tensors are matrices, cut where chunks are") {
  // 1000 x 300 begins at 0; 7 x 40 x 50 behind it at a boundary; a vector; a scalar.
  Model model(
      {Record("a", {1000, 300}), Record("b", {7, 40, 50}), Record("c", {9}), Record("d", {})},
      "lowrank:r4");
  const Matrices matrices(*model.schema, *model.layout, 4);
  const uint32_t chunk = compression::kChunkElements;
  const uint32_t a_end = 300032;  // 300000 and its padding
  const uint32_t lead = 300 - chunk % 300;
  CHECK(matrices.chunk(0, 0).pieces == std::vector<MatrixPiece>{{chunk, 300}});
  CHECK(matrices.chunk(0, 1).pieces ==
        std::vector<MatrixPiece>{
            {lead, 0}, {a_end - chunk - lead, 300}, {14080, 2000}, {256, 0}, {256, 0}});
  CHECK(matrices.warm_elements() == 4 * (300 + 300 + 2000));
}

TEST_CASE("chunks of every layout are covered by legal pieces") {
  std::vector<local::TensorRecord> records;
  for (uint32_t i = 0; i < 60; ++i) {
    records.push_back(Record("t" + std::to_string(i), {1 + (i * 37) % 301, 1 + (i * 91) % 500}));
  }
  records.push_back(Record("wide", {3, 400'000}));
  records.push_back(Record("long", {300'000, 2}));
  records.push_back(Record("vector", {600'000}));
  records.push_back(Record("empty", {0, 5}));
  Model model(records, "lowrank:r4", true, 3);
  for (uint32_t rank : {1u, 4u, 64u}) {
    const Matrices matrices(*model.schema, *model.layout, rank);
    uint64_t warm = 0;
    for (uint32_t f = 0; f < model.layout->fragments().size(); ++f) {
      for (uint32_t c = 0; c < model.layout->fragments()[f].chunks; ++c) {
        const Matrices::Chunk& chunk = matrices.chunk(f, c);
        CAPTURE(rank, f, c);
        REQUIRE(compression::LegalPieces(chunk.pieces, model.layout->ChunkElements(f, c), rank));
        CHECK(chunk.warm_first == warm);
        warm += compression::WarmElements(rank, chunk.pieces);
      }
    }
    CHECK(matrices.warm_elements() == warm);
  }
}

// What does not change is followed: each contribution begins where the one before ended, also one
// that was dropped.
TEST_CASE("contributions send matrices, begin with the last one's factors, and keep a residual") {
  Model model({Record("m", {300, 200}), Record("b", {100})}, "lowrank:r3:ef");
  model.Publish(0, 0, [](uint64_t) { return 0.0f; });
  const auto value = [](uint64_t i) {
    const uint64_t row = i / 200;
    const uint64_t column = i % 200;
    float sum = 0.2f * testing::Noise(9, i);
    for (uint64_t k = 0; k < 5; ++k) {
      sum += testing::Noise(k, row) * testing::Noise(k + 10, column) / static_cast<float>(1 + k);
    }
    return sum;
  };
  model.Write(0, value);
  std::vector<double> errors;
  const uint64_t n = model.layout->fragments()[0].elements;
  for (int64_t round = 0; round < 4; ++round) {
    REQUIRE(model.endpoint->Begin(0, 0, 1, 1).ok());
    const auto chunks = model.EncodeAll(0);
    CHECK(chunks[0].size() < n / 8);  // in bits: one a value, of 32
    const std::vector<float> decoded = model.Decode(0, chunks);
    double wrong = 0;
    double all = 0;
    for (uint64_t i = 0; i < 60'000; ++i) {
      wrong += std::pow(-value(i) - decoded[i], 2);
      all += std::pow(value(i), 2);
    }
    errors.push_back(std::sqrt(wrong / all));
    model.endpoint->Drop(0);  // so that no residual counts
  }
  CAPTURE(errors);
  CHECK(errors[0] < 0.8);
  CHECK(errors[3] < errors[0]);
  REQUIRE(model.endpoint->Begin(0, 0, 1, 1).ok());
  model.EncodeAll(0);
  model.endpoint->Commit(0);
  CHECK(model.endpoint->HasResidual(0));
}

}  // namespace
}  // namespace causeway::endpoint
