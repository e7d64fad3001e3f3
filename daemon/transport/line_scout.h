// LineScout: asks whether a line is back, with TCP connections of its own that are closed as soon
// as they are made.
//
// TCP repeats an unanswered SYN at intervals that double, as it does bytes; so each question here
// is a new connection, at a pace of its own. One small packet each, a bounded number at a time.
// Poller thread only. Does not: carry anything, or resolve names: it asks the host that the link
// was to.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_LINE_SCOUT_H_
#define CAUSEWAY_DAEMON_TRANSPORT_LINE_SCOUT_H_

#include <sys/socket.h>

#include <deque>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace causeway::transport {

class LineScout {
 public:
  // `remote`: as gRPC names it, such as "ipv4:10.0.0.1:7443". Null: not an internet address.
  static std::unique_ptr<LineScout> To(const std::string& remote);
  ~LineScout();
  LineScout(const LineScout&) = delete;
  LineScout& operator=(const LineScout&) = delete;

  // True: a question was answered. Else asks the next one, if it is time. An answer may take as
  // long as kQuestionsMax questions.
  bool Answered(absl::Time now);

  static constexpr absl::Duration kPace = absl::Milliseconds(50);
  static constexpr size_t kQuestionsMax = 40;

 private:
  LineScout() = default;
  void Ask();

  sockaddr_storage address_{};
  socklen_t address_bytes_ = 0;
  std::deque<int> questions_;  // oldest first
  absl::Time ask_at_ = absl::InfinitePast();
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_LINE_SCOUT_H_
