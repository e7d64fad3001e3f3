#include "daemon/config/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/config/document.h"
#include "daemon/config/keys.h"
#include "daemon/config/sections.h"

namespace causeway::config {
namespace {

std::string Format(const std::string& file, const std::vector<Diagnostic>& found,
                   const char* severity) {
  std::string text;
  for (const Diagnostic& diagnostic : found) {
    absl::StrAppend(&text, file, ":");
    if (diagnostic.line > 0) {
      absl::StrAppend(&text, diagnostic.line, ":", diagnostic.column, ":");
    }
    absl::StrAppend(&text, " ", severity, diagnostic.key, diagnostic.key.empty() ? "" : ": ",
                    diagnostic.message, "\n");
  }
  return text;
}

void Sort(std::vector<Diagnostic>& found) {
  std::stable_sort(found.begin(), found.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
}

ParseResult Failure(const std::string& path, int error, std::string message) {
  ParseResult result;
  result.file = path;
  result.read_errno = error;
  result.errors.push_back({0, 0, "", std::move(message)});
  return result;
}

std::string Unopened(int error) {
  const char* remedy = error == ENOENT ? "; write it, from share/causeway/causeway.yaml of the "
                                         "installation, or name another file"
                                       : "";
  return absl::StrCat(strerror(error), remedy);
}

void ReadConfig(const Node& root, const ParseOptions& options, Findings& findings, Config* config) {
  MapReader top(root, "", "", findings);
  const Context context{findings, options};
  ReadTop(top, context, config);
  ReadPeers(top, context, config);
  ReadRuns(top, context, config);
}

// Reads at most kFileBytesMax + 1 bytes; an error number otherwise.
int ReadBounded(int descriptor, std::string* text) {
  text->resize(kFileBytesMax + 1);
  size_t size = 0;
  while (size < text->size()) {
    const ssize_t n = read(descriptor, text->data() + size, text->size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  text->resize(size);
  return 0;
}

}  // namespace

std::string ParseResult::ErrorText() const { return Format(file, errors, ""); }
std::string ParseResult::WarningText() const { return Format(file, warnings, "warning: "); }

ParseResult ParseText(std::string_view text, std::string_view name, const ParseOptions& options) {
  ParseResult result;
  result.file = std::string(name);
  Node root;
  if (!ReadDocument(text, &root, &result.errors)) return result;
  if (root.kind != Node::Kind::kMap) {
    const bool empty = root.kind == Node::Kind::kNull;
    result.errors.push_back(
        {root.position.line, root.position.column, "",
         empty ? "the file is empty"
               : absl::StrCat("expected a map of keys at the top, not ", Describe(root))});
    return result;
  }
  Findings findings;
  Config config;
  ReadConfig(root, options, findings, &config);
  result.errors = std::move(findings.errors());
  result.warnings = std::move(findings.warnings());
  Sort(result.errors);
  Sort(result.warnings);
  if (result.errors.empty()) result.config = std::move(config);
  return result;
}

ParseResult Parse(const std::string& path, const ParseOptions& options) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return Failure(path, errno, Unopened(errno));
  std::string text;
  struct stat info;
  int error = fstat(descriptor, &info) == 0 ? 0 : errno;
  const bool directory = error == 0 && S_ISDIR(info.st_mode);
  if (error == 0 && !directory) error = ReadBounded(descriptor, &text);
  close(descriptor);
  if (directory) return Failure(path, EISDIR, "is a directory, not a file");
  if (error != 0) return Failure(path, error, strerror(error));
  if (text.size() > kFileBytesMax) {
    return Failure(path, EFBIG, absl::StrCat("larger than ", kFileBytesMax, " bytes"));
  }
  return ParseText(text, path, options);
}

std::vector<std::string> KnownKeys() {
  std::vector<std::string> paths;
  for (const Key& key : Keys()) {
    const std::string section(key.section);
    paths.push_back(section.empty() ? std::string(key.name)
                                    : absl::StrCat(section, ".", std::string(key.name)));
  }
  return paths;
}

}  // namespace causeway::config
