// Clusters are numbers in a plan's body: 64 names of 63 bytes would not fit the engine's bound, and
// the roster, which the algorithm's digest covers, is the same everywhere.
#include "daemon/run/plan_codec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/engine/message.h"

namespace causeway::run {
namespace {

constexpr size_t kCodecTextMax = 64;

absl::Status Bad(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

absl::StatusOr<compression::CodecSpec> ReadCodec(const char* field, const PlanBounds& bounds,
                                                 const std::string& text) {
  if (text.size() > kCodecTextMax) return Bad(absl::StrCat(field, ": longer than a codec's name"));
  absl::StatusOr<compression::CodecSpec> spec = compression::CodecSpec::Parse(text);
  if (!spec.ok()) return Bad(absl::StrCat(field, ": ", spec.status().message()));
  if (std::find(bounds.codecs.begin(), bounds.codecs.end(), *spec) == bounds.codecs.end()) {
    return Bad(absl::StrCat(field, ": ", spec->ToString(), " is not what the run allows"));
  }
  return spec;
}

absl::Status ReadParts(const Roster& roster, const wan::v1::PlanBody& body, planning::Plan* plan) {
  if (plan->route == planning::Route::kDirect) {
    return body.parts().empty() ? absl::OkStatus() : Bad("plan.parts: there are no owners");
  }
  if (body.parts_size() != roster.size()) {
    return Bad(
        absl::StrCat("plan.parts: ", body.parts_size(), " shares of ", roster.size(), " clusters"));
  }
  uint64_t sum = 0;
  for (int i = 0; i < body.parts_size(); ++i) {
    sum += body.parts(i);
    if (body.parts(i) > 0) plan->parts.emplace(static_cast<engine::ClusterId>(i), body.parts(i));
  }
  if (sum != planning::kShareParts) {
    return Bad(absl::StrCat("plan.parts: ", sum, " in all, not ", planning::kShareParts));
  }
  return absl::OkStatus();
}

std::string Readable(const std::string& text) {
  std::string out = text.substr(0, planning::kReasonBytesMax);
  for (char& c : out) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return out;
}

uint64_t Micros(double seconds) {
  return static_cast<uint64_t>(std::clamp(seconds, 0.0, planning::kSecondsMax) * 1e6);
}

uint64_t Whole(double rate) {
  return static_cast<uint64_t>(std::clamp(rate, 0.0, planning::kBytesPerSecondMax));
}

// Bounded numbers only; the first that is not leaves its name.
class Numbers {
 public:
  double Seconds(const char* field, uint64_t us) {
    return Take(field, static_cast<double>(us) / 1e6, planning::kSecondsMax);
  }
  double Rate(const char* field, uint64_t rate) {
    return Take(field, static_cast<double>(rate), planning::kBytesPerSecondMax);
  }
  const char* wrong() const { return wrong_; }

 private:
  double Take(const char* field, double value, double most) {
    if (value > most && wrong_ == nullptr) wrong_ = field;
    return value;
  }
  const char* wrong_ = nullptr;
};

}  // namespace

std::string EncodePlan(const Roster& roster, const planning::Plan& plan) {
  wan::v1::PlanBody body;
  body.set_codec(plan.codec.ToString());
  body.set_route(static_cast<uint32_t>(plan.route));
  if (plan.route == planning::Route::kOwner) {
    for (int id = 0; id < roster.size(); ++id) {
      const auto part = plan.parts.find(static_cast<engine::ClusterId>(id));
      body.add_parts(part == plan.parts.end() ? 0 : part->second);
    }
  }
  for (const auto& [cluster, codec] : plan.codecs) {
    wan::v1::ClusterCodec* own = body.add_codecs();
    own->set_cluster(cluster);
    own->set_codec(codec.ToString());
  }
  body.set_reason(Readable(plan.reason));
  return body.SerializeAsString();
}

absl::StatusOr<planning::Plan> DecodePlan(const Roster& roster, const PlanBounds& bounds,
                                          const std::string& bytes) {
  wan::v1::PlanBody body;
  if (bytes.size() > engine::kPlanBytesMax || !body.ParseFromString(bytes)) {
    return Bad("plan: not a plan's body");
  }
  planning::Plan plan;
  absl::StatusOr<compression::CodecSpec> codec = ReadCodec("plan.codec", bounds, body.codec());
  if (!codec.ok()) return codec.status();
  plan.codec = *codec;
  if (body.route() == static_cast<uint32_t>(planning::Route::kOwner) && bounds.owner) {
    plan.route = planning::Route::kOwner;
  } else if (body.route() != static_cast<uint32_t>(planning::Route::kDirect) || !bounds.direct) {
    return Bad(absl::StrCat("plan.route: ", body.route(), " is not what the run allows"));
  }
  if (absl::Status parts = ReadParts(roster, body, &plan); !parts.ok()) return parts;
  int64_t before = -1;
  for (const wan::v1::ClusterCodec& own : body.codecs()) {
    if (own.cluster() <= before || own.cluster() >= static_cast<uint32_t>(roster.size())) {
      return Bad(absl::StrCat("plan.codecs: cluster ", own.cluster(), " is out of range or order"));
    }
    before = own.cluster();
    absl::StatusOr<compression::CodecSpec> spec = ReadCodec("plan.codecs", bounds, own.codec());
    if (!spec.ok()) return spec.status();
    plan.codecs.emplace(static_cast<engine::ClusterId>(own.cluster()), *spec);
  }
  plan.reason = Readable(body.reason());
  return plan;
}

wan::v1::LinkReport EncodeLinkReport(const Roster& roster, const planning::MemberReport& report) {
  wan::v1::LinkReport out;
  for (const auto& [peer, rate] : report.links) {
    wan::v1::LinkRate* link = out.add_links();
    link->set_cluster(roster.Name(peer));
    link->set_send_bytes_per_s(Whole(rate.send_bytes_per_second));
    link->set_receive_bytes_per_s(Whole(rate.receive_bytes_per_second));
    link->set_rtt_us(Micros(rate.rtt_seconds));
  }
  out.set_step_us(Micros(report.step_seconds));
  out.set_exchange_us(Micros(report.exchange_seconds));
  out.set_round(report.round);
  return out;
}

absl::StatusOr<planning::MemberReport> DecodeLinkReport(const Roster& roster,
                                                        const wan::v1::LinkReport& report) {
  planning::MemberReport out;
  Numbers numbers;
  if (report.links_size() > roster.size()) return Bad("link_report.links: more than clusters");
  for (const wan::v1::LinkRate& link : report.links()) {
    const auto peer = roster.Find(link.cluster());
    if (!peer || (!out.links.empty() && out.links.rbegin()->first >= *peer)) {
      return Bad("link_report.links: a cluster is unknown or out of order");
    }
    planning::LinkRate& rate = out.links[*peer];
    rate.send_bytes_per_second = numbers.Rate("send_bytes_per_s", link.send_bytes_per_s());
    rate.receive_bytes_per_second = numbers.Rate("receive_bytes_per_s", link.receive_bytes_per_s());
    rate.rtt_seconds = numbers.Seconds("rtt_us", link.rtt_us());
  }
  out.step_seconds = numbers.Seconds("step_us", report.step_us());
  out.exchange_seconds = numbers.Seconds("exchange_us", report.exchange_us());
  out.round = report.round();
  if (numbers.wrong() != nullptr || out.round < 0) {
    return Bad(absl::StrCat("link_report.", numbers.wrong() != nullptr ? numbers.wrong() : "round",
                            ": out of range"));
  }
  return out;
}

}  // namespace causeway::run
