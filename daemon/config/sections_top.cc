// The daemon's own keys: who it is, where it listens, its limits, sockets and files.
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/config/files.h"
#include "daemon/config/scalars.h"
#include "daemon/config/sections.h"
#include "security/identity.h"

namespace causeway::config {
namespace {

constexpr size_t kSpkiHexBytes = 64;

void Report(MapReader& reader, std::string_view key, const absl::Status& status) {
  if (!status.ok()) reader.Error(key, std::string(status.message()));
}

// Reports only what the file says; what is absent has a default that systemd's units provide.
void CheckNamedFile(MapReader& reader, std::string_view key, const Context& context,
                    const std::string& path, absl::Status (*check)(const std::string&)) {
  if (context.options.check_files && !path.empty()) Report(reader, key, check(path));
}

void ReadDenied(MapReader& reader, const Context& context, Tls* tls) {
  if (!reader.Has("deny")) {
    reader.Take("deny");
    return;
  }
  std::vector<Place> places;
  reader.Strings("deny", kDeniedKeysMax, &tls->denied_spki_sha256, &places);
  for (size_t i = 0; i < tls->denied_spki_sha256.size(); ++i) {
    std::string& hash = tls->denied_spki_sha256[i];
    hash = absl::AsciiStrToLower(hash);
    const bool hex = hash.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!hex || hash.size() != kSpkiHexBytes) {
      context.findings.Error(places[i].position, places[i].key,
                             "expected the SHA-256 of a public key: 64 hexadecimal digits, as "
                             "`causeway pki show` prints");
    }
  }
}

void ReadTls(MapReader& top, const Context& context, Tls* tls) {
  const Node* node = top.TakeMap("tls");
  if (node == nullptr) return;
  MapReader reader(*node, "tls", "tls", context.findings);
  ReadPath(reader, "certificate", &tls->certificate);
  ReadPath(reader, "key", &tls->key);
  ReadPath(reader, "authority", &tls->authority);
  ReadDenied(reader, context, tls);
  CheckNamedFile(reader, "certificate", context, tls->certificate, CheckReadableFile);
  CheckNamedFile(reader, "key", context, tls->key, CheckKeyFile);
  CheckNamedFile(reader, "authority", context, tls->authority, CheckReadableFile);
}

void CheckSocket(MapReader& reader, const Context& context, const std::string& path) {
  Report(reader, "socket", CheckSocketPath(path));
  if (!context.options.check_files || !reader.Has("socket")) return;
  const absl::Status parent = CheckParentDirectory(path);
  if (!parent.ok()) {
    reader.Warning("socket", absl::StrCat(parent.message(),
                                          "; the daemon cannot make its socket without it (the "
                                          "systemd unit makes /run/causeway)"));
  }
}

void ReadTrainers(MapReader& top, const Context& context, Trainers* trainers) {
  const Node* node = top.TakeMap("trainers");
  MapReader reader(node == nullptr ? EmptyMap() : *node, "trainers", "trainers", context.findings);
  ReadPath(reader, "socket", &trainers->socket);
  reader.String("group", &trainers->group);
  reader.Mode("mode", &trainers->mode);
  CheckSocket(reader, context, trainers->socket);
  CheckNamedFile(reader, "group", context, trainers->group, CheckGroup);
  if ((trainers->mode & 0006) != 0) {
    reader.Warning(
        "mode",
        "every user of this machine can submit to runs and read their values; 0660 with a "
        "group is the usual choice");
  }
}

void ReadAdmin(MapReader& top, const Context& context, Config* config) {
  const Node* node = top.TakeMap("admin");
  MapReader reader(node == nullptr ? EmptyMap() : *node, "admin", "admin", context.findings);
  ReadPath(reader, "socket", &config->admin_socket);
  reader.String("group", &config->admin_group);
  CheckSocket(reader, context, config->admin_socket);
  CheckNamedFile(reader, "group", context, config->admin_group, CheckGroup);
  if (config->admin_socket == config->trainers.socket) {
    const bool here = reader.Has("socket");
    const Place place = here ? reader.PlaceOf("socket") : top.PlaceOf("trainers");
    context.findings.Error(place.position, "admin.socket",
                           "is the trainers' socket, too; each needs a path of its own");
  }
}

void ReadMetrics(MapReader& top, const Context& context, Config* config) {
  const Node* node = top.TakeMap("metrics");
  if (node == nullptr) return;
  MapReader reader(*node, "metrics", "metrics", context.findings);
  reader.String("listen", &config->metrics_listen);
  if (config->metrics_listen.empty()) return;
  Report(reader, "listen", ParseListenAddress(config->metrics_listen).status());
}

void ReadLog(MapReader& top, const Context& context, Config* config) {
  const Node* node = top.TakeMap("log");
  MapReader reader(node == nullptr ? EmptyMap() : *node, "log", "log", context.findings);
  const std::vector<std::string> levels = {"debug", "info", "warning", "error"};
  const std::vector<std::string> formats = {"text", "json"};
  if (const int level = reader.Choice("level", levels); level >= 0) {
    config->log_level = levels[level];
  }
  if (const int format = reader.Choice("format", formats); format >= 0) {
    config->log_format = formats[format];
  }
}

void ReadNames(MapReader& top, const Context& context, Config* config) {
  top.String("cluster", &config->cluster);
  if (!config->cluster.empty() &&
      !CheckClusterName(top.PlaceOf("cluster"), config->cluster, context.findings)) {
    config->cluster.clear();  // so that references to it are not reported, too
  }
  top.String("domain", &config->domain);
  Report(top, "domain", security::ValidateDomain(config->domain));
  top.String("listen", &config->listen);
  Report(top, "listen", ParseListenAddress(config->listen).status());
}

void ReadLimits(MapReader& top, Config* config) {
  top.DurationMs("peer_timeout", kPeerTimeoutMsMin, kPeerTimeoutMsMax, &config->peer_timeout_ms);
  int64_t workers = config->workers;
  top.Integer("workers", 0, kWorkersMax, &workers);
  config->workers = static_cast<int>(workers);
  if (const int gpu = top.Choice("gpu", {"auto", "required", "off"}); gpu >= 0) {
    config->gpu = static_cast<Gpu>(gpu);
  }
  top.SizeBytes("memory", kMemoryBytesMin, kMemoryBytesMax, &config->memory_bytes);
}

void CheckMachine(MapReader& top, const Config& config) {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0 && config.memory_bytes > pages * page_bytes) {
    top.Warning("memory", absl::StrCat(FormatSizeBytes(config.memory_bytes),
                                       " is more than this machine has (",
                                       FormatSizeBytes(pages * page_bytes), ")"));
  }
}

}  // namespace

void ReadPath(MapReader& reader, std::string_view key, std::string* out) {
  std::string path;
  reader.String(key, &path);
  if (path.empty()) return;
  if (path.front() != '/') {
    reader.Error(key, absl::StrCat("'", path,
                                   "' is not an absolute path; the daemon's working directory is "
                                   "not where the file was written"));
    return;
  }
  *out = path;
}

std::vector<const Node*> ListItems(MapReader& top, std::string_view key, size_t count_max) {
  std::vector<const Node*> items;
  const Node* list = top.TakeList(key);
  if (list == nullptr) return items;
  if (list->items.size() > count_max) {
    top.Error(key,
              absl::StrCat(list->items.size(), " entries; at most ", count_max, " are supported"));
    return items;
  }
  for (const Node& item : list->items) items.push_back(&item);
  return items;
}

const Node* MapEntry(const Node& item, const std::string& path, Findings& findings) {
  if (item.kind == Node::Kind::kMap) return &item;
  findings.Error(item.position, path, absl::StrCat("expected a map of keys, not ", Describe(item)));
  return nullptr;
}

bool CheckClusterName(const Place& place, const std::string& name, Findings& findings) {
  const absl::Status status = security::ValidateClusterName(name);
  if (status.ok()) return true;
  findings.Error(place.position, place.key, std::string(status.message()));
  return false;
}

void ReadTop(MapReader& top, const Context& context, Config* config) {
  ReadNames(top, context, config);
  ReadTls(top, context, &config->tls);
  ReadTrainers(top, context, &config->trainers);
  ReadAdmin(top, context, config);
  ReadMetrics(top, context, config);
  ReadLog(top, context, config);
  ReadLimits(top, config);
  ReadCheckpoint(top, context, &config->checkpoint);
  ReadPath(top, "state_directory", &config->state_directory);
  if (!context.options.check_files) return;
  CheckMachine(top, *config);
  if (top.Has("state_directory")) {
    Report(top, "state_directory", CheckStateDirectory(config->state_directory));
  }
}

}  // namespace causeway::config
