"""Training in rounds: local steps, and every H of them an exchange of what they changed, under an outer rule.

    outer = causeway.Outer(model, optimizer, run="demo")
    for batch in loader:
        ...; optimizer.step(); outer.step()
    outer.finish()

All ranks of a cluster call the same methods in the same order. Rank 0 of ``process_group`` talks to the
gateway; the ranks' parameters must be equal at every step (gradients are reduced within the cluster), and
stay equal: what rank 0 computes from a result is what every rank writes.
"""

import contextlib
import logging
import time

from . import _library as c
from . import errors
from . import local_group
from . import schedule
from . import tensors as tensors_
from .handle import Handle

log = logging.getLogger("causeway")

_STATE_FORMAT = 1


class Outer:
    """
    model              its trained parameters, and (``buffers``) its float buffers, are exchanged
    optimizer          where given and the model is 16-bit, fp32 masters in its param_groups are exchanged
    run                name in the gateway's configuration; None: no gateway, one cluster, for debugging
    socket             of the gateway; default CAUSEWAY_SOCKET or /run/causeway/trainer.sock
    weight             samples or tokens of one step of this cluster
    H                  local steps this trainer insists on; default: the run's
    init               "run": take the run's values; "mine", "match": refuse where they differ
    masters            {parameter: fp32 tensor}, where pairing by order is not enough
    process_group      gloo group of the cluster's ranks, if more than one
    rank, world        of processes of this cluster that open handles of their own (not process_group's)
    progress_interval  seconds between lines that say who is waited for (logger "causeway")
    """

    def __init__(self, model, optimizer=None, *, run, socket=None, weight=1, H=None, init="run",
                 masters=None, buffers=True, process_group=None, rank=0, world=1, connect_timeout=5.0,
                 progress_interval=5.0):
        if H is not None and H < 1:
            raise errors.InvalidCall("H must be at least 1")
        self.run = run
        self.weight = weight
        self._group = local_group.of(process_group)
        entries = tensors_.model_entries(model, optimizer, masters)
        if not buffers:
            entries = [entry for entry in entries if entry.group == c.PARAMETER]
        self._set = tensors_.TensorSet(entries)
        self._handle = None
        self._steps = 0
        self._flights = []
        self._finished = False
        self._pace = schedule.Pace()
        self._began = self._left = None
        self._counts = {"rounds": 0, "excluded": 0, "rebases": 0, "steps_lost": 0, "blocked_s": 0.0,
                        "exchange_s": 0.0, "raw_bytes": 0, "wire_bytes": 0, "staleness": 0,
                        "participants": 0}
        self._results = []
        self.values_hash = None
        if run is None:
            self.H, self.fragments, self.delay, self._mode, self._mix = H or 1, 1, 0, c.CARRY, 0.0
            self._automatic = False
        else:
            self._join(socket, H, init, rank, world, connect_timeout, progress_interval)
        # The step since which a fragment's local work has not been counted in any round.
        self._work_since = [0] * self.fragments

    def _join(self, socket, H, init, rank, world, connect_timeout, progress_interval):
        def join():
            self._handle = Handle(self.run, socket, rank, world, connect_timeout, progress_interval)
            layout = self._handle.join(self._set.schema(), outer=True, init=init, local_steps=H or 0)
            count = len(self._set.entries)
            return {"H": layout.local_steps, "delay": layout.delay_steps, "mode": layout.apply_mode,
                    "mix": layout.mix, "fragments": layout.fragments,
                    "placed": [self._handle.placement(i).fragment for i in range(count)]}

        terms = self._group.lead(join)
        self.H, self.fragments = terms["H"], terms["fragments"]
        self._mode, self._mix = terms["mode"], terms["mix"]
        self._automatic = terms["delay"] == c.DELAY_AUTO
        self.delay = schedule.automatic_delay(None, None, self.H) if self._automatic else terms["delay"]
        self._set.place(terms["placed"], self.fragments)

        def form():
            slices, hosts = self._set.read_slices(self._set.all_indices())
            self._handle.offer(slices)
            replace = self._handle.ready()
            rounds = []
            for fragment in range(self.fragments):
                rounds.append(self._handle.fragment(fragment).newest_round)
                if replace:
                    staged, hosts = self._set.staged_slices(fragment)
                    self._handle.read(fragment, rounds[-1], staged)
                elif not self._group.alone:
                    self._set.stage(fragment)
            return {"replace": replace, "rounds": rounds}

        formed = self._group.lead(form, self._handle)
        self._rounds = formed["rounds"]
        # Ranks may have been built from different seeds: all take the same bytes now.
        if formed["replace"] or not self._group.alone:
            self._spread(range(self.fragments))
        if formed["replace"]:
            log.info("run %s: parameters replaced by the run's, rounds %s", self.run, self._rounds)
            self._group.lead(lambda: [self._handle.applied(f, r) for f, r in enumerate(self._rounds)] and None)

    def _spread(self, fragments):
        """Brings the leader's staged values to every rank, and only then writes them."""
        for fragment in fragments:
            self._group.broadcast(self._set.flat(fragment)[0])
        for fragment in fragments:
            self._set.unstage(fragment)

    # A step.

    def step(self):
        """After every optimizer step. Free, save where a fragment is submitted or due."""
        if self._finished:
            raise errors.InvalidCall("this run is finished")
        entered = time.monotonic()
        if self._began is None:
            self._began = entered
        elif self._left is not None:
            self._pace.add_step(entered - self._left)
        self._steps += 1
        try:
            if self.run is not None:
                self._collect([flight for flight in self._flights if flight.due <= self._steps])
                launches = schedule.launches(self._steps, self.fragments, self.H)
                busy = {flight.fragment for flight in self._flights}
                self._launch([fragment for fragment in launches if fragment not in busy])
                if self.delay == 0:
                    self._collect([flight for flight in self._flights if flight.due <= self._steps])
        finally:
            self._left = time.monotonic()
            self._counts["blocked_s"] += self._left - entered

    def _launch(self, fragments, replace=False):
        if not fragments:
            return

        def submit():
            ops, rebased = [], {}
            for fragment in fragments:
                slices, hosts = self._set.read_slices(self._set.fragments[fragment])
                weight = int(self.weight * (self._steps - self._work_since[fragment]))
                try:
                    ops.append([fragment, self._handle.submit(fragment, slices, weight, replace)])
                except errors.Rebase as problem:
                    log.warning("%s", problem)
                    rebased[fragment] = self._read_newest(fragment)
                del hosts
            return {"ops": ops, "rebased": rebased, "delay": self._choose_delay()}

        answer = self._group.lead(submit, self._handle)
        if answer["delay"] != self.delay:
            log.info("run %s: delay is now %d steps (exchange %.3f s, step %.4f s)", self.run,
                     answer["delay"], self._pace.exchange_s() or 0, self._pace.step_s() or 0)
            self.delay = answer["delay"]
        for fragment, op in answer["ops"]:
            due = self._steps + (0 if replace else self.delay)
            self._flights.append(schedule.Flight(fragment, self._steps, due, op))
        self._take_rebased(answer["rebased"])

    def _choose_delay(self):
        if not self._automatic:
            return self.delay
        return schedule.automatic_delay(self._pace.exchange_s(), self._pace.step_s(), self.H)

    def _collect(self, flights, replace=False):
        if not flights:
            return
        mode = c.REPLACE if replace else self._mode

        def fetch():
            # Every result is there before the first write.
            results, rebased, held = {}, {}, {}
            for flight in flights:
                what = f"fragment {flight.fragment}"
                try:
                    result = self._handle.wait(flight.op, what)
                except errors.Rebase as problem:
                    log.warning("%s", problem)
                    rebased[flight.fragment] = self._read_newest(flight.fragment)
                    continue
                results[flight.fragment] = {
                    "state": result.state, "round": result.round, "exchange_s": result.exchange_s,
                    "staleness": result.staleness, "participants": result.participants,
                    "raw_bytes": result.raw_bytes, "wire_bytes": result.wire_bytes}
            for flight in flights:
                if flight.fragment not in results:
                    continue
                if self._group.alone:
                    slices, held[flight.fragment] = self._set.in_place_slices(flight.fragment)
                else:
                    slices, hosts = self._set.staged_slices(flight.fragment)
                self._handle.apply(flight.op, mode, self._mix, slices)
            for fragment, hosts in held.items():
                self._set.commit(fragment, hosts)
            return {"results": {str(f): r for f, r in results.items()},
                    "rebased": {str(f): r for f, r in rebased.items()}}

        answer = self._group.lead(fetch, self._handle)
        results = {int(f): r for f, r in answer["results"].items()}
        if not self._group.alone:
            self._spread(list(results))
        self._flights = [flight for flight in self._flights if flight not in flights]
        for flight in flights:
            if flight.fragment in results:
                self._note(flight, results[flight.fragment], mode)
        self._group_applied({f: r["round"] for f, r in results.items()})
        self._take_rebased({int(f): r for f, r in answer["rebased"].items()})

    def _group_applied(self, rounds):
        """Every rank of a group holds the values now (its broadcast is done): the gateway may go on."""
        if self._group.leader:
            for fragment, round in rounds.items():
                self._handle.applied(fragment, round)

    def _note(self, flight, result, mode):
        fragment = flight.fragment
        self._rounds[fragment] = result["round"]
        if result["state"] == "committed":
            # What was trained after the snapshot is carried, and counts in the next round.
            self._work_since[fragment] = flight.step if mode != c.REPLACE else self._steps
        else:
            self._counts["excluded"] += 1
            if mode == c.REPLACE:
                self._work_since[fragment] = self._steps
            log.warning("fragment %d: round %d went on without this cluster", fragment, result["round"])
        self._pace.add_exchange(result["exchange_s"], self.fragments)
        self._counts["rounds"] += 1
        self._counts["exchange_s"] += result["exchange_s"]
        self._counts["raw_bytes"] += result["raw_bytes"]
        self._counts["wire_bytes"] += result["wire_bytes"]
        self._counts["staleness"] = result["staleness"]
        self._counts["participants"] = result["participants"]

    def _read_newest(self, fragment):
        """On the leader: stages the run's newest value of a fragment; its round."""
        round = self._handle.fragment(fragment).newest_round
        slices, hosts = self._set.staged_slices(fragment)
        self._handle.read(fragment, round, slices)
        return round

    def _take_rebased(self, rebased):
        """Writes values that replace the local work since the base: {fragment: round}."""
        rebased = {int(fragment): round for fragment, round in rebased.items()}
        if not rebased:
            return
        self._spread(list(rebased))
        for fragment, round in rebased.items():
            lost = self._steps - self._work_since[fragment]
            log.warning("fragment %d: rebased on round %d, %d local steps lost", fragment, round, lost)
            self._rounds[fragment] = round
            self._work_since[fragment] = self._steps
            self._counts["rebases"] += 1
            self._counts["steps_lost"] += lost
        self._group_applied(rebased)

    # The end, and looking at the run.

    def finish(self):
        """Collects what is in flight, exchanges all remaining work and leaves: every cluster that finished
        holds the same bytes. ``values_hash`` is the SHA-256 of the run's values."""
        if self._finished:
            return self.values_hash
        entered = time.monotonic()
        if self.run is not None:
            self._collect(list(self._flights))
            self._launch(range(self.fragments), replace=True)
            self._collect(list(self._flights), replace=True)

            def end():
                values_hash = self._handle.finish()
                self._handle.leave()
                self._handle.close()
                return values_hash.hex()

            self.values_hash = self._group.lead(end, self._handle)
        self._finished = True
        self._left = time.monotonic()
        self._began = self._began or entered
        self._counts["blocked_s"] += self._left - entered
        return self.values_hash

    @contextlib.contextmanager
    def global_parameters(self):
        """Inside, the model holds the run's global values (of each fragment's base), for evaluation and
        saving; afterwards the local ones again. Every rank of the group enters and leaves together."""
        if self.run is None or self._finished:
            yield self
            return
        kept = [(entry, entry.tensor.detach().clone(),
                 None if entry.cast is None else entry.cast.detach().clone())
                for entry in self._set.entries if entry.alias_of < 0]

        def read():
            for fragment in range(self.fragments):
                slices, hosts = self._set.staged_slices(fragment)
                self._handle.read(fragment, self._handle.fragment(fragment).base_round, slices)

        self._group.lead(read, self._handle)
        self._spread(range(self.fragments))
        try:
            yield self
        finally:
            tensors_.restore(kept)

    def stats(self):
        """Seconds, counts and bytes so far. compute_use: 1 - time inside these calls / wall time."""
        stats = dict(self._counts)
        wall = self._left - self._began if self._began is not None and self._left is not None else 0.0
        stats.update(steps=self._steps, wall_s=wall, delay_steps=self.delay, in_flight=len(self._flights),
                     step_s=self._pace.step_s(), last_exchange_s=self._pace.exchange_s(),
                     waited_s=self._handle.waited_s if self._handle is not None else 0.0,
                     compute_use=1 - stats["blocked_s"] / wall if wall > 0 else 1.0)
        return stats

    def state_dict(self):
        """Where this trainer stands. Momentum and residual are the gateway's and not in here; neither is
        unfinished work: a restart joins anew and takes the run's newest values."""
        return {"format": _STATE_FORMAT, "run": self.run, "steps": self._steps, "H": self.H,
                "fragments": self.fragments, "work_since": list(self._work_since),
                "rounds": list(self._rounds) if self.run is not None else [],
                "in_flight": [[flight.fragment, flight.step] for flight in self._flights]}

    def load_state_dict(self, state):
        """Continues the step count, so that fragments are launched in the same rhythm."""
        if state.get("format") != _STATE_FORMAT:
            raise errors.InvalidCall(f"a state of format {state.get('format')!r} is not known here")
        for key, mine in (("run", self.run), ("H", self.H), ("fragments", self.fragments)):
            if state[key] != mine:
                raise errors.AlgorithmError(f"the saved state has {key} = {state[key]!r}, this run {mine!r}")
        if self._flights:
            raise errors.Busy("fragments are in flight; load a state before the first step")
        if self.run is not None and state["rounds"] != self._rounds:
            log.warning("run %s: the saved state is of rounds %s, the run stands at %s", self.run,
                        state["rounds"], self._rounds)
        self._steps = state["steps"]
        # The parameters are the run's now: no local work is outstanding.
        self._work_since = [self._steps] * self.fragments
