// Names are fixed, so a restart finds them without an index that could itself be torn.
#include "daemon/checkpoint/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace causeway::checkpoint {
namespace {

absl::Status Failed(const char* what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return Failed("rename", from);
  return absl::OkStatus();
}

}  // namespace

std::string Store::Path(uint32_t fragment, const char* which) const {
  return absl::StrCat(directory_, "/fragment-", fragment, ".", which);
}

absl::Status Store::MakeDirectory() const {
  if (::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) {
    return Failed("make", directory_);
  }
  return absl::OkStatus();
}

absl::Status Store::SyncDirectory() const {
  const int descriptor = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return Failed("open", directory_);
  absl::Status synced = absl::OkStatus();
  if (::fsync(descriptor) != 0) synced = Failed("fsync", directory_);
  ::close(descriptor);
  return synced;
}

absl::Status Store::Write(uint32_t fragment, const std::string& header,
                          absl::Span<const absl::Span<const uint8_t>> sections,
                          const std::function<void(size_t)>& after_section,
                          const std::function<bool()>& wanted) const {
  if (absl::Status made = MakeDirectory(); !made.ok()) return made;
  const std::string fresh = Path(fragment, "new");
  const std::string current = Path(fragment, "current");
  if (absl::Status s = WriteFile(fresh, header, sections, after_section, wanted); !s.ok()) {
    return s;
  }
  absl::Status moved = Rename(current, Path(fragment, "previous"));
  if (absl::IsNotFound(moved)) moved = absl::OkStatus();  // the first one
  if (moved.ok()) moved = Rename(fresh, current);
  if (!moved.ok()) return moved;
  return SyncDirectory();
}

std::vector<std::string> Store::Files(uint32_t fragment) const {
  std::vector<std::string> found;
  for (const char* which : {"current", "previous"}) {
    std::string path = Path(fragment, which);
    if (::access(path.c_str(), F_OK) == 0) found.push_back(std::move(path));
  }
  return found;
}

absl::Status Store::WriteSchema(absl::Span<const uint8_t> records) const {
  if (absl::Status made = MakeDirectory(); !made.ok()) return made;
  const std::string fresh = directory_ + "/schema.new";
  if (absl::Status s = WriteFile(fresh, "", {records}, nullptr); !s.ok()) return s;
  if (absl::Status s = Rename(fresh, directory_ + "/schema"); !s.ok()) return s;
  return SyncDirectory();
}

absl::StatusOr<std::vector<uint8_t>> Store::ReadSchema() const {
  const std::string path = directory_ + "/schema";
  absl::StatusOr<File> file = File::Open(path);
  if (!file.ok()) return file.status();
  if (file->sections() != 1 || file->size(0) > kSchemaBytesMax) {
    return absl::DataLossError(absl::StrCat(path, ": not a schema"));
  }
  std::vector<uint8_t> records(file->size(0));
  if (absl::Status s = file->Read(0, absl::MakeSpan(records)); !s.ok()) return s;
  return records;
}

absl::Status Store::Remove() const {
  std::error_code failed;
  std::filesystem::remove_all(directory_, failed);
  if (!failed) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot remove ", directory_, ": ", failed.message()));
}

absl::StatusOr<bool> Store::SetAside() const {
  std::error_code failed;
  if (!std::filesystem::exists(directory_, failed)) return false;
  const std::string aside = directory_ + ".set-aside";
  std::filesystem::remove_all(aside, failed);
  if (absl::Status s = Rename(directory_, aside); !s.ok()) return s;
  return true;
}

}  // namespace causeway::checkpoint
