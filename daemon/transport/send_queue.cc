// Fairness by bytes served, not by turns: a run of tiny chunks and a run of large ones share the
// link evenly. Priorities are not compared between runs, whose owners need not know of each other.
#include "daemon/transport/send_queue.h"

#include <algorithm>
#include <utility>

#include "daemon/transport/limits.h"

namespace causeway::transport {

SendQueue::SendQueue() : settled_(kChunksInFlightMax) {}

bool SendQueue::Run::HasCredit() const {
  const uint64_t cost = ChunkCredit(waiting.begin()->second.front().payload.size());
  return taken_bytes + cost <= granted_bytes;
}

void SendQueue::Count(const OutgoingChunk& chunk) {
  ++chunks_;
  bytes_ += chunk.payload.size();
}

void SendQueue::Uncount(const OutgoingChunk& chunk) {
  --chunks_;
  bytes_ -= chunk.payload.size();
}

void SendQueue::Add(OutgoingChunk chunk) {
  Run& run = runs_[chunk.header.run];
  if (run.waiting.empty()) run.served_bytes = std::max(run.served_bytes, served_now_);
  Count(chunk);
  run.waiting[chunk.priority].push_back(std::move(chunk));
}

void SendQueue::AddAgain(OutgoingChunk chunk) {
  Count(chunk);
  again_.push_back(std::move(chunk));
}

bool SendQueue::Grant(const std::string& run, uint64_t total_bytes) {
  if (runs_.size() >= kCreditRunsMax && runs_.find(run) == runs_.end()) return false;
  Run& entry = runs_[run];
  if (entry.waiting.empty() || !entry.HasCredit()) {
    entry.served_bytes = std::max(entry.served_bytes, served_now_);
  }
  entry.granted_bytes = std::max(entry.granted_bytes, total_bytes);
  return true;
}

std::optional<OutgoingChunk> SendQueue::Take() {
  if (!again_.empty()) {
    OutgoingChunk chunk = std::move(again_.front());
    again_.pop_front();
    Uncount(chunk);
    return chunk;
  }
  if (!settled_.Fits(next_number_)) return std::nullopt;
  Run* best = nullptr;
  for (auto& [name, run] : runs_) {
    if (run.waiting.empty() || !run.HasCredit()) continue;
    if (best == nullptr || run.served_bytes < best->served_bytes) best = &run;
  }
  if (best == nullptr) return std::nullopt;

  served_now_ = best->served_bytes;
  auto queue = best->waiting.begin();
  OutgoingChunk chunk = std::move(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) best->waiting.erase(queue);
  Uncount(chunk);
  const uint64_t cost = ChunkCredit(chunk.payload.size());
  best->taken_bytes += cost;
  best->served_bytes += cost;
  chunk.number = next_number_++;
  return chunk;
}

bool SendQueue::Sendable() const {
  if (!again_.empty()) return true;
  return settled_.Fits(next_number_) &&
         std::any_of(runs_.begin(), runs_.end(), [](const auto& entry) {
           return !entry.second.waiting.empty() && entry.second.HasCredit();
         });
}

void SendQueue::Acknowledged(uint64_t number) { settled_.Settle(number); }

std::vector<OutgoingChunk> SendQueue::Cancel(
    const std::function<bool(const ChunkHeader&)>& matches) {
  std::vector<OutgoingChunk> cancelled;
  for (auto& [name, run] : runs_) {
    for (auto queue = run.waiting.begin(); queue != run.waiting.end();) {
      std::deque<OutgoingChunk> kept;
      for (OutgoingChunk& chunk : queue->second) {
        if (matches(chunk.header)) {
          Uncount(chunk);
          cancelled.push_back(std::move(chunk));
        } else {
          kept.push_back(std::move(chunk));
        }
      }
      queue->second = std::move(kept);
      queue = queue->second.empty() ? run.waiting.erase(queue) : std::next(queue);
    }
  }
  return cancelled;
}

std::vector<OutgoingChunk> SendQueue::Clear() {
  std::vector<OutgoingChunk> all(std::make_move_iterator(again_.begin()),
                                 std::make_move_iterator(again_.end()));
  for (auto& [name, run] : runs_) {
    for (auto& [priority, queue] : run.waiting) {
      all.insert(all.end(), std::make_move_iterator(queue.begin()),
                 std::make_move_iterator(queue.end()));
    }
  }
  *this = SendQueue();
  return all;
}

}  // namespace causeway::transport
