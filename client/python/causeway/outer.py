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
import re
import time

from . import _library as c
from . import arguments
from . import cuda
from . import errors
from . import late
from . import local_group
from . import pace
from . import presets
from . import schedule
from . import tensors as tensors_
from .handle import Handle, Wanted, whole_weight

log = logging.getLogger("causeway")

_STATE_FORMAT = 1


class Outer(late.LateRounds):
    """
    model              its trained parameters are exchanged, and (``buffers``) its persistent buffers: floats as means,
                       small integer ones as rounded means
    optimizer          where given and the model is 16-bit, fp32 masters in its param_groups are exchanged
    run                name in the gateway's configuration; None: no gateway, one cluster, for debugging
    socket             of the gateway; default CAUSEWAY_SOCKET or /run/causeway/trainer.sock
    weight             samples or tokens of one step of this cluster
    H                  local steps this trainer insists on; default: the run's
    preset             "quality", "fast" or "extreme": refuse a run that is configured otherwise
    init               "run": take the run's values; "mine", "match": refuse where they differ
    masters            {parameter: fp32 tensor}, where pairing by order is not enough
    process_group      gloo group of the cluster's ranks, if more than one
    rank, world        of processes of this cluster that open handles of their own (not process_group's), each with
                       parts of the model (ZeRO, FSDP); their weights are added
    shards             {name: (shape, first)}: the model's tensor of that name holds, in row-major order, elements
                       first, first + 1 ... of a tensor of that shape; the other ranks hold the others
    progress_interval  seconds between lines that say who is waited for (logger "causeway")
    compare            refuse to begin where frozen parameters, or integer buffers that are not exchanged, differ
                       from those of other clusters; False: they are not looked at
    stages             of a run that has grown: {name: stage} of the tensors that came later, as ``stages`` of
                       the trainer that let it grow
    """

    def __init__(self, model, optimizer=None, *, run, socket=None, weight=1, H=None, init="run",
                 preset=None, masters=None, buffers=True, compare=True, process_group=None, rank=0, world=1, connect_timeout=5.0,
                 progress_interval=5.0, stages=None, shards=None):
        self.run = None if run is None else arguments.run_name(run)
        self.weight = whole_weight(weight)
        H = None if H is None else arguments.whole("H", H, 1, what="a number of local steps")
        socket, stages, shards = arguments.path("socket", socket), arguments.stages(stages), arguments.shards(shards)
        rank, world = arguments.place(rank, world, process_group)
        connect_timeout = arguments.seconds("connect_timeout", connect_timeout)
        progress_interval = arguments.seconds("progress_interval", progress_interval)
        presets.check_name(preset)
        if init not in c.INIT:
            raise errors.InvalidCall(f"init must be one of {', '.join(c.INIT)}, not {init!r}")
        arguments.model(model)
        arguments.optimizer(optimizer)
        arguments.masters(masters)
        self._group = local_group.of(process_group)
        entries = tensors_.model_entries(model, optimizer, masters, filter(tensors_.is_fixed_name, stages))
        arguments.steps_some(optimizer, [tensor for e in entries for tensor in (e.tensor, e.cast)])
        # Parts of a sharded model differ between ranks, whose schemas must not.
        self._groups = {c.PARAMETER} | ({c.BUFFER} if buffers else set()) | ({c.FIXED} if compare and world == 1 else set())
        apart = [entry.name for entry in entries if entry.group not in self._groups]
        if apart:
            log.info("run %s: not exchanged, and not compared with other clusters': %s", run, ", ".join(apart))
        entries = [entry for entry in entries if entry.group in self._groups]
        tensors_.shard(entries, shards)
        self.stages = stages
        self._set = tensors_.TensorSet(tensors_.by_stage(entries, self.stages))
        self._options = {"run": run, "socket": socket, "weight": weight, "H": H, "preset": preset,
                         "buffers": buffers, "compare": compare, "process_group": process_group, "rank": rank, "world": world,
                         "connect_timeout": connect_timeout, "progress_interval": progress_interval}
        self._handle = None
        self._steps = 0
        self._labels, self._snapshot = {}, None  # by fragment, for its next round; the newest label
        self._flights = []
        self._finished = False
        self._pace = pace.Pace()
        self._counts = pace.Counts()
        self._began = self._left = None
        self._gateway_cpu = None
        self._cuda = None  # where tensors of a GPU are exchanged from where they lie
        self.values_hash = None
        if run is None:
            self.H, self.fragments, self.delay, self._mode, self._mix = H or 1, 1, 0, c.CARRY, 0.0
            self._automatic = self._late = False
            self._ahead = None
            self.rule = "none"
        else:
            self._join(socket, H, init, preset, rank, world, connect_timeout, progress_interval)
        # The step since which a fragment's local work has not been counted in any round.
        self._work_since = [0] * self.fragments

    def _join(self, socket, H, init, preset, rank, world, connect_timeout, progress_interval):
        def join():
            self._handle = Handle(self.run, socket, rank, world, connect_timeout, progress_interval)
            layout = self._handle.join(self._set.schema(), outer=True, init=init, local_steps=H or 0)
            count = len(self._set.entries)
            terms = {"H": layout.local_steps, "delay": layout.delay_steps, "mode": layout.apply_mode,
                     "mix": layout.mix, "fragments": layout.fragments, "rule": layout.rule.decode(),
                     "eta": layout.learning_rate, "mu": layout.momentum,
                     "placed": [self._handle.placement(i).fragment for i in range(count)]}
            if preset is not None:
                delay = "auto" if terms["delay"] == c.DELAY_AUTO else str(terms["delay"])
                presets.check(preset, {"rule": terms["rule"], "local_steps": terms["H"], "delay": delay,
                                       "fragments": terms["fragments"], "codec": layout.codec.decode()})
            self._gateway_cpu = pace.GatewayCpu(layout.gateway_pid)
            if self._group.alone:
                self._cuda = cuda.use(self._handle, self._set.entries)
            return terms

        terms = self._group.lead(join)
        self.H, self.fragments = terms["H"], terms["fragments"]
        self._mode, self._mix, self.rule = terms["mode"], terms["mix"], terms["rule"]
        self._automatic = terms["delay"] == c.DELAY_AUTO and world == 1
        self.delay = schedule.first_delay(terms["delay"], self.H)
        # Results are a whole round late: a fragment's is collected when its next work is submitted.
        self._late = self._mode == c.REPLACE and self.delay >= self.H
        self._ahead = {} if terms["rule"] == "eager" else None
        self._eta, self._mu = terms["eta"], terms["mu"]
        self._set.place(terms["placed"], self.fragments)
        if not self._group.alone:
            self._set.use_flats(self._group.share([self._set.flat(f)[0] for f in range(self.fragments)]))

        def form():
            slices, hosts = self._set.read_slices(self._set.all_indices())
            self._handle.offer(slices)
            replace, self._members = self._handle.ready()
            rounds = []
            for fragment in range(self.fragments):
                rounds.append(self._handle.fragment(fragment).newest_round)
                if replace:
                    staged, hosts = self._set.staged_slices(fragment)
                    self._handle.read(fragment, rounds[-1], staged)
                elif not self._group.alone:
                    self._set.stage(fragment)
            return {"replace": replace, "rounds": rounds}

        everything = range(self.fragments)
        formed = self._group.lead(form, self._handle, everything)
        self._rounds = formed["rounds"]
        # Ranks may have been built from different seeds: all take the same bytes now.
        if formed["replace"] or not self._group.alone:
            self._spread(everything)
        if formed["replace"]:
            log.info("run %s: parameters replaced by the run's, rounds %s", self.run, self._rounds)
            self._group.lead(lambda: [self._handle.applied(f, r) for f, r in enumerate(self._rounds)] and None)

    def _spread(self, fragments):
        """Brings the leader's staged values to every rank, and only then writes them."""
        self._group.take(fragments)
        for fragment in fragments:
            self._set.unstage(fragment)
        self._group.taken()

    # A step.

    def step(self):
        """After every optimizer step. Free, save where a fragment is submitted or due."""
        if self._finished:
            raise errors.InvalidCall("this run is finished")
        entered = time.monotonic()
        if self._began is None:
            self._began = entered
        elif self._left is not None:
            self._pace.add_step(entered - self._left, exchanging=bool(self._flights))
        self._steps += 1
        try:
            if self.run is not None:
                self._exchange()
        finally:
            self._left = time.monotonic()
            self._counts.blocked_s += self._left - entered

    def _exchange(self):
        if self._cuda is not None:
            self._cuda.follow()
        launches = schedule.launches(self._steps, self.fragments, self.H)
        if self._late:
            if launches:
                self._turn(launches)
            return
        self._collect([flight for flight in self._flights if flight.due <= self._steps])
        busy = {flight.fragment for flight in self._flights}
        self._launch([fragment for fragment in launches if fragment not in busy], self.delay)
        if self.delay == 0:
            self._collect([flight for flight in self._flights if flight.due <= self._steps])

    def _launch(self, fragments, delay, early=False):
        """Submits; the leader alone does anything. What goes wrong is said when the result is due, to all
        ranks at once: none of them waits for another here. ``early``: before its turn, which comes, too."""
        for fragment in fragments:
            due = self._steps + delay
            if early:
                due = min(due, schedule.next_launch(self._steps, fragment, self.fragments, self.H))
            flight = schedule.Flight(fragment, self._steps, due)
            self._flights.append(flight)
            if self._group.leader:
                try:
                    flight.op = self._submit(fragment, self._steps, asynchronous=delay > 0)
                except errors.Error as problem:
                    flight.problem = problem

    def _submit(self, fragment, step, origin=c.ORIGIN_BASE, asynchronous=False, snapshot=None):
        """On the leader; the operation's id. The work counts up to ``step``; ``snapshot``: flat, instead of
        the tensors as they are."""
        if snapshot is None:
            slices, hosts = self._set.read_slices(self._set.fragments[fragment])
        else:
            slices, hosts = self._set.flat_slices(fragment, snapshot)
        weight = whole_weight(self.weight) * (step - self._work_since[fragment])
        op = self._handle.submit(fragment, slices, weight, origin, asynchronous, self._labels.get(fragment))
        self._labels.pop(fragment, None)
        del hosts
        return op

    def _choose_delay(self):
        if not self._automatic:
            return self.delay
        return schedule.automatic_delay(self._pace.exchange_s(), self._pace.step_s(), self.H)

    def _await(self, flight):
        """On the leader: a flight's result as a dictionary, or Rebase where its work is lost."""
        if flight.problem is not None:
            if isinstance(flight.problem, errors.Rebase) or not flight.problem.retryable:
                raise flight.problem
            if self._late:  # the parameters are others now
                raise errors.Rebase(f"fragment {flight.fragment}: not submitted: {flight.problem}")
            flight.op, flight.problem = self._submit(flight.fragment, flight.step), None
        result = self._handle.wait(flight.op, f"fragment {flight.fragment}", attentive=not self._late)
        self._pace.add_exchange(result.exchange_s, self.fragments)
        return {"state": result.state, "round": result.round, "exchange_s": result.exchange_s,
                "staleness": result.staleness, "participants": result.participants,
                "raw_bytes": result.raw_bytes, "wire_bytes": result.wire_bytes}

    def _bring(self, fragment, replace):
        """Other clusters wait for this one's work on a fragment, and this one for theirs on another: trainers
        that began anew, or whose work was void, may be out of step. Without it none of them would go on."""
        log.info("run %s: others wait for fragment %d: it is submitted before its turn", self.run, fragment)
        self._collect([flight for flight in self._flights if flight.fragment == fragment], replace)
        self._launch([fragment], self.delay, early=True)

    def _collect(self, flights, replace=False):
        if not flights:
            return
        mode = c.REPLACE if replace else self._mode

        def fetch():
            # Every result is there before the first write.
            results, rebased, held = {}, {}, {}
            for flight in flights:
                try:
                    results[flight.fragment] = self._await(flight)
                except Wanted as wanted:
                    return {"wanted": wanted.fragment}
                except errors.Rebase as problem:
                    flight.problem = problem
                    log.warning("%s", problem)
                    rebased[flight.fragment] = self._read_newest(flight.fragment)
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
            return {"results": results, "rebased": rebased, "delay": self._choose_delay()}

        fragments = [flight.fragment for flight in flights]
        try:
            answer = late.by_fragment(self._group.lead(fetch, self._handle, fragments))
        except errors.Error as problem:
            if not problem.retryable:  # nothing of these flights counts; others may be collected yet
                self._flights = [flight for flight in self._flights if flight not in flights]
            raise
        if "wanted" in answer:
            self._spread([])  # nothing was written yet
            self._bring(answer["wanted"], replace)
            return self._collect([flight for flight in flights if flight in self._flights], replace)
        results, rebased = answer["results"], answer["rebased"]
        self._spread([f for f in fragments if f in rebased or (f in results and not self._group.alone)])
        self._flights = [flight for flight in self._flights if flight not in flights]
        for flight in flights:
            if flight.fragment in results:
                self._note(flight, results[flight.fragment], mode)
        self._group_applied({f: r["round"] for f, r in results.items()})
        self._note_rebased(rebased)
        self._take_delay(answer["delay"])

    def _take_delay(self, delay):
        if delay != self.delay:
            log.info("run %s: delay is now %d steps (exchange %.3f s, step %.4f s)", self.run, delay,
                     self._pace.exchange_s() or 0, self._pace.step_s() or 0)
            self.delay = delay

    def _group_applied(self, rounds):
        """The parameters stand on these values; the gateway may go on."""
        if self._group.leader:
            for fragment, round in rounds.items():
                self._handle.applied(fragment, round)

    def _note(self, flight, result, mode):
        fragment = flight.fragment
        self._rounds[fragment] = result["round"]
        if result["state"] != "committed":
            log.warning("fragment %d: round %d went on without this cluster", fragment, result["round"])
        if mode == c.REPLACE:
            self._work_since[fragment] = self._steps
        elif result["state"] == "committed":
            # What was trained after the snapshot is carried, and counts in the next round.
            self._work_since[fragment] = flight.step
        self._counts.add(result)

    def _read_newest(self, fragment):
        """On the leader: stages the run's newest value of a fragment; its round."""
        round = self._handle.fragment(fragment).newest_round
        slices, hosts = self._set.staged_slices(fragment)
        self._handle.read(fragment, round, slices)
        return round

    def _read_base(self, fragment):
        """On the leader: stages the value applied last. What was submitted since may have made a newer one
        already; where results are one round late that is for the next time."""
        slices, hosts = self._set.staged_slices(fragment)
        self._handle.read(fragment, self._handle.fragment(fragment).base_round, slices)

    def _note_rebased(self, rebased):
        """Values were written that replace the local work since the base: {fragment: round}."""
        for fragment, round in rebased.items():
            lost = self._steps - self._work_since[fragment]
            log.warning("fragment %d: rebased on round %d, %d local steps lost", fragment, round, lost)
            self._rounds[fragment] = round
            self._work_since[fragment] = self._steps
            self._counts.rebases += 1
            self._counts.steps_lost += lost
        self._group_applied(rebased)

    # The end, and looking at the run.

    def finish(self):
        """Collects what is in flight, exchanges all remaining work and leaves: every cluster that finished
        holds the same bytes. ``values_hash`` is the SHA-256 of the run's values."""
        if self._finished:
            return self.values_hash
        entered = time.monotonic()
        if self.run is not None:
            if self._cuda is not None:
                self._cuda.follow()
            if self._late:
                self._turn(range(self.fragments))
            else:
                while self._flights:
                    self._collect(list(self._flights))
                self._launch(range(self.fragments), 0)
            while self._flights:
                self._collect(list(self._flights), replace=True)

            def end():
                values_hash = self._handle.finish()
                self._handle.leave()
                self._handle.close()
                return values_hash.hex()

            self.values_hash = self._group.lead(end, self._handle)
            self._group.close()
        self._finished = True
        self._left = time.monotonic()
        self._began = self._began or entered
        self._counts.blocked_s += self._left - entered
        return self.values_hash

    def grow(self, model, optimizer=None, masters=None, shards=None):
        """Lets the run go on with more tensors: those of ``model`` that it did not have. All clusters' trainers
        call it after the same step; it exchanges all remaining work as ``finish`` does, and returns the
        ``Outer`` to go on with once every cluster has come so far. New tensors begin with one cluster's
        values. Optimizer state is the trainer's: ``optimizer`` may be new, or have got a param_group."""
        self.finish()
        known = {entry.name: entry for entry in self._set.entries if not entry.once_fixed()}
        stages = dict(self.stages)
        for entry in tensors_.model_entries(model, optimizer, masters):
            if entry.group not in self._groups:
                continue
            before = known.get(entry.name)
            thawed = before is not None and before.group == c.FIXED and entry.group != c.FIXED
            if thawed:  # what it was is still part of the schema
                stages[before.schema_name()] = before.stage
            if before is None or thawed:
                stages[entry.name] = 1 + max(self.stages.values(), default=0)
        larger = Outer(model, optimizer, masters=masters, shards=shards, stages=stages, **self._options)
        larger.resume_at(self._steps)
        return larger

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
                self._read_base(fragment)

        self._group.lead(read, self._handle, range(self.fragments))
        self._spread(range(self.fragments))
        try:
            yield self
        finally:
            tensors_.restore(kept)

    def snapshot(self, label):
        """Has every gateway keep, under ``label``, the state that each fragment's next round commits: values and
        outer momentum. All clusters' trainers call it after the same step. `causeway run rollback NAME --to LABEL`
        goes back to it. At most 31 letters, digits and . _ -, the first a letter or digit."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", label):
            raise errors.InvalidCall(f"{label!r} is no label: at most 31 letters, digits and . _ -")
        self._labels = dict.fromkeys(range(self.fragments), label)
        self._snapshot = label

    def stats(self):
        """Seconds, counts and bytes so far. blocked_s, the time inside these calls, is stall_s (results that
        were not there when they were due) and overhead_s (the rest); compute_use: 1 - blocked_s / wall_s.
        step_inflation: by what share a step takes longer while a fragment is exchanged; gateway_cpu_s: of
        the gateway's process since the join. None where not known; the last two on the leader only."""
        stats = dict(vars(self._counts))
        wall = self._left - self._began if self._began is not None and self._left is not None else 0.0
        stall = self._handle.stalled_s if self._handle is not None else 0.0
        stats.update(steps=self._steps, wall_s=wall, delay_steps=self.delay, in_flight=len(self._flights),
                     step_s=self._pace.step_s(), last_exchange_s=self._pace.exchange_s(),
                     stall_s=stall, overhead_s=max(0.0, stats["blocked_s"] - stall),
                     step_inflation=self._pace.inflation(),
                     gateway_cpu_s=self._gateway_cpu.seconds() if self._gateway_cpu is not None else None,
                     compute_use=1 - stats["blocked_s"] / wall if wall > 0 else 1.0)
        return stats

    def state_dict(self):
        """Where this trainer stands. Momentum and residual are the gateway's and not in here; neither is
        unfinished work: a restart joins anew and takes the run's newest values."""
        return {"format": _STATE_FORMAT, "run": self.run, "steps": self._steps, "H": self.H,
                "fragments": self.fragments, "work_since": list(self._work_since),
                "rounds": list(self._rounds) if self.run is not None else [], "snapshot": self._snapshot,
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
        self._snapshot = state.get("snapshot")
        self.resume_at(state["steps"])

    def resume_at(self, steps):
        """Goes on counting from so many steps; the parameters are the run's, no local work is outstanding."""
        self._steps = steps
        self._work_since = [steps] * self.fragments
