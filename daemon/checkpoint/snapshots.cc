// Labels are ordered by when their directories were made.
#include "daemon/checkpoint/snapshots.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace causeway::checkpoint {
namespace {

namespace fs = std::filesystem;

// What a store can hold; the trainers' protocol has no more either.
constexpr uint32_t kFragmentsMax = 256;

absl::Status Failed(const std::string& what, const std::error_code& why) {
  return absl::InternalError(absl::StrCat("cannot ", what, ": ", why.message()));
}

// Each file whole, and those of all fragments that `to` has.
absl::StatusOr<size_t> CheckWhole(const std::string& label, const Store& from, const Store& to) {
  if (absl::Status schema = from.ReadSchema().status(); !schema.ok()) return schema;
  size_t fragments = 0;
  for (uint32_t fragment = 0; fragment < kFragmentsMax; ++fragment) {
    const std::vector<std::string> files = from.Files(fragment);
    if (files.empty()) {
      if (to.Files(fragment).empty()) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "snapshot '", label, "' has no fragment ", fragment,
          " on this gateway: it was away when that was written. Restore another one, or let this ",
          "gateway fetch what the others restore: remove ", to.directory()));
    }
    if (absl::Status whole = File::Open(files.front()).status(); !whole.ok()) return whole;
    ++fragments;
  }
  return fragments;
}

}  // namespace

std::vector<std::string> Snapshots::Labels() const {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code none;
  for (fs::directory_iterator at(directory_, none), end; !none && at != end; at.increment(none)) {
    std::error_code failed;
    const fs::file_time_type made = fs::last_write_time(at->path() / "made", failed);
    if (!failed) found.emplace_back(made, at->path().filename().string());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> labels;
  for (auto& [made, label] : found) labels.push_back(std::move(label));
  return labels;
}

absl::Status Snapshots::Begin(const std::string& label, size_t kept) const {
  std::error_code failed;
  std::vector<std::string> labels = Labels();
  labels.erase(std::remove(labels.begin(), labels.end(), label), labels.end());
  std::vector<std::string> gone = {label};
  const size_t others = std::max<size_t>(kept, 1) - 1;
  if (labels.size() > others) gone.insert(gone.end(), labels.begin(), labels.end() - others);
  for (const std::string& old : gone) {
    fs::remove_all(directory_ + "/" + old, failed);
    if (failed) return Failed("remove snapshot '" + old + "'", failed);
  }
  fs::create_directories(directory_ + "/" + label, failed);
  if (!failed) fs::permissions(directory_ + "/" + label, fs::perms::owner_all, failed);
  if (failed) return Failed("make " + directory_ + "/" + label, failed);
  return WriteFile(directory_ + "/" + label + "/made", "", {}, nullptr);
}

absl::StatusOr<size_t> Snapshots::Restore(const std::string& label, const Store& to) const {
  const std::vector<std::string> labels = Labels();
  if (std::find(labels.begin(), labels.end(), label) == labels.end()) {
    return absl::NotFoundError(absl::StrCat(
        "no snapshot '", label, "' in ", directory_, "; there ",
        labels.empty() ? "is none" : absl::StrCat("are: ", absl::StrJoin(labels, ", "))));
  }
  const Store from = Of(label);
  absl::StatusOr<size_t> fragments = CheckWhole(label, from, to);
  if (!fragments.ok()) return fragments;
  const std::string fresh = to.directory() + ".restored";
  std::error_code failed;
  fs::remove_all(fresh, failed);
  if (!failed) fs::copy(from.directory(), fresh, failed);
  if (!failed) fs::remove(fresh + "/made", failed);
  if (failed) return Failed("copy " + from.directory(), failed);
  if (absl::Status aside = to.SetAside().status(); !aside.ok()) return aside;
  fs::rename(fresh, to.directory(), failed);
  if (failed) return Failed("rename " + fresh, failed);
  return fragments;
}

}  // namespace causeway::checkpoint
