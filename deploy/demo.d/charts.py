"""Line charts as SVG text: axes, series, direct labels. Colours are CSS variables of the page around them.

Pure functions over numbers; they know nothing of training.
"""
import html
import math

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 58, 116, 18, 46
POINTS_MAX = 400
LABEL_GAP = 15
TICKS_WANTED = 6


class Scale:
    """Maps values to pixels; linear, or logarithmic for values above zero."""

    def __init__(self, low, high, begin, end, logarithmic=False):
        self.logarithmic = logarithmic
        if logarithmic:
            low, high = math.log10(low), math.log10(high)
        if high <= low:
            high = low + 1
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def __call__(self, value):
        if self.logarithmic:
            value = math.log10(max(value, 1e-12))
        share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self):
        if self.logarithmic:
            return [10.0**e for e in range(math.ceil(self.low), math.floor(self.high) + 1)]
        step = nice_step((self.high - self.low) / TICKS_WANTED)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def nice_step(rough):
    """1, 2 or 5 times a power of ten, at least `rough`."""
    power = 10.0**math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))


def thin(points, count=POINTS_MAX):
    """At most about `count` of the points, the last among them."""
    if len(points) <= count:
        return points
    step = math.ceil(len(points) / count)
    return points[::step] + ([points[-1]] if (len(points) - 1) % step else [])


def spread(positions, gap, low, high):
    """Moves label positions apart so that none overlap, keeping their order."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    moved = list(positions)
    for before, after in zip(order, order[1:]):
        moved[after] = max(moved[after], moved[before] + gap)
    limit = high
    for i in reversed(order):
        moved[i] = max(min(moved[i], limit), low)
        limit = moved[i] - gap
    return moved


def bytes_text(value):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def number_text(value):
    return f"{value:g}"


def line_chart(title, series, x_label, y_label, x_logarithmic=False, y_range=None,
               x_text=number_text, y_text=number_text, reference=None):
    """`series`: [{"label", "color" (a CSS variable), "points": [(x, y)], "marks": [(x, y)]}].

    `marks` are drawn as dots. `reference`: (y, label) of a dashed line across the chart.
    """
    series = [s for s in series if s["points"]]
    everything = [p for s in series for p in s["points"] + s.get("marks", [])]
    if not everything:
        return "<p>No data.</p>"
    xs, ys = [p[0] for p in everything], [p[1] for p in everything]
    y_low, y_high = y_range or padded(min(ys), max(ys))
    x_low = min(x for x in xs if x > 0) if x_logarithmic else 0
    x = Scale(x_low, max(xs), LEFT, WIDTH - RIGHT, x_logarithmic)
    y = Scale(y_low, y_high, HEIGHT - BOTTOM, TOP)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">']
    clip = "clip-" + "".join(c for c in title.lower() if c.isalpha())
    parts.append(f'<clipPath id="{clip}"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - RIGHT - LEFT + 5}" '
                 f'height="{HEIGHT - BOTTOM - TOP}"/></clipPath>')
    parts += axes(x, y, x_label, y_label, x_text, y_text)
    if reference and y_low <= reference[0] <= y_high:
        height = y(reference[0])
        parts.append(f'<line class="reference" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" '
                     f'y2="{height:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT + 6}" y="{height - 5:.1f}">'
                     f'{html.escape(reference[1])}</text>')
    for s in series:
        parts.append(f'<g clip-path="url(#{clip})">{polyline(s, x, y, x_logarithmic)}</g>')
    series = [s for s in series if y_low <= s["points"][-1][1] <= y_high]
    ends = [y(s["points"][-1][1]) for s in series]
    for s, label_y in zip(series, spread(ends, LABEL_GAP, TOP, HEIGHT - BOTTOM)):
        end = s["points"][-1]
        parts.append(f'<circle cx="{x(end[0]):.1f}" cy="{y(end[1]):.1f}" r="3.5" fill="var({s["color"]})"/>')
        parts.append(f'<text class="label" x="{WIDTH - RIGHT + 10}" y="{label_y + 4:.1f}" '
                     f'fill="var({s["color"]})">{html.escape(s["label"])}</text>')
    return "".join(parts) + "</svg>"


def padded(low, high):
    pad = (high - low) * 0.06 or 1
    return low - pad, high + pad


def axes(x, y, x_label, y_label, x_text, y_text):
    parts = []
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value in y.ticks():
        height = y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{height:.1f}" y2="{height:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">'
                     f'{y_text(round(value, 10))}</text>')
    for value in x.ticks():
        place = x(value)
        parts.append(f'<line class="axis" x1="{place:.1f}" x2="{place:.1f}" y1="{bottom}" y2="{bottom + 5}"/>')
        parts.append(f'<text class="tick" x="{place:.1f}" y="{bottom + 19}" text-anchor="middle">'
                     f'{x_text(round(value, 10))}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    parts.append(f'<text class="name" x="{(LEFT + right) / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
                 f'{html.escape(x_label)}</text>')
    parts.append(f'<text class="name" transform="translate(14 {(TOP + bottom) / 2}) rotate(-90)" '
                 f'text-anchor="middle">{html.escape(y_label)}</text>')
    return parts


def polyline(s, x, y, x_logarithmic):
    points = [p for p in thin(s["points"]) if not x_logarithmic or p[0] > 0]
    path = " ".join(f"{x(px):.1f},{y(py):.1f}" for px, py in points)
    dots = "".join(f'<circle cx="{x(px):.1f}" cy="{y(py):.1f}" r="2.6" class="mark" '
                   f'stroke="var({s["color"]})"><title>{html.escape(s["label"])}: {py:.4g}</title></circle>'
                   for px, py in s.get("marks", []) if not x_logarithmic or px > 0)
    return (f'<polyline points="{path}" fill="none" stroke="var({s["color"]})" stroke-width="2" '
            f'stroke-linejoin="round"/>{dots}')
