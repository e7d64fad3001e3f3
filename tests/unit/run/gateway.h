// One run of a gateway with a trainers' door, on a loop thread of its own: the run's only cluster,
// so that rounds need no peer. Its GPU is host memory; the descriptor that a trainer shares is a
// memfd.
#ifndef CAUSEWAY_TESTS_UNIT_RUN_GATEWAY_H_
#define CAUSEWAY_TESTS_UNIT_RUN_GATEWAY_H_

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/run/run.h"
#include "proto/admin.pb.h"
#include "tests/unit/checkpoint/directory.h"
#include "tests/unit/gpu/stand_in.h"
#include "tests/unit/run/fake_transport.h"
#include "tests/unit/schema/records.h"
#include "tests/unit/trainers/trainer.h"

namespace causeway::testing {

// What another thread is waited for with. A test that waits longer fails.
template <typename Condition>
void WaitUntil(std::mutex& mutex, std::condition_variable& changed, Condition condition) {
  std::unique_lock lock(mutex);
  REQUIRE(changed.wait_for(lock, std::chrono::milliseconds(kPatienceMs), condition));
}

// A memfd as a device would map it.
class MappedMemory final : public gpu::DeviceMemory {
 public:
  MappedMemory(int descriptor, uint64_t size, std::function<void()> unmapped)
      : data_(mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0)),
        size_(size),
        unmapped_(std::move(unmapped)) {}
  ~MappedMemory() override {
    munmap(data_, size_);
    unmapped_();
  }
  std::byte* data() const override { return static_cast<std::byte*>(data_); }
  uint64_t size() const override { return size_; }

 private:
  void* const data_;
  const uint64_t size_;
  const std::function<void()> unmapped_;
};

class SharedGpu final : public StandInGpu {
 public:
  absl::StatusOr<std::unique_ptr<gpu::DeviceMemory>> Import(
      const gpu::SharedAllocation& shared) override {
    struct stat file {};
    if (fstat(shared.descriptor, &file) != 0 ||
        static_cast<uint64_t>(file.st_size) < shared.bytes) {
      return absl::InvalidArgumentError("the allocation is smaller than it says");
    }
    Change([&] { ++mapped_; });
    return std::make_unique<MappedMemory>(shared.descriptor, shared.bytes,
                                          [this] { Change([&] { --mapped_; }); });
  }
  absl::StatusOr<size_t> EncodeChunk(const gpu::EncodeRequest& request, absl::Span<uint8_t> out,
                                     compression::EncodeStats* stats) override {
    Change([&] { ++entered_; });
    WaitUntil(mutex_, changed_, [&] { return !held_; });
    return StandInGpu::EncodeChunk(request, out, stats);
  }
  // Encoding stands still while held.
  void Hold(bool held) {
    Change([&] { held_ = held; });
  }
  void WaitEntered() {
    WaitUntil(mutex_, changed_, [&] { return entered_ > 0; });
  }
  void WaitMapped(int count) {
    WaitUntil(mutex_, changed_, [&] { return mapped_ == count; });
  }
  int mapped() {
    std::lock_guard lock(mutex_);
    return mapped_;
  }

 private:
  template <typename Function>
  void Change(Function function) {
    std::lock_guard lock(mutex_);
    function();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int mapped_ = 0;
  int entered_ = 0;
  bool held_ = false;
};

class Gateway final : private trainers::TrainerListener {
 public:
  explicit Gateway(std::shared_ptr<gpu::GpuCodec> gpu, const std::string& codec = "int8",
                   config::Checkpoint checkpoint = {0, 0}) {
    config_.cluster = "paris";
    config_.state_directory = folder_.path;
    config_.memory_bytes = int64_t{1} << 30;
    config_.checkpoint = checkpoint;
    config::Run run;
    run.name = "demo";
    run.clusters = {"paris"};
    run.seed = "paris";
    run.codec.kind = codec;
    run.codec.error_feedback = true;
    config_.runs = {run};
    thread_ = std::thread([this] { loop_->Run(); });
    absl::Status opened;
    Do([&] { opened = Open(std::move(gpu)); });
    INFO(opened.message());
    REQUIRE(opened.ok());
  }
  ~Gateway() override {
    Do([&] {
      service_.reset();
      run_.reset();
      workers_.reset();
    });
    loop_->Stop();
    thread_.join();
  }

  std::string socket() const { return folder_ / "t.sock"; }
  std::string OnDisk(const std::string& name) const { return folder_ / name; }
  // Waits until a line with these words has been logged since the last call.
  void WaitLogged(const std::string& words) {
    const auto has = [&](const std::string& line) { return line.find(words) != std::string::npos; };
    WaitUntil(mutex_, changed_, [&] { return std::any_of(lines_.begin(), lines_.end(), has); });
    std::lock_guard lock(mutex_);
    lines_.clear();
  }
  absl::Status Forget() {
    admin::v1::ChangeRunRequest request;
    request.set_verb(admin::v1::ChangeRunRequest::FORGET);
    absl::Status done;
    Do([&] { done = run_->Change(request).status(); });
    return done;
  }
  // Waits until the run heard of so many trainers' ends.
  void WaitGone(int count) {
    WaitUntil(mutex_, changed_, [&] { return gone_ == count; });
  }
  // Waits until the run gave up its device; its words.
  absl::Status WaitFailed() {
    WaitUntil(mutex_, changed_, [&] { return !failure_.ok(); });
    return failure_;
  }

 private:
  // Runs on the loop's thread and waits for it.
  void Do(const std::function<void()>& function) {
    std::promise<void> done;
    loop_->Post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }
  absl::Status Open(std::shared_ptr<gpu::GpuCodec> gpu) {
    around_.config = &config_;
    around_.incarnation = 9;
    around_.loop = loop_.get();
    around_.workers = workers_.get();
    around_.buffers = &buffers_;
    around_.budget = budget_.get();
    around_.transport = &transport_;
    around_.log = &log_;
    around_.metrics = &metrics_;
    around_.gpu = std::move(gpu);
    around_.find_session = [this](uint64_t id) { return service_ ? service_->Find(id) : nullptr; };
    around_.device_failed = [this](const absl::Status& status) {
      std::lock_guard lock(mutex_);
      failure_ = status;
      changed_.notify_all();
    };
    auto run = run::Run::Create(around_, config_.runs[0]);
    if (!run.ok()) return run.status();
    run_ = *std::move(run);
    trainers::Config trainers;
    trainers.cluster = config_.cluster;
    trainers.socket_path = socket();
    trainers.resume_timeout_us = 1000;  // whoever hangs up is dead
    auto service = trainers::TrainerService::Create(*loop_, trainers, *this);
    if (!service.ok()) return service.status();
    service_ = *std::move(service);
    return absl::OkStatus();
  }

  std::optional<trainers::Problem> OnHello(trainers::Session& session) override {
    return run_->OnHello(session);
  }
  void OnJoin(trainers::Session& session, const trainers::JoinRequest& request,
              schema::Schema schema) override {
    run_->OnJoin(session, request, std::move(schema));
  }
  void OnShare(trainers::Session& session, const trainers::ShareRequest& request,
               loop::Descriptor memory) override {
    run_->OnShare(session, request, memory);
  }
  void OnOffer(trainers::Session& session, const trainers::OfferRequest& request,
               std::vector<local::SliceRecord> slices) override {
    run_->OnOffer(session, request, std::move(slices));
  }
  void OnSubmit(trainers::Session& session, const trainers::SubmitRequest& request) override {
    run_->OnSubmit(session, request);
  }
  void OnApplied(trainers::Session& session, const trainers::AppliedRequest& request) override {
    run_->OnApplied(session, request);
  }
  void OnAbandon(trainers::Session& session, uint64_t sequence, uint64_t op) override {
    run_->OnAbandon(session, sequence, op);
  }
  void OnQuery(trainers::Session& session, uint64_t sequence, uint64_t op_session,
               uint64_t op) override {
    run_->OnQuery(session, sequence, op_session, op);
  }
  void OnAwait(trainers::Session& session, uint64_t sequence, uint64_t op) override {
    run_->OnAwait(session, sequence, op);
  }
  void OnFinish(trainers::Session& session, uint64_t sequence) override {
    run_->OnFinish(session, sequence);
  }
  void OnGone(trainers::Session& session, trainers::Gone gone, const std::string& detail) override {
    run_->OnGone(session, gone, detail);
    std::lock_guard lock(mutex_);
    ++gone_;
    changed_.notify_all();
  }

  observe::LogOptions Kept() {
    observe::LogOptions out;
    out.level = observe::Level::kDebug;
    out.sink = [this](std::string_view line) {
      std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
      changed_.notify_all();
    };
    return out;
  }

  Directory folder_;
  config::Config config_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;  // logged
  observe::Logger log_{Kept()};
  observe::Metrics metrics_;
  FakeTransport transport_;
  std::shared_ptr<memory::Budget> budget_ = memory::Budget::Create(uint64_t{1} << 30);
  memory::BufferPool buffers_{budget_, *budget_->Open("chunks"), 0};
  std::unique_ptr<loop::Loop> loop_ = *loop::Loop::Create();
  std::unique_ptr<work::WorkerPool> workers_ = std::make_unique<work::WorkerPool>(2);
  run::Surroundings around_;
  std::unique_ptr<run::Run> run_;
  std::unique_ptr<trainers::TrainerService> service_;
  int gone_ = 0;
  absl::Status failure_;
  std::thread thread_;
};

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_RUN_GATEWAY_H_
