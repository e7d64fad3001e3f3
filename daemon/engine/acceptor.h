// This gateway's own word: what it promises, which record it accepts, when that is INSTALLED
// (ROUNDS.md, Change of membership).
//
// Confined to the engine. Never begins a change of membership; candidate.h does.
#ifndef CAUSEWAY_DAEMON_ENGINE_ACCEPTOR_H_
#define CAUSEWAY_DAEMON_ENGINE_ACCEPTOR_H_

#include "daemon/engine/context.h"
#include "daemon/engine/ledger.h"
#include "daemon/engine/rounds.h"

namespace causeway::engine {

class Acceptor {
 public:
  Acceptor(Context& context, Rounds& rounds) : context_(context), rounds_(rounds) {}

  // Durably from `token` on; volatile at once, so nothing below `epoch` is done any more.
  uint64_t GivePromise(const Epoch& epoch, bool founding);
  // The record must be newer than what is accepted and not below the promise.
  uint64_t AcceptRecord(const Record& record);
  // All members of the accepted record have accepted it.
  void MarkInstalled();

  void OnPrepare(ClusterId from, const Header& header, const Prepare& body);
  void OnInstall(ClusterId from, const Install& body);
  void OnInstalled(const Header& header);
  // Somebody is active in an epoch that outdates what was reported under a promise.
  void OnReport(const Report& report);

  Report MakeReport() const;
  bool WantsJoin() const;

 private:
  Context& context_;
  Rounds& rounds_;
  bool first_record_ = false;
};

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_ACCEPTOR_H_
