// How the compared programs are driven, as exchange_trainer.py is: a line on standard input is one
// round, answered by a JSON line with the times at which it began and ended here.
#ifndef CAUSEWAY_TESTS_BENCH_EXCHANGE_PEERS_ROUNDS_H_
#define CAUSEWAY_TESTS_BENCH_EXCHANGE_PEERS_ROUNDS_H_

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>

namespace causeway::bench {

inline double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// `round` returns what all must agree on.
template <typename Round>
void Serve(Round round) {
  std::puts("{\"ready\": true}");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const double begin = Now();
    const uint64_t result = round();
    std::printf("{\"begin\": %.6f, \"end\": %.6f, \"sha256\": \"%016llx\"}\n", begin, Now(),
                static_cast<unsigned long long>(result));
    std::fflush(stdout);
  }
}

}  // namespace causeway::bench

#endif  // CAUSEWAY_TESTS_BENCH_EXCHANGE_PEERS_ROUNDS_H_
