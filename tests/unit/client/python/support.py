"""A fake gateway for a test, clusters as threads of it, and what tests share."""

import os
import shutil
import subprocess
import tempfile
import threading
import traceback


class Gateway:
    """One process that speaks for the gateways of all named clusters; driven by lines."""

    def __init__(self, *options):
        self.directory = tempfile.mkdtemp(prefix="causeway-python-")
        self._process = subprocess.Popen([os.environ["CAUSEWAY_FAKE_GATEWAY"], self.directory, *options],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "ready\n"

    def socket(self, cluster="paris"):
        return os.path.join(self.directory, cluster + ".sock")

    def tell(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def count(self, message_type):
        """Messages of a type that the first cluster's trainer sent."""
        return int(self.tell(f"count {message_type}"))

    def expect(self, message_type, count):
        """Whether that many messages came, or come soon: those without an answer may be on their way."""
        return self.tell(f"expect {message_type} {count}") == "done"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)
        shutil.rmtree(self.directory, ignore_errors=True)


HELLO, JOIN, OFFER, SUBMIT, APPLIED, QUERY, FINISH, LEAVE = 1, 3, 5, 7, 10, 12, 15, 17


def together(*functions):
    """Runs functions in threads; their results, or the first one's exception."""
    results = [None] * len(functions)
    problems = []

    def run(index):
        try:
            results[index] = functions[index]()
        except BaseException as problem:  # handed to the test's thread
            traceback.print_exc()
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=90)
    if problems:
        raise problems[0]
    assert not any(thread.is_alive() for thread in threads), "a cluster hangs"
    return results
