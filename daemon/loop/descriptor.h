// Descriptor: owns a file descriptor and closes it. One owner, one thread at a time.
#ifndef CAUSEWAY_DAEMON_LOOP_DESCRIPTOR_H_
#define CAUSEWAY_DAEMON_LOOP_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace causeway::loop {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  void Reset() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

}  // namespace causeway::loop

#endif  // CAUSEWAY_DAEMON_LOOP_DESCRIPTOR_H_
