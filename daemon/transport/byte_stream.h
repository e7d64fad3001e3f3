// ByteStream: one bidirectional gRPC stream of raw frames, dialled or accepted, with the rules of
// the asynchronous API behind it: one read and one write outstanding, one end, and no memory freed
// while gRPC still refers to it.
//
// Poller thread only. A stream owns itself: it goes when gRPC has let go of it. Its user holds a
// pointer until OnClosed, Farewell or Abandon, whichever is first, and not longer.
#ifndef CAUSEWAY_DAEMON_TRANSPORT_BYTE_STREAM_H_
#define CAUSEWAY_DAEMON_TRANSPORT_BYTE_STREAM_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/transport/poller.h"

namespace grpc {
class AsyncGenericService;
class AuthContext;
class Channel;
class ServerCompletionQueue;
}  // namespace grpc

namespace causeway::transport {

class ByteStream;

// All streams of a transport, so that they can be looked after and ended together.
class StreamSet {
 public:
  void Tick(absl::Time now);
  void CancelAll();
  bool empty() const { return streams_.empty(); }
  bool parting() const;  // some say farewell

 private:
  friend class ByteStream;
  std::unordered_set<ByteStream*> streams_;
};

class ByteStream {
 public:
  class Handler {
   public:
    virtual void OnOpen() {}  // dialled streams: the connection is made
    virtual void OnRead(const grpc::ByteBuffer& frame) = 0;
    virtual void OnWritten() = 0;  // the frame is in the kernel's hands; the next may follow
    virtual void OnClosed(const absl::Status& reason) = 0;

   protected:
    ~Handler() = default;
  };

  virtual std::string remote() const = 0;
  // The certificates of the other side; null before the connection is made.
  virtual std::shared_ptr<const grpc::AuthContext> auth_context() const = 0;

  void SetHandler(Handler* handler) { handler_ = handler; }
  bool writable() const { return open_ && !writing_ && !ending_; }
  // Only while writable(). `more`: another follows at once, with which it may share a packet.
  void Write(const grpc::ByteBuffer& frame, bool more = false);
  // No more OnRead until released; at most one frame is read ahead by gRPC.
  void HoldReads(bool hold);
  // Cancels with `reason` unless cleared in time.
  void SetDeadline(absl::Time deadline, const absl::Status& reason);
  void ClearDeadline() { deadline_ = absl::InfiniteFuture(); }

  // Ends the stream at once; OnClosed(reason) follows.
  void Cancel(const absl::Status& reason);
  // Ends it without hearing of it again.
  void Abandon();
  // Ends it politely without hearing of it again: `last` and, where this side accepted, `status`
  // are still sent, within kFarewell.
  void Farewell(std::optional<grpc::ByteBuffer> last, const absl::Status& status);

 protected:
  // A completion-queue tag that calls a method of its stream and then lets the stream go if it was
  // the last.
  class Op final : public Poller::Event {
   public:
    Op(ByteStream* stream, void (ByteStream::*done)(bool)) : stream_(stream), done_(done) {}
    void OnEvent(bool ok) override;

   private:
    ByteStream* const stream_;
    void (ByteStream::*const done_)(bool);
  };

  explicit ByteStream(StreamSet& streams);
  virtual ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  virtual void StartRead(grpc::ByteBuffer* frame, void* tag) = 0;
  virtual void StartWrite(const grpc::ByteBuffer& frame, bool more, void* tag) = 0;
  virtual void StartFinish(const grpc::Status& ours, grpc::Status* theirs, void* tag) = 0;
  virtual void TryCancel() = 0;
  virtual bool accepted() const = 0;  // this side is the server

  void* Begin(Op& op);              // counts an operation; what to pass as its tag
  void SetOpen() { open_ = true; }  // it may be written to and finished
  void Opened();                    // and reads begin
  void Ended(const absl::Status& reason);
  void Finish(const absl::Status& status);
  void NeverBegan() { finished_ = true; }
  bool ending() const { return ending_; }

 private:
  friend class StreamSet;

  void ReadNext();
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void FinishDone(bool ok);
  void Tick(absl::Time now);

  StreamSet& streams_;
  Handler* handler_ = nullptr;
  int pending_ = 0;  // operations that gRPC has not returned
  bool open_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool held_ = false;
  bool ending_ = false;     // cancelled or finishing: nothing new is written
  bool finishing_ = false;  // Finish was started
  bool finished_ = false;
  bool farewell_ = false;
  std::optional<grpc::ByteBuffer> last_;
  absl::Status farewell_status_;
  absl::Status cancel_reason_;
  absl::Time deadline_ = absl::InfiniteFuture();
  absl::Status deadline_reason_;
  grpc::ByteBuffer read_frame_;
  grpc::Status final_status_;
  Op read_op_{this, &ByteStream::ReadDone};
  Op write_op_{this, &ByteStream::WriteDone};
  Op finish_op_{this, &ByteStream::FinishDone};
};

// Starts to connect and to call `method` on `channel`.
ByteStream* DialStream(StreamSet& streams, Poller& poller, std::shared_ptr<grpc::Channel> channel,
                       const std::string& method, ByteStream::Handler* handler);

// Waits for calls of any method on a generic service.
class StreamAcceptor {
 public:
  class Handler {
   public:
    // A call arrived; the stream has no handler yet.
    virtual void OnStream(ByteStream* stream, const std::string& method) = 0;

   protected:
    ~Handler() = default;
  };

  StreamAcceptor(StreamSet& streams, grpc::AsyncGenericService& service,
                 grpc::ServerCompletionQueue& queue, Handler& handler)
      : streams_(streams), service_(service), queue_(queue), handler_(handler) {}
  // Before the server shuts down, on the poller thread or before it runs.
  void AcceptNext();

 private:
  StreamSet& streams_;
  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  Handler& handler_;
};

}  // namespace causeway::transport

#endif  // CAUSEWAY_DAEMON_TRANSPORT_BYTE_STREAM_H_
