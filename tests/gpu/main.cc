// The checks that need a GPU: bytes against the CPU's, then rates. Exit 77 without a GPU.
//   gpu_check [--equality] [--json FILE]     --equality: no rates
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "tests/gpu/device.h"

int main(int argc, char** argv) {
  using namespace causeway::gpu_check;
  bool rates = true;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--export") == 0 && i + 1 < argc) {
      return ExportMemory(std::stoi(argv[i + 1]));
    }
    if (std::strcmp(argv[i], "--equality") == 0) {
      rates = false;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "gpu_check [--equality] [--json FILE]\n");
      return 64;
    }
  }
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU is present (%s)\n",
                found == cudaSuccess ? "no device" : cudaGetErrorString(found));
    return 77;
  }
  int failures = CheckCodec();
  failures += CheckKernels();
  if (rates) MeasureKernels(json.c_str());
  std::printf(failures == 0 ? "all bytes are those of the CPU\n" : "FAILED\n");
  return failures == 0 ? 0 : 1;
}
