#include "daemon/cli/plan_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/cli/json.h"
#include "daemon/cli/table.h"
#include "daemon/config/scalars.h"
#include "daemon/planning/budget.h"
#include "daemon/planning/cost_model.h"
#include "daemon/planning/ladder.h"

namespace causeway::cli {
namespace {

// The ladder's rungs, and what else people train with.
constexpr const char* kCodecs[] = {"fp32",    "bf16",    "fp8:ef",  "int8:ef", "nf4:ef",
                                   "int4:ef", "2bit:ef", "sign:ef", "btopk:ef"};

planning::Exchange ExchangeOf(const PlanQuestion& question) {
  planning::Exchange exchange;
  exchange.rtt_seconds = question.rtt_seconds;
  exchange.elements = (question.parameters + question.fragments - 1) / question.fragments;
  for (size_t i = 0; i < question.bytes_per_second.size(); ++i) {
    const double rate = question.bytes_per_second[i];
    exchange.lines[static_cast<engine::ClusterId>(i)] = {rate, rate};
  }
  return exchange;
}

planning::Cost CostWith(const char* codec, const planning::Exchange& exchange,
                        planning::Plan* plan) {
  plan->codec = compression::CodecSpec::Parse(codec).value();
  *plan = planning::Routed(*plan, exchange, true, true);
  return planning::CostOf(*plan, exchange);
}

// The first rung whose exchange hides behind the delay that `delay: auto` is planned with.
std::string Automatic(const planning::Exchange& exchange, const planning::Pace& pace) {
  const auto ladder = planning::Ladder("fp32", "int4", true).value();
  for (const compression::CodecSpec& rung : ladder) {
    planning::Plan plan;
    const planning::Cost cost = CostWith(rung.ToString().c_str(), exchange, &plan);
    if (Hides(cost, 0, BudgetOf(pace, cost.latency_seconds))) {
      return compression::Traits(rung.kind).name;
    }
  }
  return compression::Traits(ladder.back().kind).name;
}

std::string Amount(double bytes) {
  return config::FormatSizeBytes(static_cast<int64_t>(std::min(bytes, 9e18)));
}

std::string Cell(const PlanRow& row) {
  if (row.hides) return absl::StrCat("d=", row.delay_steps, row.automatic ? " *" : "");
  return absl::StrFormat("%.0f%%%s", std::floor(100 * row.computing), row.automatic ? " *" : "");
}

}  // namespace

std::vector<PlanRow> PlanRows(const PlanQuestion& question) {
  const planning::Exchange exchange = ExchangeOf(question);
  planning::Plan plan;
  const double every_step = CostWith("fp32", exchange, &plan).bytes_out_max;
  std::vector<PlanRow> rows;
  for (const uint32_t steps : question.local_steps) {
    planning::Pace pace;
    pace.local_steps = steps;
    pace.fragments = std::min(question.fragments, steps);
    pace.delay = std::nullopt;
    pace.step_seconds = question.step_seconds;
    const std::string automatic = Automatic(exchange, pace);
    for (const char* codec : kCodecs) {
      const planning::Cost cost = CostWith(codec, exchange, &plan);
      PlanRow row;
      row.codec = compression::Traits(plan.codec.kind).name;
      row.bits = compression::BitsPerElement(plan.codec);
      row.local_steps = steps;
      row.route = plan.route == planning::Route::kOwner ? "owner" : "direct";
      row.exchange_seconds = cost.seconds();
      row.bytes_out = cost.bytes_out_max * question.fragments;
      row.bytes_ratio = every_step / cost.bytes_out_max * steps;
      const double computing = question.step_seconds * steps;
      const double longest = question.step_seconds * (steps - 1);
      const double turns = cost.transfer_seconds * question.fragments;
      row.hides = cost.seconds() <= longest && turns <= computing;
      row.delay_steps = static_cast<uint32_t>(
          std::min(std::ceil(cost.seconds() / question.step_seconds), steps - 1.0));
      const double late = std::max({0.0, cost.seconds() - longest, turns - computing});
      row.computing = computing / (computing + late);
      row.computing_blocking = computing / (computing + cost.seconds() * question.fragments);
      row.automatic = row.codec == automatic;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string FormatPlan(const PlanQuestion& question, const std::vector<PlanRow>& rows) {
  std::vector<std::string> rates;
  for (const double rate : question.bytes_per_second) {
    rates.push_back(config::FormatRateBits(static_cast<int64_t>(rate * 8)));
  }
  if (std::count(rates.begin(), rates.end(), rates.front()) ==
      static_cast<std::ptrdiff_t>(rates.size())) {
    rates.resize(1);
  }
  std::string text = absl::StrCat(
      FormatCount(question.parameters), " parameters, ",
      Plural(question.bytes_per_second.size(), "cluster"), ", ", absl::StrJoin(rates, " and "),
      absl::StrFormat(", round trip %.0f ms, a step %.3g s", question.rtt_seconds * 1e3,
                      question.step_seconds),
      question.fragments > 1 ? absl::StrCat(", ", question.fragments, " fragments") : "", "\n\n");
  std::vector<std::string> heading = {"CODEC", "BITS", "SENT A ROUND", "EXCHANGE", "ROUTE"};
  for (const uint32_t steps : question.local_steps) heading.push_back(absl::StrCat("H=", steps));
  Table table(heading);
  const size_t codecs = rows.size() / question.local_steps.size();
  for (size_t i = 0; i < codecs; ++i) {
    const PlanRow& row = rows[i];
    std::vector<std::string> cells = {row.codec, absl::StrFormat("%.3g", row.bits),
                                      Amount(row.bytes_out),
                                      absl::StrFormat("%.3gs", row.exchange_seconds), row.route};
    for (size_t h = 0; h < question.local_steps.size(); ++h) {
      cells.push_back(Cell(rows[h * codecs + i]));
    }
    table.Add(cells);
  }
  absl::StrAppend(
      &text, table.Format(),
      "\nd=N: hidden when the result is used N steps after it was submitted (delay: N). N%: not\n"
      "hidden; the trainers compute for that share of the time at best. *: what codec: auto (fp32\n"
      "to int4) takes with delay: auto, which prefers short delays. Exchanges are of one "
      "fragment,\n"
      "without encoding.\n");
  return text;
}

std::string FormatPlanJson(const PlanQuestion& question, const std::vector<PlanRow>& rows) {
  JsonWriter json;
  json.BeginObject().Key("parameters").Unsigned(question.parameters);
  json.Key("clusters").Unsigned(question.bytes_per_second.size());
  json.Key("rtt_s").Number(question.rtt_seconds).Key("step_s").Number(question.step_seconds);
  json.Key("fragments").Unsigned(question.fragments).Key("rows").BeginArray();
  for (const PlanRow& row : rows) {
    json.BeginObject().Key("codec").String(row.codec).Key("bits_per_element").Number(row.bits);
    json.Key("local_steps").Unsigned(row.local_steps).Key("route").String(row.route);
    json.Key("exchange_s").Number(row.exchange_seconds);
    json.Key("sent_bytes_per_round").Number(row.bytes_out);
    json.Key("fewer_bytes_than_fp32_every_step").Number(row.bytes_ratio);
    json.Key("hides").Bool(row.hides).Key("delay_steps").Unsigned(row.delay_steps);
    json.Key("computing_share").Number(row.computing);
    json.Key("computing_share_blocking").Number(row.computing_blocking);
    json.Key("auto").Bool(row.automatic).EndObject();
  }
  return json.EndArray().EndObject().text() + "\n";
}

}  // namespace causeway::cli
