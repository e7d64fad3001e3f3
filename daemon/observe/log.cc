// The logger: level, rate limit, format, then spdlog's asynchronous queue to standard error. A
// blocking write was rejected: a journal that stalls would stop the loops that log.
#include "daemon/observe/log.h"

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "daemon/observe/events.h"
#include "daemon/observe/log_line.h"
#include "daemon/observe/rate_limiter.h"

namespace causeway::observe {
namespace {

template <typename Clock>
int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
      .count();
}

[[maybe_unused]] bool IsEventId(std::string_view event) {
  return !event.empty() && event.size() <= 64 &&
         event.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") ==
             std::string_view::npos;
}

[[maybe_unused]] bool IsFieldKey(std::string_view key) {
  for (const std::string_view reserved : {"time", "level", "event", "text", "suppressed", "cut"}) {
    if (key == reserved) return false;
  }
  return !key.empty() && key.size() <= 64 &&
         key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

// Standard error behind a bounded queue and a thread of its own.
class QueuedStandardError {
 public:
  QueuedStandardError()
      : pool_(std::make_shared<spdlog::details::thread_pool>(kLogQueueLinesMax, 1)),
        logger_(std::make_shared<spdlog::async_logger>(
            "causeway", std::make_shared<spdlog::sinks::stderr_sink_mt>(), pool_,
            spdlog::async_overflow_policy::overrun_oldest)) {
    logger_->set_pattern("%v");
    logger_->set_level(spdlog::level::trace);
    logger_->flush_on(spdlog::level::trace);
  }

  void Write(std::string_view line) {
    logger_->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
  }
  uint64_t lines_dropped() const { return pool_->overrun_counter(); }

 private:
  std::shared_ptr<spdlog::details::thread_pool>
      pool_;  // shared: spdlog's loggers keep a weak reference
  std::shared_ptr<spdlog::async_logger> logger_;
};

}  // namespace

struct Logger::State {
  LogOptions options;
  std::unique_ptr<QueuedStandardError> queue;
  mutable absl::Mutex mutex;
  RateLimiter limiter ABSL_GUARDED_BY(mutex){kLogBurst, kLogLinesPerSecond};

  void Write(Level line_level, std::string_view event, uint64_t suppressed,
             absl::Span<const Field> fields, std::string_view text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const LineHead head{line_level, options.journal, options.unix_time_ms(), event, suppressed};
    const std::string line = FormatLine(options.format, head, fields, text);
    if (options.sink) {
      options.sink(line);
    } else {
      queue->Write(line);
    }
  }
};

Logger::Logger(LogOptions options) : state_(std::make_unique<State>()) {
  if (!options.unix_time_ms) options.unix_time_ms = NowMs<std::chrono::system_clock>;
  if (!options.monotonic_ms) options.monotonic_ms = NowMs<std::chrono::steady_clock>;
  if (!options.sink) state_->queue = std::make_unique<QueuedStandardError>();
  state_->options = std::move(options);
}

Logger::~Logger() {
  absl::MutexLock lock(&state_->mutex);
  for (const auto& [event, count] : state_->limiter.Unreported()) {
    const Field of("of", event);
    state_->Write(Level::kInfo, event::kLogSuppressed, count, absl::MakeConstSpan(&of, 1),
                  "lines that rate limiting left out");
  }
}

void Logger::Log(Level level, std::string_view event, absl::Span<const Field> fields,
                 std::string_view text) {
  assert(IsEventId(event));
  if (!Enabled(level)) return;
  for ([[maybe_unused]] const Field& field : fields) assert(IsFieldKey(field.key()));
  absl::MutexLock lock(&state_->mutex);
  uint64_t suppressed = 0;
  const bool limited = level != Level::kDebug;  // who asks for debug lines wants them all
  if (limited && !state_->limiter.Pass(event, state_->options.monotonic_ms(), &suppressed)) {
    return;
  }
  state_->Write(level, event, suppressed, fields, text);
}

bool Logger::Enabled(Level level) const {
  return level >= state_->options.level;
}

uint64_t Logger::lines_dropped() const {
  return state_->queue == nullptr ? 0 : state_->queue->lines_dropped();
}

std::string_view LevelName(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      return "error";
  }
  return "";
}

absl::StatusOr<Level> ParseLevel(std::string_view text) {
  for (const Level level : {Level::kDebug, Level::kInfo, Level::kWarning, Level::kError}) {
    if (text == LevelName(level)) return level;
  }
  return absl::InvalidArgumentError(absl::StrCat("log level '", std::string(text.substr(0, 64)),
                                                 "' is not one of debug, info, warning, error"));
}

absl::StatusOr<LogFormat> ParseLogFormat(std::string_view text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return absl::InvalidArgumentError(
      absl::StrCat("log format '", std::string(text.substr(0, 64)), "' is not one of text, json"));
}

bool StandardErrorIsJournal() {
  const char* const stream = getenv("JOURNAL_STREAM");
  struct stat info;
  uintmax_t device = 0;
  uintmax_t inode = 0;
  return stream != nullptr && sscanf(stream, "%" SCNuMAX ":%" SCNuMAX, &device, &inode) == 2 &&
         fstat(STDERR_FILENO, &info) == 0 && info.st_dev == device && info.st_ino == inode;
}

}  // namespace causeway::observe
