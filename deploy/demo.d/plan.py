"""What the demo trains: its runs and the gateways' configuration of each."""
import dataclasses

import wan_gateways

CLUSTERS = ("paris", "tokyo", "oslo", "lima")
RANKS = 2
CUT_AFTER_S = 20
EVALUATIONS = 10
LEARNING_RATE = 2e-3  # of the synchronous reference, tuned


@dataclasses.dataclass(frozen=True)
class RunPlan:
    name: str  # in the configuration; of the first seed: the kind
    kind: str  # sync-lan, sync-wan or causeway
    seed: int
    mode: str  # of the trainer: every-step or outer
    shaped: bool  # over the slow link
    steps: int
    local_steps: int
    algorithm: str  # YAML flow maps
    codec: str
    learning_rate: float = LEARNING_RATE  # of the inner optimizer
    cut_after_s: float = 0
    overlapped: bool = False


INT4 = "{kind: int4, error_feedback: true}"


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """How the clusters train over the slow link. `rule` and what follows is a run's configuration."""
    about: str
    rule: str
    local_steps: int = 1
    codec: str = INT4
    mode: str = "outer"
    learning_rate: float = LEARNING_RATE
    overlapped: bool = False


ALGORITHMS = {
    "average": Algorithm("parameters averaged every 10 steps", "rule: average", 10),
    "diloco": Algorithm("Nesterov on the mean of 20 steps",
                        "rule: nesterov, learning_rate: 0.7, momentum: 0.5", 20),
    "streaming": Algorithm("the same in 4 fragments, exchanged while training goes on",
                           "rule: nesterov, learning_rate: 0.7, momentum: 0.5, fragments: 4, delay: auto", 20,
                           overlapped=True),
    "eager": Algorithm("Nesterov one round late, clusters go on from their own new work",
                       "rule: eager, learning_rate: 0.7, momentum: 0.5", 20, overlapped=True),
    "co2": Algorithm("results one round late, the whole round hides the exchange",
                     "rule: co2, learning_rate: 0.5", 25, learning_rate=4e-3, overlapped=True),
    "sparseloco": Algorithm("4 % of the values, 2 bits each, every 10 steps",
                            "rule: sparseloco, learning_rate: 1.0", 10,
                            "{kind: \"topk:k400:v2:ef:decay950\"}", learning_rate=3e-3),
    "every-step": Algorithm("every step's gradients, 4 bits each", "rule: gradients",
                            codec="{kind: \"int4:b256:zstd\", error_feedback: true}", mode="every-step"),
}


@dataclasses.dataclass(frozen=True)
class Preset:
    algorithm: str
    codec: str = None  # instead of the algorithm's, as the command line names it
    longer: float = 1


PRESETS = {"standard": Preset("average"), "fast": Preset("streaming"),
           "longer": Preset("streaming", "int4:b256:zstd", 1.3)}


def codec_map(spec):
    """A codec of the command line as a configuration has it: with error feedback, unless it keeps every bit
    or rounds by chance."""
    options = spec.split(":")
    if options[0] in ("fp32", "fp32x") or {"ef", "sr"} & set(options[1:]):
        return '{kind: "%s"}' % spec
    return '{kind: "%s", error_feedback: true}' % spec


def choose(options):
    """Completes parsed options: `algorithm`, `codec` and `longer`, where a preset named them, and the clusters' `names`."""
    preset = PRESETS[options.preset]
    if options.algorithm is None:
        options.codec = options.codec or preset.codec
    options.algorithm = options.algorithm or preset.algorithm
    options.longer = preset.longer if options.longer is None else options.longer
    options.names = CLUSTERS[:options.clusters]
    return options


def causeway(options, seed=None):
    chosen = ALGORITHMS[options.algorithm]
    codec = chosen.codec if options.codec is None else codec_map(options.codec)
    rule = chosen.rule if chosen.mode == "every-step" else f"{chosen.rule}, local_steps: {chosen.local_steps}"
    return RunPlan(_name("causeway", seed, options), "causeway", options.seed if seed is None else seed,
                   chosen.mode, True, round(options.steps * options.longer), chosen.local_steps, f"{{{rule}}}", codec, chosen.learning_rate,
                   overlapped=chosen.overlapped)


def _name(kind, seed, options):
    return kind if seed is None or seed == options.seed else f"{kind}-{seed}"


def runs(options):
    """In order; sync-wan for the first seed only."""
    planned = []
    for seed in range(options.seed, options.seed + options.seeds):
        synchronous = {"seed": seed, "mode": "every-step", "steps": options.steps, "local_steps": 1, "algorithm": "{rule: gradients}",
                       "codec": "{kind: fp32}"}
        planned.append(RunPlan(_name("sync-lan", seed, options), "sync-lan", shaped=False, **synchronous))
        if seed == options.seed:
            planned.append(RunPlan("sync-wan", "sync-wan", shaped=True, cut_after_s=CUT_AFTER_S,
                                   **synchronous))
        planned.append(causeway(options, seed))
    return planned


def entries(options):
    """The runs as a gateway's configuration has them."""
    return [wan_gateways.run_entry(run.name, options.names, run.algorithm, run.codec)
            for run in runs(options)]
