#include "client/shim/sealed_memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

namespace causeway::client {

Status SealedMemfd(const char* name, const void* bytes, size_t size, Descriptor& memfd) {
  memfd = Descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd) {
    return Status(CW_MEMORY, WithErrno(std::string("cannot make memory for ") + name, errno));
  }
  const auto* next = static_cast<const uint8_t*>(bytes);
  for (size_t left = size; left > 0;) {
    const ssize_t written = write(memfd.get(), next, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return Status(CW_MEMORY, WithErrno(std::string("cannot write ") + name, errno));
    }
    next += written;
    left -= static_cast<size_t>(written);
  }
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (fcntl(memfd.get(), F_ADD_SEALS, kSeals) != 0) {
    return Status(CW_MEMORY, WithErrno(std::string("cannot seal ") + name, errno));
  }
  return Status();
}

}  // namespace causeway::client
