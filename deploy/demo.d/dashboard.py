"""What the demo shows while it trains: a few lines redrawn in place, or plain lines where there is no terminal."""
import os
import shutil
import sys
import time

import charts

REDRAW_S = 0.25
PLAIN_S = 5
STATUS_S = 2
RATE_WINDOW_S = 1
SPARKS = " ▁▂▃▄▅▆▇█"
SPARK_WIDTH = 24
BAR_WIDTH = 24
LOSS_STEPS = 20


class Dashboard:
    def __init__(self, options, plans, stream=sys.stdout):
        self.stream = stream
        self.drawn = stream.isatty() and not options.plain and os.environ.get("TERM") != "dumb"
        self.colored = self.drawn and "NO_COLOR" not in os.environ
        self.options, self.plans = options, plans
        self.rate_mbit = None
        self.records = {}
        self.lines_up = 0
        self.last_shown = self.last_status = 0.0
        self.begin = time.monotonic()

    def color(self, text, code):
        return f"\033[{code}m{text}\033[0m" if self.colored else text

    def say(self, text):
        """A line that stays."""
        self.erase()
        print(text, file=self.stream, flush=True)

    def erase(self):
        if self.lines_up:
            self.stream.write(f"\033[{self.lines_up}F\033[J")
            self.lines_up = 0

    def over(self, record):
        self.records[record["name"]] = record
        if not self.drawn:
            self.say(f"{record['name']}: {record['steps']} steps in {record['wall_s']:.1f} s, "
                     f"{record['final_bits_per_byte']:.4f} bits/byte, "
                     f"{charts.bytes_text(record['wire_bytes_per_cluster'])} sent by each cluster")

    def show(self, training):
        now = time.monotonic()
        if now - self.last_status >= STATUS_S:
            self.last_status = now
            for gateway in training.gateways.values():
                gateway.status()
        if now - self.last_shown < (REDRAW_S if self.drawn else PLAIN_S):
            return
        self.last_shown = now
        if self.drawn:
            self.redraw(training)
        else:
            self.say(self.plain_line(training))

    def plain_line(self, training):
        parts = []
        for trainer in training.trainers:
            step, loss, rounds, sent, rate, waits = self.facts(training, trainer)
            parts.append(f"{trainer.cluster} step {step} loss {loss} rounds {rounds} sent {sent} "
                         f"{rate:.1f} Mbit/s" + (f" waits for {waits}" if waits else ""))
        return f"[{self.clock()}] {training.run.name}: " + "; ".join(parts)

    def clock(self):
        seconds = int(time.monotonic() - self.begin)
        return f"{seconds // 60}:{seconds % 60:02d}"

    @staticmethod
    def rate(training, cluster):
        series = training.sent[cluster]
        end = series.times[-1]
        begin = max(end - RATE_WINDOW_S, series.times[0])
        return (series.at(end) - series.at(begin)) * 8e-6 / max(end - begin, 1e-3)

    @staticmethod
    def loss(steps):
        last = [step["loss_bits"] for step in steps[-LOSS_STEPS:]]
        return sum(last) / len(last) if last else None

    def facts(self, training, trainer):
        series = training.sent[trainer.cluster]
        loss = self.loss(trainer.steps)
        rounds = trainer.steps[-1]["rounds"] if trainer.steps else 0
        awaited = training.gateways[trainer.cluster].awaited(training.run.name)
        return (len(trainer.steps), f"{loss:.3f}" if loss else "-", rounds,
                charts.bytes_text(series.values[-1] - series.values[0]),
                self.rate(training, trainer.cluster), ", ".join(awaited))

    def redraw(self, training):
        width = shutil.get_terminal_size().columns - 1
        lines = [self.color(" Causeway ", "1;7") + f"  {' ⇄ '.join(self.options.names)}   link "
                 f"{self.options.rate}, {self.options.rtt}   mutual TLS 1.3   {self.clock()}", ""]
        lines += [self.run_line(run, training) for run in self.plans]
        lines += ["", self.color(f"  {'cluster':9}{'loss':>7}{'rounds':>8}{'sent':>11}   link use"
                                 f"{'':{SPARK_WIDTH + 8}}waits for", "2")]
        for trainer in training.trainers:
            _, loss, rounds, sent, rate, waits = self.facts(training, trainer)
            lines.append(f"  {trainer.cluster:9}{loss:>7}{rounds:>8}{sent:>11}   "
                         f"{self.sparks(training, trainer.cluster)} {rate:6.1f} Mbit/s   {waits}")
        self.erase()
        shown = [clip(line, width) for line in lines]
        self.stream.write("\n".join(shown) + "\n")
        self.stream.flush()
        self.lines_up = len(shown)

    def run_line(self, run, training):
        record = self.records.get(run.name)
        if record:
            bar = self.bar(record["steps"] / run.steps)
            return (f"  {run.name:12} {bar} {record['steps']:5} steps   "
                    f"{record['final_bits_per_byte']:.4f} bits/byte   "
                    f"{charts.bytes_text(record['wire_bytes_per_cluster']):>8}   {record['wall_s']:.0f} s")
        if run is not training.run:
            return self.color(f"  {run.name:12} {self.bar(0)}  to come", "2")
        trainer = training.trainers[0]
        loss = self.loss(trainer.steps)
        state = f"loss {loss:.3f}" if loss else ("first steps" if trainer.joined else "starting")
        if run.cut_after_s:
            state += f"   cut after {run.cut_after_s} s"
        return self.color(f"▸ {run.name:12} {self.bar(len(trainer.steps) / run.steps)} "
                          f"{len(trainer.steps):5} steps   {state}", "1;36")

    @staticmethod
    def bar(share):
        full = round(min(share, 1) * BAR_WIDTH)
        return "█" * full + "░" * (BAR_WIDTH - full)

    def sparks(self, training, cluster):
        """Link use over the last seconds, full height at the link's rate (unshaped: at its own peak)."""
        series = training.sent[cluster]
        end = series.times[-1]
        rates = []
        for i in range(SPARK_WIDTH, 0, -1):
            begin = end - i * 0.5
            moved = series.at(begin + 0.5) - series.at(begin) if begin + 0.5 > series.times[0] else 0
            rates.append(moved * 8e-6 / 0.5)
        full = (self.rate_mbit if training.run.shaped else None) or max(max(rates), 1e-9)
        return "".join(SPARKS[min(round(rate / full * (len(SPARKS) - 1)), len(SPARKS) - 1)]
                       for rate in rates)


def clip(line, width):
    """Cuts a line to the terminal's width, not counting colour codes."""
    shown, result, i = 0, [], 0
    while i < len(line):
        if line[i] == "\033":
            end = line.index("m", i) + 1
            result.append(line[i:end])
            i = end
            continue
        if shown < width:
            result.append(line[i])
        shown += 1
        i += 1
    return "".join(result)
