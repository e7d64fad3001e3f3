// The shim's GPU half and the NCCL bridge with the real driver and the real NCCL, as one trainer
// against the tests' gateway: what tests/unit/client proves against stand-ins, proved where there
// is a GPU.
//
// Exit 0: equal; 1: not; 77: no GPU here. Needs no toolkit: driver and NCCL are loaded as the shim
// does.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "client/include/causeway.hpp"
#include "client/include/causeway_nccl.h"
#include "client/shim/cuda_library.h"
#include "tests/unit/client/fake_gateway.h"

namespace causeway {
namespace {

namespace cuda = client::cuda;

constexpr uint64_t kElements = 3 * 256 * 1024 + 17;

void Expect(bool good, const char* what) {
  std::printf("%s: %s\n", good ? "ok" : "WRONG", what);
  if (!good) std::exit(1);
}

// The trainer's own GPU: one context, one stream, one tensor.
class Gpu {
 public:
  explicit Gpu(const cuda::Calls& calls) : calls_(calls) {
    cuda::DeviceHandle device = 0;
    cuda::Context context = nullptr;
    Good(calls_.device_get(&device, 0));
    Good(calls_.context_retain(&context, device));
    Good(calls_.context_push(context));
    Good(calls_.stream_create(&stream_, cuda::kStreamNonBlocking));
    Good(calls_.memory_allocate(&tensor_, kElements * sizeof(float)));
  }
  void Write(const std::vector<float>& values) {
    Good(calls_.copy_to_device(tensor_, values.data(), kElements * sizeof(float), stream_));
    Good(calls_.stream_synchronize(stream_));
  }
  // Enqueued only: `values` stay until somebody synchronises.
  void WriteLater(const std::vector<float>& values) {
    Good(calls_.copy_to_device(tensor_, values.data(), kElements * sizeof(float), stream_));
  }
  std::vector<float> Read() {
    std::vector<float> values(kElements);
    Good(calls_.copy_to_host(values.data(), tensor_, kElements * sizeof(float), stream_));
    Good(calls_.stream_synchronize(stream_));
    return values;
  }
  void* stream() const { return stream_; }
  void* tensor() const { return reinterpret_cast<void*>(static_cast<uintptr_t>(tensor_)); }

 private:
  static void Good(cuda::Result result) { Expect(result == 0, "a call of the driver"); }
  const cuda::Calls& calls_;
  cuda::Stream stream_ = nullptr;
  cuda::Pointer tensor_ = 0;
};

std::vector<float> Ramp(float step) {
  std::vector<float> values(kElements);
  for (uint64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i % 4096) * step;
  return values;
}

cw_tensor TensorOfTest() {
  cw_tensor tensor{};
  tensor.name = "weight";
  tensor.dimensions = 1;
  tensor.alias_of = -1;
  tensor.shape[0] = kElements;
  return tensor;
}

void Exchange(Gpu& gpu, const std::string& directory, bool private_only) {
  fake::FakeGateway gateway(directory);
  Trainer::Options options;
  options.run = "demo";
  options.socket_path = gateway.socket();
  Trainer trainer(options);
  trainer.Join({TensorOfTest()}, true);
  Expect(!trainer.UseCuda(0, gpu.stream(), private_only),
         "the test's gateway takes no device memory");
  const std::vector<cw_slice> slices = {Slice(0, gpu.tensor(), 0, CW_WHOLE, CW_MEMORY_CUDA)};
  gpu.Write(Ramp(0));
  trainer.Offer(slices);
  Expect(trainer.Ready(20'000) == CW_MATCH, "the run begins from the GPU's values");
  const std::vector<float> sent = Ramp(1), later = Ramp(3);
  gpu.WriteLater(sent);
  Operation operation(trainer, 0, 1, slices);
  gpu.WriteLater(later);  // after the submission, on the same stream: not in it
  Expect(operation.Wait(20'000).state == CW_STATE_COMMITTED, "a submission from the GPU");
  std::vector<float> values = gateway.Values(0);
  values.resize(kElements);
  Expect(values == sent, "the gateway holds what was on the stream before");
  operation.Apply(CW_CARRY, slices);
  operation.Applied();
  Expect(gpu.Read() == later, "what came later is carried");
  trainer.Read(0, 1, slices);
  Expect(gpu.Read() == sent, "the run's value is read to the GPU");
}

// One rank: every call of NCCL that the bridge makes, on the one GPU that is surely there.
void Nccl(Gpu& gpu, const std::string& directory) {
  fake::FakeGateway gateway(directory);
  Trainer::Options options;
  options.run = "demo";
  options.socket_path = gateway.socket();
  Trainer trainer(options);
  const cw_tensor tensor = TensorOfTest();
  trainer.Join({tensor}, true);
  trainer.UseCuda(0, gpu.stream());
  const std::vector<cw_slice> slices = {Slice(0, gpu.tensor(), 0, CW_WHOLE, CW_MEMORY_CUDA)};
  gpu.Write(Ramp(0));
  trainer.Offer(slices);
  trainer.Ready(20'000);
  cw_nccl_options nccl{};
  nccl.struct_bytes = sizeof(nccl);
  nccl.ranks = 1;
  nccl.stream = gpu.stream();
  nccl.tensors = &tensor;
  nccl.tensor_count = 1;
  nccl.broadcast = [](void*, void*, size_t) { return 0; };
  cw_nccl* bridge = nullptr;
  const int opened = cw_nccl_open(&nccl, &bridge);
  if (opened != CW_OK) {
    cw_error error{};
    cw_last_error(&error);
    std::printf("skipped: NCCL: %s\n", error.text);
    return;
  }
  gpu.WriteLater(Ramp(2));
  Expect(cw_nccl_reduce(bridge, slices.data(), 1) == CW_OK, "ncclReduce");
  Expect(gpu.Read() == Ramp(2), "the mean of one rank");
  Operation operation(trainer, 0, 1, slices);
  cw_result result{};
  result.struct_bytes = sizeof(result);
  Expect(cw_nccl_collect(bridge, trainer.get(), operation.id(), 20'000, CW_CARRY, 0, slices.data(),
                         1, &result) == CW_OK,
         "ncclBroadcast of a result");
  Expect(gpu.Read() == Ramp(2), "the result on the rank");
  trainer.Applied(0, result.round);
  cw_nccl_close(bridge);
}

}  // namespace
}  // namespace causeway

int main() {
  const causeway::client::cuda::Calls* calls = nullptr;
  if (const auto status = causeway::client::cuda::Load(calls); !status.ok()) {
    std::printf("skipped: %s\n", status.failure().text.c_str());
    return 77;
  }
  char directory[] = "/tmp/causeway-gpu-XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  causeway::Gpu gpu(*calls);
  causeway::Exchange(gpu, directory, true);
  causeway::Exchange(gpu, directory, false);
  causeway::Nccl(gpu, directory);
  std::filesystem::remove_all(directory);
  return 0;
}
