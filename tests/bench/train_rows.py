"""What tests/bench/run train trains: the rows of its table, and what they are compared with."""
import dataclasses

PARAMETERS = 544_256


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table, compared with synchronous training by the same inner optimizer. `gap` and `bytes`: what is
    asked of it, in per cent and as a factor. `counted`: whether it matters how many bytes it sends."""

    algorithm: str
    codec: str
    learning_rate: float = 2e-3
    clusters: int = 2
    mode: str = "outer"
    optimizer: str = "adamw"
    gap: float = None
    bytes: float = None
    counted: bool = True

    def settings(self):
        exchanged = [] if self.mode == "alone" else [self.algorithm, self.codec, self.clusters]
        return exchanged + [self.optimizer] * (self.optimizer != "adamw")


INT4 = "{kind: \"int4:b256:zstd\", error_feedback: true}"
NESTEROV = "rule: nesterov, learning_rate: {}, momentum: 0.5, local_steps: {}"
CO2 = "{{rule: co2, learning_rate: {}, local_steps: 25{}}}"
SPARSE = "{rule: sparseloco, learning_rate: 1.0, local_steps: 10}"
ROWS = {
    "every-step": Row("{rule: gradients}", INT4, mode="every-step", gap=0.2, bytes=10.5),
    "every-step-raw": Row("{rule: gradients}", "{kind: \"int4:b256\", error_feedback: true}", mode="every-step", gap=0.5,
                          bytes=7.5),
    "H=10": Row("{rule: average, local_steps: 10}", INT4, gap=1.2, bytes=88),
    "H=20": Row("{" + NESTEROV.format(0.7, 20) + "}", INT4, gap=1.6, bytes=175),
    "H=50": Row("{" + NESTEROV.format(0.8, 50) + "}", INT4, gap=2.4, bytes=440),
    "extreme": Row(SPARSE, "{kind: \"topk:k400:v2:ef:decay950\"}", 3e-3, gap=2.6, bytes=700),
    "extreme-1000x": Row(SPARSE, "{kind: \"topk:k285:v2:ef:decay950\"}", 3e-3, gap=2.6, bytes=700),
    "extreme-blocks": Row(SPARSE, "{kind: \"btopk:k128:v2:ef:decay950\"}", 4e-3),
    "sign-H=25": Row("{" + NESTEROV.format(0.8, 25) + "}", "{kind: \"sign:ef\"}", 3e-3),
    "4-clusters-H=50": Row("{" + NESTEROV.format(1.0, 50) + "}", INT4, clusters=4, gap=4.7, bytes=440),
    "co2": Row(CO2.format(0.5, ""), INT4, 4e-3, gap=8, bytes=230),
    "co2-gap": Row(CO2.format(0.8, ", penalty: gap"), INT4, 4e-3),
    "co2-gap-window": Row(CO2.format(0.8, ", penalty: gap, penalty_window: 8"), INT4, 4e-3),
    "co2-clip": Row(CO2.format(0.5, ", clip: 0.01"), INT4, 4e-3),
    "co2-gap-clip": Row(CO2.format(0.8, ", penalty: gap, clip: 0.01"), INT4, 4e-3),
    "H=10-muon": Row("{rule: average, local_steps: 10}", INT4, 4e-3, optimizer="muon"),
    "H=20-muon": Row("{" + NESTEROV.format(0.7, 20) + "}", INT4, 4e-3, optimizer="muon"),
    "H=50-muon": Row("{" + NESTEROV.format(0.8, 50) + "}", INT4, 4e-3, optimizer="muon"),
    "4-clusters-H=50-muon": Row("{" + NESTEROV.format(1.0, 50) + "}", INT4, 4e-3, clusters=4, optimizer="muon", gap=4.7,
                                bytes=440),
    "eager": Row("{rule: eager, learning_rate: 0.7, momentum: 0.5, local_steps: 20}", INT4),
    "streaming-d=0": Row("{" + NESTEROV.format(0.7, 20) + ", fragments: 4}", INT4),
    "streaming-d=1": Row("{" + NESTEROV.format(0.7, 20) + ", fragments: 4, delay: 1}", INT4),
    "streaming-d=5": Row("{" + NESTEROV.format(0.7, 20) + ", fragments: 4, delay: 5}", INT4),
    "streaming-d=5-mix": Row("{" + NESTEROV.format(0.7, 20) + ", fragments: 4, delay: 5, mix: 0.5}", INT4),
    "H=20-scheduled": Row("{" + NESTEROV.format(0.9, 20) + ", final_learning_rate: 0.5, schedule_rounds: 50}",
                          INT4),
    # A cluster's own gradient is of half as many samples, its Adam steps so much shorter (by sqrt(2) where noise rules):
    # a longer step, of the outer rule or of the inner optimizer, makes up for it.
    "H=10-nesterov": Row("{rule: nesterov, learning_rate: 0.8, momentum: 0.4, local_steps: 10}", INT4),
    "H=10-longer-steps": Row("{rule: average, local_steps: 10}", INT4, 2.8e-3),
    "H=50-no-feedback": Row("{" + NESTEROV.format(0.8, 50) + "}", "{kind: \"int4:b256:zstd\"}"),
    "H=20-no-feedback": Row("{" + NESTEROV.format(0.7, 20) + "}", "{kind: \"int4:b256:zstd\"}"),
}
SYNCHRONOUS = Row("{rule: gradients}", "{kind: fp32}", mode="every-step", counted=False)
ALONE = Row("", "", mode="alone", counted=False)
SYNCHRONOUS_RATES = {"adamw": 2e-3, "muon": 4e-3}  # tuned on seed 1000
