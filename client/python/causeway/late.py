"""Rules whose results are one round late (co2, eager): a result is collected when the next work is submitted.

Part of ``causeway.Outer``, which mixes it in.
"""

import logging

from . import _library as c
from . import eager
from . import errors
from . import schedule

log = logging.getLogger("causeway")


class LateRounds:
    def _turn(self, fragments):
        """Of rules that are one round late: collects the last round's results, submits this round's work,
        which started from the values before those results, and goes on from the results."""
        flown = {flight.fragment: flight for flight in self._flights if flight.fragment in fragments}
        flights = {f: schedule.Flight(f, self._steps, self._steps + self.H) for f in fragments}

        def turn():
            results, rebased = {}, {}
            for fragment, flight in flown.items():
                try:
                    results[fragment] = self._await(flight)
                except errors.Rebase as problem:
                    rebased[fragment] = str(problem)
            for fragment in fragments:
                try:
                    self._submit_late(flights[fragment], results.get(fragment), rebased)
                except errors.Rebase as problem:
                    rebased[fragment] = str(problem)
            for fragment, text in rebased.items():
                log.warning("%s", text)
            newest = {fragment: self._read_newest(fragment) for fragment in rebased}
            for fragment in fragments:
                if fragment in rebased and self._ahead is not None and fragment in self._ahead:
                    self._ahead[fragment].restart(self._set.flat(fragment)[0])
                elif fragment not in rebased and self._ahead is None:
                    self._read_base(fragment)
            return {"results": results, "rebased": newest}

        answer = by_fragment(self._group.lead(turn, self._handle, fragments))
        self._spread(fragments)
        self._flights = [flight for flight in self._flights if flight.fragment not in fragments]
        for fragment, result in answer["results"].items():
            self._note(flown[fragment], result, c.REPLACE)
        self._note_rebased(answer["rebased"])
        for fragment in fragments:
            self._work_since[fragment] = self._steps
            if fragment not in answer["rebased"]:
                self._flights.append(flights[fragment])

    def _submit_late(self, flight, result, rebased):
        """On the leader: this round's work of a fragment, once the last round's result is here."""
        fragment = flight.fragment
        if fragment in rebased:
            return
        origin = c.ORIGIN_BASE
        if result is not None:
            self._handle.applied(fragment, result["round"])
        if self._ahead is not None:
            return self._submit_ahead(flight, result)
        if result is not None:
            if result["round"] != self._rounds[fragment] + 1:
                raise errors.Rebase(f"fragment {fragment}: the run went on to round {result['round']} "
                                    "without this cluster")
            origin = c.ORIGIN_OLDER
        self._try_submit(flight, origin)

    def _try_submit(self, flight, origin=c.ORIGIN_BASE, snapshot=None):
        try:
            flight.op = self._submit(flight.fragment, self._steps, origin, snapshot=snapshot)
        except errors.Rebase:
            raise
        except errors.Error as problem:
            flight.problem = problem

    def _submit_ahead(self, flight, result):
        """On the leader, rule eager: this round's work, and the private value to go on from, staged."""
        fragment = flight.fragment
        self._read_base(fragment)
        staged = self._set.flat(fragment)[0]
        newest, now = staged.clone(), self._set.gathered(fragment)
        if fragment not in self._ahead:
            # Buffers are averaged, whatever the rule.
            parameters = self._handle.fragment(fragment).group == c.PARAMETER
            self._ahead[fragment] = eager.Ahead(self._eta if parameters else 1.0,
                                                self._mu if parameters else 0.0, newest)
        ahead = self._ahead[fragment]
        if result is not None:
            ahead.decided(result["state"] == "committed")
            self._members = max(1, result["participants"])
        self._try_submit(flight, snapshot=ahead.snapshot(now, newest))
        staged.copy_(ahead.advance(now, newest, 1.0 / self._members))


def by_fragment(answer):
    """The leader's answer as it was: JSON makes words of a dictionary's numbers."""
    return {key: {int(f): v for f, v in value.items()} if isinstance(value, dict) else value
            for key, value in answer.items()}
