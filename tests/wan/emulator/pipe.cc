// See pipe.h. Large packets are cut so that none holds the line longer than kPieceNs: a real router
// would let their first wire packet out long before their last.
#include "tests/wan/emulator/pipe.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace causeway::wan_emulator {
namespace {
constexpr double kPieceNs = 1e6;
}  // namespace

void Pipe::Accept(Packet packet, int64_t now_ns, Random& random) {
  const int64_t packets = packet.wire_packets();
  counters_.offered_bytes += packet.wire_bytes();
  counters_.offered_packets += packets;
  if (settings_.dark) {
    counters_.dropped_dark += packets;
    return;
  }
  if (settings_.mtu_hole > 0 && packet.wire_packet_bytes_max() > settings_.mtu_hole) {
    counters_.dropped_mtu +=
        packets;  // wire packets of one large packet are equal but for the last
    return;
  }
  int64_t piece_packets = packets;
  if (settings_.rate_bits_per_second > 0) {
    const double bytes = settings_.rate_bits_per_second / 8 * kPieceNs / 1e9;
    const double count = std::floor(bytes / static_cast<double>(packet.wire_packet_bytes_max()));
    if (count < static_cast<double>(packets)) {
      piece_packets = std::max<int64_t>(1, static_cast<int64_t>(count));
    }
  }
  if (settings_.loss <= 0 && piece_packets == packets &&
      queued_bytes_ + packet.wire_bytes() <= settings_.queue_bytes) {
    Enqueue(std::move(packet), now_ns);
    return;
  }
  std::bernoulli_distribution lost(std::clamp(settings_.loss, 0.0, 1.0));
  int64_t first = 0, count = 0;
  int64_t room = settings_.queue_bytes - queued_bytes_;
  const auto flush = [&](int64_t next) {
    if (count > 0) Enqueue(packet.Slice(first, count), now_ns);
    first = next;
    count = 0;
  };
  for (int64_t i = 0; i < packets; ++i) {
    const int64_t bytes = packet.WireBytes(i, 1);
    if (settings_.loss > 0 && lost(random)) {
      ++counters_.dropped_loss;
      flush(i + 1);
    } else if (settings_.rate_bits_per_second > 0 && bytes > room) {
      ++counters_.dropped_queue;
      flush(i + 1);
    } else {
      room -= bytes;
      if (++count == piece_packets) flush(i + 1);
    }
  }
  flush(packets);
}

void Pipe::Enqueue(Packet packet, int64_t now_ns) {
  queued_bytes_ += packet.wire_bytes();
  queue_.push_back({std::move(packet), now_ns});
}

int64_t Pipe::StartNs() const { return std::max(line_free_ns_, queue_.front().time_ns); }

void Pipe::Serialise(int64_t now_ns, Random& random) {
  while (!queue_.empty() && StartNs() <= now_ns) {
    Timed head = std::move(queue_.front());
    const int64_t start = std::max(line_free_ns_, head.time_ns);
    queue_.pop_front();
    const int64_t bytes = head.packet.wire_bytes();
    queued_bytes_ -= bytes;
    line_free_ns_ = start;
    if (settings_.rate_bits_per_second > 0) {
      line_free_ns_ +=
          std::llround(static_cast<double>(bytes) * 8e9 / settings_.rate_bits_per_second);
    }
    if (flight_bytes_ + bytes > kFlightBytesMax) {
      counters_.dropped_queue += head.packet.wire_packets();
      continue;
    }
    int64_t arrival = line_free_ns_ + settings_.delay_ns;
    if (settings_.jitter_ns > 0) {
      arrival += std::uniform_int_distribution<int64_t>(0, settings_.jitter_ns)(random);
    }
    last_arrival_ns_ = std::max(last_arrival_ns_, arrival);
    head.time_ns = last_arrival_ns_;
    flight_bytes_ += bytes;
    flight_.push_back(std::move(head));
  }
}

std::optional<Packet> Pipe::Take(int64_t now_ns, Random& random) {
  Serialise(now_ns, random);
  while (!flight_.empty() && flight_.front().time_ns <= now_ns) {
    Packet packet = std::move(flight_.front().packet);
    flight_.pop_front();
    flight_bytes_ -= packet.wire_bytes();
    if (settings_.dark) {
      counters_.dropped_dark += packet.wire_packets();
      continue;
    }
    counters_.delivered_bytes += packet.wire_bytes();
    counters_.delivered_packets += packet.wire_packets();
    return packet;
  }
  return std::nullopt;
}

int64_t Pipe::NextEventNs() const {
  int64_t next = flight_.empty() ? kNever : flight_.front().time_ns;
  if (!queue_.empty()) next = std::min(next, StartNs());
  return next;
}

}  // namespace causeway::wan_emulator
