"""A process at one site of the emulated link, told by lines on its standard input; it answers in JSON, a line each."""
import json
import subprocess

import programs


class Worker:
    def __init__(self, link, site, command, environment=None):
        self.site = site
        self.process = link.spawn(site, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=environment)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise programs.Failure(f"the process of {self.site} ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, line):
        self.tell(line)
        return self.answer()

    def end(self, patience_s=60):
        """Ends its input and reads what is still on its way; a failure where it ends with one."""
        self.process.stdin.close()
        while self.process.stdout.readline():
            pass
        if self.process.wait(timeout=patience_s) != 0:
            raise programs.Failure(f"the process of {self.site} ended with {self.process.returncode}")
