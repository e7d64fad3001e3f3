// One tile on fibres. A fibre runs until it waits; then the seed picks the next one that may run.
#include <ucontext.h>

#include <cstdlib>

#include "tests/unit/compression/grid/grid.h"
#include "tests/unit/compression/samples.h"

#if defined(__SANITIZE_ADDRESS__)
#define CAUSEWAY_ASAN_FIBRES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAUSEWAY_ASAN_FIBRES 1
#endif
#endif
#if defined(CAUSEWAY_ASAN_FIBRES)
#include <sanitizer/common_interface_defs.h>
#endif

namespace causeway::compression::grid {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;

class Fibres final : public Meeting {
 public:
  Fibres(uint32_t threads, uint64_t seed, const std::function<void(uint32_t)>& run)
      : random_(seed), run_(run), fibres_(threads), groups_(1 + threads / 32) {
    groups_[0].members = threads;
    for (uint32_t g = 1; g < groups_.size(); ++g) groups_[g].members = 32;
    stacks_.reset(new char[kStackBytes * threads]);
  }

  Verdict Run() {
    for (uint32_t t = 0; t < fibres_.size(); ++t) {
      ready_.push_back(t);
      Make(t);
    }
    while (!ready_.empty()) {
      const size_t pick = random_.Next() % ready_.size();
      current_ = ready_[pick];
      ready_[pick] = ready_.back();
      ready_.pop_back();
      Enter();
    }
    // Those that still wait are left where they are: nothing on their stacks owns anything.
    return ended_ == fibres_.size() ? Verdict::kDone : Verdict::kStuck;
  }

  void Wait(uint32_t group) override {
    Group& g = groups_[group];
    g.waiting.push_back(current_);
    if (g.waiting.size() == g.members) {
      ready_.insert(ready_.end(), g.waiting.begin(), g.waiting.end());
      g.waiting.clear();
    }
    Leave(false);
  }

 private:
  struct Fibre {
    ucontext_t context;
    void* fake_stack = nullptr;
  };
  struct Group {
    uint32_t members = 0;
    std::vector<uint32_t> waiting;
  };

  static void Main(unsigned high, unsigned low) {
    auto* self = reinterpret_cast<Fibres*>(static_cast<uintptr_t>(high) << 32 | low);
#if defined(CAUSEWAY_ASAN_FIBRES)
    __sanitizer_finish_switch_fiber(nullptr, &self->main_stack_, &self->main_stack_bytes_);
#endif
    self->run_(self->current_);
    ++self->ended_;
    self->Leave(true);
    std::abort();  // an ended fibre is never entered again
  }

  void Make(uint32_t thread) {
    ucontext_t& context = fibres_[thread].context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks_.get() + kStackBytes * thread;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&context, reinterpret_cast<void (*)()>(&Main), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
  }

  void Enter() {
#if defined(CAUSEWAY_ASAN_FIBRES)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, stacks_.get() + kStackBytes * current_,
                                   kStackBytes);
#endif
    swapcontext(&main_, &fibres_[current_].context);
#if defined(CAUSEWAY_ASAN_FIBRES)
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  }

  void Leave(bool for_ever) {
    Fibre& fibre = fibres_[current_];
#if defined(CAUSEWAY_ASAN_FIBRES)
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &fibre.fake_stack, main_stack_,
                                   main_stack_bytes_);
#else
    (void)for_ever;
#endif
    swapcontext(&fibre.context, &main_);
#if defined(CAUSEWAY_ASAN_FIBRES)
    __sanitizer_finish_switch_fiber(fibre.fake_stack, nullptr, nullptr);
#endif
  }

  samples::Random random_;
  const std::function<void(uint32_t)>& run_;
  std::vector<Fibre> fibres_;
  std::vector<Group> groups_;
  std::unique_ptr<char[]> stacks_;
  std::vector<uint32_t> ready_;
  uint32_t current_ = 0;
  size_t ended_ = 0;
  ucontext_t main_;
  const void* main_stack_ = nullptr;
  size_t main_stack_bytes_ = 0;
};

}  // namespace

Verdict RunFibres(uint32_t threads, uint64_t seed, Tile* tile,
                  const std::function<void(uint32_t)>& run) {
  Fibres fibres(threads, seed, run);
  tile->meeting = &fibres;
  return fibres.Run();
}

}  // namespace causeway::compression::grid
