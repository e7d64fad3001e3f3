// What `causeway plan` prints, against figures that can be checked by hand.
#include "daemon/cli/plan_report.h"

#include <catch2/catch.hpp>

namespace causeway::cli {
namespace {

PlanQuestion Question() {
  PlanQuestion question;
  question.parameters = 1'300'000'000;
  question.step_seconds = 0.4;
  question.bytes_per_second = {62.5e6, 62.5e6};
  question.rtt_seconds = 0.08;
  return question;
}

const PlanRow& Row(const std::vector<PlanRow>& rows, const std::string& codec, uint32_t steps) {
  for (const PlanRow& row : rows) {
    if (row.codec == codec && row.local_steps == steps) return row;
  }
  FAIL("no row " << codec << " " << steps);
  return rows.front();
}

TEST_CASE("an exchange is its bytes over the rate, and a round trip") {
  const std::vector<PlanRow> rows = PlanRows(Question());
  const PlanRow& fp32 = Row(rows, "fp32", 50);
  // 5.2 GB and 3 % at 62.5 MB/s.
  CHECK(fp32.exchange_seconds == Approx(5.2e9 * 1.03 / 62.5e6 + 0.08).epsilon(0.001));
  CHECK_FALSE(fp32.hides);
  CHECK(fp32.computing == Approx(20 / (20 + fp32.exchange_seconds - 49 * 0.4)));
  CHECK(fp32.computing_blocking == Approx(20 / (20 + fp32.exchange_seconds)));
  const PlanRow& int4 = Row(rows, "int4", 50);
  CHECK(int4.exchange_seconds == Approx(1.3e9 * 4.25 / 8 * 1.03 / 62.5e6 + 0.08).epsilon(0.001));
  CHECK(int4.hides);
  CHECK(int4.delay_steps == 29);
  CHECK(int4.computing == 1);
  CHECK(int4.bytes_ratio == Approx(50 * 32 / 4.25).epsilon(0.001));
}

TEST_CASE("with one local step nothing hides") {
  for (const PlanRow& row : PlanRows(Question())) {
    if (row.local_steps == 1) CHECK_FALSE(row.hides);
  }
}

TEST_CASE("more steps never hide less, harder codecs neither") {
  const std::vector<PlanRow> rows = PlanRows(Question());
  for (const PlanRow& row : rows) {
    for (const PlanRow& other : rows) {
      if (row.hides && other.local_steps >= row.local_steps && other.bits <= row.bits) {
        CHECK(other.hides);
      }
    }
  }
}

TEST_CASE("each number of steps has one automatic codec, less lossy with more steps") {
  const PlanQuestion question = Question();
  double bits = 0;
  for (const uint32_t steps : question.local_steps) {
    int marked = 0;
    for (const PlanRow& row : PlanRows(question)) {
      if (row.local_steps != steps || !row.automatic) continue;
      ++marked;
      if (steps > 1) CHECK(row.bits >= bits);
      bits = row.bits;
    }
    CHECK(marked == 1);
  }
}

TEST_CASE("many clusters go by owner, and a slow one is what counts") {
  PlanQuestion question = Question();
  question.bytes_per_second = {125e6, 125e6, 25e6};
  const std::vector<PlanRow> rows = PlanRows(question);
  CHECK(Row(rows, "int8", 20).route == "owner");
  // The slow one owns nothing, so all of its line is for its own part and the result.
  CHECK(Row(rows, "int8", 20).exchange_seconds ==
        Approx(1.3e9 * 8.0625 / 8 * 1.03 / 25e6 + 0.12).epsilon(0.01));
}

TEST_CASE("the table has a line for each codec and a column for each H") {
  const PlanQuestion question = Question();
  const std::string text = FormatPlan(question, PlanRows(question));
  INFO(text);
  CHECK(text.find("1,300,000,000 parameters, 2 clusters, ") == 0);
  CHECK(text.find("round trip 80 ms, a step 0.4 s") != std::string::npos);
  CHECK(text.find("H=500") != std::string::npos);
  CHECK(text.find("\nint4 ") != std::string::npos);
  CHECK(text.find("d=29") != std::string::npos);
  const std::string json = FormatPlanJson(question, PlanRows(question));
  CHECK(json.find("\"codec\":\"int4\"") != std::string::npos);
  CHECK(json.find("\"delay_steps\":29") != std::string::npos);
}

}  // namespace
}  // namespace causeway::cli
