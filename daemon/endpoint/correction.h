// Momentum of gradients of which a sparse codec sends the largest values only (Deep Gradient
// Compression): it is kept where the residual lies, since what is sent late must have grown as the
// momentum of an optimizer would have let it.
//
//   u <- mu u + c g;   v <- v + u;   send Q(TopK(v));   where it was sent: u <- 0, v <- v - sent
//   c = min(1, norm_max / |g|), |g| over the fragment; 1 where |g| is not finite
//
// g is the gradient, v the residual, norm_max the cluster's share of the run's threshold: threshold
// / sqrt(clusters). The paper sets v to 0 where it was sent; Q rounds, and what it loses stays in
// v, so that nothing is lost. A value that Q makes 0 was not sent. u is bf16, as the residual.
//
// Pure functions over spans of one chunk; any thread.
#ifndef CAUSEWAY_DAEMON_ENDPOINT_CORRECTION_H_
#define CAUSEWAY_DAEMON_ENDPOINT_CORRECTION_H_

#include <cstdint>

#include "absl/types/span.h"

namespace causeway::endpoint {

struct Correction {
  double momentum = 0;  // mu, from 0 to below 1; rounded once to fp32
  double norm_max = 0;  // of a cluster's gradient; 0: not bounded

  bool on() const { return momentum > 0 || norm_max > 0; }
};

// Sum of squares, fp64, in a fixed order.
double SquaredNorm(absl::Span<const float> values);
// c.
float ClipFactor(double squared_norm, double norm_max);

// work = fl(fl(mu u) + fl(c work)), work being the gradient; `next` = work in bf16, 0 where it is
// too large to keep. `momentum` is u in bf16; null: zero.
void AdvanceMomentum(const uint16_t* momentum, float mu, float clip, absl::Span<float> work,
                     uint16_t* next);
// momentum = 0 where something was sent.
void ForgetSent(absl::Span<const float> sent, uint16_t* momentum);

}  // namespace causeway::endpoint

#endif  // CAUSEWAY_DAEMON_ENDPOINT_CORRECTION_H_
