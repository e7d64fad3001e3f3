// A GPU as one session uses it: a side stream for its copies, host memory pinned for them, and a
// snapshot on the device.
//
// The order of copies is the caller's stream's: what it enqueued before is in them, what it
// enqueues later cannot reach them. No kernels; results are merged on the host. Nothing of CUDA
// survives a fork: in a child the object forgets what it has. Used under its session's lock, but
// for AwaitCopied, which may block and is any thread's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/shim/cuda_api.h"
#include "client/shim/descriptor.h"
#include "client/shim/failure.h"

namespace causeway::client::cuda {

// An event of the side stream; destroyed with its last owner.
class Mark;

class Device : public std::enable_shared_from_this<Device> {
 public:
  // CUDA names the call that failed.
  static Status Open(int ordinal, std::shared_ptr<Device>& device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ordinal() const { return ordinal_; }
  const Uuid& uuid() const { return uuid_; }
  // In a forked child: what is here belongs to the parent.
  void Forget() { forgotten_ = true; }

  // Pins memory that is mapped here, for copies that overlap with kernels, until the last owner of
  // the result goes, which must be before the mapping does. Null where the system refuses: copies
  // then work, and wait.
  std::shared_ptr<void> Pin(void* memory, uint64_t bytes);

  // ---- the snapshot: kPrivate is this process's, kShareable can be exported
  enum class Kind { kNone, kPrivate, kShareable };
  // Makes one of at least `bytes`, one that can be exported if `shareable` and possible; kNone
  // where the device has no room.
  Kind MakeSnapshot(uint64_t bytes, bool shareable);
  Kind snapshot() const { return snapshot_kind_; }
  uint64_t snapshot_bytes() const { return snapshot_bytes_; }  // allocated
  Status ExportSnapshot(Descriptor& descriptor) const;

  // ---- for collectives
  // The context, current in this thread while it lives; the one that was comes back afterwards.
  class Current {
   public:
    explicit Current(const Device& device);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    Status status() const;

   private:
    const Calls& calls_;
    Result result_ = 0;
  };
  Status Record(Stream stream, std::shared_ptr<Mark>& mark);  // reached with what is on it now
  Status Reached(const Mark& mark, bool& reached) const;
  struct Move {
    Pointer to = 0;
    Pointer from = 0;
    uint64_t bytes = 0;
  };
  Status OnDevice(Stream stream, const std::vector<Move>& moves);  // enqueues them

  // ---- copies
  struct Piece {
    Pointer device = 0;  // the trainer's tensor; 0: `host` is
    void* host = nullptr;
    uint64_t snapshot_offset = 0;  // bytes
    void* to = nullptr;            // where it goes in host memory
    uint64_t bytes = 0;
  };
  // ARGUMENT while a graph is being captured on `stream`.
  Status CheckStream(Stream stream) const;
  // Enqueues copies of the pieces into the snapshot, where there is one, and unless `stay` from
  // there (else from the tensors) to the host. Returns at once. `mark` is reached when all have
  // arrived.
  Status Submit(Stream stream, const std::vector<Piece>& pieces, bool stay,
                std::shared_ptr<Mark>& mark);
  // Blocks until then.
  Status AwaitCopied(const Mark& mark) const;
  // Copies between device and host after what is on `stream` now; returns when they are done.
  struct Copy {
    Pointer device = 0;
    void* host = nullptr;
    uint64_t bytes = 0;
  };
  Status FromDevice(Stream stream, const std::vector<Copy>& copies);
  Status ToDevice(Stream stream, const std::vector<Copy>& copies);
  Pointer SnapshotAt(uint64_t offset) const { return snapshot_ + offset; }

  // Pinned host memory of at least `bytes`, the same until the next call; null: memory ran out.
  uint8_t* Staging(uint64_t bytes);

 private:
  friend class Mark;
  explicit Device(const Calls& calls) : calls_(calls) {}
  Status OpenContext(int ordinal);
  bool MakeShareable(uint64_t bytes);
  void FreeSnapshot();
  void UnpinStaging();
  Status Order(Stream before, Stream after, std::shared_ptr<Mark>& mark);
  // Starts each copy on the side stream, after what `stream` holds, and waits for all of them.
  template <typename Start>
  Status OnSide(Stream stream, const std::vector<Copy>& copies, Start start);

  const Calls& calls_;
  int ordinal_ = 0;
  DeviceHandle device_ = 0;
  Uuid uuid_{};
  Context context_ = nullptr;
  Stream side_ = nullptr;
  bool forgotten_ = false;
  Kind snapshot_kind_ = Kind::kNone;
  Pointer snapshot_ = 0;
  Allocation allocation_ = 0;
  uint64_t snapshot_bytes_ = 0;
  std::unique_ptr<uint8_t[]> staging_;
  uint64_t staging_bytes_ = 0;
  bool staging_pinned_ = false;
};

}  // namespace causeway::client::cuda
