"""Before the demo proper: packages and the build."""
import os
import subprocess
import sys
import time

from programs import Failure, Programs, tail

GROUPS = ("build", "link", "demo")
PRESET = "release"


def prepare(root, build_directory=None):
    """Installs what is missing and builds; returns the Programs."""
    install = subprocess.run([os.path.join(root, "tests", "install-packages"), *GROUPS])
    if install.returncode != 0:
        raise Failure("packages are missing (see above)")
    if build_directory:
        return Programs(build_directory)
    begin = time.monotonic()
    print("building (a few minutes the first time) ...", flush=True)
    log = os.path.join(root, "build", "demo-build.log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "w") as file:
        for command in (["cmake", "--preset", PRESET], ["cmake", "--build", "--preset", PRESET]):
            _build(command, root, file, log)
    if sys.stdout.isatty():
        print("\r\033[K", end="")
    print(f"built in {time.monotonic() - begin:.0f} s")
    return Programs(os.path.join(root, "build", PRESET))


def _build(command, root, file, log):
    """Runs one build command; on a terminal its latest line is shown."""
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
    for line in process.stdout:
        file.write(line)
        if sys.stdout.isatty() and line.startswith("["):
            print(f"\r\033[K{line.strip()[:78]}", end="", flush=True)
    if process.wait() != 0:
        file.flush()
        raise Failure(f"the build failed:\n{tail(log, 25)}")
