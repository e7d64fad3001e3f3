"""Three ways to train, as a run's configuration has them. A trainer that names one insists on it at join.

quality  averages every 10 steps and waits for it: the smallest loss gap
fast     every 20 steps, in 4 fragments that travel while training goes on
extreme  SparseLoCo: 4 % of the values, 2 bits each, every 10 steps: the fewest bytes
"""

from . import errors

PRESETS = {
    "quality": {"rule": "average", "local_steps": 10, "fragments": 1, "delay": "0", "codec": "int4:b256:ef"},
    "fast": {"rule": "nesterov", "local_steps": 20, "fragments": 4, "delay": "auto", "codec": "int4:b256:ef"},
    "extreme": {"rule": "sparseloco", "local_steps": 10, "fragments": 1, "delay": "0",
                "codec": "topk:k400:v2:ef:decay950"},
}
_RATES = {"nesterov": "learning_rate: 0.7, momentum: 0.5, ", "sparseloco": "learning_rate: 1.0, "}


def configuration(name):
    """The `algorithm` and `codec` lines for the gateways' causeway.yaml."""
    p = _known(name)
    return (f"algorithm: {{rule: {p['rule']}, {_RATES.get(p['rule'], '')}local_steps: {p['local_steps']}, "
            f"fragments: {p['fragments']}, delay: {p['delay']}}}\ncodec: {{kind: \"{p['codec']}\"}}\n")


def _known(name):
    if not isinstance(name, str) or name not in PRESETS:
        raise errors.InvalidCall(f"preset must be one of {', '.join(PRESETS)}, not {name!r}")
    return PRESETS[name]


def check_name(name):
    """None, or one of PRESETS."""
    if name is not None:
        _known(name)


def check(name, terms):
    """``terms``: what the gateway says of the run, with the preset's keys. Raises AlgorithmError."""
    wanted = _known(name)
    for key, value in wanted.items():
        # Fewer fragments are made where a model has fewer tensors.
        differs = terms[key] > value if key == "fragments" else terms[key] != value
        if differs:
            raise errors.AlgorithmError(
                f"preset {name} has {key} {value}, the gateways' configuration {terms[key]}; configure the "
                f"run on every gateway as\n{configuration(name)}")
