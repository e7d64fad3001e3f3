"""One gateway (causewayd) at each site of an emulated link: certificates, configurations, processes, status."""
import json
import os
import subprocess
import time

from programs import Failure, tail

DOMAIN = "causeway.internal"
PORT = 7443
READY_TIMEOUT_S = 30
POLL_S = 0.1

CONFIGURATION = """# Gateway of {cluster}.
cluster: {cluster}
domain: {domain}
listen: "{listen}:{port}"
tls: {{certificate: {pki}/gateway.pem, key: {pki}/gateway.key, authority: {pki}/ca.pem}}
peers:
{peers}
trainers: {{socket: {directory}/trainer.sock}}
runs:
{runs}
admin: {{socket: {directory}/admin.sock}}
state_directory: {directory}/state
{settings}"""


def run_entry(name, clusters, algorithm, codec):
    """A run of the configuration; algorithm and codec as YAML flow maps."""
    return (f"  - name: {name}\n    clusters: [{', '.join(clusters)}]\n    algorithm: {algorithm}\n"
            f"    codec: {codec}")


def configuration(cluster, addresses, directory, pki, runs, settings):
    """A gateway's YAML. `addresses`: {cluster: IP}; `runs`: run_entry texts; `settings`: further lines."""
    peers = [f'  - {{cluster: {peer}, address: "{address}:{PORT}"}}'
             for peer, address in addresses.items() if peer != cluster]
    return CONFIGURATION.format(cluster=cluster, domain=DOMAIN, listen=addresses[cluster], port=PORT,
                                pki=pki, directory=directory, peers="\n".join(peers),
                                runs="\n".join(runs), settings=settings)


def _command(*words):
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failure(f"{' '.join(words)}:\n{result.stderr.strip() or result.stdout.strip()}")


class Gateway:
    """One running causewayd, which start() can start again after its end."""

    def __init__(self, link, programs, cluster, directory, configuration_path, log):
        self.link, self.programs, self.cluster = link, programs, cluster
        self.directory, self.configuration_path, self.log = directory, configuration_path, log
        self.trainer_socket = os.path.join(directory, "trainer.sock")
        self.process = None
        self._query = None
        self._status = {}

    def start(self):
        with open(self.log, "a") as file:
            self.process = self.link.spawn(
                self.cluster, [self.programs.daemon, "--config", self.configuration_path], stdout=file,
                stderr=subprocess.STDOUT)

    def wait_ready(self):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self.answers():
            self.check()
            if time.monotonic() > deadline:
                raise Failure(f"the gateway of {self.cluster} does not answer:\n{tail(self.log)}")
            time.sleep(POLL_S)

    def check(self):
        """Raises Failure with the end of the log if the daemon has ended."""
        if self.process.poll() is not None:
            raise Failure(f"the gateway of {self.cluster} ended with {self.process.returncode}:\n"
                          f"{tail(self.log)}")

    def _status_command(self):
        return [self.programs.command, "status", "--json", "--socket",
                os.path.join(self.directory, "admin.sock")]

    def answers(self):
        return subprocess.run(self._status_command(), capture_output=True).returncode == 0

    def status_now(self):
        """The answer of `causeway status --json`."""
        result = subprocess.run(self._status_command(), capture_output=True, text=True)
        if result.returncode != 0:
            raise Failure(f"causeway status at {self.cluster}: {result.stderr.strip()}")
        return json.loads(result.stdout)

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
        """Clusters that a run waits for, as the newest known status says."""
        for entry in self._status.get("runs", []):
            if entry.get("name") == run:
                return entry.get("awaited", [])
        return []


def start(link, programs, directory, logs, runs, settings="", others=None):
    """An authority, and at each site a certificate, a configuration and a daemon.

    `runs` are run_entry texts; `others`: {cluster: Programs} where not all run the same ones. Returns
    {cluster: Gateway} once all answer.
    """
    pki = os.path.join(directory, "pki")
    _command(programs.command, "pki", "init", "--domain", DOMAIN, "--directory", pki)
    addresses = {cluster: link.address(cluster) for cluster in link.sites}
    gateways = {}
    for cluster in link.sites:
        own = os.path.join(directory, cluster)
        os.makedirs(os.path.join(own, "state"), mode=0o700)
        _command(programs.command, "pki", "issue", cluster, "--directory", pki, "--out", own)
        path = os.path.join(logs, f"{cluster}.yaml")
        with open(path, "w") as file:
            file.write(configuration(cluster, addresses, own, own, runs, settings))
        own_programs = (others or {}).get(cluster, programs)
        _command(own_programs.command, "check-config", path)
        gateways[cluster] = Gateway(link, own_programs, cluster, own, path,
                                    os.path.join(logs, f"gateway-{cluster}.log"))
        gateways[cluster].start()
    for gateway in gateways.values():
        gateway.wait_ready()
    return gateways
