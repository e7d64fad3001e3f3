// A run's configured algorithm and codec as canonical lines: what clusters compare when they join,
// and what names the first differing key when they do not agree. Pure functions.
#ifndef CAUSEWAY_DAEMON_RUN_ALGORITHM_H_
#define CAUSEWAY_DAEMON_RUN_ALGORITHM_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "compression/codec.h"
#include "daemon/config/config.h"
#include "daemon/endpoint/correction.h"
#include "daemon/engine/ids.h"
#include "daemon/outer/rule.h"

namespace causeway::run {

bool HasOuterRule(const config::Run& run);  // false: gradients are averaged each step
outer::RuleSpec RuleOf(const config::Algorithm& algorithm);
// What the endpoint does to gradients before they are encoded (DGC).
endpoint::Correction CorrectionOf(const config::Run& run);
// The weight that a contribution of this cluster counts with. Where steps are normalised, that of
// one of its steps times the same number on every cluster: a sum of differences over H_i steps then
// counts as that of the mean number of steps, whatever H_i is.
uint64_t CountedWeight(const config::Algorithm& algorithm, uint64_t weight);

// The configured codec; the parser has checked that it is one.
compression::CodecSpec CodecOf(const config::Codec& codec);
// What the planner may choose from, least lossy first; the configured one alone unless `auto`.
std::vector<compression::CodecSpec> LadderOf(const config::Codec& codec);
// "int4:b64:ef", or "auto from fp32:ef to int4:b64:ef".
std::string CodecText(const config::Codec& codec);
const char* RouteName(config::Route route);

// "key = value" lines in a fixed order: every setting that must be equal on all clusters.
std::vector<std::string> AlgorithmLines(const config::Run& run);
// SHA-256 over the lines, each with a newline.
engine::Hash256 AlgorithmDigest(const config::Run& run);

// "algorithm.local_steps: 10 here, 20 at tokyo"; empty when equal. `theirs` may be hostile text.
std::string FirstDifferentKey(absl::Span<const std::string> here,
                              absl::Span<const std::string> theirs, const std::string& their_name);

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_ALGORITHM_H_
