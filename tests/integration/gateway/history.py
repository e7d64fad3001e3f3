"""The history checker: what gateways say they committed, compared.

Every commit is in a gateway's log with the name of the state that it made (lineage, round, chain hash): where two
gateways name the same lineage, fragment and round, they must name the same chain, and each gateway's own rounds
must ascend one by one within a life of its process and lineage, save where it took over a later state.
"""
import re

STATE = re.compile(r"l(\d+) r(\d+) ([0-9a-f]+)")


def commits(gateway):
    """[(fragment, lineage, round, chain)] in the order of the log."""
    found = []
    for event in gateway.events("round.committed"):
        match = STATE.fullmatch(event["state"])
        assert match, f"{gateway.cluster} logs a commit of {event['state']!r}"
        lineage, number, chain = match.groups()
        found.append((int(event["fragment"]), int(lineage), int(number), chain))
    return found


def check(group):
    """AssertionError names the first difference; the number of commits compared otherwise."""
    decided = {}
    compared = 0
    for gateway in group:
        newest = {}
        for fragment, lineage, number, chain in commits(gateway):
            place = (fragment, lineage, number)
            who, known = decided.setdefault(place, (gateway.cluster, chain))
            assert known == chain, (f"fragment {fragment} lineage {lineage} round {number}: {chain} at "
                                    f"{gateway.cluster}, {known} at {who}")
            before = newest.get((fragment, lineage), 0)
            assert number > before, f"{gateway.cluster} committed round {number} after {before}"
            newest[fragment, lineage] = number
            compared += 1
    return compared
