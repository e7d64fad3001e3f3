// Plain POSIX calls: a database for forty bytes that change a few times a day would be more to
// trust.
#include "daemon/run/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/digest/digest.h"
#include "daemon/run/message_codec.h"

namespace causeway::run {
namespace {

constexpr char kMagic[] = "CWDUR1\n";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;
constexpr size_t kHeaderBytes = kMagicBytes + 4 + 32;

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  const int value_;
};

absl::Status Failed(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

absl::Status WriteAll(int descriptor, const std::string& bytes, const std::string& path) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Failed("cannot write", path);
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0) return Failed("cannot fsync", path);
  return absl::OkStatus();
}

std::string Frame(const std::string& payload) {
  std::string out(kMagic, kMagicBytes);
  const uint32_t size = static_cast<uint32_t>(payload.size());
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(size >> shift));
  const engine::Hash256 hash =
      digest::Sha256({reinterpret_cast<const uint8_t*>(payload.data()), payload.size()});
  out.append(reinterpret_cast<const char*>(hash.data()), hash.size());
  return out + payload;
}

// The payload, or an empty string when the frame is not whole.
bool Unframe(const std::string& bytes, std::string* payload) {
  if (bytes.size() < kHeaderBytes || bytes.compare(0, kMagicBytes, kMagic) != 0) return false;
  uint32_t size = 0;
  for (int i = 0; i < 4; ++i) {
    size |= uint32_t{static_cast<uint8_t>(bytes[kMagicBytes + static_cast<size_t>(i)])} << (8 * i);
  }
  if (size != bytes.size() - kHeaderBytes) return false;
  *payload = bytes.substr(kHeaderBytes);
  return Frame(*payload) == bytes;
}

}  // namespace

DurableFile::DurableFile(std::string directory, const std::string& run, const Roster& roster)
    : directory_(std::move(directory)),
      path_(absl::StrCat(directory_, "/", run, ".epoch")),
      roster_(roster) {}

absl::StatusOr<engine::Durable> DurableFile::Read() const {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOENT) return engine::Durable{};
    return Failed("cannot open", path_);
  }
  std::string bytes(kDurableBytesMax + 1, '\0');
  size_t size = 0;
  for (;;) {
    const ssize_t n = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("cannot read", path_);
    if (n == 0) break;
    size += static_cast<size_t>(n);
    if (size == bytes.size()) break;
  }
  bytes.resize(size);
  std::string payload;
  wan::v1::Durable message;
  if (!Unframe(bytes, &payload) || !message.ParseFromString(payload)) {
    return absl::DataLossError(absl::StrCat(
        path_, ": torn or not a causeway file; restore it, or remove it to join the run anew as a",
        " gateway that lost its disk"));
  }
  absl::StatusOr<engine::Durable> durable = DecodeDurable(roster_, message);
  if (!durable.ok()) {
    return absl::DataLossError(
        absl::StrCat(path_, ": does not fit this configuration: ", durable.status().message()));
  }
  return durable;
}

absl::Status DurableFile::Write(const engine::Durable& durable) const {
  const std::string bytes = Frame(EncodeDurable(roster_, durable).SerializeAsString());
  const std::string fresh = path_ + ".new";
  {
    const Descriptor file(
        ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.get() < 0) return Failed("cannot create", fresh);
    if (absl::Status s = WriteAll(file.get(), bytes, fresh); !s.ok()) return s;
    if (::fsync(file.get()) != 0) return Failed("cannot fsync", fresh);
  }
  if (::rename(fresh.c_str(), path_.c_str()) != 0) return Failed("cannot rename to", path_);
  return SyncDirectory(directory_);
}

// A record that comes back after a power cut would speak for a run that was forgotten.
absl::Status DurableFile::Remove() const {
  if (::unlink(path_.c_str()) != 0) {
    return errno == ENOENT ? absl::OkStatus() : Failed("cannot remove", path_);
  }
  return SyncDirectory(directory_);
}

}  // namespace causeway::run
