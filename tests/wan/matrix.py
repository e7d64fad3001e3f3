"""What the faults of the matrix share: a run of three clusters over the emulated link, its trainers, how it ends, and
rows of figures. CAUSEWAY_LONG=1: longer faults, more of them."""
import json
import os
import time
import unittest

LONG = bool(os.environ.get("CAUSEWAY_LONG"))
THREE = ("oslo", "paris", "tokyo")
PEER_TIMEOUT_S = 10 if LONG else 3
OUTAGE_S = 5.0 if LONG else 1.5           # shorter than peer_timeout: nobody is given up
ABSENCE_S = 60.0 if LONG else PEER_TIMEOUT_S + 3.0
SHAPES = {f"layer{i}": (512, 1024) for i in range(4)}
ROUND_BYTES = 4 * 4 * 512 * 1024  # of one cluster's contribution, fp32
PATIENCE_S = 180

rows = []  # of figures; `tests/wan/run faults --json FILE` writes them


def row(**fields):
    rows.append(fields)
    print(json.dumps(fields), flush=True)


class Matrix(unittest.TestCase):
    def begin(self, **more):
        import wan_group  # which makes the integration tests' modules known
        import trainers
        self.both = trainers.both
        more = {"codec": "{kind: fp32}", "peer_timeout_s": PEER_TIMEOUT_S,
                "settings": "checkpoint: {rounds: 2, interval: 1h}\n", **more}
        group = wan_group.WanGroup(THREE, **more)
        group.__enter__()
        self.group = group
        self.addCleanup(self.leave, group)
        self.trainers = dict(zip(THREE, trainers.join_all(group, shapes=SHAPES)))
        self.exchange()
        group.take_baseline()
        return group

    def leave(self, group):
        failed = not self._outcome.success
        group.__exit__(*((AssertionError, None, None) if failed else (None, None, None)))

    def tell(self, *clusters, count=1):
        for cluster in clusters or THREE:
            self.trainers[cluster].tell("exchange", count=count)

    def answers(self, *clusters):
        return {cluster: self.trainers[cluster].answer(PATIENCE_S) for cluster in clusters or THREE}

    def exchange(self, count=1):
        self.tell(count=count)
        return self.answers()

    def assert_all_counted(self, looks):
        self.assertEqual({look["participants"] for look in looks.values()}, {3})
        self.assertEqual(len({look["sha256"] for look in looks.values()}), 1)

    def until_busy(self, group, cluster="oslo"):
        group.gateways[cluster].until_run(lambda run: run["fragments"][0]["phase"] != "idle", "a round runs")

    def until_back(self, group):
        group.oslo.until_run(lambda run: len(run["members"]) == 3, "all are members again")

    def let_return(self, group, cluster):
        """The cluster's trainer has a round to make while its gateway comes back."""
        self.tell(cluster)
        self.answers(cluster)
        self.until_back(group)

    def end_equal(self):
        """Who is no member when a round is made has nothing in it, and may be told so instead of its result."""
        self.group.until_members(THREE)
        looks = self.exchange(2)
        self.assertEqual(len({look["sha256"] for look in looks.values()}), 1)
        for trainer in self.trainers.values():
            trainer.tell("finish")
        ends = self.answers()
        self.assertEqual(len({end["values"] for end in ends.values()}), 1)


def absent_for(seconds, since):
    """Waits until the fault that began at `since` has lasted that long."""
    time.sleep(max(0.0, seconds - (time.monotonic() - since)))
