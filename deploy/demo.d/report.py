"""report.html: what the demo showed, in one file that needs nothing else."""
import html

import charts

COLORS = {"sync-lan": "--lan", "sync-wan": "--wan", "causeway": "--causeway"}
LABELS = {"sync-lan": "sync, LAN", "sync-wan": "sync, WAN", "causeway": "Causeway, WAN"}
SMOOTHING_STEPS = 20

STYLE = """
:root { color-scheme: light dark; --page: #fbfaf8; --card: #ffffff; --ink: #1d2430; --soft: #667085; --rule: #e6e3dd;
  --lan: #5b6777; --wan: #c2571a; --causeway: #0f7b6c; --good: #0f7b6c; --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --page: #14171c; --card: #1c2027; --ink: #e7e9ee; --soft: #98a2b3;
  --rule: #2c323c; --lan: #a9b4c4; --wan: #f0934f; --causeway: #3ecfb4; --good: #3ecfb4; --bad: #f97066; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 900px; margin: 0 auto; padding: 40px 20px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 0 0 2px; }
p { margin: 0 0 14px; } .soft { color: var(--soft); }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 20px 22px; margin-top: 20px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 20px; }
.figures b { display: block; font-size: 30px; line-height: 1.15; font-variant-numeric: tabular-nums; letter-spacing: -0.02em; }
.figures span { color: var(--soft); font-size: 14px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14.5px; }
th, td { text-align: right; padding: 8px 8px; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; } th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr:last-child td { border-bottom: 0; } section > p.soft { font-size: 14px; } .scroll + p { margin: 10px 0 0; }
svg { width: 100%; height: auto; display: block; margin-top: 10px; }
svg text { font: 12px system-ui, "Segoe UI", Roboto, sans-serif; }
.tick, .name { fill: var(--soft); } .grid { stroke: var(--rule); } .axis { stroke: var(--soft); }
.reference { stroke: var(--soft); stroke-dasharray: 4 4; } .mark { fill: var(--card); stroke-width: 1.6; }
svg .label { font-weight: 600; } .dot { display: inline-block; width: 10px; height: 10px; border-radius: 5px; margin-right: 8px; }
code { font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.good { color: var(--good); } .bad { color: var(--bad); }
"""


def smooth(points, count=SMOOTHING_STEPS):
    """Mean of the last `count` values at each point."""
    result, total = [], 0.0
    for i, (x, y) in enumerate(points):
        total += y
        if i >= count:
            total -= points[i - count][1]
        if i + 1 >= count:
            result.append((x, total / count))
    return result


def loss_series(runs, x_key):
    series = []
    for run in runs:
        steps = [(sample[x_key], sample["loss_bits"]) for sample in run["samples"]]
        marks = [(mark[x_key], mark["bits_per_byte"]) for mark in run["evaluations"]]
        series.append({"label": LABELS[run["kind"]], "color": COLORS[run["kind"]],
                       "points": smooth(steps), "marks": marks})
    return series


def loss_range(runs):
    """From the best value to a little more than twice it: what came before is clipped."""
    values = [y for series in loss_series(runs, "seconds") for _, y in series["points"]]
    finals = [run["final_bits_per_byte"] for run in runs]
    if not values:
        return None
    low, high = min(values + finals), max(values)
    return charts.padded(low, min(high, low * 2.2))


def table(runs, reference):
    rows = []
    for run in runs:
        ratio = reference["bytes_per_parameter_step"] / max(run["bytes_per_parameter_step"], 1e-12)
        identical = ('<span class="good">yes</span>' if run["identical"]
                     else '<span class="bad">no</span>')
        cells = [f'<span class="dot" style="background:var({COLORS[run["kind"]]})"></span>'
                 f'{LABELS[run["kind"]]}',
                 f'{run["final_bits_per_byte"]:.4f}', f'{run["steps"]}', f'{run["wall_s"]:.1f} s',
                 charts.bytes_text(run["wire_bytes_per_cluster"]),
                 f'{run["bytes_per_parameter_step"]:.4f}', f'{ratio:.1f}x',
                 f'{100 * run["compute_use"]:.1f} %', identical]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    heads = ["run", "bits/byte", "steps", "time", "sent", "B/param/step", "fewer a step", "computing",
             "identical"]
    return ('<div class="scroll"><table><tr>' + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"
            + "".join(rows) + "</table></div>")


def link_series(runs):
    return [{"label": LABELS[run["kind"]], "color": COLORS[run["kind"]],
             "points": [(sample["seconds"], sample["mbit_per_s"]) for sample in run["link_use"]]}
            for run in runs if run["name"] != "sync-lan"]


def figures(facts):
    return ('<div class="figures">' + "".join(f"<div><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>"
                                              for value, name in facts) + "</div>")


def render(document):
    """HTML from {"title", "setting", "facts": [(value, name)], "runs", "link_mbit_per_s", "hashes", "notes"}."""
    runs = document["runs"]
    reference = next((run for run in runs if run["name"] == "sync-lan"), runs[0])
    limits = loss_range(runs)
    by_bytes = charts.line_chart("Loss against bytes sent", loss_series(runs, "bytes"),
                                 "bytes sent by each cluster (logarithmic)", "bits a byte",
                                 x_logarithmic=True, y_range=limits, x_text=charts.bytes_text)
    by_seconds = charts.line_chart("Loss against time", loss_series(runs, "seconds"),
                                   "seconds since the first step", "bits a byte", y_range=limits)
    rate = document["link_mbit_per_s"]
    use = charts.line_chart("Use of the link", link_series(runs), "seconds since the first step",
                            "Mbit/s sent by each cluster", y_range=(0, rate * 1.08) if rate else None,
                            reference=(rate, "rate of the link") if rate else None)
    hashes = "".join(f"<p><b>{LABELS[name]}</b><br><code>{html.escape(text)}</code></p>"
                     for name, text in document["hashes"].items())
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in document["notes"])
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(document["title"])}</title><style>{STYLE}</style></head><body><main>
<h1>{html.escape(document["title"])}</h1><p class="soft">{html.escape(document["setting"])}</p>
<section>{figures(document["facts"])}</section>
<section><h2>The runs</h2>{table(runs, reference)}
<p class="soft">bits/byte: validation loss at the end. sent: wire bytes of one cluster, start-up apart. computing: share of the time not blocked in Causeway's calls. identical: every cluster ended with the same parameters, bit by bit.</p></section>
<section><h2>Loss against bytes</h2><p class="soft">Lines: training loss, mean of {SMOOTHING_STEPS} steps. Dots: validation loss. Further left is cheaper.</p>{by_bytes}</section>
<section><h2>Loss against time</h2>{by_seconds}</section>
<section><h2>Use of the link</h2><p class="soft">Mean of both directions, IP headers and above.</p>{use}</section>
<section><h2>Parameters at the end</h2><p class="soft">SHA-256 over all parameters, the same on every rank of every cluster.</p>{hashes}</section>
<section><h2>How it was measured</h2>{notes}</section>
</main></body></html>
"""
