// When a peer whose chunks are refused loses its link.
#include "daemon/run/bad_chunks.h"

#include <catch2/catch.hpp>

namespace causeway::run {
namespace {

TEST_CASE("a peer that has no better chunks loses its link", "[bad_chunks]") {
  BadChunks bad;
  for (int i = 0; i < kBadChunksMax; ++i) REQUIRE_FALSE(bad.Note(1));
  REQUIRE_FALSE(bad.Note(2));  // another's are its own
  REQUIRE(bad.Note(1));
  bad.Forget(1);
  REQUIRE_FALSE(bad.Note(1));
}

TEST_CASE("one bad chunk now and then ends no link, however long the run", "[bad_chunks]") {
  BadChunks bad;
  for (int day = 0; day < 1000; ++day) {
    REQUIRE_FALSE(bad.Note(1));
    for (int i = 0; i < kCommitsToForgiveOne; ++i) bad.OnCommit();
  }
}

TEST_CASE("one in every round does", "[bad_chunks]") {
  BadChunks bad;
  int rounds = 1;
  for (; !bad.Note(1) && rounds < 100; ++rounds) bad.OnCommit();
  REQUIRE(rounds < 2 * kBadChunksMax);
}

}  // namespace
}  // namespace causeway::run
