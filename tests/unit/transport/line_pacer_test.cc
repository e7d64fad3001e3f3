// A link's lanes held at what their line delivers, over a line of arithmetic.
#include "daemon/transport/line_pacer.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace causeway::transport {
namespace {

constexpr double kTick = 0.05;
constexpr uint64_t kMany = uint64_t{1} << 40;

// A bottleneck and greedy connections before it, which together let two round trips' worth of bytes
// be on their way, as several of BBR do, and try a quarter more than they were last given.
struct Line {
  explicit Line(double rate, double rtt = 0.1) : rate(rate), rtt(rtt) {
    sight.rtt_min = absl::Seconds(rtt);
  }

  void Run(double seconds, bool waiting = true) {
    for (double end = now + seconds; now < end; now += kTick) {
      const double cap = pacer.bytes_per_s();
      const double room = std::max(0.0, rate * rtt - queue);  // of the second round trip's worth
      double sent = waiting ? std::min(wish * kTick, rate * kTick + room) : 0;
      if (cap > 0) sent = std::min(sent, cap * kTick);
      const double delivered = std::min(queue + sent, rate * kTick);
      queue += sent - delivered;
      wish = std::max(wish, 2 * delivered / kTick);
      sight.bytes_delivered += static_cast<uint64_t>(delivered);
      sight.segments_sent += static_cast<uint64_t>(sent / 1448);
      lost += loss * sent / 1448;
      sight.segments_resent = static_cast<uint64_t>(lost);
      sight.rtt = absl::Seconds(rtt + jitter + queue / rate);
      queue_sum += queue;
      delivered_sum += delivered;
      if (!waiting) pacer.Idle();
      pacer.Look(absl::UnixEpoch() + absl::Seconds(now), sight);
    }
  }
  // In round trips; and the share of the line that was used, since the last call.
  double MeanQueue(double seconds) {
    queue_sum = delivered_sum = 0;
    Run(seconds);
    used = delivered_sum / (rate * seconds);
    return queue_sum / (seconds / kTick) / (rate * rtt);
  }

  double rate;
  double rtt;
  double jitter = 0;
  double wish = 1e5;
  double queue = 0;
  double loss = 0;
  double lost = 0;
  double queue_sum = 0;
  double delivered_sum = 0;
  double used = 0;
  double now = 0;
  LinePacer::Sight sight{5, 0, 0, 0, absl::ZeroDuration(), absl::ZeroDuration(), kMany};
  LinePacer pacer;
};

TEST_CASE("nothing is held back until the rate ceases to grow, and then the queue goes") {
  Line line(25e6);
  line.Run(0.5);
  CHECK(line.pacer.bytes_per_s() == 0);
  line.Run(3);
  CHECK(line.pacer.bytes_per_s() > 0);
  CHECK(line.MeanQueue(20) < 0.15);
  CHECK(line.used > 0.98);
}

TEST_CASE("a line that becomes faster is found, one that becomes slower followed") {
  Line line(25e6);
  line.Run(5);
  line.rate = 100e6;
  line.Run(25);
  line.MeanQueue(10);
  CHECK(line.used > 0.97);
  line.rate = 10e6;
  line.Run(3);
  CHECK(line.MeanQueue(10) < 0.2);
  CHECK(line.used > 0.97);
}

TEST_CASE("pauses say nothing of the line, and long ones end what is known") {
  Line line(25e6);
  line.Run(5);
  line.Run(10, /*waiting=*/false);
  CHECK(line.pacer.bytes_per_s() > 0.7 * 25e6);
  line.MeanQueue(1);
  CHECK(line.used > 0.9);
  line.Run(40, /*waiting=*/false);
  line.Run(0.3);
  CHECK(line.pacer.bytes_per_s() == 0);
}

TEST_CASE("a short path is left alone, a little jitter is no queue") {
  Line near(25e6, /*rtt=*/0.009);
  near.Run(10);
  CHECK(near.pacer.bytes_per_s() == 0);

  Line line(25e6, /*rtt=*/0.02);
  line.jitter = 0.002;
  line.Run(10);
  CHECK(line.pacer.bytes_per_s() > 0);
  CHECK(line.MeanQueue(20) < 0.3);
  CHECK(line.used > 0.98);
}

TEST_CASE("a queue of others, or a path that became longer, is not drained for ever") {
  for (double longer : {0.04, 0.08, 0.3}) {
    CAPTURE(longer);
    Line line(25e6);
    line.Run(5);
    line.jitter = longer;
    line.Run(10);
    line.MeanQueue(20);
    CHECK(line.used > 0.97);
    line.jitter = 0;
    line.Run(5);
    CHECK(line.MeanQueue(20) < 0.15);
    CHECK(line.used > 0.97);
  }
}

TEST_CASE("after a pause nothing is left to drain") {
  Line line(25e6);
  while (line.pacer.bytes_per_s() == 0 || line.pacer.bytes_per_s() > 0.8 * 25e6) {
    REQUIRE(line.now < 60);
    line.Run(kTick);
  }
  line.Run(0.2, /*waiting=*/false);
  line.Run(kTick);
  CHECK(line.pacer.bytes_per_s() > 0.9 * 25e6);
}

TEST_CASE("the end of a transfer is sent as fast as connections like") {
  Line line(25e6);
  line.Run(5);
  CHECK(line.pacer.bytes_per_s() > 0);
  line.sight.bytes_waiting = 10'000'000;  // four round trips of the line
  for (int i = 0; i < 40; ++i) {
    line.Run(0.1);
    CHECK(line.pacer.bytes_per_s() == 0);
  }
  line.sight.bytes_waiting = kMany;
  line.Run(5);
  CHECK(line.pacer.bytes_per_s() > 0);
  CHECK(line.MeanQueue(20) < 0.15);
}

TEST_CASE("where packets are lost for no queue's sake, connections do as they like") {
  Line line(25e6);
  line.loss = 0.01;
  line.Run(10);
  CHECK(line.pacer.bytes_per_s() == 0);
  line.loss = 0.001;
  line.Run(10);
  CHECK(line.pacer.bytes_per_s() > 0);
}

TEST_CASE("another set of connections is another beginning of counting") {
  Line line(25e6);
  line.Run(5);
  const double before = line.pacer.bytes_per_s();
  line.sight.connections = 4;
  line.sight.bytes_delivered /= 2;
  line.sight.segments_sent /= 2;
  line.Run(0.1);
  CHECK(line.pacer.bytes_per_s() <= 1.25 * 25e6);
  CHECK(line.pacer.bytes_per_s() >= 0.5 * before);
}

}  // namespace
}  // namespace causeway::transport
