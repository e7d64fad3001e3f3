"""The two gateways: certificates, configurations, processes, what they say of themselves."""
import json
import os
import subprocess
import time

import plan
from errors import DemoError, tail

DOMAIN = "demo.causeway.internal"
PORT = 7443
READY_TIMEOUT_S = 30
POLL_S = 0.1


class Gateway:
    """One running causewayd."""

    def __init__(self, cluster, directory, log, process, command):
        self.cluster, self.directory, self.log = cluster, directory, log
        self.process, self.command = process, command
        self.trainer_socket = os.path.join(directory, "trainer.sock")
        self._query = None
        self._status = {}

    def check(self):
        if self.process.poll() is not None:
            raise DemoError(f"the gateway of {self.cluster} ended with {self.process.returncode}:\n"
                            f"{tail(self.log)}")

    def _status_command(self):
        return [self.command, "status", "--json", "--socket", os.path.join(self.directory, "admin.sock")]

    def answers(self):
        return subprocess.run(self._status_command(), capture_output=True).returncode == 0

    def status(self):
        """The newest known status; asks again in the background. {} until the first answer."""
        if self._query and self._query.poll() is not None:
            output = self._query.communicate()[0]
            if self._query.returncode == 0:
                self._status = json.loads(output)
            self._query = None
        if not self._query:
            self._query = subprocess.Popen(self._status_command(), stdout=subprocess.PIPE,
                                           stderr=subprocess.DEVNULL)
        return self._status

    def awaited(self, run):
        """Clusters that a run waits for, as this gateway sees it."""
        for entry in self._status.get("runs", []):
            if entry.get("name") == run:
                return entry.get("awaited", [])
        return []


def _command(*words):
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode != 0:
        raise DemoError(f"{' '.join(words)}:\n{result.stderr.strip() or result.stdout.strip()}")


def start(link, build, directory, logs, preset):
    """Certificates, configurations, daemons; returns {cluster: Gateway} once both answer."""
    pki = os.path.join(directory, "pki")
    _command(build.command, "pki", "init", "--domain", DOMAIN, "--directory", pki)
    addresses = {cluster: link.address(cluster) for cluster in plan.CLUSTERS}
    gateways = {}
    for cluster in plan.CLUSTERS:
        own = os.path.join(directory, cluster)
        os.makedirs(os.path.join(own, "state"), mode=0o700)
        _command(build.command, "pki", "issue", cluster, "--directory", pki, "--out", own)
        configuration = os.path.join(logs, f"{cluster}.yaml")
        with open(configuration, "w") as file:
            file.write(plan.configuration(cluster, DOMAIN, addresses, PORT, own, own, preset))
        _command(build.command, "check-config", configuration)
        log = os.path.join(logs, f"gateway-{cluster}.log")
        with open(log, "w") as file:
            process = link.spawn(cluster, [build.daemon, "--config", configuration], stdout=file,
                                 stderr=subprocess.STDOUT)
        gateways[cluster] = Gateway(cluster, own, log, process, build.command)
    deadline = time.monotonic() + READY_TIMEOUT_S
    for gateway in gateways.values():
        while not gateway.answers():
            gateway.check()
            if time.monotonic() > deadline:
                raise DemoError(f"the gateway of {gateway.cluster} does not answer:\n{tail(gateway.log)}")
            time.sleep(POLL_S)
    return gateways
