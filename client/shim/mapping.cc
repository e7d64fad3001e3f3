#include "client/shim/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

namespace causeway::client {

Status Mapping::Map(const Descriptor& memfd, uint64_t bytes, bool writable, const char* what,
                    Mapping& mapping) {
  mapping = Mapping();
  const std::string name = std::string("the gateway's ") + what + " memory";
  struct stat info {};
  if (fstat(memfd.get(), &info) != 0) return Status(CW_PROTOCOL, WithErrno(name, errno));
  const int seals = fcntl(memfd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Status(CW_PROTOCOL, name + " is not sealed against truncation");
  }
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) < bytes) {
    return Status(CW_PROTOCOL, name + " is smaller than its announcement");
  }
  if (bytes == 0) return Status();
  void* address = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
                       memfd.get(), 0);
  if (address == MAP_FAILED) return Status(CW_MEMORY, WithErrno("cannot map " + name, errno));
  mapping.data_ = static_cast<uint8_t*>(address);
  mapping.size_ = bytes;
  if (madvise(address, bytes, MADV_DONTFORK) != 0) {
    return Status(CW_MEMORY, WithErrno("cannot keep from forks " + name, errno));
  }
  return Status();
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) munmap(data_, size_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace causeway::client
