// MemoryFile: bytes that a library insists on reading by path, without a file on any disk.
//
// A sealed memfd, reached as /proc/self/fd/N by this process only. The descriptor number, and so
// the path, stays for the object's life; Replace swaps what is behind it in one step. One thread at
// a time, while others may open the path.
#ifndef CAUSEWAY_SECURITY_MEMORY_FILE_H_
#define CAUSEWAY_SECURITY_MEMORY_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace causeway::security {

class MemoryFile {
 public:
  // `modified_s` becomes the modification time; readers that compare it before and after a read see
  // a swap in between, so each Replace passes another value. `name` shows in /proc only.
  static absl::StatusOr<MemoryFile> Create(const std::string& name, const std::string& bytes,
                                           int64_t modified_s);
  ~MemoryFile();
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&&) = delete;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  absl::Status Replace(const std::string& bytes, int64_t modified_s);

  std::string path() const;

 private:
  MemoryFile(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}

  std::string name_;
  int fd_;
};

}  // namespace causeway::security

#endif  // CAUSEWAY_SECURITY_MEMORY_FILE_H_
