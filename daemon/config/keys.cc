#include "daemon/config/keys.h"

namespace causeway::config {

const std::vector<Key>& Keys() {
  static const std::vector<Key>* const keys = new std::vector<Key>{
      {"", "cluster", true},
      {"", "domain", false},
      {"", "listen", false},
      {"", "tls", true},
      {"tls", "certificate", true},
      {"tls", "key", true},
      {"tls", "authority", true},
      {"tls", "deny", false},
      {"", "peers", false},
      {"peers[]", "cluster", true},
      {"peers[]", "address", false},
      {"peers[]", "relay", false},
      {"peers[]", "rate_limit", false},
      {"", "advertise", false},
      {"", "relay", false},
      {"", "trainers", false},
      {"trainers", "socket", false},
      {"trainers", "group", false},
      {"trainers", "mode", false},
      {"", "peer_timeout", false},
      {"", "lanes", false},
      {"", "workers", false},
      {"", "gpu", false},
      {"", "memory", false},
      {"", "checkpoint", false},
      {"checkpoint", "rounds", false},
      {"checkpoint", "interval", false},
      {"checkpoint", "snapshots", false},
      {"", "runs", false},
      {"runs[]", "name", true},
      {"runs[]", "clusters", true},
      {"runs[]", "seed", false},
      {"runs[]", "primary", false},
      {"runs[]", "wait_timeout", false},
      {"runs[]", "stragglers", false},
      {"runs[].stragglers", "policy", true},
      {"runs[].stragglers", "grace", false},
      {"runs[]", "algorithm", true},
      {"runs[].algorithm", "rule", true},
      {"runs[].algorithm", "learning_rate", false},
      {"runs[].algorithm", "momentum", false},
      {"runs[].algorithm", "final_learning_rate", false},
      {"runs[].algorithm", "schedule_rounds", false},
      {"runs[].algorithm", "clip", false},
      {"runs[].algorithm", "penalty", false},
      {"runs[].algorithm", "penalty_window", false},
      {"runs[].algorithm", "local_steps", false},
      {"runs[].algorithm", "normalise", false},
      {"runs[].algorithm", "fragments", false},
      {"runs[].algorithm", "delay", false},
      {"runs[].algorithm", "mix", false},
      {"runs[].algorithm", "mean", false},
      {"runs[]", "codec", false},
      {"runs[].codec", "kind", true},
      {"runs[].codec", "error_feedback", false},
      {"runs[].codec", "residual", false},
      {"runs[].codec", "min", false},
      {"runs[].codec", "max", false},
      {"runs[]", "route", false},
      {"", "metrics", false},
      {"metrics", "listen", true},
      {"", "admin", false},
      {"admin", "socket", false},
      {"admin", "group", false},
      {"", "log", false},
      {"log", "level", false},
      {"log", "format", false},
      {"", "state_directory", false},
  };
  return *keys;
}

std::vector<std::string> KeysOf(std::string_view section) {
  std::vector<std::string> names;
  for (const Key& key : Keys()) {
    if (key.section == section) names.emplace_back(key.name);
  }
  return names;
}

}  // namespace causeway::config
