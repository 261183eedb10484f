"""Time series as SVG: panels with a title, axes, lines or stacked areas, and a legend. Nothing but text is needed to draw them."""

import html
import math

COLOURS = ["#3274d9", "#e0752d", "#629e51", "#ba43a9", "#c4162a", "#967302", "#0a7d8c", "#705da0", "#888888", "#b7410e"]
LEGEND_LINE, LEGEND_COLUMN = 14, 160


def rounded_up(value):
    """The least of 1, 2, 2.5, 5 x 10^n that is not less than a positive `value`."""
    scale = 10.0 ** math.floor(math.log10(value))
    return next(step * scale for step in (1, 2, 2.5, 5, 10) if step * scale >= value * (1 - 1e-9))


def ticks(low, high, unit="none", count=4):
    if not high > low:
        high = low + (abs(low) or 1)
    base = 1024 ** int(math.log(high, 1024)) if unit in ("bytes", "Bps") and high > 1 else 1
    step = base * rounded_up((high - low) / count / base)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def number(value, unit):
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    if unit in ("bytes", "Bps"):
        for factor, prefix in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
            if abs(value) >= factor:
                return f"{value / factor:.3g} {prefix}B" + ("/s" if unit == "Bps" else "")
        return f"{value:.3g} B" + ("/s" if unit == "Bps" else "")
    if unit == "s":
        return f"{1000 * value:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
    if unit == "short" and abs(value) >= 1000:
        return f"{value / 1000:.3g} k"
    return f"{value:.4g}"


class Panel:
    """series: [(name, [(seconds, value)])], values of one time apart for stacking."""

    def __init__(self, title, unit, series, stacked=False):
        self.title = title
        self.unit = unit
        self.series = [(name, [(t, v) for t, v in points if math.isfinite(v)]) for name, points in series]
        self.series = [(name, points) for name, points in self.series if points]
        self.stacked = stacked

    def curves(self):
        """(name, points of the lower edge or None, points) of each series."""
        if not self.stacked:
            return [(name, None, points) for name, points in self.series]
        sums = {}
        curves = []
        for name, points in self.series:
            lower = [(t, sums.get(t, 0.0)) for t, _ in points]
            for t, v in points:
                sums[t] = sums.get(t, 0.0) + v
            curves.append((name, lower, [(t, sums[t]) for t, _ in points]))
        return curves

    def draw(self, x, y, width, height, times):
        curves = self.curves()
        values = [v for _, _, points in curves for _, v in points]
        low = min([0.0, *values]) if self.unit != "none" or not values else min(values)
        marks = ticks(low, max(values) if values else 1.0, self.unit)
        names_per_line = max(1, int((width - 20) // LEGEND_COLUMN))
        legend_height = LEGEND_LINE * -(-len(self.series) // names_per_line)
        left, top, right, bottom = x + 62, y + 26, x + width - 12, y + height - 30 - legend_height

        def at(t, v):
            return (left + (t - times[0]) / ((times[1] - times[0]) or 1) * (right - left),
                    bottom - (v - marks[0]) / (marks[-1] - marks[0]) * (bottom - top))

        def path(points):
            return " ".join(f"{px:.1f},{py:.1f}" for px, py in points)

        parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" class="panel"/>',
                 f'<text x="{x + 10}" y="{y + 17}" class="title">{html.escape(self.title)}</text>']
        for mark in marks:
            _, py = at(times[0], mark)
            parts.append(f'<line x1="{left}" x2="{right}" y1="{py:.1f}" y2="{py:.1f}" class="grid"/>')
            parts.append(f'<text x="{left - 5}" y="{py + 4:.1f}" class="end">{number(mark, self.unit)}</text>')
        for mark in ticks(0, times[1] - times[0]):
            px, _ = at(times[0] + mark, marks[0])
            if px <= right + 1:
                parts.append(f'<text x="{px:.1f}" y="{bottom + 14}" class="middle">{mark:g} s</text>')
        for index, (name, lower, points) in enumerate(curves):
            colour = COLOURS[index % len(COLOURS)]
            drawn = [at(t, v) for t, v in points]
            if lower is None:
                parts.append(f'<polyline points="{path(drawn)}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
            else:
                edge = [at(t, v) for t, v in reversed(lower)]
                parts.append(f'<polygon points="{path(drawn + edge)}" fill="{colour}" fill-opacity="0.75"/>')
            column, line = index % names_per_line, index // names_per_line
            lx, ly = x + 12 + LEGEND_COLUMN * column, bottom + 30 + LEGEND_LINE * line
            parts.append(f'<rect x="{lx}" y="{ly - 8}" width="9" height="9" fill="{colour}"/>')
            parts.append(f'<text x="{lx + 13}" y="{ly}">{html.escape(name)}</text>')
        return "\n".join(parts)


STYLE = """
text { font: 11px sans-serif; fill: #333 }
.title { font-weight: bold; font-size: 12px }
.end { text-anchor: end } .middle { text-anchor: middle }
.panel { fill: #fff; stroke: #ccc } .grid { stroke: #e6e6e6 }
"""


def picture(width, height, drawn):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
            f"<style>{STYLE}</style>\n" f'<rect width="{width}" height="{height}" fill="#f4f5f5"/>\n' + "\n".join(drawn) + "\n</svg>\n")
