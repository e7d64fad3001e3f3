// One direction of an emulated link: a bounded queue, a serialisation clock, propagation delay,
// loss.
//
// Logic only: the caller passes the time (nanoseconds on any monotonic clock) and the random
// numbers. Confined to one thread. It does not read or write devices.
#ifndef CAUSEWAY_TESTS_WAN_EMULATOR_PIPE_H_
#define CAUSEWAY_TESTS_WAN_EMULATOR_PIPE_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <random>

#include "tests/wan/emulator/packet.h"

namespace causeway::wan_emulator {

using Random = std::mt19937_64;

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// What a pipe holds at most in propagation; more is dropped as if by the queue.
inline constexpr int64_t kFlightBytesMax = int64_t{512} << 20;

struct PipeSettings {
  double rate_bits_per_second = 0;  // 0: not limited
  int64_t delay_ns = 0;
  int64_t jitter_ns = 0;  // uniform in [0, jitter] on top of the delay; packets stay in order
  double loss = 0;        // probability for each wire packet
  int64_t queue_bytes = int64_t{4} << 20;
  int64_t mtu_hole = 0;  // wire packets above this size vanish without a word; 0: none
  bool dark = false;     // everything vanishes, also what is under way
};

struct PipeCounters {
  int64_t offered_bytes = 0, offered_packets = 0;
  int64_t delivered_bytes = 0, delivered_packets = 0;
  // In wire packets, by reason.
  int64_t dropped_loss = 0, dropped_queue = 0, dropped_mtu = 0, dropped_dark = 0;
};

class Pipe {
 public:
  // A change acts on packets whose serialisation has not begun; `dark` acts at once.
  void Configure(const PipeSettings& settings) { settings_ = settings; }
  const PipeSettings& settings() const { return settings_; }
  const PipeCounters& counters() const { return counters_; }
  int64_t queued_bytes() const { return queued_bytes_; }

  void Accept(Packet packet, int64_t now_ns, Random& random);
  // The next packet that has arrived by `now_ns`.
  std::optional<Packet> Take(int64_t now_ns, Random& random);
  // When Take() is worth calling again.
  int64_t NextEventNs() const;

 private:
  struct Timed {
    Packet packet;
    int64_t time_ns;  // in the queue: entry; in flight: arrival
  };

  void Enqueue(Packet packet, int64_t now_ns);
  void Serialise(int64_t now_ns, Random& random);
  int64_t StartNs() const;

  PipeSettings settings_;
  PipeCounters counters_;
  std::deque<Timed> queue_;
  std::deque<Timed> flight_;
  int64_t queued_bytes_ = 0;
  int64_t flight_bytes_ = 0;
  int64_t line_free_ns_ = std::numeric_limits<int64_t>::min();
  int64_t last_arrival_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace causeway::wan_emulator

#endif  // CAUSEWAY_TESTS_WAN_EMULATOR_PIPE_H_
