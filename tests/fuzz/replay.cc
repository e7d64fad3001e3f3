// Runs a fuzz target once over every file of the folders named on the command line, and over
// truncations and single-byte changes of each: the corpus as an ordinary test, without libFuzzer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kMutatedBytesMax = 1024;  // of each file; whole files are always run

void Run(const std::vector<uint8_t>& bytes) {
  // An exact allocation: reading past the end is then a sanitizer's finding.
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void RunVariants(std::vector<uint8_t> bytes) {
  Run(bytes);
  const size_t limit = std::min(bytes.size(), kMutatedBytesMax);
  for (size_t i = 0; i < limit; ++i) {
    Run(std::vector<uint8_t>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(i)));
    for (uint8_t change : {0x01, 0x80, 0xff}) {
      bytes[i] ^= change;
      Run(bytes);
      bytes[i] ^= change;
    }
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  size_t files = 0;
  for (int i = 1; i < argument_count; ++i) {
    std::set<std::filesystem::path> paths;  // in order, so that a failure is found again
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) {
      if (entry.is_regular_file()) paths.insert(entry.path());
    }
    for (const std::filesystem::path& path : paths) {
      std::printf("%s\n", path.filename().c_str());
      std::fflush(stdout);
      std::ifstream file(path, std::ios::binary);
      RunVariants({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
      ++files;
    }
  }
  std::printf("%zu files replayed\n", files);
  return files == 0 ? 1 : 0;  // a corpus that went missing is a failure
}
