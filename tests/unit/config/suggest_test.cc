#include "daemon/config/suggest.h"

#include <catch2/catch.hpp>

namespace causeway::config {
namespace {

TEST_CASE("edit distance") {
  CHECK(EditDistance("", "") == 0);
  CHECK(EditDistance("abc", "") == 3);
  CHECK(EditDistance("kitten", "sitting") == 3);
  CHECK(EditDistance("socket", "sokcet") == 1);  // neighbours swapped
  CHECK(EditDistance("ca", "abc") == 3);         // no letter is edited twice
}

TEST_CASE("the nearest word, or none") {
  const std::vector<std::string> words = {"peers", "peer_timeout", "trainers", "tls"};
  CHECK(Nearest("peer", words) == "peers");
  CHECK(Nearest("peertimeout", words) == "peer_timeout");
  CHECK(Nearest("tsl", words) == "tls");
  CHECK(Nearest("xyz", words).empty());
  CHECK(Nearest(std::string(100'000, 'p'), words).empty());
  CHECK(DidYouMean("trainer", words) == "; did you mean 'trainers'?");
}

}  // namespace
}  // namespace causeway::config
