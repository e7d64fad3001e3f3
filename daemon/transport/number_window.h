// NumberWindow: which of the numbers 1, 2, 3, ... were settled, where they settle nearly in order.
//
// The receiver uses it to drop chunks that arrive twice, the sender to bound how far numbers run
// ahead of the oldest unacknowledged one. Memory is a bit for each of `span` numbers. One thread at
// a time.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_NUMBER_WINDOW_H_
#define CAUSEWAY_DAEMON_TRANSPORT_NUMBER_WINDOW_H_

#include <cstdint>
#include <vector>

namespace causeway::transport {

class NumberWindow {
 public:
  enum class Mark { kNew, kAgain, kTooFar };

  explicit NumberWindow(uint64_t span) : marked_(span, false) {}

  uint64_t low() const { return low_; }  // the smallest number that is not settled
  bool Fits(uint64_t number) const { return number < low_ + marked_.size(); }

  // What Settle would answer.
  Mark Peek(uint64_t number) const {
    if (number < low_) return Mark::kAgain;
    if (!Fits(number)) return Mark::kTooFar;
    return marked_[number % marked_.size()] ? Mark::kAgain : Mark::kNew;
  }

  Mark Settle(uint64_t number) {
    const Mark mark = Peek(number);
    if (mark != Mark::kNew) return mark;
    marked_[number % marked_.size()] = true;
    while (marked_[low_ % marked_.size()]) {
      marked_[low_ % marked_.size()] = false;
      ++low_;
    }
    return mark;
  }

 private:
  uint64_t low_ = 1;
  std::vector<bool> marked_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_NUMBER_WINDOW_H_
