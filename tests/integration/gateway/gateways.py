"""Real gateways on loopback, paris and tokyo and more, for one test: certificates, configurations, processes.

Nothing here waits by sleeping for a fixed time: until() asks for a condition and fails loudly after a
patience that only a hanging daemon reaches. Every process is ended by its own pid, and whatever fails
prints the ends of the gateways' logs.
"""
import atexit
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

DAEMON = os.environ["CAUSEWAY_DAEMON"]
COMMAND = os.environ["CAUSEWAY_COMMAND"]
DOMAIN = "test.internal"
CLUSTERS = ("paris", "tokyo")
RUN = "demo"
PATIENCE_S = 60   # only reached when something hangs
POLL_S = 0.03     # between two looks at a condition
PEER_TIMEOUT_S = 2.0
PR_SET_PDEATHSIG = 1

AVERAGE = "{rule: average, local_steps: 5}"
INT4_EF = "{kind: int4, error_feedback: true}"
FP32 = "{kind: fp32}"

CONFIGURATION = """cluster: {cluster}
domain: {domain}
listen: "127.0.0.1:{port}"
tls: {{certificate: {pki}/gateway.pem, key: {pki}/gateway.key, authority: {pki}/ca.pem}}
peers:
{peers}
trainers: {{socket: {directory}/trainer.sock}}
peer_timeout: {peer_timeout_ms}ms
lanes: 2
workers: 2
memory: 512MiB
runs:
{runs}
admin: {{socket: {directory}/admin.sock}}
metrics: {{listen: "127.0.0.1:{metrics_port}"}}
log: {{level: debug, format: json}}
state_directory: {directory}/state
{settings}"""


def die_with_parent():
    """Between fork and exec: a test that is killed takes its daemons along."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


FIRST_PORT, LAST_PORT = 12000, 32000  # below those that the kernel gives to whoever dials
_next_port = FIRST_PORT + os.getpid() * 37 % (LAST_PORT - FIRST_PORT)


def free_ports(count):
    """Ports that nobody listens on; not given out twice by this process."""
    global _next_port
    ports = []
    while len(ports) < count:
        _next_port = _next_port + 1 if _next_port < LAST_PORT else FIRST_PORT
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", _next_port))
            except OSError:
                continue
        ports.append(_next_port)
    return ports


def until(condition, what, patience_s=PATIENCE_S):
    """The first true value of condition(); AssertionError naming `what` when it never comes."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s} s: {what}")
        time.sleep(POLL_S)


def command(*words, expect=0):
    """Runs `causeway WORDS`; its output. expect: the exit status, None for any."""
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=PATIENCE_S)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"causeway {' '.join(words)} ended with {done.returncode}, not {expect}:\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Authority:
    """A certificate authority in a directory of its own, with certificates by cluster."""

    def __init__(self, domain=DOMAIN):
        self.directory = tempfile.mkdtemp(prefix=f"causeway-pki-{os.getpid()}-")
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)
        command("pki", "init", "--domain", domain, "--directory", self.directory)

    def issue(self, cluster):
        out = os.path.join(self.directory, cluster)
        if not os.path.exists(out):
            command("pki", "issue", cluster, "--directory", self.directory, "--out", out)
        return out


_authorities = {}


def authority(name="ours"):
    """The process's authorities, made once each."""
    if name not in _authorities:
        _authorities[name] = Authority()
    return _authorities[name]


def run_entry(name=RUN, clusters=CLUSTERS, algorithm=AVERAGE, codec=INT4_EF, **more):
    lines = [f"  - name: {name}", f"    clusters: [{', '.join(clusters)}]",
             f"    algorithm: {algorithm}", f"    codec: {codec}"]
    lines += [f"    {key}: {value}" for key, value in more.items()]
    return "\n".join(lines)


class Gateway:
    """One causewayd: its files, and the process while it runs. start() may follow an end."""

    def __init__(self, cluster, directory, port, metrics_port, peers, runs, pki,
                 peer_timeout_s=PEER_TIMEOUT_S, settings=""):
        self.cluster, self.directory = cluster, directory
        self.state_directory = os.path.join(directory, "state")
        self.port, self.metrics_port = port, metrics_port
        self.log_path = os.path.join(directory, "log")
        self.trainer_socket = os.path.join(directory, "trainer.sock")
        self.admin_socket = os.path.join(directory, "admin.sock")
        self.configuration_path = os.path.join(directory, "causeway.yaml")
        self.process = None
        self.prefix = []  # of its command: nsenter into a network of its own
        os.makedirs(os.path.join(directory, "state"), mode=0o700)
        lines = [f'  - {{cluster: {name}, address: "127.0.0.1:{peer_port}"}}'
                 for name, peer_port in peers.items()]
        with open(self.configuration_path, "w") as file:
            file.write(CONFIGURATION.format(
                cluster=cluster, domain=DOMAIN, port=port, pki=pki, peers="\n".join(lines),
                directory=directory, peer_timeout_ms=int(peer_timeout_s * 1000), runs="\n".join(runs),
                metrics_port=metrics_port, settings=settings))

    def start(self, wait=True):
        with open(self.log_path, "ab") as log:
            log.write(b"\n")
            self.process = subprocess.Popen([*self.prefix, DAEMON, "--config", self.configuration_path], stdout=log,
                                            stderr=log, preexec_fn=die_with_parent)
        if wait:
            until(self._ready, f"the gateway of {self.cluster} is ready")
        return self

    def _ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the gateway of {self.cluster} ended with {self.process.returncode}")
        return self.status_or_none() is not None

    def stop(self, expect=0):
        """SIGTERM; the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=PATIENCE_S)
        self.process = None
        if expect is not None and code != expect:
            raise AssertionError(f"the gateway of {self.cluster} ended with {code}, not {expect}")
        return time.monotonic() - began

    def kill(self):
        """SIGKILL."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def status_or_none(self):
        done = subprocess.run([COMMAND, "status", "--json", "--socket", self.admin_socket],
                              capture_output=True, text=True, timeout=PATIENCE_S)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def status(self):
        """Asks again while the gateway lives: a starved one says that it is busy."""
        def look():
            status = self.status_or_none()
            dead = status is None and (self.process is None or self.process.poll() is not None)
            assert not dead, f"no status from {self.cluster}, which has ended"
            return status
        return until(look, f"{self.cluster} says its status")

    def run(self, name=RUN):
        """The run's part of the status."""
        return next(run for run in self.status()["runs"] if run["name"] == name)

    def peer(self, cluster):
        return next(peer for peer in self.status()["peers"] if peer["cluster"] == cluster)

    def until_run(self, condition, what, patience_s=PATIENCE_S, name=RUN):
        """Waits for condition(run status); that status."""
        def look():
            run = self.run(name)
            return run if condition(run) else None
        return until(look, f"{self.cluster}: {what}", patience_s)

    def change(self, verb, *words, name=RUN, expect=0):
        """`causeway run VERB NAME WORDS`; what it says."""
        return command("run", verb, name, *words, "--socket", self.admin_socket, expect=expect)

    def forget(self, name=RUN, expect=0):
        return self.change("forget", name=name, expect=expect)

    def resident_bytes(self):
        return self._memory_bytes("VmRSS:")

    def mapped_bytes(self):
        return self._memory_bytes("VmSize:")

    def _memory_bytes(self, name):
        with open(f"/proc/{self.process.pid}/status") as file:
            line = next(line for line in file if line.startswith(name))
        return int(line.split()[1]) * 1024

    def events(self, name=None):
        """Log events since the first start, as dictionaries."""
        found = []
        with open(self.log_path, errors="replace") as file:
            for line in file:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if name is None or entry.get("event") == name:
                    found.append(entry)
        return found

    def until_event(self, name, containing="", patience_s=PATIENCE_S):
        """Waits for a log event with `containing` somewhere in it; the event."""
        def look():
            return next((e for e in self.events(name) if containing in json.dumps(e)), None)
        return until(look, f"{self.cluster} logs {name} with {containing!r}", patience_s)

    def log_text(self):
        if not os.path.exists(self.log_path):
            return ""
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def print_log(self, lines=60):
        print(f"---- log of {self.cluster}", file=sys.stderr)
        print("\n".join(self.log_text().splitlines()[-lines:]), file=sys.stderr)


class Group:
    """Gateways of some clusters, each linked with all others, as a context manager; each is an attribute, too.
    Keywords: as run_entry, for all; `differs`: {cluster: what differs there}; `runs`: run_entry texts instead;
    `pki`: {cluster: directory}; `settings`: further lines of the configuration."""

    def __init__(self, clusters, *, differs=None, runs=None, extra_peers=(), pki=None,
                 peer_timeout_s=PEER_TIMEOUT_S, start=True, settings="", **run):
        self._settings = settings
        self.clusters = tuple(clusters)
        self._differs = differs or {}
        self._run, self._runs, self._start = {"clusters": self.clusters, **run}, runs, start
        self._extra_peers, self._pki, self._peer_timeout_s = extra_peers, pki or {}, peer_timeout_s
        self._at_end = []
        self.trainers = []  # all that there ever were, dead ones too

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix=f"causeway-{os.getpid()}-")
        ports = dict(zip(self.clusters, free_ports(len(self.clusters))))
        metrics = dict(zip(self.clusters, free_ports(len(self.clusters))))
        self.gateways = {}
        for cluster in self.clusters:
            runs = self._runs or [run_entry(**{**self._run, **self._differs.get(cluster, {})})]
            peers = {**{name: port for name, port in ports.items() if name != cluster},
                     **{name: free_ports(1)[0] for name in self._extra_peers}}
            self.gateways[cluster] = Gateway(
                cluster, os.path.join(self.directory, cluster), ports[cluster], metrics[cluster], peers, runs,
                self._pki.get(cluster) or authority().issue(cluster), self._peer_timeout_s,
                self._settings)
            setattr(self, cluster, self.gateways[cluster])
        if self._start:
            try:
                for gateway in self.gateways.values():
                    gateway.start(wait=False)
                for gateway in self.gateways.values():
                    until(gateway._ready, f"the gateway of {gateway.cluster} is ready")
            except BaseException:
                self.__exit__(*sys.exc_info())
                raise
        return self

    def at_end(self, function):
        """Called before the gateways end, newest first."""
        self._at_end.append(function)

    def __exit__(self, kind, value, trace):
        while self._at_end:
            self._at_end.pop()()
        if kind is not None:
            for gateway in self.gateways.values():
                if gateway.process is not None:
                    status = gateway.status_or_none()
                    print(f"---- status of {gateway.cluster}: {json.dumps(status)}", file=sys.stderr)
                gateway.print_log()
        codes = {}
        for gateway in self.gateways.values():
            if gateway.process is None:
                continue
            codes[gateway.cluster] = gateway.process.poll()
            if codes[gateway.cluster] is None:
                gateway.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        if kind is None:
            died = {cluster: code for cluster, code in codes.items() if code is not None}
            assert not died, f"gateways ended by themselves: {died}"

    def until_linked(self):
        for cluster, gateway in self.gateways.items():
            for other in self.clusters:
                if other != cluster:
                    until(lambda: gateway.peer(other)["state"] == "up", f"{cluster} and {other} are linked")


class Pair(Group):
    """Gateways of paris and tokyo; `paris`, `tokyo`: dictionaries with what differs there."""

    def __init__(self, *, paris=None, tokyo=None, **more):
        super().__init__(CLUSTERS, differs={"paris": paris or {}, "tokyo": tokyo or {}}, **more)
