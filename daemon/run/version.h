// The release, as the build names it.
#ifndef CAUSEWAY_DAEMON_RUN_VERSION_H_
#define CAUSEWAY_DAEMON_RUN_VERSION_H_

namespace causeway::run {

inline constexpr char kVersion[] = CAUSEWAY_VERSION;

}  // namespace causeway::run

#endif  // CAUSEWAY_DAEMON_RUN_VERSION_H_
