// What the codec benches share: options, large buffers, threads that start together, JSON rows.
#ifndef CAUSEWAY_TESTS_BENCH_CODEC_BENCH_SUPPORT_H_
#define CAUSEWAY_TESTS_BENCH_CODEC_BENCH_SUPPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace causeway::bench {

// "--name value" pairs; ends the program with a message that lists `known` on anything else.
std::map<std::string, std::string> ReadOptions(int argc, char** argv,
                                               const std::vector<std::string>& known);

// Zeroed memory on huge pages where the system grants them.
class Buffer {
 public:
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* floats() const { return static_cast<float*>(data_); }
  uint16_t* halves() const { return static_cast<uint16_t*>(data_); }
  uint8_t* bytes() const { return static_cast<uint8_t*>(data_); }
  size_t size() const { return size_; }

 private:
  void* data_;
  size_t size_;
};

// Runs work(thread) on `threads` threads that start together; the best wall time of `repeats` in
// seconds.
double BestSeconds(int threads, int repeats, const std::function<void(int)>& work);

// Rows of one JSON object {"rows": [...]}; numbers with six digits.
class JsonRows {
 public:
  void Begin();
  void Add(const std::string& key, const std::string& text);
  void Add(const std::string& key, double number);
  // Also prints to standard output when the path is empty. Ends the program if it cannot write.
  void Write(const std::string& path) const;

 private:
  std::vector<std::string> rows_;
};

}  // namespace causeway::bench

#endif  // CAUSEWAY_TESTS_BENCH_CODEC_BENCH_SUPPORT_H_
