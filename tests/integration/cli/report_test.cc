// What the command prints, from data.
#include <catch2/catch.hpp>
#include <limits>

#include "daemon/cli/json.h"
#include "daemon/cli/run_memory.h"
#include "daemon/cli/status_report.h"
#include "daemon/cli/table.h"
#include "proto/admin.pb.h"

namespace causeway::cli {
namespace {

admin::v1::StatusReply Sample() {
  admin::v1::StatusReply status;
  status.set_cluster("paris");
  status.set_software("causeway 0.1.0");
  status.set_uptime_s(7'980);
  status.set_trainers(1);
  status.mutable_memory()->set_budget_bytes(uint64_t{4} << 30);
  status.mutable_memory()->set_used_bytes(uint64_t{1} << 30);
  status.mutable_memory()->set_peak_bytes(uint64_t{3} << 29);
  (*status.mutable_memory()->mutable_used_by())["values"] = uint64_t{3} << 28;
  (*status.mutable_memory()->mutable_used_by())["snapshot"] = uint64_t{1} << 28;
  admin::v1::PeerStatus* peer = status.add_peers();
  peer->set_cluster("tokyo");
  peer->set_state("up");
  peer->set_address("gateway.tokyo.example.org:7443");
  peer->set_dialled_by("paris");
  peer->set_lanes_up(4);
  peer->set_lanes_wanted(4);
  peer->set_rtt_ms(98.24);
  peer->set_silent_s(0.4);
  peer->set_certificate_not_after_unix_s(1'000'000 + 27 * 86'400);
  admin::v1::RunStatus* run = status.add_runs();
  run->set_name("demo");
  run->set_state("running");
  run->set_epoch("3.paris");
  run->add_members("paris");
  run->add_members("tokyo");
  run->add_voters("paris");
  run->add_voters("tokyo");
  run->set_leader("paris");
  run->mutable_checkpoint()->set_written(3);
  run->mutable_checkpoint()->set_age_s(12);
  run->set_rule("nesterov");
  run->set_codec("int4:b64:ef");
  run->set_local_steps(20);
  run->set_elements(544'256);
  run->set_trainers(1);
  run->set_rounds_committed(12);
  admin::v1::FragmentStatus* fragment = run->add_fragments();
  fragment->set_round(12);
  fragment->set_phase("exchanging");
  fragment->set_chunks_total(3);
  fragment->set_chunks_reduced(2);
  fragment->set_last_round_s(1.234);
  fragment->add_awaited("tokyo");
  return status;
}

TEST_CASE("status as a person reads it") {
  CHECK(FormatStatus(Sample(), 1'000'000) ==
        R"(paris  causeway 0.1.0  up 2h 13m  1 trainer attached
memory 1 GiB of 4 GiB (peak 1.5 GiB): values 768 MiB, snapshot 256 MiB

PEER   STATE  ADDRESS                         DIALLED BY  LANES  RTT      SILENT  SENT  RECEIVED  RESENT  CERTIFICATE ENDS
tokyo  up     gateway.tokyo.example.org:7443  paris       4/4    98.2 ms  0.4s    0 B   0 B       0       in 27d 0h

run demo: running
  clusters paris, tokyo; epoch 3.paris; nesterov, int4:b64:ef, 20 local steps; 544,256 elements; 1 trainer
  12 rounds committed, 0 without this cluster; sent 0 B, received 0 B
  led by paris; votes of paris, tokyo
  newest checkpoint 12s ago, 0 fragments behind
  FRAGMENT  ROUND  PHASE       PROGRESS    LAST ROUND  WAITS FOR
  0         12     exchanging  2/3 chunks  1.23s       tokyo
)");
}

TEST_CASE("status says that checkpoints fail, and nothing where there are none") {
  admin::v1::StatusReply status = Sample();
  status.mutable_runs(0)->clear_checkpoint();
  CHECK(FormatStatus(status, 0).find("checkpoint") == std::string::npos);
  admin::v1::CheckpointStatus* checkpoint = status.mutable_runs(0)->mutable_checkpoint();
  checkpoint->set_failure("/var/lib/causeway: No space left on device");
  checkpoint->set_fragments_behind(4);
  CHECK(FormatStatus(status, 0).find(
            "  checkpoints FAIL: /var/lib/causeway: No space left on device; newest checkpoint is "
            "of an earlier process, 4 fragments behind\n") != std::string::npos);
}

TEST_CASE("status as a program reads it") {
  const std::string json = FormatStatusJson(Sample());
  CHECK(json.find("{\"cluster\":\"paris\",\"software\":\"causeway 0.1.0\",\"incarnation\":0,") ==
        0);
  CHECK(json.find("\"memory\":{\"budget_bytes\":4294967296,") != std::string::npos);
  CHECK(json.find("\"members\":[\"paris\",\"tokyo\"]") != std::string::npos);
  CHECK(json.find("\"residual_lost\":false") != std::string::npos);
  CHECK(json.ends_with("}\n"));
}

TEST_CASE("a peer's words cannot draw on the terminal") {
  admin::v1::StatusReply status = Sample();
  status.mutable_peers(0)->set_state("down");
  status.mutable_peers(0)->set_last_error("\x1b[2Jevil\nrun demo: finished");
  status.mutable_runs(0)->set_detail("a\rb");
  const std::string text = FormatStatus(status, 0);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
  CHECK(text.find("\nrun demo: finished") == std::string::npos);
}

TEST_CASE("a state on its way here shows how far it is, and that nothing comes") {
  admin::v1::StatusReply status = Sample();
  CHECK(FormatStatus(status, 0).find("fetches") == std::string::npos);
  admin::v1::TransferStatus* transfer =
      status.mutable_runs(0)->mutable_fragments(0)->mutable_transfer();
  transfer->set_bytes(64 << 20);
  transfer->set_bytes_total(192 << 20);
  transfer->set_bytes_per_s(double{1 << 23});
  transfer->add_donors("tokyo");
  CHECK_THAT(FormatStatus(status, 0),
             Catch::Contains("  fetches the state of 1 fragment from tokyo: 64 MiB of 192 MiB"
                             " at 8.4 MB/s, about 16s left\n"));
  transfer->set_silent_s(31);
  CHECK_THAT(FormatStatus(status, 0), Catch::Contains(" MiB, NOTHING CAME for 31s\n"));
}

TEST_CASE("an expired certificate is called so") {
  CHECK(FormatStatus(Sample(), 1'000'000'000).find("EXPIRED") != std::string::npos);
}

TEST_CASE("JSON") {
  JsonWriter json;
  json.BeginObject().Key("a").BeginArray().Integer(-1).Unsigned(~uint64_t{0}).Number(0.5);
  json.Number(std::numeric_limits<double>::quiet_NaN()).Bool(true).String("\"\\\n").EndArray();
  json.Key("b").BeginObject().EndObject().EndObject();
  CHECK(json.text() ==
        "{\"a\":[-1,18446744073709551615,0.5,null,true,\"\\\"\\\\\\u000a\"],\"b\":{}}");
}

TEST_CASE("numbers for people") {
  CHECK(FormatCount(0) == "0");
  CHECK(FormatCount(999) == "999");
  CHECK(FormatCount(1'000) == "1,000");
  CHECK(FormatCount(25'000'000) == "25,000,000");
  CHECK(FormatSeconds(0.44) == "0.4s");
  CHECK(FormatSeconds(35) == "35s");
  CHECK(FormatSeconds(125) == "2m 5s");
  CHECK(FormatSeconds(11'400) == "3h 10m");
  CHECK(FormatSeconds(-1) == "-");
}

TEST_CASE("a run's memory is the sum of its parts and grows with what it asks for") {
  config::Config config;
  config::Run run;
  run.clusters = {"oslo", "paris"};
  run.codec.kind = "fp32";
  const RunMemory plain = MemoryOf(config, run);
  double sum = 0;
  for (const MemoryPart& part : plain.parts) sum += part.bytes_per_parameter;
  CHECK(plain.bytes_per_parameter == Approx(sum));
  CHECK(static_cast<double>(plain.Total(1'000'000)) ==
        Approx(static_cast<double>(plain.bytes_fixed) + sum * 1e6));

  run.algorithm.rule = config::Rule::kNesterov;
  CHECK(MemoryOf(config, run).bytes_per_parameter == Approx(plain.bytes_per_parameter + 4));
  run.codec.kind = "int4:b64:ef";
  const RunMemory packed = MemoryOf(config, run);
  CHECK(packed.bytes_per_parameter < plain.bytes_per_parameter + 4 + 4);
  run.clusters.push_back("tokyo");
  CHECK(MemoryOf(config, run).bytes_per_parameter > packed.bytes_per_parameter);
}

TEST_CASE(
    "a run's memory counts the mean, what owners keep, and the largest of what auto chooses") {
  config::Config config;
  config::Run run;
  run.clusters = {"lima", "paris", "tokyo"};
  run.codec.kind = "int4:b64:ef";
  const auto part = [&](const std::string& name) {
    for (const MemoryPart& each : MemoryOf(config, run).parts) {
      if (each.name == name) return each.bytes_per_parameter;
    }
    return 0.0;
  };
  CHECK(part("mean") == 4);
  CHECK(part("results") == part("retained"));
  CHECK(part("owned residual") == 4);
  CHECK(part("joining") == 0);  // a round of it is larger than the state
  run.route = config::Route::kDirect;
  CHECK(part("results") == 0);
  run.algorithm.rule = config::Rule::kNesterov;
  CHECK(part("joining") == Approx(8 - 4 - part("retained")));
  run.codec.ladder = {"fp32:ef", "int4:b64:ef"};
  CHECK(part("retained") >= 4);
}

TEST_CASE("the most parameters are those that just fit") {
  config::Run run;
  run.clusters = {"oslo", "paris"};
  for (const char* codec : {"fp32", "int4:b64:ef"}) {
    run.codec.kind = codec;
    for (const int64_t budget : {int64_t{64} << 20, int64_t{4} << 30, int64_t{1} << 40}) {
      config::Config config;
      config.memory_bytes = budget;
      const RunMemory memory = MemoryOf(config, run);
      const uint64_t most = memory.ParametersMax(static_cast<uint64_t>(budget));
      INFO(codec << " " << budget << " " << most);
      CHECK(most > 0);
      CHECK(memory.Total(most) <= static_cast<uint64_t>(budget));
      CHECK(memory.Total(most + 1) > static_cast<uint64_t>(budget));
      // Beyond its bound the window for peers no longer grows with the model.
      const uint64_t step = memory.Total(2 * most) - memory.Total(most);
      CHECK(static_cast<double>(step) <=
            memory.bytes_per_parameter * static_cast<double>(most) + 9);
    }
  }
  CHECK(MemoryOf({}, run).ParametersMax(0) == 0);
}

}  // namespace
}  // namespace causeway::cli
