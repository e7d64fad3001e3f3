// The end of a stream, in order: reads fail (or it is cancelled), Finish is started, Finish
// returns, and when no operation is left the object goes. A dialled stream learns the reason from
// Finish, an accepted one gives it.
#include "daemon/transport/byte_stream.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "daemon/transport/grpc_status.h"

namespace causeway::transport {
namespace {

constexpr absl::Duration kFarewell = absl::Seconds(1);

}  // namespace

void StreamSet::Tick(absl::Time now) {
  const std::vector<ByteStream*> all(streams_.begin(), streams_.end());
  for (ByteStream* stream : all) {
    if (streams_.count(stream) != 0) stream->Tick(now);  // another's end may have taken it along
  }
}

void StreamSet::CancelAll() {
  const std::vector<ByteStream*> all(streams_.begin(), streams_.end());
  for (ByteStream* stream : all) {
    if (streams_.count(stream) != 0) stream->Abandon();
  }
}

bool StreamSet::parting() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const ByteStream* stream) { return stream->farewell_; });
}

ByteStream::ByteStream(StreamSet& streams) : streams_(streams) { streams_.streams_.insert(this); }

ByteStream::~ByteStream() { streams_.streams_.erase(this); }

void ByteStream::Op::OnEvent(bool ok) {
  ByteStream* stream = stream_;
  --stream->pending_;
  (stream->*done_)(ok);
  if (stream->pending_ == 0 && stream->finished_) delete stream;
}

void* ByteStream::Begin(Op& op) {
  ++pending_;
  return static_cast<Poller::Event*>(&op);
}

void ByteStream::Opened() {
  open_ = true;
  if (handler_ != nullptr) handler_->OnOpen();
  if (!ending_) ReadNext();
}

void ByteStream::ReadNext() {
  if (reading_ || held_ || finishing_) return;
  reading_ = true;
  StartRead(&read_frame_, Begin(read_op_));
}

void ByteStream::ReadDone(bool ok) {
  reading_ = false;
  if (!ok) {
    if (accepted()) {
      Ended(absl::UnavailableError(
          "the peer closed the stream, or sent a message far above every limit"));
    }
    Finish(cancel_reason_);
    return;
  }
  grpc::ByteBuffer frame;
  frame.Swap(&read_frame_);
  if (handler_ != nullptr) handler_->OnRead(frame);
  ReadNext();
}

void ByteStream::Write(const grpc::ByteBuffer& frame, bool more) {
  assert(writable());
  writing_ = true;
  StartWrite(frame, more, Begin(write_op_));
}

void ByteStream::WriteDone(bool ok) {
  writing_ = false;
  if (!ok) open_ = false;  // the read ends, too, and says why
  if (farewell_) {
    if (ok && last_.has_value()) {
      writing_ = true;
      StartWrite(*std::exchange(last_, std::nullopt), false, Begin(write_op_));
    } else if (accepted()) {
      Finish(farewell_status_);
    }
    return;
  }
  if (ok && handler_ != nullptr && !ending_) handler_->OnWritten();
}

void ByteStream::HoldReads(bool hold) {
  held_ = hold;
  if (!hold && open_ && !ending_) ReadNext();
}

void ByteStream::SetDeadline(absl::Time deadline, const absl::Status& reason) {
  deadline_ = deadline;
  deadline_reason_ = reason;
}

void ByteStream::Tick(absl::Time now) {
  if (now < deadline_) return;
  deadline_ = absl::InfiniteFuture();
  Cancel(deadline_reason_);
}

void ByteStream::Cancel(const absl::Status& reason) {
  if (cancel_reason_.ok()) cancel_reason_ = reason;
  ending_ = true;
  if (finished_) return;
  // A reason can be told only while nothing is being written.
  if (accepted() && open_ && !writing_ && !finishing_) {
    Finish(reason);
    Ended(reason);
    return;
  }
  TryCancel();
  Ended(reason);
  // Without a read that will fail, nothing else would start the end. Before the connection is made,
  // the pending start of the call does.
  if (open_ && !reading_) Finish(reason);
}

void ByteStream::Abandon() {
  handler_ = nullptr;
  Cancel(absl::CancelledError("abandoned"));
}

void ByteStream::Farewell(std::optional<grpc::ByteBuffer> last, const absl::Status& status) {
  handler_ = nullptr;
  if (!open_ || finishing_) {
    Cancel(status);
    return;
  }
  ending_ = true;
  farewell_ = true;
  farewell_status_ = status;
  last_ = std::move(last);
  // A peer that reads sees it all; from one that does not, we part after a moment.
  SetDeadline(MonotonicNow() + kFarewell, status);
  HoldReads(false);
  ReadNext();
  if (!writing_) WriteDone(true);
}

void ByteStream::Ended(const absl::Status& reason) {
  Handler* handler = std::exchange(handler_, nullptr);
  ending_ = true;
  if (handler != nullptr) handler->OnClosed(cancel_reason_.ok() ? reason : cancel_reason_);
}

void ByteStream::Finish(const absl::Status& status) {
  if (finishing_) return;
  finishing_ = true;
  ending_ = true;
  StartFinish(ToGrpc(status), &final_status_, Begin(finish_op_));
}

void ByteStream::FinishDone(bool) {
  finished_ = true;
  if (accepted()) return;
  absl::Status reason = FromGrpc(final_status_);
  if (reason.ok()) reason = absl::UnavailableError("the peer closed the stream");
  Ended(reason);
}

}  // namespace causeway::transport
