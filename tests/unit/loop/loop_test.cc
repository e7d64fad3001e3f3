// The event loop: order, timers, watches that remove themselves, signals, a full inbox, shutting
// down.
#include "daemon/loop/loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "daemon/loop/descriptor.h"

namespace causeway::loop {
namespace {

std::unique_ptr<Loop> Make() {
  auto loop = Loop::Create();
  REQUIRE(loop.ok());
  return *std::move(loop);
}

TEST_CASE("functions run in order of posting, from other threads too") {
  auto loop = Make();
  std::vector<int> seen;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) loop->Post([&seen, i] { seen.push_back(i); });
    loop->Post([&] { loop->Stop(); });
  });
  loop->Run();
  other.join();
  REQUIRE(seen.size() == 1000);
  for (int i = 0; i < 1000; ++i) CHECK(seen[i] == i);
}

TEST_CASE("a function posted by a function runs, and Stop lets the inbox finish") {
  auto loop = Make();
  int ran = 0;
  loop->Post([&] {
    loop->Stop();
    loop->Post([&] { ++ran; });
  });
  loop->Run();
  CHECK(ran == 1);
}

TEST_CASE("timers run at or after their time, in order, and can be cancelled") {
  auto loop = Make();
  std::vector<int> seen;
  const int64_t start = Now();
  loop->After(3000, [&] {
    CHECK(Now() >= start + 3000);
    seen.push_back(3);
    loop->Stop();
  });
  loop->After(1000, [&] { seen.push_back(1); });
  const TimerId cancelled = loop->After(2000, [&] { seen.push_back(2); });
  loop->At(start, [&] { seen.push_back(0); });
  loop->Cancel(cancelled);
  loop->Cancel(cancelled);
  loop->Cancel(0);
  loop->Run();
  CHECK(seen == std::vector<int>{0, 1, 3});
}

TEST_CASE("a timer that keeps adding due timers does not starve the inbox") {
  auto loop = Make();
  std::function<void()> again = [&] { loop->At(0, again); };
  loop->At(0, again);
  loop->Post([&] { loop->Stop(); });
  loop->Run();
  SUCCEED();
}

TEST_CASE("a watch sees readiness, and may remove itself and others in its callback") {
  auto loop = Make();
  Descriptor first(eventfd(1, EFD_NONBLOCK)), second(eventfd(1, EFD_NONBLOCK));
  int calls = 0;
  WatchId ids[2] = {};
  const auto ready = [&](uint32_t events) {
    CHECK((events & EPOLLIN) != 0);
    ++calls;
    loop->Remove(ids[0]);  // both are ready in this turn; whichever comes first silences the other
    loop->Remove(ids[1]);
    loop->After(1000, [&] { loop->Stop(); });
  };
  ids[0] = *loop->Watch(first.get(), EPOLLIN, ready);
  ids[1] = *loop->Watch(second.get(), EPOLLIN, ready);
  loop->Run();
  CHECK(calls == 1);
}

TEST_CASE("changing a watch's events silences and wakes it") {
  auto loop = Make();
  Descriptor event(eventfd(1, EFD_NONBLOCK));
  int calls = 0;
  const WatchId watch = *loop->Watch(event.get(), 0, [&](uint32_t) {
    ++calls;
    loop->Stop();
  });
  loop->After(1000, [&] {
    CHECK(calls == 0);
    CHECK(loop->Change(watch, EPOLLIN).ok());
  });
  loop->Run();
  CHECK(calls == 1);
  CHECK(!loop->Watch(-1, EPOLLIN, [](uint32_t) {}).ok());
}

TEST_CASE("a signal becomes a callback") {
  auto loop = Make();
  int seen = 0;
  REQUIRE(loop->WatchSignal(SIGUSR2,
                            [&] {
                              ++seen;
                              loop->Stop();
                            })
              .ok());
  kill(getpid(), SIGUSR2);
  loop->Run();
  CHECK(seen == 1);
}

TEST_CASE("the inbox is bounded: Post waits, Close releases who waits") {
  auto loop = Make();
  std::atomic<size_t> ran{0};
  const auto fill = [&](const Loop::Function& function) {
    std::thread filler([&] {
      for (size_t i = 0; i < kPostedMax; ++i) CHECK(loop->Post(function));
    });
    filler.join();
  };
  fill([&] { ++ran; });
  std::atomic<bool> posted{false};
  std::thread waiting([&] {
    posted = loop->Post([&] {
      ++ran;
      loop->Stop();
    });
  });
  loop->Run();  // makes room, so the waiting one gets in and stops the loop
  waiting.join();
  CHECK(posted);
  CHECK(ran == kPostedMax + 1);

  fill([] {});
  std::atomic<bool> refused{false};
  std::thread stuck([&] { refused = !loop->Post([] {}); });
  loop->Close();
  stuck.join();
  CHECK(refused);
  CHECK(!loop->Post([] {}));
}

TEST_CASE("turns grow while the loop runs") {
  auto loop = Make();
  const uint64_t before = loop->turns();
  loop->After(100, [&] { loop->Stop(); });
  loop->Run();
  CHECK(loop->turns() > before);
}

}  // namespace
}  // namespace causeway::loop
