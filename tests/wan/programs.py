"""Causeway's built programs, and the failure that whoever runs them reports."""
import glob
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Failure(Exception):
    """Something that was needed is missing or ended; the text says what and what to do."""


def tail(path, lines=15):
    """The last lines of a log, marked, to follow an error's text."""
    try:
        with open(path, errors="replace") as file:
            last = file.read().splitlines()[-lines:]
    except OSError as error:
        return f"  (no log: {error})"
    return "\n".join("  | " + line for line in last) or "  (its log is empty)"


class Programs:
    """Paths in a build directory, and of the sources that it was built from."""

    def __init__(self, directory, source=ROOT):
        self.directory, self.source = os.path.abspath(directory), source
        self.daemon = self.find("bin/causewayd")
        self.command = self.find("daemon/cli/causeway")
        self.library = self.find("client/libcauseway.so")

    @property
    def emulator(self):
        return self.find("tests/wan/emulator/wan_emulator")

    def find(self, path):
        full = os.path.join(self.directory, path)
        if not os.path.exists(full):
            raise Failure(f"{full} is not built: cmake --preset dev && cmake --build --preset dev")
        return full

    def trainer_environment(self):
        """For a Python program that imports causeway from the source tree."""
        return {**os.environ, "CAUSEWAY_LIBRARY": self.library, "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": os.path.join(self.source, "client", "python")}


def newest():
    """The programs of $CAUSEWAY_BUILD, or of the build directory with the newest daemon."""
    if os.environ.get("CAUSEWAY_BUILD"):
        return Programs(os.environ["CAUSEWAY_BUILD"])
    found = glob.glob(os.path.join(ROOT, "build", "*", "bin", "causewayd"))
    if not found:
        raise Failure("causewayd is not built: cmake --preset dev && cmake --build --preset dev")
    return Programs(os.path.dirname(os.path.dirname(max(found, key=os.path.getmtime))))
