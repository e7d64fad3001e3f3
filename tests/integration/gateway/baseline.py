"""What gateways hold once rounds have run, and that faults leave no more of it: descriptors, and memory as the
kernel counts it and as each gateway's own budget does. A gateway that was restarted meanwhile is held to what the
process before it held.
"""
import os

DESCRIPTORS_MORE = 12             # links that are just being replaced
RESIDENT_MORE = 96 * 1024 * 1024  # the pool's free buffers and the allocator's
SETTLE_S = 20


class Use:
    """Of one gateway, now."""

    def __init__(self, gateway):
        self.descriptors = len(os.listdir(f"/proc/{gateway.process.pid}/fd"))
        self.resident = gateway.resident_bytes()
        self.reserved = dict(gateway.status()["memory"]["used_by"])

    def more_than(self, before):
        """What there is more of than tolerated, as a text; empty: nothing."""
        more = []
        if self.descriptors > before.descriptors + DESCRIPTORS_MORE:
            more.append(f"{self.descriptors} descriptors, {before.descriptors} before")
        if self.resident > before.resident + RESIDENT_MORE:
            more.append(f"{self.resident} bytes resident, {before.resident} before")
        for account, used in self.reserved.items():
            had = before.reserved.get(account, 0)
            if used > had and not account.startswith("chunks"):  # the pool keeps free buffers for later
                more.append(f"{used} bytes reserved by '{account}', {had} before")
        return "; ".join(more)


class Baseline:
    def __init__(self, group):
        self.uses = {cluster: Use(gateway) for cluster, gateway in group.items()}

    def check(self, group, until):
        """`until`: gateways.until. AssertionError names the gateway and what it kept."""
        for cluster, before in self.uses.items():
            gateway = group[cluster]
            if gateway.process is None:
                continue  # the test left it dead
            kept = Use(gateway).more_than(before)
            if kept:
                until(lambda: not Use(gateway).more_than(before), f"{cluster} keeps {kept}", SETTLE_S)
