// The digest covers the blocks' hashes rather than the blocks, so that gigabytes are hashed at
// memory speed and a bad block is still named.
#include "daemon/checkpoint/file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/vector.h"

namespace causeway::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "memory goes to the file as it is");

constexpr char kMagic[] = "CWCKPT1\n";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;
constexpr size_t kDigestBytes = 32;
using Digest = std::array<uint8_t, kDigestBytes>;

absl::Status Failed(const char* what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

absl::Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

template <typename T>
void Append(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

size_t Blocks(uint64_t bytes) {
  return static_cast<size_t>((bytes + kBlockBytes - 1) / kBlockBytes);
}

Digest DigestOf(const std::string& front, absl::Span<const uint64_t> hashes) {
  Digest out{};
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  const bool done =
      context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1 &&
      EVP_DigestUpdate(context, front.data(), front.size()) == 1 &&
      EVP_DigestUpdate(context, hashes.data(), hashes.size() * sizeof(uint64_t)) == 1 &&
      EVP_DigestFinal_ex(context, out.data(), nullptr) == 1;
  EVP_MD_CTX_free(context);
  assert(done && "SHA-256 is always available");
  (void)done;
  return out;
}

absl::Status WriteAll(int descriptor, const void* data, size_t size, const std::string& path) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(descriptor, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Failed("write", path);
    bytes += n;
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status ReadAll(int descriptor, void* data, size_t size, uint64_t offset,
                     const std::string& path) {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::pread(descriptor, bytes, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("read", path);
    if (n == 0) return Damaged(path, "it ends too early");
    bytes += n;
    offset += static_cast<uint64_t>(n);
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

std::string Front(const std::string& header, absl::Span<const absl::Span<const uint8_t>> sections) {
  std::string out(kMagic, kMagicBytes);
  Append(&out, static_cast<uint32_t>(header.size()));
  Append(&out, static_cast<uint32_t>(sections.size()));
  for (const absl::Span<const uint8_t>& section : sections) {
    Append(&out, static_cast<uint64_t>(section.size()));
  }
  return out + header;
}

absl::Status WriteTo(int descriptor, const std::string& path, const std::string& header,
                     absl::Span<const absl::Span<const uint8_t>> sections,
                     const std::function<void(size_t)>& after_section,
                     const std::function<bool()>& wanted) {
  const auto cancelled = [&] { return wanted && !wanted(); };
  const std::string front = Front(header, sections);
  if (absl::Status s = WriteAll(descriptor, front.data(), front.size(), path); !s.ok()) return s;
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i < sections.size(); ++i) {
    for (size_t at = 0; at < sections[i].size(); at += kBlockBytes) {
      if (cancelled()) return absl::CancelledError(absl::StrCat(path, " took too long"));
      const absl::Span<const uint8_t> block = sections[i].subspan(at, kBlockBytes);
      hashes.push_back(compression::ContentHash(block));
      if (absl::Status s = WriteAll(descriptor, block.data(), block.size(), path); !s.ok())
        return s;
    }
    if (cancelled()) return absl::CancelledError(absl::StrCat(path, " took too long"));
    if (after_section) after_section(i);
  }
  const Digest digest = DigestOf(front, hashes);
  absl::Status s = WriteAll(descriptor, hashes.data(), hashes.size() * sizeof(uint64_t), path);
  if (s.ok()) s = WriteAll(descriptor, digest.data(), digest.size(), path);
  if (s.ok() && ::fsync(descriptor) != 0) s = Failed("fsync", path);
  return s;
}

}  // namespace

absl::Status WriteFile(const std::string& path, const std::string& header,
                       absl::Span<const absl::Span<const uint8_t>> sections,
                       const std::function<void(size_t)>& after_section,
                       const std::function<bool()>& wanted) {
  assert(header.size() <= kHeaderBytesMax && sections.size() <= kSectionsMax);
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return Failed("create", path);
  absl::Status written = WriteTo(descriptor, path, header, sections, after_section, wanted);
  if (::close(descriptor) != 0 && written.ok()) written = Failed("close", path);
  if (!written.ok()) ::unlink(path.c_str());
  return written;
}

File& File::operator=(File&& other) noexcept {
  if (this == &other) return *this;
  if (descriptor_ >= 0) ::close(descriptor_);
  path_ = std::move(other.path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  header_ = std::move(other.header_);
  sizes_ = std::move(other.sizes_);
  offsets_ = std::move(other.offsets_);
  hashes_ = std::move(other.hashes_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<File> File::Open(const std::string& path) {
  File file;
  file.path_ = path;
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file.descriptor_ < 0) return Failed("open", path);
  struct stat status {};
  if (::fstat(file.descriptor_, &status) != 0) return Failed("look at", path);
  if (!S_ISREG(status.st_mode)) return Damaged(path, "not a regular file");
  const uint64_t size = static_cast<uint64_t>(status.st_size);

  // Everything that a size says is checked against what the file has room for.
  std::string front(kMagicBytes + 8, '\0');
  if (size < front.size()) return Damaged(path, "torn: it is too short");
  if (absl::Status s = ReadAll(file.descriptor_, front.data(), front.size(), 0, path); !s.ok())
    return s;
  if (front.compare(0, kMagicBytes, kMagic) != 0) return Damaged(path, "not a checkpoint");
  uint32_t header_bytes = 0;
  uint32_t sections = 0;
  std::memcpy(&header_bytes, front.data() + kMagicBytes, 4);
  std::memcpy(&sections, front.data() + kMagicBytes + 4, 4);
  if (header_bytes > kHeaderBytesMax || sections > kSectionsMax) {
    return Damaged(path, "altered: its sizes are out of bounds");
  }
  const size_t fixed = front.size();
  front.resize(fixed + 8 * sections + header_bytes);
  if (size < front.size()) return Damaged(path, "torn: it is too short");
  absl::Status s =
      ReadAll(file.descriptor_, front.data() + fixed, front.size() - fixed, fixed, path);
  if (!s.ok()) return s;
  uint64_t offset = front.size();
  size_t blocks = 0;
  for (uint32_t i = 0; i < sections; ++i) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, front.data() + fixed + 8 * i, 8);
    if (bytes > kSectionBytesMax || bytes > size - std::min(size, offset)) {
      return Damaged(path, "torn or altered: it is shorter than it says");
    }
    file.sizes_.push_back(bytes);
    file.offsets_.push_back(offset);
    offset += bytes;
    blocks += Blocks(bytes);
  }
  if (size != offset + blocks * sizeof(uint64_t) + kDigestBytes) {
    return Damaged(path, "torn or altered: its size is not what it says");
  }
  std::vector<uint64_t> hashes(blocks);
  Digest digest{};
  s = ReadAll(file.descriptor_, hashes.data(), blocks * sizeof(uint64_t), offset, path);
  if (s.ok()) s = ReadAll(file.descriptor_, digest.data(), kDigestBytes, size - kDigestBytes, path);
  if (!s.ok()) return s;
  if (digest != DigestOf(front, hashes)) return Damaged(path, "altered: its digest does not agree");
  file.header_ = front.substr(fixed + 8 * sections);
  auto next = hashes.begin();
  for (uint64_t bytes : file.sizes_) {
    const auto end = next + static_cast<std::ptrdiff_t>(Blocks(bytes));
    file.hashes_.emplace_back(next, end);
    next = end;
  }
  return file;
}

absl::Status File::Read(size_t section, absl::Span<uint8_t> out) const {
  assert(out.size() == sizes_.at(section));
  for (size_t block = 0; block < hashes_[section].size(); ++block) {
    const absl::Span<uint8_t> part = out.subspan(block * kBlockBytes, kBlockBytes);
    const uint64_t at = offsets_[section] + block * kBlockBytes;
    if (absl::Status s = ReadAll(descriptor_, part.data(), part.size(), at, path_); !s.ok())
      return s;
    if (compression::ContentHash(absl::Span<const uint8_t>(part)) != hashes_[section][block]) {
      return Damaged(path_, absl::StrCat("corrupt at byte ", at));
    }
  }
  return absl::OkStatus();
}

}  // namespace causeway::checkpoint
