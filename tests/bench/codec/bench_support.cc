// Support for the codec benches.
#include "tests/bench/codec/bench_support.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace causeway::bench {
namespace {

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(2);
}

}  // namespace

std::map<std::string, std::string> ReadOptions(int argc, char** argv,
                                               const std::vector<std::string>& known) {
  std::map<std::string, std::string> options;
  std::string usage = "options:";
  for (const std::string& name : known) usage += " --" + name + " VALUE";
  for (int i = 1; i < argc; i += 2) {
    std::string name = argv[i];
    if (name.rfind("--", 0) != 0 || i + 1 >= argc ||
        std::find(known.begin(), known.end(), name.substr(2)) == known.end()) {
      Die(name + ": unknown, or without a value; " + usage);
    }
    options[name.substr(2)] = argv[i + 1];
  }
  return options;
}

Buffer::Buffer(size_t bytes) : size_(bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  data_ = std::aligned_alloc(kHugePage, rounded);
  if (data_ == nullptr) Die("out of memory");
  madvise(data_, rounded, MADV_HUGEPAGE);
  std::fill_n(static_cast<uint8_t*>(data_), rounded, uint8_t{0});
}

Buffer::~Buffer() { std::free(data_); }

double BestSeconds(int threads, int repeats, const std::function<void(int)>& work) {
  double best = 1e300;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> helpers;
    for (int t = 1; t < threads; ++t) {
      helpers.emplace_back([&, t] {
        ++ready;
        while (!go.load()) {
        }
        work(t);
      });
    }
    while (ready.load() < threads - 1) {
    }
    auto start = std::chrono::steady_clock::now();
    go = true;
    work(0);
    for (std::thread& helper : helpers) helper.join();
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count());
  }
  return best;
}

void JsonRows::Begin() { rows_.emplace_back(); }

void JsonRows::Add(const std::string& key, const std::string& text) {
  rows_.back() += (rows_.back().empty() ? "\"" : ", \"") + key + "\": \"" + text + "\"";
}

void JsonRows::Add(const std::string& key, double number) {
  char digits[64];
  std::snprintf(digits, sizeof(digits), "%.6g", number);
  rows_.back() += (rows_.back().empty() ? "\"" : ", \"") + key + "\": " + digits;
}

void JsonRows::Write(const std::string& path) const {
  std::FILE* file = path.empty() ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr) Die("cannot write " + path);
  std::fprintf(file, "{\"rows\": [\n");
  for (size_t i = 0; i < rows_.size(); ++i) {
    std::fprintf(file, "  {%s}%s\n", rows_[i].c_str(), i + 1 < rows_.size() ? "," : "");
  }
  std::fprintf(file, "]}\n");
  if (file != stdout && std::fclose(file) != 0) Die("cannot write " + path);
}

}  // namespace causeway::bench
