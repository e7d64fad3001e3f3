"""The history checker: what gateways and trainers say of the rounds, compared.

Every commit is in a gateway's log with the name of the state that it made (lineage, round, chain hash): where two
gateways name the same lineage, fragment and round, they must name the same chain, and each gateway's own rounds
must ascend one by one within a life of its process and lineage, save where it took over a later state.

Every value that a trainer goes on from is in that trainer's log by its hash: where two trainers, or one twice, name the
same fragment and round, they must name the same value, and some gateway must have committed it. Trainers know nothing
of lineages: after a rollback a round has as many values as gateways have committed chains for it.
"""
import re
import time

LOG_PATIENCE_S = 20  # only reached where something is wrong
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


def check(gateways, trainers=()):
    """AssertionError names the first difference; the number of commits and applied values compared otherwise."""
    decided = {}
    compared = 0
    for gateway in gateways:
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
    return compared + check_applied(trainers, decided)


def check_applied(trainers, decided):
    """`decided`: {(fragment, lineage, round): whatever} that gateways committed."""
    lineages = {lineage for _, lineage, _ in decided}
    chains = {}
    for fragment, _, number in decided:
        chains[fragment, number] = chains.get((fragment, number), 0) + 1
    applied = {}
    compared = 0
    for trainer in trainers:
        newest = {}
        for life, fragment, number, value in trainer.applied():
            # What a run begins with is no commit; each lineage may have begun anew.
            possible = chains.get((fragment, number), 0) if number > 0 else max(1, len(lineages))
            assert possible, (f"a trainer of {trainer.cluster} applied fragment {fragment} round {number}, which no "
                              f"gateway committed")
            values = applied.setdefault((fragment, number), {})
            values.setdefault(value, trainer.cluster)
            assert len(values) <= possible, (f"trainers applied different values of fragment {fragment} round {number}: "
                                             + ", ".join(f"{what} at {who}" for what, who in values.items()))
            before = newest.get((life, fragment), -1)
            assert number > before or len(lineages) > 1, (f"a trainer of {trainer.cluster} applied fragment {fragment} "
                                                          f"round {number} after {before}")
            newest[life, fragment] = number
            compared += 1
    return compared


def check_group(group):
    """Of a group's gateways and of all trainers that it ever had. Gateways write their logs beside their work: what
    trainers have is waited for."""
    deadline = time.monotonic() + LOG_PATIENCE_S
    while time.monotonic() < deadline:
        logged = {(fragment, number) for gateway in group.gateways.values() for fragment, _, number, _ in commits(gateway)}
        if all(number == 0 or (fragment, number) in logged
               for trainer in group.trainers for _, fragment, number, _ in trainer.applied()):
            break
        time.sleep(0.05)
    return check(group.gateways.values(), group.trainers)
