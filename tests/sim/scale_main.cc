// tests/sim/run scale: round time and control messages against the number of clusters, directly and
// by owner, as a table and as a drawing.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/sim/scale.h"

namespace {

using causeway::planning::CostOf;
using causeway::planning::Route;
using causeway::planning::Routed;
using causeway::sim::RunScale;
using causeway::sim::ScaleOptions;
using causeway::sim::ScaleResult;

constexpr int kClusters[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
constexpr double kBytesPerSecond = 1e9 / 8;
constexpr double kRttSeconds = 0.1;
constexpr uint64_t kElements = 100'000'000;
constexpr char kCodec[] = "int4:ef";

struct Point {
  int clusters;
  double model;
  ScaleResult result;
};

Point Measure(int clusters, bool owner) {
  ScaleOptions options;
  for (int id = 0; id < clusters; ++id) {
    options.exchange.lines[static_cast<causeway::engine::ClusterId>(id)] = {kBytesPerSecond,
                                                                            kBytesPerSecond};
  }
  options.exchange.rtt_seconds = kRttSeconds;
  options.exchange.elements = kElements;
  options.plan.codec = causeway::compression::CodecSpec::Parse(kCodec).value();
  options.plan = Routed(options.plan, options.exchange, !owner, owner);
  return {clusters, CostOf(options.plan, options.exchange).seconds(), RunScale(options)};
}

// ---------------------------------------------------------------- drawing

constexpr double kWidth = 460;
constexpr double kHeight = 300;
constexpr double kLeft = 56;
constexpr double kBottom = 44;
constexpr double kTop = 34;

struct Curve {
  std::string name;
  std::string colour;
  std::vector<Point> points;
  std::function<double(const Point&)> value;
};

// One pair of axes at `x0`: clusters from 2 to 64 and values over decades.
std::string Panel(double x0, const std::string& title, const std::vector<Curve>& curves, double low,
                  double high) {
  const auto x = [&](double n) {
    return x0 + kLeft + std::log2(n / 2) / 5 * (kWidth - kLeft - 90);
  };
  const auto y = [&](double value) {
    return kTop + (std::log10(high) - std::log10(value)) / (std::log10(high) - std::log10(low)) *
                      (kHeight - kTop - kBottom);
  };
  std::string svg = absl::StrFormat("<text x=\"%.0f\" y=\"20\" font-weight=\"bold\">%s</text>\n",
                                    x0 + kLeft, title);
  for (double decade = low; decade <= high * 1.001; decade *= 10) {
    absl::StrAppendFormat(&svg,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                          "stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%.1f\" "
                          "text-anchor=\"end\">%g</text>\n",
                          x(2), y(decade), x(64), y(decade), x(2) - 8, y(decade) + 4, decade);
  }
  for (int n = 2; n <= 64; n *= 2) {
    absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n",
                          x(n), kHeight - kBottom + 18, n);
  }
  absl::StrAppendFormat(&svg,
                        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">clusters</text>\n",
                        x(11.3), kHeight - 8);
  for (const Curve& curve : curves) {
    std::string path;
    for (const Point& point : curve.points) {
      absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : " L", x(point.clusters),
                            y(curve.value(point)));
    }
    absl::StrAppendFormat(&svg,
                          "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>"
                          "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">%s</text>\n",
                          path, curve.colour, x(64) + 6, y(curve.value(curve.points.back())) + 4,
                          curve.colour, curve.name);
  }
  return svg;
}

std::string Drawing(const std::vector<Point>& direct, const std::vector<Point>& owner) {
  const auto seconds = [](const Point& p) { return p.result.round_seconds; };
  const auto messages = [](const Point& p) { return p.result.control_messages; };
  return absl::StrCat(
      absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                      "font-family=\"sans-serif\" font-size=\"12\">\n"
                      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                      2 * kWidth, kHeight),
      Panel(0, "seconds a round (100 M parameters, int4, 1 Gbit/s, 100 ms)",
            {{"direct", "#c0392b", direct, seconds}, {"by owner", "#2471a3", owner, seconds}}, 0.1,
            100),
      Panel(kWidth, "control messages a member and round",
            {{"direct", "#c0392b", direct, messages}, {"by owner", "#2471a3", owner, messages}}, 1,
            1000),
      "</svg>\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::string file;
  if (argc == 3 && std::strcmp(argv[1], "--svg") == 0) {
    file = argv[2];
  } else if (argc != 1) {
    std::fputs("usage: tests/sim/run scale [--svg FILE]\n", stderr);
    return 64;
  }
  std::vector<Point> direct;
  std::vector<Point> owner;
  std::printf(
      "100 M parameters, int4, every line 1 Gbit/s, round trip 100 ms; control messages a member "
      "and round, without heartbeats\n%8s %10s %10s %10s %10s %10s %10s %10s %10s\n",
      "clusters", "direct s", "(model)", "owner s", "(model)", "messages", "by leader",
      "heartbeat/s", "founded s");
  for (const int clusters : kClusters) {
    direct.push_back(Measure(clusters, false));
    owner.push_back(Measure(clusters, true));
    const Point& d = direct.back();
    const Point& o = owner.back();
    std::printf("%8d %10.2f %10.2f %10.2f %10.2f %10.1f %10.1f %11.1f %10.2f\n", clusters,
                d.result.round_seconds, d.model, o.result.round_seconds, o.model,
                o.result.control_messages, o.result.control_messages_leader,
                o.result.heartbeats_per_second, o.result.first_seconds);
    std::fflush(stdout);
    if (!o.result.plan_named) {
      std::fputs("contributions did not name the plan\n", stderr);
      return 1;
    }
  }
  if (!file.empty()) std::ofstream(file) << Drawing(direct, owner);
  return 0;
}
