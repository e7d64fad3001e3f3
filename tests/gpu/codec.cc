// daemon/gpu on a real device: chunks encoded by several threads at once, and snapshots in memory
// that another process shares, by both ways of sharing.
#include <cuda.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>

#include "compression/vector.h"
#include "daemon/gpu/open.h"
#include "tests/gpu/device.h"
#include "tests/unit/compression/samples.h"

namespace causeway::gpu_check {

using compression::CodecSpec;
using compression::kChunkElements;
namespace samples = compression::samples;

namespace {

constexpr uint32_t kSharedElements = 100'000;
constexpr uint64_t kSharedSeed = 42;

// What the exporter tells: who it is, the handle of IPC, and how large the VMM allocation is. The
// descriptor comes along.
struct Offer {
  uint8_t device[16];
  uint8_t ipc[64];
  uint64_t vmm_bytes;
};

template <typename Function>
Function FromDriver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  Must(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
  if (found == nullptr) Must(cudaErrorSymbolNotFound, name);
  return reinterpret_cast<Function>(found);
}

void MustDriver(CUresult code, const char* doing) {
  if (code == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: driver error %d\n", doing, static_cast<int>(code));
  std::exit(1);
}

bool SendOffer(int socket, const Offer& offer, int descriptor) {
  iovec part{const_cast<Offer*>(&offer), sizeof(offer)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(socket, &message, 0) == sizeof(offer);
}

bool ReceiveOffer(int socket, Offer* offer, int* descriptor) {
  iovec part{offer, sizeof(*offer)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof(*offer)) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return false;
  std::memcpy(descriptor, CMSG_DATA(header), sizeof(int));
  return true;
}

class Codec {
 public:
  explicit Codec(gpu::GpuCodec& codec) : codec_(codec) {}

  int Run() {
    Threads();
    Shared();
    std::printf("codec: %d comparisons, %d failures\n", compared_, failures_);
    return failures_;
  }

 private:
  void Expect(bool same, const std::string& what) {
    ++compared_;
    if (same) return;
    ++failures_;
    std::printf("DIFFERS: %s\n", what.c_str());
  }

  // One chunk of a snapshot in device memory, against the CPU's, with base and residual.
  bool SameChunk(const CodecSpec& spec, const void* snapshot, const std::vector<float>& values) {
    const auto n = static_cast<uint32_t>(values.size());
    const std::vector<float> base = samples::Noise(n, 9);
    std::vector<uint16_t> before(n);
    for (uint32_t i = 0; i < n; ++i) before[i] = static_cast<uint16_t>(0x3000 + i % 512);
    std::vector<uint16_t> gpu_after(n), cpu_after(n);
    std::vector<uint8_t> gpu(compression::EncodedSizeMax(spec, n)), cpu(gpu.size());
    gpu::EncodeRequest request;
    request.codec = spec;
    request.n = n;
    request.snapshot = snapshot;
    request.base = base.data();
    request.residual_in = before.data();
    request.residual_out = gpu_after.data();
    compression::EncodeStats gpu_stats, cpu_stats;
    const auto size = codec_.EncodeChunk(request, absl::MakeSpan(gpu), &gpu_stats);
    if (!size.ok()) {
      std::printf("%s\n", std::string(size.status().message()).c_str());
      return false;
    }
    gpu.resize(*size);
    compression::EncodeInput input;
    input.base = base.data();
    input.snapshot = values.data();
    input.residual_in = before.data();
    input.residual_out = cpu_after.data();
    input.n = n;
    cpu.resize(compression::EncodeChunk(spec, input, absl::MakeSpan(cpu), &cpu_stats));
    return gpu == cpu && gpu_after == cpu_after && gpu_stats.nonfinite == cpu_stats.nonfinite;
  }

  void Threads() {
    const std::vector<float> values = samples::Noise(kChunkElements, 5);
    const DeviceBuffer snapshot(values.data(), values.size() * sizeof(float));
    std::vector<int> good(8);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < good.size(); ++t) {
      threads.emplace_back([&, t] {
        const CodecSpec spec = CodecSpec::Parse(t % 2 == 0 ? "int4:ef" : "int8:ef").value();
        for (int i = 0; i < 10; ++i) good[t] += SameChunk(spec, snapshot.as(), values);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int g : good) Expect(g == 10, "chunks encoded by threads at once");
    std::vector<float> poisoned = values;
    poisoned[70'001] = INFINITY;
    const DeviceBuffer bad(poisoned.data(), poisoned.size() * sizeof(float));
    const auto first = codec_.FirstNonFinite(bad.as(), compression::DType::kFp32, poisoned.size());
    Expect(first.ok() && *first == 70'001, "first non-finite value");
  }

  void Shared() {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) std::abort();
    const pid_t child = fork();
    if (child == 0) {  // a new program: CUDA does not survive a fork
      const std::string number = std::to_string(sockets[1]);
      close(sockets[0]);
      execl("/proc/self/exe", "gpu_check", "--export", number.c_str(), nullptr);
      _exit(127);
    }
    close(sockets[1]);
    Offer offer;
    int descriptor = -1;
    if (!ReceiveOffer(sockets[0], &offer, &descriptor)) {
      Expect(false, "the exporter said nothing");
    } else {
      Import(offer, descriptor);
      close(descriptor);
    }
    close(sockets[0]);  // the exporter ends
    waitpid(child, nullptr, 0);
  }

  void Import(const Offer& offer, int descriptor) {
    const std::vector<float> values = samples::Noise(kSharedElements, kSharedSeed);
    const CodecSpec spec = CodecSpec::Parse("int4:ef").value();
    gpu::SharedAllocation shared;
    std::memcpy(shared.device.data(), offer.device, sizeof(offer.device));
    shared.kind = gpu::SharedAllocation::Kind::kVmm;
    shared.descriptor = descriptor;
    shared.bytes = offer.vmm_bytes;
    auto vmm = codec_.Import(shared);
    if (!vmm.ok()) std::printf("%s\n", std::string(vmm.status().message()).c_str());
    Expect(vmm.ok() && SameChunk(spec, (*vmm)->data(), values), "shared by cuMemCreate");
    shared.bytes *= 1024;
    Expect(!codec_.Import(shared).ok(), "an allocation smaller than it says was taken");
    shared.bytes = offer.vmm_bytes;
    shared.device[0] ^= 1;
    Expect(!codec_.Import(shared).ok(), "another device's allocation was taken");
    shared.device[0] ^= 1;
    shared.descriptor = 0;
    Expect(!codec_.Import(shared).ok(), "a descriptor of something else was taken");

    shared.kind = gpu::SharedAllocation::Kind::kIpc;
    std::memcpy(shared.ipc.data(), offer.ipc, sizeof(offer.ipc));
    shared.bytes = kSharedElements * sizeof(float);
    auto ipc = codec_.Import(shared);
    if (!ipc.ok()) {
      // Not available under MIG, in some containers and in exclusive-process mode.
      std::printf("not checked: %s\n", std::string(ipc.status().message()).c_str());
      return;
    }
    Expect(SameChunk(spec, (*ipc)->data(), values), "shared by an IPC handle");
    shared.bytes <<= 20;
    Expect(!codec_.Import(shared).ok(), "an IPC allocation smaller than it says was taken");
  }

  gpu::GpuCodec& codec_;
  int compared_ = 0;
  int failures_ = 0;
};

}  // namespace

int ExportMemory(int socket) {
  Must(cudaSetDevice(0), "cudaSetDevice");
  Must(cudaFree(nullptr), "starting CUDA");
  const std::vector<float> values = samples::Noise(kSharedElements, kSharedSeed);
  const size_t bytes = values.size() * sizeof(float);
  Offer offer = {};
  cudaDeviceProp properties;
  Must(cudaGetDeviceProperties(&properties, 0), "properties");
  std::memcpy(offer.device, &properties.uuid, sizeof(offer.device));

  const DeviceBuffer ipc(values.data(), bytes);
  cudaIpcMemHandle_t handle = {};
  if (cudaIpcGetMemHandle(&handle, ipc.as()) != cudaSuccess) cudaGetLastError();
  std::memcpy(offer.ipc, &handle, sizeof(offer.ipc));

  CUmemAllocationProp wanted = {};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granularity = 0;
  MustDriver(FromDriver<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity")(
                 &granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
             "granularity");
  offer.vmm_bytes = (bytes + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle allocation = 0;
  MustDriver(
      FromDriver<decltype(&cuMemCreate)>("cuMemCreate")(&allocation, offer.vmm_bytes, &wanted, 0),
      "cuMemCreate");
  CUdeviceptr address = 0;
  MustDriver(FromDriver<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(
                 &address, offer.vmm_bytes, 0, 0, 0),
             "cuMemAddressReserve");
  MustDriver(
      FromDriver<decltype(&cuMemMap)>("cuMemMap")(address, offer.vmm_bytes, 0, allocation, 0),
      "cuMemMap");
  CUmemAccessDesc access = {};
  access.location = wanted.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  MustDriver(
      FromDriver<decltype(&cuMemSetAccess)>("cuMemSetAccess")(address, offer.vmm_bytes, &access, 1),
      "cuMemSetAccess");
  Must(cudaMemcpy(reinterpret_cast<void*>(address), values.data(), bytes, cudaMemcpyHostToDevice),
       "upload");
  int descriptor = -1;
  MustDriver(FromDriver<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle")(
                 &descriptor, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
             "cuMemExportToShareableHandle");
  Must(cudaDeviceSynchronize(), "upload");
  if (!SendOffer(socket, offer, descriptor)) return 1;
  char end;
  return read(socket, &end, 1) == 0 ? 0 : 1;  // until the importer has done
}

int CheckCodec() {
  auto budget = memory::Budget::Create(uint64_t{1} << 30);
  auto codec = gpu::Open(*budget->Open("gpu"));
  if (!codec.ok()) {
    std::printf("%s\n", std::string(codec.status().message()).c_str());
    return 1;
  }
  std::printf("device: %s\n", (*codec)->Name().c_str());
  return Codec(**codec).Run();
}

}  // namespace causeway::gpu_check
