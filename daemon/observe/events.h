// Stable ids of log events: operators match on them, so an id is never renamed or reused.
#pragma once

#include <string_view>

namespace causeway::observe::event {

inline constexpr std::string_view kDaemonStarting = "daemon.starting";
inline constexpr std::string_view kGpu = "daemon.gpu";
inline constexpr std::string_view kGpuFailed = "daemon.gpu-failed";
inline constexpr std::string_view kDaemonReady = "daemon.ready";
inline constexpr std::string_view kDaemonDraining = "daemon.draining";
inline constexpr std::string_view kDaemonStopped = "daemon.stopped";
inline constexpr std::string_view kDaemonFailed = "daemon.failed";
inline constexpr std::string_view kLogSuppressed = "log.suppressed";
inline constexpr std::string_view kConfigWarning = "config.warning";
inline constexpr std::string_view kConfigReloaded = "config.reloaded";
inline constexpr std::string_view kConfigRefused = "config.refused";
inline constexpr std::string_view kWatchdogStalled = "watchdog.stalled";
inline constexpr std::string_view kCertificateExpires = "tls.certificate-expires";
inline constexpr std::string_view kHandshakeRejected = "tls.handshake-rejected";
inline constexpr std::string_view kPeerUp = "peer.up";
inline constexpr std::string_view kPeerDown = "peer.down";
inline constexpr std::string_view kPeerRelinked = "peer.relinked";
inline constexpr std::string_view kLaneBroken = "peer.lane-broken";
inline constexpr std::string_view kPeerRefused = "peer.refused";
inline constexpr std::string_view kTrainerAttached = "trainer.attached";
inline constexpr std::string_view kTrainerDevice = "trainer.device";
inline constexpr std::string_view kTrainerGone = "trainer.gone";
inline constexpr std::string_view kTrainerRefused = "trainer.refused";
inline constexpr std::string_view kRunFormed = "run.formed";
inline constexpr std::string_view kRunGrows = "run.grows";
inline constexpr std::string_view kRunForeign = "run.foreign";
inline constexpr std::string_view kRunStalled = "run.stalled";
inline constexpr std::string_view kRunFailed = "run.failed";
inline constexpr std::string_view kRunFinished = "run.finished";
inline constexpr std::string_view kRunForgotten = "run.forgotten";
inline constexpr std::string_view kRunRecordFailed = "run.record-failed";
inline constexpr std::string_view kRunResidualLost = "run.residual-lost";
inline constexpr std::string_view kEpochInstalled = "run.epoch-installed";
inline constexpr std::string_view kPlan = "run.plan";
inline constexpr std::string_view kRoundCommitted = "round.committed";
inline constexpr std::string_view kStateFetched = "state.fetched";
inline constexpr std::string_view kCheckpointFailed = "state.checkpoint-failed";
inline constexpr std::string_view kCheckpointWritten = "state.checkpoint-written";
inline constexpr std::string_view kCheckpointLoaded = "state.checkpoint-loaded";
inline constexpr std::string_view kCheckpointRefused = "state.checkpoint-refused";
inline constexpr std::string_view kRunRolledBack = "run.rolled-back";
inline constexpr std::string_view kRunOperator = "run.operator";

}  // namespace causeway::observe::event
