// A directory of a test's own, gone with it.
#ifndef CAUSEWAY_TESTS_UNIT_CHECKPOINT_DIRECTORY_H_
#define CAUSEWAY_TESTS_UNIT_CHECKPOINT_DIRECTORY_H_

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace causeway::testing {

struct Directory {
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "causeway-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Directory() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

inline std::string BytesOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void Replace(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline std::vector<uint8_t> Noise(size_t size, uint32_t seed) {
  std::vector<uint8_t> out(size);
  for (uint8_t& byte : out)
    byte = static_cast<uint8_t>((seed = seed * 1664525u + 1013904223u) >> 24);
  return out;
}

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_CHECKPOINT_DIRECTORY_H_
