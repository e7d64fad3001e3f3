// Chain hashes: what names a committed value. chain(r) covers chain(r-1) and the whole commit
// record, so equal chains mean equal histories and equal bytes. daemon/ROUNDS.md gives the byte
// layout.
#ifndef CAUSEWAY_DAEMON_ENGINE_CHAIN_H_
#define CAUSEWAY_DAEMON_ENGINE_CHAIN_H_

#include "daemon/engine/config.h"
#include "daemon/engine/ids.h"
#include "daemon/engine/record.h"

namespace causeway::engine {

// Of the seeded value of a fragment (round 0), from the hash of the founding parameters.
Hash256 SeedChain(const Config& config, const Hash256& parameters, FragmentId fragment);

// Of the state that `record` makes; reads everything in it but `state.chain`.
Hash256 CommitChain(const Config& config, const CommitRecord& record);

}  // namespace causeway::engine

#endif  // CAUSEWAY_DAEMON_ENGINE_CHAIN_H_
