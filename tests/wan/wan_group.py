"""Gateways of the integration tests, each in a network namespace of its own, joined by the emulated link; their
trainers run where they are started, since they talk to their gateway by a file.

At the end of a `with` block that went well, every gateway's log of commits is compared (history.py), and no
process may have kept descriptors or memory from what happened.
"""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "integration", "gateway"),
                os.path.join(ROOT, "client", "python")]

import programs
import wan_link

_built = programs.newest()
os.environ.setdefault("CAUSEWAY_DAEMON", _built.daemon)
os.environ.setdefault("CAUSEWAY_COMMAND", _built.command)
os.environ.setdefault("CAUSEWAY_LIBRARY", _built.library)
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:3])  # of the trainers' server

import baseline
import gateways
import history


class WanGroup(gateways.Group):
    """Group's arguments, and the link's: rate, rtt, and so on. `link` sets and cuts it. `before_start` is called with
    the group once its folders are there."""

    def __init__(self, clusters, *, rate="100mbit", rtt="40ms", loss="0", jitter="0ms", before_start=None, **more):
        super().__init__(clusters, start=False, **more)
        self._before_start = before_start
        self._baseline = None
        self._link_arguments = {"rate": rate, "rtt": rtt, "loss": loss, "jitter": jitter}

    def __enter__(self):
        self.link = wan_link.WanLink(self.clusters, **self._link_arguments).__enter__()
        try:
            super().__enter__()
            if self._before_start:
                self._before_start(self)
            for gateway in self.gateways.values():
                with open(gateway.configuration_path) as file:
                    text = file.read()
                for other in self.gateways.values():
                    text = text.replace(f'"127.0.0.1:{other.port}"',
                                        f'"{self.link.address(other.cluster)}:{other.port}"')
                with open(gateway.configuration_path, "w") as file:
                    file.write(text)
                gateway.prefix = self.link.inside(gateway.cluster, [])
                gateway.start(wait=False)
            for gateway in self.gateways.values():
                gateways.until(gateway._ready, f"the gateway of {gateway.cluster} is ready")
            self.until_linked()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                history.check_group(self)
                if self._baseline:
                    self._baseline.check(self.gateways, gateways.until)
        except AssertionError:
            kind, value, trace = sys.exc_info()
            super().__exit__(kind, value, trace)
            raise
        else:
            super().__exit__(kind, value, trace)
        finally:
            self.link.close()

    def take_baseline(self):
        """What every gateway holds now, once rounds have run."""
        self._baseline = baseline.Baseline(self.gateways)

    def until_members(self, clusters):
        """All of them are members, and linked with each other."""
        self.until_linked()
        for gateway in self.gateways.values():
            gateway.until_run(lambda run: run["members"] == list(clusters), "everybody is a member")

    # ---- faults

    def kill_at(self, victim, fraction, bytes_total, begin):
        """Calls `begin`, which starts a round, and SIGKILL once the victim has been sent that part of its bytes by
        one of the others."""
        others = [gateway for gateway in self.gateways.values() if gateway.cluster != victim]
        sent = {gateway.cluster: gateway.peer(victim)["payload_bytes_sent"] for gateway in others}

        def reached():
            return any(gateway.peer(victim)["payload_bytes_sent"] - sent[gateway.cluster] >=
                       fraction * bytes_total for gateway in others)
        begin()
        gateways.until(reached, f"{fraction:.0%} of the bytes have moved")
        self.gateways[victim].kill()

    def connections(self, cluster):
        """The established TCP connections in the cluster's network, by their two ends."""
        lines = self.link.run(cluster, ["ss", "-Htn", "state", "established"]).stdout.splitlines()
        return {tuple(line.split()[2:4]) for line in lines}

    def cut_connections(self, cluster):
        """Ends every TCP connection of the cluster's gateway, as a middlebox that forgot them would. False: the
        kernel cannot."""
        before = self.connections(cluster)
        # ss says "Invalid argument" even where it succeeds: what counts is the effect.
        self.link.run(cluster, ["ss", "-K", "state", "established"])
        return not before & self.connections(cluster)

    def down_for(self, cluster, seconds):
        self.link.down(cluster)
        time.sleep(seconds)  # how long the line is dark
        self.link.down(cluster, dark=False)
