// Gloo's ring all-reduce of fp32 in segments of 16 MB, as a framework would call it.
//   bench_exchange_gloo RANK SIZE ELEMENTS STORE_DIRECTORY DEVICE
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/bench/exchange_peers/rounds.h"

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fputs("bench_exchange_gloo RANK SIZE ELEMENTS STORE_DIRECTORY DEVICE\n", stderr);
    return 64;
  }
  const int rank = std::atoi(argv[1]);
  const size_t elements = std::strtoull(argv[3], nullptr, 10);
  gloo::transport::tcp::attr attributes;
  attributes.iface = argv[5];
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(argv[4]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, std::atoi(argv[2]));
  context->connectFullMesh(store, device);
  std::vector<float> tensor(elements);
  uint32_t tag = 0;
  causeway::bench::Serve([&] {
    for (size_t i = 0; i < elements; ++i) {
      tensor[i] = static_cast<float>((i * 2654435761u + static_cast<size_t>(rank)) % 1000) - 500;
    }
    gloo::AllreduceOptions options(context);
    options.setOutput(tensor.data(), elements);
    options.setReduceFunction(
        [](void* out, const void* a, const void* b, size_t n) { gloo::sum<float>(out, a, b, n); });
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setMaxSegmentSize(16 << 20);
    options.setTag(++tag);
    options.setTimeout(std::chrono::minutes(10));
    gloo::allreduce(options);
    uint64_t hash = 0;
    for (float value : tensor) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      hash = hash * 0x9e3779b97f4a7c15u + bits;
    }
    return hash;
  });
  return 0;
}
