// The socket in the file system: modes, groups, stale files, files in the way, other users.
#include "daemon/trainers/socket.h"

#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/trainers/harness.h"

namespace causeway::trainers {
namespace {

using testing::AddressOf;
using testing::Folder;
using testing::Harness;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

loop::Descriptor BindOnly(const std::string& path, int type) {
  loop::Descriptor bound(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  const sockaddr_un address = AddressOf(path);
  REQUIRE(bind(bound.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  return bound;
}

TEST_CASE("mode and group are as configured") {
  Folder folder;
  const mode_t mask = umask(0077);  // must not narrow or widen them
  const group* some_group = getgrgid(getgid());
  REQUIRE(some_group != nullptr);
  auto listening = ListenAt(folder.Socket(), some_group->gr_name, 0660);
  umask(mask);
  REQUIRE(listening.ok());
  struct stat file {};
  REQUIRE(stat(folder.Socket().c_str(), &file) == 0);
  CHECK((file.st_mode & 07777) == 0660);
  CHECK(file.st_gid == getgid());
}

TEST_CASE("a stale socket is replaced") {
  Folder folder;
  BindOnly(folder.Socket(), SOCK_SEQPACKET).Reset();
  CHECK(access(folder.Socket().c_str(), F_OK) == 0);
  CHECK(ListenAt(folder.Socket(), "", 0600).ok());
}

TEST_CASE("a socket at which somebody answers is left alone") {
  const int type = GENERATE(SOCK_SEQPACKET, SOCK_STREAM);
  Folder folder;
  const loop::Descriptor other = BindOnly(folder.Socket(), type);
  REQUIRE(listen(other.get(), 1) == 0);
  const auto refused = ListenAt(folder.Socket(), "", 0600);
  CHECK(absl::IsAlreadyExists(refused.status()));
  CHECK(Text(refused.status()).find("another process answers") != std::string::npos);
  CHECK(access(folder.Socket().c_str(), F_OK) == 0);
}

TEST_CASE("what is no socket is left alone") {
  Folder folder;
  const int kind = GENERATE(0, 1, 2);
  if (kind == 0) {
    close(open(folder.Socket().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  } else if (kind == 1) {
    REQUIRE(mkdir(folder.Socket().c_str(), 0700) == 0);
  } else {
    REQUIRE(symlink("/etc/passwd", folder.Socket().c_str()) == 0);
  }
  const auto refused = ListenAt(folder.Socket(), "", 0600);
  CHECK(absl::IsFailedPrecondition(refused.status()));
  CHECK(Text(refused.status()).find("no socket") != std::string::npos);
  struct stat file {};
  CHECK(lstat(folder.Socket().c_str(), &file) == 0);
  if (kind == 1) rmdir(folder.Socket().c_str());
}

TEST_CASE("bad paths and groups say what to mend") {
  Folder folder;
  CHECK(absl::IsNotFound(ListenAt(folder.path() + "/no/t.sock", "", 0600).status()));
  CHECK(Text(ListenAt(folder.path() + "/no/t.sock", "", 0600).status()).find("does not exist") !=
        std::string::npos);
  CHECK(absl::IsInvalidArgument(ListenAt(std::string(200, 'x'), "", 0600).status()));
  CHECK(absl::IsInvalidArgument(ListenAt("", "", 0600).status()));
  const auto group = ListenAt(folder.Socket(), "no-such-group", 0600);
  CHECK(absl::IsNotFound(group.status()));
  CHECK(Text(group.status()).find("no-such-group") != std::string::npos);
  CHECK(access(folder.Socket().c_str(), F_OK) == -1);
}

TEST_CASE("another user is kept out by the mode") {
  if (geteuid() != 0) {
    WARN("not root: cannot become another user");
    return;
  }
  for (const auto& [mode, let_in] : {std::pair<uint32_t, bool>{0660, false}, {0666, true}}) {
    Harness harness([mode = mode](Config& config) { config.mode = mode; });
    const sockaddr_un address = AddressOf(harness.path());
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {  // system calls only
      if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(3);
      const int number = socket(AF_UNIX, SOCK_SEQPACKET, 0);
      const int result =
          connect(number, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
      _exit(result == 0 ? 0 : errno == EACCES ? 1 : 2);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == (let_in ? 0 : 1));
  }
}

TEST_CASE("stopping removes the socket, but not one that has taken its place") {
  Folder folder;
  testing::Recorder recorder;
  auto loop = *loop::Loop::Create();
  Config config;
  config.socket_path = folder.Socket();
  {
    auto service = TrainerService::Create(*loop, config, recorder);
    REQUIRE(service.ok());
    CHECK(access(folder.Socket().c_str(), F_OK) == 0);
  }
  CHECK(access(folder.Socket().c_str(), F_OK) == -1);
  loop::Descriptor replacement;
  {
    auto service = TrainerService::Create(*loop, config, recorder);
    REQUIRE(service.ok());
    REQUIRE(unlink(folder.Socket().c_str()) == 0);
    replacement = BindOnly(folder.Socket(), SOCK_SEQPACKET);
  }
  CHECK(access(folder.Socket().c_str(), F_OK) == 0);
}

TEST_CASE("only memfds are read, with exactly the size that was announced") {
  const std::vector<uint8_t> bytes = {1, 2, 3, 4};
  const loop::Descriptor memfd = testing::Memfd(bytes);
  CHECK(*ReadMemfd(memfd.get(), 4) == bytes);
  CHECK(!ReadMemfd(memfd.get(), 3).ok());
  CHECK(!ReadMemfd(memfd.get(), uint64_t{1} << 60).ok());  // refused before anything is allocated
  const loop::Descriptor zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  CHECK(!ReadMemfd(zero.get(), 4).ok());
  CHECK(!ReadMemfd(-1, 4).ok());
}

}  // namespace
}  // namespace causeway::trainers
