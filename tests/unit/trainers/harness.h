// A TrainerService on a loop thread of its own, with a listener that records what it is told.
#ifndef CAUSEWAY_TESTS_UNIT_TRAINERS_HARNESS_H_
#define CAUSEWAY_TESTS_UNIT_TRAINERS_HARNESS_H_

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/loop/loop.h"
#include "daemon/trainers/service.h"
#include "tests/unit/schema/records.h"
#include "tests/unit/trainers/trainer.h"

namespace causeway::testing {

// Answers as a daemon would and keeps a line of every call.
class Recorder : public trainers::TrainerListener {
 public:
  Recorder() : snapshot_(Memfd({})), values_(Memfd({})) {}

  std::optional<trainers::Problem> OnHello(trainers::Session& session) override {
    if (session.run() != "demo") {
      trainers::Problem problem;
      problem.code = local::Code::kRun;
      problem.text = "no run of that name";
      return problem;
    }
    Add(absl::StrCat("hello ", session.rank()));
    return std::nullopt;
  }
  void OnJoin(trainers::Session& session, const trainers::JoinRequest& request,
              schema::Schema schema) override {
    Add(absl::StrCat("join ", session.rank(), " tensors ", schema.tensors().size()));
    auto layout = schema::Layout::Build(schema, 2);
    trainers::Terms terms;
    terms.local_steps = 20;
    terms.rule = "nesterov";
    terms.codec = "int4:b64:ef and much more than fits";
    session.SendJoined(request.sequence, terms, std::make_shared<schema::Layout>(*layout),
                       snapshot_.get(), values_.get());
  }
  void OnShare(trainers::Session& session, const trainers::ShareRequest& request,
               loop::Descriptor memory) override {
    Add(absl::StrCat("share ", session.rank(), " ", request.bytes, " bytes"));
    session.SendShared(request.sequence, memory.valid() && request.device[0] == 1, "another GPU");
  }
  void OnOffer(trainers::Session& session, const trainers::OfferRequest& request,
               std::vector<local::SliceRecord> slices) override {
    Add(absl::StrCat("offer ", session.rank(), " slices ", slices.size()));
    session.SendReady(request.sequence, local::Start::kReplace, 2, {5, 6});
  }
  void OnSubmit(trainers::Session& session, const trainers::SubmitRequest& request) override {
    Add(absl::StrCat("submit ", session.rank(), " op ", request.op));
    session.SendSubmitted(request.sequence, request.op, request.base_round + 1);
    trainers::OpReport report;
    report.op = request.op;
    report.state = local::State::kCommitted;
    report.round = request.base_round + 1;
    report.awaited = std::string(1000, 'x');
    session.SendOpState(0, report);
  }
  void OnApplied(trainers::Session& session, const trainers::AppliedRequest& request) override {
    Add(absl::StrCat("applied ", session.rank(), " ", request.fragment, " ", request.round));
  }
  void OnAbandon(trainers::Session& session, uint64_t, uint64_t op) override {
    Add(absl::StrCat("abandon ", session.rank(), " ", op));
  }
  void OnQuery(trainers::Session& session, uint64_t sequence, uint64_t op_session,
               uint64_t op) override {
    Add(absl::StrCat("query ", op_session == session.id() ? "own" : "other", " ", op));
    trainers::OpReport report;
    report.op = op;
    report.state = local::State::kUnknown;
    session.SendOpState(sequence, report);
  }
  void OnAwait(trainers::Session& session, uint64_t sequence, uint64_t op) override {
    session.SendAwaiting(sequence, op, 1, "tokyo", "its contribution");
  }
  void OnFinish(trainers::Session& session, uint64_t sequence) override {
    Add(absl::StrCat("finish ", session.rank()));
    schema::Digest digest{};
    digest[0] = 0xab;
    session.SendFinished(sequence, digest);
  }
  void OnDetached(trainers::Session& session) override {
    Add(absl::StrCat("detached ", session.rank()));
  }
  void OnResumed(trainers::Session& session) override {
    Add(absl::StrCat("resumed ", session.rank()));
  }
  void OnTurnedAway(const absl::Status&) override { Add("turned away"); }
  void OnGone(trainers::Session& session, trainers::Gone gone, const std::string&) override {
    Add(absl::StrCat("gone ", session.rank(), " ", trainers::GoneName(gone)));
  }

  // Waits until the line was recorded `times` times.
  bool Wait(const std::string& line, int times = 1) {
    std::unique_lock lock(mutex_);
    const bool seen = changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs), [&] {
      return std::count(lines_.begin(), lines_.end(), line) >= times;
    });
    if (!seen) {
      for (const std::string& known : lines_) UNSCOPED_INFO("recorded: " << known);
      UNSCOPED_INFO("waited for: " << line);
    }
    return seen;
  }
  int Count(const std::string& line) {
    std::lock_guard lock(mutex_);
    return static_cast<int>(std::count(lines_.begin(), lines_.end(), line));
  }

 private:
  void Add(const std::string& line) {
    std::lock_guard lock(mutex_);
    lines_.push_back(line);
    changed_.notify_all();
  }

  loop::Descriptor snapshot_;
  loop::Descriptor values_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

// A folder of its own, removed with what is in it.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/causeway-trainers-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
    chmod(name, 0755);
  }
  ~Folder() {
    for (const char* file : {"/t.sock", "/file", "/other.sock"}) unlink((path_ + file).c_str());
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }
  std::string Socket() const { return path_ + "/t.sock"; }

 private:
  std::string path_;
};

class Harness {
 public:
  explicit Harness(const std::function<void(trainers::Config&)>& adjust = [](auto&) {}) {
    loop_ = *loop::Loop::Create();
    trainers::Config config;
    config.cluster = "paris";
    config.incarnation = 77;
    config.socket_path = folder_.Socket();
    config.mode = 0600;
    adjust(config);
    thread_ = std::thread([this] { loop_->Run(); });
    Do([&] {
      auto service = trainers::TrainerService::Create(*loop_, config, recorder);
      if (service.ok()) service_ = *std::move(service);
      status_ = service.status();
    });
    INFO(status_.message());
    REQUIRE(status_.ok());
  }
  ~Harness() {
    Do([&] { service_.reset(); });
    loop_->Stop();
    thread_.join();
  }

  // Runs on the loop's thread and waits for it.
  void Do(const std::function<void()>& function) {
    std::promise<void> done;
    loop_->Post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }

  trainers::Counters Counters() {
    trainers::Counters counters;
    Do([&] { counters = service_->counters(); });
    return counters;
  }
  size_t SessionCount() {
    size_t count = 0;
    Do([&] { count = service_->Sessions().size(); });
    return count;
  }

  std::string path() const { return folder_.Socket(); }
  trainers::TrainerService& service() { return *service_; }
  Recorder recorder;

 private:
  Folder folder_;
  std::unique_ptr<loop::Loop> loop_;
  std::unique_ptr<trainers::TrainerService> service_;
  absl::Status status_;
  std::thread thread_;
};

// Two tensors, so two fragments at the Recorder's layout: of 512 and 256 elements.
inline std::vector<local::TensorRecord> SmallSchema() {
  return {Record("a", {300}), Record("b", {256})};
}

inline uint64_t SendJoin(Trainer& trainer,
                         const std::vector<local::TensorRecord>& records = SmallSchema()) {
  const loop::Descriptor memfd = Memfd(BytesOf(records));
  auto join = Make<local::Join>(local::Type::kJoin);
  join.tensors = static_cast<uint32_t>(records.size());
  join.outer = 1;
  return trainer.Send(join, {memfd.get()});
}

// Hello, Join, Offer: up to Ready.
inline local::Welcome BringUp(Trainer& trainer, const local::Hello& hello = MakeHello()) {
  const local::Welcome welcome = trainer.SayHello(hello);
  SendJoin(trainer);
  (void)trainer.Receive<local::Joined>(local::Type::kJoined);
  trainer.Send(Make<local::Offer>(local::Type::kOffer));
  (void)trainer.Receive<local::Ready>(local::Type::kReady);
  return welcome;
}

inline local::Submit MakeSubmit(uint64_t op) {
  auto submit = Make<local::Submit>(local::Type::kSubmit);
  submit.op = op;
  submit.base_round = 5;
  submit.weight = 320;
  return submit;
}

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_TRAINERS_HARNESS_H_
