"""The demo's one kind of expected failure."""


class DemoError(Exception):
    """Something the demo needs is missing or ended; the text says what and what to do."""


def tail(path, lines=15):
    """The last lines of a log, indented, to follow an error's text."""
    try:
        with open(path, errors="replace") as file:
            last = file.read().splitlines()[-lines:]
    except OSError as error:
        return f"  (no log: {error})"
    return "\n".join("  | " + line for line in last) or "  (its log is empty)"
