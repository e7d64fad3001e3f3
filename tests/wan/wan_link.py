"""Network namespaces joined by the emulated wide-area network, for tests, benchmarks and the demo.

    with WanLink(["paris", "tokyo"], rate="100mbit", rtt="100ms") as link:
        process = link.spawn("paris", ["iperf3", "-s", "-1"])
        link.set("paris>tokyo", loss="1%")
        link.sent_bytes()["paris"]           # wire bytes, from the IP header on

Each site is a network namespace with the loopback device and one TUN device, `wan0`. Everything is named
after the owning process and goes when the `with` block ends, also by Ctrl-C; what a killed owner left
behind, `clean()` removes. Needs root and /dev/net/tun. Not for use from several threads.
"""
import ctypes
import glob
import json
import os
import re
import signal
import socket
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DEVICE = "wan0"
MTU = 1500
PREFIX = "cw"
CONTROL_TIMEOUT_S = 10

# What ARCHITECTURE.md asks of a gateway host, as far as a network namespace has settings of its own.
HOST_SETTINGS = {
    "net.ipv4.tcp_congestion_control": "bbr",
    "net.ipv4.tcp_rmem": "4096 131072 67108864",
    "net.ipv4.tcp_wmem": "4096 65536 67108864",
    "net.ipv4.tcp_notsent_lowat": "131072",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.ipv4.tcp_mtu_probing": "1",
}
OPTIONAL_SETTINGS = {"net.ipv4.tcp_congestion_control"}  # not every kernel has bbr


class LinkError(Exception):
    """The link could not be made or used; the text says what to do."""


def missing_requirements():
    """What this machine lacks, as a text to show, or None."""
    if os.geteuid() != 0:
        return "the emulated link needs root: network namespaces and TUN devices (run it with sudo)"
    if not os.path.exists("/dev/net/tun"):
        return "the emulated link needs /dev/net/tun (modprobe tun; in a container: --device /dev/net/tun --cap-add NET_ADMIN)"
    for program in ("ip", "nsenter", "sysctl"):
        if not any(os.access(os.path.join(d, program), os.X_OK)
                   for d in os.environ.get("PATH", "").split(":") + ["/usr/sbin", "/sbin"]):
            return f"the emulated link needs the program {program} (packages iproute2, util-linux, procps)"
    return None


def emulator_path():
    """The newest built wan_emulator below build/, or $CAUSEWAY_WAN_EMULATOR."""
    if os.environ.get("CAUSEWAY_WAN_EMULATOR"):
        return os.environ["CAUSEWAY_WAN_EMULATOR"]
    found = glob.glob(os.path.join(ROOT, "build", "*", "tests", "wan", "emulator", "wan_emulator"))
    if not found:
        raise LinkError("wan_emulator is not built: cmake --preset dev && ninja -C build/dev wan_emulator")
    return max(found, key=os.path.getmtime)


def _run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise LinkError(f"{' '.join(command)}: {result.stderr.strip() or result.returncode}")
    return result.stdout


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class WanLink:
    """The sites' namespaces and the running emulator."""

    _count = 0

    def __init__(self, sites, rate="100mbit", rtt="100ms", jitter="0ms", loss="0", queue=None,
                 topology="mesh", offload=True, seed=1, host_settings=None):
        """`host_settings`: further sysctls of the sites' hosts, or others than HOST_SETTINGS."""
        self.sites = list(sites)
        self.rate, self.rtt_ms = rate, duration_ms(rtt)
        if queue is None:
            queue = self.queue_bytes(rate)
        hops = 2 if topology == "star" else 1
        self._settings = (f"* rate={rate} delay={self.rtt_ms / 2 / hops:.6f}ms jitter={jitter} "
                          f"loss={loss} queue={queue}")
        self._topology, self._offload, self._seed = topology, offload, seed
        self._host_settings = {**HOST_SETTINGS, **(host_settings or {})}
        WanLink._count += 1
        self._name = f"{PREFIX}{os.getpid()}x{WanLink._count}"
        self._processes = []
        self._emulator = None
        self._directory = None
        self._control = None

    def queue_bytes(self, rate):
        """Two bandwidth-delay products, as a well-kept router has."""
        return max(2 * int(rate_bits(rate) / 8 * self.rtt_ms / 1e3), 256 * 1024)

    def namespace(self, site):
        return f"{self._name}-{site}"

    def address(self, site):
        return f"10.77.0.{self.sites.index(site) + 1}"

    def address6(self, site):
        return f"fd77::{self.sites.index(site) + 1}"

    def __enter__(self):
        problem = missing_requirements()
        if problem:
            raise LinkError(problem)
        clean()  # what a killed owner left
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *unused):
        self.close()

    def _open(self):
        self._directory = tempfile.TemporaryDirectory(prefix="causeway-link-")
        for site in self.sites:
            _run("ip", "netns", "add", self.namespace(site))
            _run("ip", "-n", self.namespace(site), "link", "set", "lo", "up")
        control = os.path.join(self._directory.name, "control.sock")
        command = [emulator_path(), "--die-with-parent", "--control", control, "--seed",
                   str(self._seed), "--topology", self._topology, "--set", self._settings]
        if not self._offload:
            command.append("--no-offload")
        for site in self.sites:
            command += ["--site", f"name={site},netns=/run/netns/{self.namespace(site)},device={DEVICE},"
                        f"address={self.address(site)},address={self.address6(site)}"]
        self._emulator = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          text=True)
        if json.loads(self._emulator.stdout.readline() or "{}").get("ready") is not True:
            raise LinkError(f"wan_emulator did not start: {self._emulator.stderr.read().strip()}")
        for site in self.sites:
            namespace = self.namespace(site)
            _run("ip", "-n", namespace, "address", "add", f"{self.address(site)}/24", "dev", DEVICE)
            _run("ip", "-n", namespace, "address", "add", f"{self.address6(site)}/64", "dev", DEVICE,
                 "nodad")
            _run("ip", "-n", namespace, "link", "set", DEVICE, "mtu", str(MTU), "txqueuelen", "2000",
                 "up")
            self._apply_host_settings(namespace)
        self._control = socket.socket(socket.AF_UNIX)
        self._control.settimeout(CONTROL_TIMEOUT_S)
        self._control.connect(control)
        self._answers = self._control.makefile("r")

    def _apply_host_settings(self, namespace):
        for key, value in self._host_settings.items():
            try:
                _run("nsenter", f"--net=/run/netns/{namespace}", "sysctl", "-q", "-w",
                     f"{key}={value}")
            except LinkError:
                if key not in OPTIONAL_SETTINGS:
                    raise

    def command(self, line):
        """Sends a control command, returns its answer."""
        self._control.sendall((line + "\n").encode())
        answer = json.loads(self._answers.readline() or '{"error":"the emulator has ended"}')
        if "error" in answer:
            raise LinkError(answer["error"])
        return answer

    def set(self, pipes, **settings):
        """set("paris>tokyo", rate="10mbit", mtu_hole=1400): one direction; "*" for all."""
        words = " ".join(f"{key.replace('_', '-')}={value}" for key, value in settings.items())
        self.command(f"set {pipes} {words}")

    def down(self, site, dark=True):
        """Takes a site off the network in both directions, or brings it back."""
        for pipes in (f"{site}>*", f"*>{site}"):
            self.set(pipes, dark=int(dark))

    def stats(self):
        return self.command("stats")

    def sent_bytes(self):
        """Wire bytes that each site's device has transmitted so far."""
        return {site["name"]: site["sent_bytes"] for site in self.stats()["sites"]}

    def inside(self, site, command):
        """The command line that runs `command` in a site's namespace."""
        return ["nsenter", f"--net=/run/netns/{self.namespace(site)}", "--"] + list(command)

    def spawn(self, site, command, **arguments):
        """subprocess.Popen in a site's namespace; the process ends with the link or with its owner."""
        arguments.setdefault("preexec_fn", _die_with_parent)
        process = subprocess.Popen(self.inside(site, command), **arguments)
        self._processes.append(process)
        return process

    def run(self, site, command, timeout=60, **arguments):
        """subprocess.run in a site's namespace, output captured."""
        return subprocess.run(self.inside(site, command), capture_output=True, text=True,
                              timeout=timeout, **arguments)

    def close(self):
        """Ends what runs and removes everything; may be called twice. A second Ctrl-C waits for it."""
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self._close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _close(self):
        for process in reversed(self._processes):
            if process.poll() is None:
                process.terminate()
        for process in reversed(self._processes):
            _reap(process)
        self._processes = []
        if self._control:
            self._answers.close()
            self._control.close()
            self._control = None
        if self._emulator:
            self._emulator.terminate()
            _reap(self._emulator)
            self._emulator.stdout.close()
            self._emulator.stderr.close()
            self._emulator = None
        for site in self.sites:
            if os.path.exists(f"/run/netns/{self.namespace(site)}"):
                _delete(self.namespace(site))
        if self._directory:
            self._directory.cleanup()
            self._directory = None


def _reap(process):
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _delete(namespace):
    """Removes a namespace and what still runs in it, such as a command's own children."""
    for pid in _run("ip", "netns", "pids", namespace).split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass  # ended by itself
    _run("ip", "netns", "delete", namespace)


def clean():
    """Removes namespaces whose owner is gone, and what runs in them. Returns their names."""
    removed = []
    for path in glob.glob(f"/run/netns/{PREFIX}*"):
        match = re.fullmatch(PREFIX + r"(\d+)x\d+-.+", os.path.basename(path))
        if not match or os.path.exists(f"/proc/{match.group(1)}"):
            continue
        _delete(os.path.basename(path))
        removed.append(os.path.basename(path))
    return removed


def rate_bits(text):
    """Bits a second of "100mbit"; 0 for "unlimited"."""
    if text == "unlimited":
        return 0.0
    match = re.fullmatch(r"([0-9.]+)(bit|kbit|mbit|gbit)?", text)
    if not match:
        raise LinkError(f"'{text}' is no rate: 100mbit, 1gbit, unlimited")
    return float(match.group(1)) * {"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, None: 1}[match.group(2)]


def duration_ms(text):
    """Milliseconds of "100ms" or "1s"."""
    match = re.fullmatch(r"([0-9.]+)(us|ms|s)", text)
    if not match:
        raise LinkError(f"'{text}' is no duration: 100ms, 1s")
    return float(match.group(1)) * {"us": 1e-3, "ms": 1, "s": 1e3}[match.group(2)]
