// Reloading (SIGHUP): certificates, the deny list and which peers are let in change while links
// live; everything else needs a restart, and the log says so. A file with an error changes nothing.
// And the judging of peers that were let in before: once a second, so that a certificate's end and
// a denial reach live links.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/config/parse.h"
#include "daemon/observe/events.h"
#include "daemon/run/daemon.h"

namespace causeway::run {
namespace {

namespace event = observe::event;

// Top-level keys whose new values take effect at the next start; tests/unit/tree checks that each
// is looked at.
std::vector<std::string> NeedRestart(const config::Config& now, const config::Config& fresh) {
  std::vector<std::string> keys;
  const auto compare = [&](const char* key, bool same) {
    if (!same) keys.emplace_back(key);
  };
  compare("cluster", now.cluster == fresh.cluster);
  compare("domain", now.domain == fresh.domain);
  compare("listen", now.listen == fresh.listen);
  compare("advertise", now.advertise == fresh.advertise);
  compare("tls", now.tls.certificate == fresh.tls.certificate && now.tls.key == fresh.tls.key &&
                     now.tls.authority == fresh.tls.authority);
  // A peer that is gone is refused from now on; one that is new or reached otherwise must wait.
  compare("peers", std::all_of(fresh.peers.begin(), fresh.peers.end(), [&](const config::Peer& p) {
            return std::find(now.peers.begin(), now.peers.end(), p) != now.peers.end();
          }));
  compare("relay", now.relay == fresh.relay);
  compare("trainers", now.trainers == fresh.trainers);
  compare("peer_timeout", now.peer_timeout_ms == fresh.peer_timeout_ms);
  compare("lanes", now.lanes == fresh.lanes);
  compare("workers", now.workers == fresh.workers);
  compare("gpu", now.gpu == fresh.gpu);
  compare("memory", now.memory_bytes == fresh.memory_bytes);
  compare("checkpoint", now.checkpoint == fresh.checkpoint);
  compare("runs", now.runs == fresh.runs);
  compare("metrics", now.metrics_listen == fresh.metrics_listen);
  compare("admin", now.admin_socket == fresh.admin_socket && now.admin_group == fresh.admin_group);
  compare("log", now.log_level == fresh.log_level && now.log_format == fresh.log_format);
  compare("state_directory", now.state_directory == fresh.state_directory);
  return keys;
}

}  // namespace

absl::Status Daemon::Reload() {
  const config::ParseResult parsed = config::Parse(config_path_);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(std::string(absl::StripAsciiWhitespace(parsed.ErrorText())));
  }
  if (absl::Status read = credentials_->Reload(); !read.ok()) return read;
  security::DenyList deny;
  deny.spki_sha256.insert(parsed.config->tls.denied_spki_sha256.begin(),
                          parsed.config->tls.denied_spki_sha256.end());
  if (absl::Status denied = credentials_->SetDenyList(std::move(deny)); !denied.ok()) return denied;
  std::vector<std::string> peers;
  for (const config::Peer& peer : parsed.config->peers) peers.push_back(peer.cluster);
  credentials_->SetPeers(std::move(peers));
  metrics_.certificate_not_after.With({"gateway"})
      .Set(static_cast<double>(credentials_->certificate().not_after_s));
  for (const std::string& warning : credentials_->Warnings()) {
    log_->Warning(event::kCertificateExpires, {}, warning);
  }
  JudgePeers();
  if (std::vector<std::string> later = NeedRestart(config_, *parsed.config); !later.empty()) {
    log_->Warning(event::kConfigWarning, {{"keys", absl::StrJoin(later, " ")}},
                  "changed in the file, but take effect at the next start only");
  }
  return absl::OkStatus();
}

void Daemon::OnReloadSignal() {
  notifier_.Reloading();
  const absl::Status reloaded = Reload();
  metrics_.last_reload_ok.With({}).Set(reloaded.ok() ? 1 : 0);
  if (reloaded.ok()) {
    log_->Info(event::kConfigReloaded, {{"file", config_path_}},
               "certificates, deny list and peers are those of the files now");
  } else {
    log_->Error(event::kConfigRefused, {{"file", config_path_}},
                absl::StrCat("nothing was changed: ", std::string(reloaded.message())));
  }
  notifier_.Ready(StatusLine());
}

void Daemon::JudgePeers() {
  std::vector<std::pair<std::string, absl::Status>> refused;
  {
    absl::MutexLock lock(&certificates_mutex_);
    for (auto peer = authenticated_.begin(); peer != authenticated_.end();) {
      const absl::Status allowed = credentials_->CheckStillAllowed(peer->second);
      if (!allowed.ok()) refused.emplace_back(peer->first, allowed);
      peer = allowed.ok() ? std::next(peer) : authenticated_.erase(peer);
    }
  }
  for (const auto& [peer, reason] : refused) {
    transport_->Disconnect(peer, reason, absl::Milliseconds(config_.peer_timeout_ms));
  }
}

}  // namespace causeway::run
