// Against a socket that stands for the service manager's.
#include "daemon/notify/notify.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"

namespace causeway::notify {
namespace {

constexpr int kPatienceSeconds = 60;  // a bound for a broken build, not a measure

class Manager {
 public:
  Manager() {
    descriptor_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    name_ = "@causeway-notify-test-" + std::to_string(getpid());
    memcpy(address.sun_path + 1, name_.data() + 1, name_.size() - 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    REQUIRE(bind(descriptor_, reinterpret_cast<sockaddr*>(&address), length) == 0);
    const timeval patience = {kPatienceSeconds, 0};
    REQUIRE(setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    setenv("NOTIFY_SOCKET", name_.c_str(), 1);
  }
  ~Manager() {
    unsetenv("NOTIFY_SOCKET");
    close(descriptor_);
  }
  std::string Next() {
    char buffer[4096];
    const ssize_t n = recv(descriptor_, buffer, sizeof(buffer), 0);
    return n < 0 ? "nothing came" : std::string(buffer, static_cast<size_t>(n));
  }
  bool Empty() {
    char byte;
    return recv(descriptor_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
  }

 private:
  int descriptor_;
  std::string name_;
};

TEST_CASE("what the manager is told") {
  Manager manager;
  Notifier notifier;
  notifier.Ready("2 peers up");
  CHECK(manager.Next() == "READY=1\nSTATUS=2 peers up");
  notifier.Status("forged\nREADY=1");
  CHECK(manager.Next() == "STATUS=forged READY=1");
  notifier.ExtendTimeout(std::chrono::seconds(3));
  CHECK(manager.Next() == "EXTEND_TIMEOUT_USEC=3000000");
  notifier.Stopping("draining");
  CHECK(manager.Next() == "STOPPING=1\nSTATUS=draining");
}

TEST_CASE("without a manager nothing happens") {
  unsetenv("NOTIFY_SOCKET");
  Notifier().Ready("x");
  CHECK(WatchdogInterval().count() == 0);
}

TEST_CASE("the interval is the manager's, for this process only") {
  setenv("WATCHDOG_USEC", "30000000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  CHECK(WatchdogInterval() == std::chrono::seconds(30));
  setenv("WATCHDOG_PID", "1", 1);
  CHECK(WatchdogInterval().count() == 0);
  unsetenv("WATCHDOG_USEC");
  unsetenv("WATCHDOG_PID");
}

TEST_CASE("the watchdog is fed while loops turn and names the one that stands still") {
  Manager manager;
  Notifier notifier;
  Heartbeat control("control");
  Heartbeat poller("poller");
  absl::Notification stalled;
  std::string name;
  std::atomic<bool> turning{true};
  std::atomic<bool> ending{false};
  std::thread loop([&] {
    while (!ending) {
      control.Beat();
      if (turning) poller.Beat();
      std::this_thread::yield();
    }
  });
  {
    Watchdog watchdog(std::chrono::milliseconds(60), {&control, &poller}, notifier,
                      [&](const std::string& which) {
                        if (stalled.HasBeenNotified() || turning) return;  // a busy machine
                        name = which;
                        stalled.Notify();
                      });
    for (int i = 0; i < 3; ++i) CHECK(manager.Next() == "WATCHDOG=1");
    turning = false;
    REQUIRE(stalled.WaitForNotificationWithTimeout(absl::Seconds(kPatienceSeconds)));
  }
  ending = true;
  loop.join();
  CHECK((name == "poller" || name == "control"));
}

TEST_CASE("a loop that never turns is not fed for") {
  Manager manager;
  Notifier notifier;
  Heartbeat dead("dead");
  absl::Notification stalled;
  {
    Watchdog watchdog(std::chrono::milliseconds(30), {&dead}, notifier,
                      [&](const std::string& which) {
                        CHECK(which == "dead");
                        stalled.Notify();  // once per standstill: a second call would abort
                      });
    CHECK(manager.Next() == "WATCHDOG=1");  // the manager's clock begins
    REQUIRE(stalled.WaitForNotificationWithTimeout(absl::Seconds(kPatienceSeconds)));
  }
  CHECK(manager.Empty());
}

}  // namespace
}  // namespace causeway::notify
