// Forks and signals.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/unit/client/support.h"

namespace causeway::test {
namespace {

using fake::FakeGateway;
using fake::Options;

// Runs in a fork, which must not run Catch2's ends; 0 where every check held.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("in a forked child every call answers FORKED, and the parent goes on") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  const int descriptor = cw_poll_fd(trainer.handle);
  cw_handle* const handle = trainer.handle;
  const auto slices = trainer.Slices();
  REQUIRE(InChild([&] {
            cw_result result = NewResult();
            uint64_t other = 0;
            int start = 0;
            cw_submission submission{};
            submission.struct_bytes = sizeof(submission);
            if (cw_test(handle, op, &result) != CW_FORKED) return 1;
            if (cw_wait(handle, op, 10'000, &result) != CW_FORKED) return 2;
            if (cw_submit(handle, &submission, slices.data(), 2, &other) != CW_FORKED) return 3;
            if (cw_apply(handle, op, CW_CARRY, 0, slices.data(), 2) != CW_FORKED) return 4;
            if (cw_read(handle, 0, 0, slices.data(), 2) != CW_FORKED) return 5;
            if (cw_ready(handle, 0, &start, nullptr) != CW_FORKED) return 6;
            if (cw_finish(handle, 0, nullptr) != CW_FORKED) return 7;
            if (cw_leave(handle) != CW_FORKED) return 8;
            if (cw_poll_fd(handle) != -1) return 9;
            if (fcntl(descriptor, F_GETFD) != -1) return 10;  // closed here
            if (LastError().retryable != 0) return 11;
            cw_close(handle);
            return 0;
          }) == 0);
  gateway.Release();
  trainer.ApplyAndTell(op);
  REQUIRE(trainer.Submit(&op) == CW_OK);
}

TEST_CASE("a child of a trainer can open a handle of its own") {
  TemporaryDirectory directory;
  FakeGateway parents(directory.path());
  TemporaryDirectory other;
  FakeGateway childs(other.path());
  Trainer trainer(parents.socket());
  trainer.Start();
  REQUIRE(InChild([&] {
            cw_handle* handle = nullptr;
            if (OpenHandle(childs.socket(), &handle) != CW_OK) return 1;
            cw_close(handle);
            return 0;
          }) == 0);
}

TEST_CASE("forking while another thread waits is safe on both sides") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  FakeGateway gateway(directory.path(), options);
  Trainer trainer(gateway.socket());
  trainer.Start();
  uint64_t op = 0;
  REQUIRE(trainer.Submit(&op) == CW_OK);
  int code = -1;
  std::thread waiter([&] { code = cw_wait(trainer.handle, op, 20'000, nullptr); });
  for (int i = 0; i < 20; ++i) {
    REQUIRE(InChild([&] {
              cw_result result = NewResult();
              return cw_test(trainer.handle, op, &result) == CW_FORKED ? 0 : 1;
            }) == 0);
  }
  gateway.Release();
  waiter.join();
  REQUIRE(code == CW_OK);
}

std::atomic<int> signals_seen{0};

TEST_CASE("a signal interrupts waits; the operation stays and the next wait succeeds") {
  TemporaryDirectory directory;
  Options options;
  options.hold = true;
  options.clusters = {"paris", "tokyo"};
  FakeGateway gateway(directory.path(), options);
  Trainer paris(gateway.socket(0));
  REQUIRE(paris.Join() == CW_OK);
  REQUIRE(paris.Offer() == CW_OK);
  struct sigaction action {};
  action.sa_handler = [](int) { signals_seen.fetch_add(1); };
  action.sa_flags = SA_RESTART;  // as most programs set it
  struct sigaction before {};
  REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
  // Signals that arrive between two waits are the program's; so keep sending until one ends the
  // wait.
  auto interrupted = [](const std::function<int()>& wait) {
    std::atomic<bool> done{false};
    const pthread_t waiting = pthread_self();
    std::thread sender([&] {
      while (!done.load()) {
        pthread_kill(waiting, SIGUSR1);
        std::this_thread::yield();
      }
    });
    const int code = wait();
    done.store(true);
    sender.join();
    return code;
  };
  REQUIRE(interrupted([&] { return paris.Ready(); }) == CW_INTERRUPTED);
  REQUIRE(signals_seen.load() > 0);
  Trainer tokyo(gateway.socket(1));
  REQUIRE(tokyo.Join() == CW_OK);
  REQUIRE(tokyo.Offer() == CW_OK);
  REQUIRE(paris.Ready() == CW_OK);
  REQUIRE(tokyo.Ready() == CW_OK);
  uint64_t op = 0, other = 0;
  REQUIRE(paris.Submit(&op) == CW_OK);
  REQUIRE(interrupted([&] { return cw_wait(paris.handle, op, 20'000, nullptr); }) ==
          CW_INTERRUPTED);
  REQUIRE(LastError().retryable == 1);
  REQUIRE(tokyo.Submit(&other) == CW_OK);
  gateway.Release();
  REQUIRE(paris.Wait(op).state == CW_STATE_COMMITTED);
  // A submission that is interrupted while its acknowledgement is due has happened.
  paris.ApplyAndTell(op);
  uint64_t next = 0;
  REQUIRE(interrupted([&] { return paris.Submit(&next); }) == CW_OK);
  REQUIRE(next != 0);
  REQUIRE(sigaction(SIGUSR1, &before, nullptr) == 0);
}

}  // namespace
}  // namespace causeway::test
