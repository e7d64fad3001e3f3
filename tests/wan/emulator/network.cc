// See network.h. Sites are few, so lookups are linear scans.
#include "tests/wan/emulator/network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace causeway::wan_emulator {
namespace {

constexpr char kCore[] = "core";

bool Matches(const std::string& pattern, const std::string& name) {
  return pattern == "*" || pattern == name;
}

std::string PipeJson(const Network::NamedPipe& named) {
  const PipeSettings& s = named.pipe.settings();
  const PipeCounters& c = named.pipe.counters();
  return absl::StrCat(
      "{\"from\":\"", named.from, "\",\"to\":\"", named.to,
      "\",\"rate_bits_per_second\":", s.rate_bits_per_second,
      ",\"delay_ms\":", static_cast<double>(s.delay_ns) / 1e6,
      ",\"jitter_ms\":", static_cast<double>(s.jitter_ns) / 1e6, ",\"loss\":", s.loss,
      ",\"queue_bytes\":", s.queue_bytes, ",\"mtu_hole\":", s.mtu_hole,
      ",\"dark\":", s.dark ? "true" : "false", ",\"queued_bytes\":", named.pipe.queued_bytes(),
      ",\"offered_bytes\":", c.offered_bytes, ",\"offered_packets\":", c.offered_packets,
      ",\"delivered_bytes\":", c.delivered_bytes, ",\"delivered_packets\":", c.delivered_packets,
      ",\"dropped_loss\":", c.dropped_loss, ",\"dropped_queue\":", c.dropped_queue,
      ",\"dropped_mtu\":", c.dropped_mtu, ",\"dropped_dark\":", c.dropped_dark, "}");
}

}  // namespace

Network::Network(Topology topology, std::vector<Site> sites, uint64_t seed)
    : topology_(topology), sites_(std::move(sites)), counters_(sites_.size()), random_(seed) {
  if (topology_ == Topology::kMesh) {
    for (const Site& from : sites_) {
      for (const Site& to : sites_) pipes_.push_back({from.name, to.name, {}});
    }
  } else {
    for (const Site& site : sites_) pipes_.push_back({site.name, kCore, {}});
    for (const Site& site : sites_) pipes_.push_back({kCore, site.name, {}});
  }
}

int Network::SiteOf(const Address& address) const {
  for (size_t i = 0; i < sites_.size(); ++i) {
    const std::vector<Address>& own = sites_[i].addresses;
    if (std::find(own.begin(), own.end(), address) != own.end()) return static_cast<int>(i);
  }
  return -1;
}

Pipe& Network::EntryPipe(int from, int to) {
  const size_t index = topology_ == Topology::kMesh
                           ? static_cast<size_t>(from) * sites_.size() + static_cast<size_t>(to)
                           : static_cast<size_t>(from);
  return pipes_[index].pipe;
}

void Network::Enter(int site, Packet packet, int64_t now_ns) {
  SiteCounters& counters = counters_[static_cast<size_t>(site)];
  const int to = SiteOf(packet.destination());
  if (to < 0 || to == site) {
    ++counters.unrouted_packets;
    return;
  }
  counters.sent_bytes += packet.wire_bytes();
  counters.sent_packets += packet.wire_packets();
  packet.destination_site = to;
  EntryPipe(site, to).Accept(std::move(packet), now_ns, random_);
}

void Network::Advance(int64_t now_ns, const Deliver& deliver) {
  const size_t n = sites_.size();
  for (size_t i = 0; i < pipes_.size(); ++i) {
    while (std::optional<Packet> packet = pipes_[i].pipe.Take(now_ns, random_)) {
      const size_t to = static_cast<size_t>(packet->destination_site);
      if (topology_ == Topology::kStar && i < n) {
        pipes_[n + to].pipe.Accept(std::move(*packet), now_ns, random_);
        continue;
      }
      counters_[to].received_bytes += packet->wire_bytes();
      counters_[to].received_packets += packet->wire_packets();
      deliver(static_cast<int>(to), *packet);
    }
  }
}

int64_t Network::NextEventNs() const {
  int64_t next = kNever;
  for (const NamedPipe& named : pipes_) next = std::min(next, named.pipe.NextEventNs());
  return next;
}

absl::Status Network::Configure(const std::string& pattern,
                                const std::function<absl::Status(PipeSettings&)>& change) {
  const size_t arrow = pattern.find('>');
  if (arrow == std::string::npos && pattern != "*") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", pattern, "' is no pipe: write FROM>TO, either may be *"));
  }
  const std::string from = pattern == "*" ? "*" : pattern.substr(0, arrow);
  const std::string to = pattern == "*" ? "*" : pattern.substr(arrow + 1);
  bool found = false;
  for (NamedPipe& named : pipes_) {
    if (named.from == named.to || !Matches(from, named.from) || !Matches(to, named.to)) continue;
    found = true;
    PipeSettings settings = named.pipe.settings();
    if (absl::Status status = change(settings); !status.ok()) return status;
    named.pipe.Configure(settings);
  }
  if (!found) return absl::NotFoundError(absl::StrCat("no pipe matches '", pattern, "'"));
  return absl::OkStatus();
}

std::string Network::StatsJson(int64_t now_ns) const {
  std::string json =
      absl::StrCat("{\"time_s\":", static_cast<double>(now_ns) / 1e9, ",\"sites\":[");
  for (size_t i = 0; i < sites_.size(); ++i) {
    const SiteCounters& c = counters_[i];
    absl::StrAppend(&json, i ? "," : "", "{\"name\":\"", sites_[i].name,
                    "\",\"sent_bytes\":", c.sent_bytes, ",\"sent_packets\":", c.sent_packets,
                    ",\"received_bytes\":", c.received_bytes,
                    ",\"received_packets\":", c.received_packets,
                    ",\"unrouted_packets\":", c.unrouted_packets, "}");
  }
  absl::StrAppend(&json, "],\"pipes\":[");
  bool first = true;
  for (const NamedPipe& named : pipes_) {
    if (named.from == named.to) continue;
    absl::StrAppend(&json, first ? "" : ",", PipeJson(named));
    first = false;
  }
  return absl::StrCat(json, "]}");
}

}  // namespace causeway::wan_emulator
