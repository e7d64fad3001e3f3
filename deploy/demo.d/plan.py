"""What the demo trains: the three runs and the gateways' configuration of each."""
import dataclasses

import wan_gateways

CLUSTERS = ("paris", "tokyo")
RANKS = 2
CUT_AFTER_S = 20
EVALUATIONS = 10
LEARNING_RATE = 2e-3


@dataclasses.dataclass(frozen=True)
class RunPlan:
    name: str
    mode: str  # of the trainer: every-step or outer
    shaped: bool  # over the slow link
    local_steps: int
    algorithm: str  # YAML flow maps
    codec: str
    cut_after_s: float = 0
    overlapped: bool = False


SYNCHRONOUS = {"mode": "every-step", "local_steps": 1, "algorithm": "{rule: gradients}",
               "codec": "{kind: fp32}"}
CAUSEWAY = {
    "standard": RunPlan("causeway", "outer", True, 10, "{rule: average, local_steps: 10}",
                        "{kind: int4, error_feedback: true}"),
    "fast": RunPlan("causeway", "outer", True, 20,
                    "{rule: nesterov, learning_rate: 0.7, momentum: 0.5, local_steps: 20, fragments: 4, "
                    "delay: auto}", "{kind: int4, error_feedback: true}", overlapped=True),
}


def codec_map(spec):
    """A codec of the command line as a configuration has it: with error feedback, unless it keeps every bit
    or rounds by chance."""
    options = spec.split(":")
    if options[0] in ("fp32", "fp32x") or {"ef", "sr"} & set(options[1:]):
        return '{kind: "%s"}' % spec
    return '{kind: "%s", error_feedback: true}' % spec


def runs(preset, codec=None):
    ours = CAUSEWAY[preset]
    if codec is not None:
        ours = dataclasses.replace(ours, codec=codec_map(codec))
    return [RunPlan("sync-lan", shaped=False, **SYNCHRONOUS),
            RunPlan("sync-wan", shaped=True, cut_after_s=CUT_AFTER_S, **SYNCHRONOUS), ours]


def entries(preset, codec=None):
    """The runs as a gateway's configuration has them."""
    return [wan_gateways.run_entry(run.name, CLUSTERS, run.algorithm, run.codec)
            for run in runs(preset, codec)]
