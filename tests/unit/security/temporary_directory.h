// TemporaryDirectory: a private directory that goes away with the object.
#ifndef CAUSEWAY_TESTS_UNIT_SECURITY_TEMPORARY_DIRECTORY_H_
#define CAUSEWAY_TESTS_UNIT_SECURITY_TEMPORARY_DIRECTORY_H_

#include <stdlib.h>

#include <cassert>
#include <filesystem>
#include <string>
#include <system_error>

namespace causeway::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    path_ = (std::filesystem::temp_directory_path() / "causeway-security-XXXXXX").string();
    const char* made = mkdtemp(path_.data());
    assert(made != nullptr);
    (void)made;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;  // a destructor has nobody to tell
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_UNIT_SECURITY_TEMPORARY_DIRECTORY_H_
