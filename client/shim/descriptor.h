// A file descriptor that closes itself. Any thread; not shared.
#pragma once

#include <unistd.h>

#include <utility>

namespace causeway::client {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Descriptor() { Reset(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void Reset() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

}  // namespace causeway::client
