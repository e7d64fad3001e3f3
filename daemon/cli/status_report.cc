#include "daemon/cli/status_report.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/cli/json.h"
#include "daemon/cli/table.h"
#include "daemon/config/scalars.h"
#include "proto/admin.pb.h"

namespace causeway::cli {
namespace {

using admin::v1::FragmentStatus;
using admin::v1::PeerStatus;
using admin::v1::RunStatus;
using admin::v1::StatusReply;
using config::FormatSizeBytes;

constexpr double kSilenceShownS = 5;  // of a transfer

std::string Bytes(uint64_t bytes) { return FormatSizeBytes(static_cast<int64_t>(bytes)); }

template <typename Map>
auto Sorted(const Map& map) {
  return std::map(map.begin(), map.end());
}

template <typename Words>
std::string List(const Words& words) {
  return words.empty() ? "-" : absl::StrJoin(words, ", ");
}

std::string Head(const StatusReply& status) {
  std::string line = absl::StrCat(status.cluster(), "  ", status.software(), "  up ",
                                  FormatSeconds(status.uptime_s()), "  ",
                                  Plural(status.trainers(), "trainer"), " attached");
  if (status.draining()) absl::StrAppend(&line, "  DRAINING");
  return Printable(line) + "\n";
}

std::string Memory(const StatusReply& status) {
  const admin::v1::MemoryStatus& memory = status.memory();
  std::string line =
      absl::StrCat("memory ", Bytes(memory.used_bytes()), " of ", Bytes(memory.budget_bytes()),
                   " (peak ", Bytes(memory.peak_bytes()), ")");
  std::vector<std::pair<uint64_t, std::string>> accounts;
  for (const auto& [name, bytes] : memory.used_by()) {
    if (bytes > 0) accounts.emplace_back(bytes, name);
  }
  std::sort(accounts.rbegin(), accounts.rend());
  const char* separator = ": ";
  for (const auto& [bytes, name] : accounts) {
    absl::StrAppend(&line, std::exchange(separator, ", "), name, " ", Bytes(bytes));
  }
  return Printable(line) + "\n";
}

std::string CertificateEnd(const PeerStatus& peer, int64_t now_s) {
  if (peer.certificate_not_after_unix_s() == 0) return "-";
  const int64_t left_s = peer.certificate_not_after_unix_s() - now_s;
  return left_s < 0 ? "EXPIRED" : absl::StrCat("in ", FormatSeconds(static_cast<double>(left_s)));
}

std::string Way(const PeerStatus& peer) {
  if (!peer.relay().empty()) return absl::StrCat("through ", peer.relay());
  return peer.address().empty() ? "-" : peer.address();
}

// What was measured and decided about a link that is up; empty: nothing yet.
std::string LinkLine(const PeerStatus& peer) {
  std::vector<std::string> words;
  if (!peer.lanes_reason().empty()) words.push_back("lanes " + peer.lanes_reason());
  const auto rate = [&](const char* what, const admin::v1::RateStatus& measured) {
    if (measured.bytes_per_s() <= 0) return;
    words.push_back(absl::StrFormat("%s %.1f MB/s%s", what, measured.bytes_per_s() / 1e6,
                                    measured.confidence() < 0.5 ? " (little measured)" : ""));
  };
  rate("sends", peer.send_rate());
  rate("receives", peer.receive_rate());
  if (peer.tcp_segments_resent() > 0 && peer.tcp_segments_sent() > 0) {
    words.push_back(absl::StrFormat("TCP resends %.2f%%",
                                    100.0 * static_cast<double>(peer.tcp_segments_resent()) /
                                        static_cast<double>(peer.tcp_segments_sent())));
  }
  return words.empty() ? "" : absl::StrCat("  ", peer.cluster(), ": ", absl::StrJoin(words, "; "));
}

std::string Relayed(const StatusReply& status) {
  std::string text;
  for (const admin::v1::RelayStatus& pair : status.relayed()) {
    absl::StrAppend(
        &text,
        Printable(absl::StrCat("relays ", pair.first(), " - ", pair.second(), ": ",
                               Plural(pair.tunnels(), "tunnel"), ", ", Bytes(pair.bytes()))),
        "\n");
  }
  return text;
}

std::string Peers(const StatusReply& status, int64_t now_s) {
  Table table({"PEER", "STATE", "ADDRESS", "DIALLED BY", "LANES", "RTT", "SILENT", "SENT",
               "RECEIVED", "RESENT", "CERTIFICATE ENDS"});
  for (const PeerStatus& peer : status.peers()) {
    const bool up = peer.state() == "up";
    table.Add({peer.cluster(), peer.state(), Way(peer),
               peer.dialled_by().empty() ? "-" : peer.dialled_by(),
               absl::StrCat(peer.lanes_up(), "/", peer.lanes_wanted()),
               peer.rtt_ms() > 0 ? absl::StrFormat("%.1f ms", peer.rtt_ms()) : "-",
               up ? FormatSeconds(peer.silent_s()) : "-", Bytes(peer.payload_bytes_sent()),
               Bytes(peer.payload_bytes_received()), absl::StrCat(peer.chunks_resent()),
               CertificateEnd(peer, now_s)});
  }
  if (table.empty()) return "no peers configured\n";
  std::string text = table.Format();
  for (const PeerStatus& peer : status.peers()) {
    const std::string line = peer.state() == "up" ? LinkLine(peer) : "";
    if (!line.empty()) absl::StrAppend(&text, Printable(line), "\n");
    if (peer.last_error().empty() || peer.state() == "up") continue;
    absl::StrAppend(&text, "  ", Printable(peer.cluster()), ": ", Printable(peer.last_error()),
                    "\n");
  }
  return text;
}

std::string FragmentProgress(const FragmentStatus& fragment) {
  if (fragment.chunks_total() == 0 || fragment.phase() == "idle") return "-";
  return absl::StrCat(fragment.chunks_reduced(), "/", fragment.chunks_total(), " chunks");
}

std::string Fragments(const RunStatus& run) {
  Table table({"  FRAGMENT", "ROUND", "PHASE", "PROGRESS", "LAST ROUND", "WAITS FOR"});
  for (const FragmentStatus& fragment : run.fragments()) {
    table.Add(
        {absl::StrCat("  ", fragment.fragment()), absl::StrCat(fragment.round()), fragment.phase(),
         FragmentProgress(fragment),
         fragment.last_round_s() > 0 ? absl::StrFormat("%.2fs", fragment.last_round_s()) : "-",
         List(fragment.awaited())});
  }
  return table.empty() ? "" : table.Format();
}

// How contributions go, who owns what, and why.
std::string Plan(const admin::v1::PlanStatus& plan) {
  if (plan.codec().empty()) return "";
  std::string text = absl::StrCat("plan: ", plan.codec(), ", ", plan.route());
  const char* separator = " (";
  for (const auto& [cluster, share] : Sorted(plan.shares())) {
    absl::StrAppend(&text, std::exchange(separator, ", "), cluster,
                    absl::StrFormat(" %.3g%%", share * 100));
  }
  if (!plan.shares().empty()) absl::StrAppend(&text, ")");
  for (const auto& [cluster, codec] : Sorted(plan.codecs())) {
    absl::StrAppend(&text, "; ", cluster, " ", codec);
  }
  absl::StrAppend(&text, " since round ", plan.since_round(), ": ", plan.why());
  if (!plan.now().empty() && plan.now() != plan.why()) {
    absl::StrAppend(&text, "; now ", plan.now());
  }
  return absl::StrCat("  ", Printable(text), "\n");
}

// Who decides about membership; empty while the run has not been founded.
std::string Votes(const RunStatus& run) {
  if (run.leader().empty()) return "";
  return absl::StrCat(
      "  ", Printable(absl::StrCat("led by ", run.leader(), "; votes of ", List(run.voters()))),
      "\n");
}

// The outer state on disk; empty while none has been written and none failed.
std::string Checkpoints(const admin::v1::CheckpointStatus& checkpoint) {
  std::string text;
  if (!checkpoint.failure().empty()) {
    text = absl::StrCat("checkpoints FAIL: ", checkpoint.failure(), "; ");
  } else if (checkpoint.written() == 0) {
    return "";
  }
  absl::StrAppend(&text, "newest checkpoint ",
                  checkpoint.written() == 0
                      ? std::string("is of an earlier process")
                      : absl::StrCat(FormatSeconds(checkpoint.age_s()), " ago"),
                  ", ", Plural(checkpoint.fragments_behind(), "fragment"), " behind");
  return absl::StrCat("  ", Printable(text), "\n");
}

// States of fragments on their way here, all together; empty: none is.
std::string Transfers(const RunStatus& run) {
  uint64_t bytes = 0;
  uint64_t total = 0;
  double rate = 0;
  double silent_s = std::numeric_limits<double>::infinity();
  uint64_t fragments = 0;
  std::set<std::string> donors;
  for (const FragmentStatus& fragment : run.fragments()) {
    if (!fragment.has_transfer()) continue;
    const admin::v1::TransferStatus& transfer = fragment.transfer();
    ++fragments;
    bytes += transfer.bytes();
    total += transfer.bytes_total();
    rate += transfer.bytes_per_s();
    silent_s = std::min(silent_s, transfer.silent_s());
    donors.insert(transfer.donors().begin(), transfer.donors().end());
  }
  if (fragments == 0) return "";
  std::string text = absl::StrCat("fetches the state of ", Plural(fragments, "fragment"), " from ",
                                  List(donors), ": ", Bytes(bytes), " of ", Bytes(total));
  if (silent_s >= kSilenceShownS) {
    absl::StrAppend(&text, ", NOTHING CAME for ", FormatSeconds(silent_s));
  } else if (rate > 0) {
    absl::StrAppend(&text, absl::StrFormat(" at %.1f MB/s, about ", rate / 1e6),
                    FormatSeconds(static_cast<double>(total - std::min(bytes, total)) / rate),
                    " left");
  }
  return absl::StrCat("  ", Printable(text), "\n");
}

std::string Run(const RunStatus& run) {
  std::string text = absl::StrCat("run ", run.name(), ": ", run.state());
  if (!run.detail().empty()) absl::StrAppend(&text, " (", run.detail(), ")");
  if (!run.awaited().empty()) absl::StrAppend(&text, "; waits for ", List(run.awaited()));
  text = Printable(text);
  absl::StrAppend(
      &text, "\n  ",
      Printable(absl::StrCat(
          "clusters ", List(run.members()), "; epoch ", run.epoch().empty() ? "-" : run.epoch(),
          "; ", run.rule(), ", ", run.codec(), ", ", Plural(run.local_steps(), "local step"), "; ",
          FormatCount(run.elements()), " elements; ", Plural(run.trainers(), "trainer"))),
      "\n  ", Plural(run.rounds_committed(), "round"), " committed, ", run.rounds_excluded(),
      " without this cluster; sent ", Bytes(run.wire_bytes_sent()), ", received ",
      Bytes(run.wire_bytes_received()), "\n");
  if (run.residual_lost()) {
    absl::StrAppend(&text, "  this gateway restarted: its error feedback began again at zero\n");
  }
  return text + Transfers(run) + Votes(run) + Plan(run.plan()) + Checkpoints(run.checkpoint()) +
         Fragments(run);
}

}  // namespace

std::string FormatStatus(const StatusReply& status, int64_t now_s) {
  std::string text = Head(status) + Memory(status) + "\n" + Peers(status, now_s) + Relayed(status);
  if (status.runs().empty()) absl::StrAppend(&text, "\nno runs configured\n");
  for (const RunStatus& run : status.runs()) absl::StrAppend(&text, "\n", Run(run));
  return text;
}

std::string FormatStatusJson(const StatusReply& status) {
  JsonWriter json;
  WriteMessage(status, &json);
  return json.text() + "\n";
}

}  // namespace causeway::cli
