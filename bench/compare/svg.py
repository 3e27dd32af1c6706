"""Horizontal bars as SVG, readable on a light and on a dark background."""
import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, STEP, BAR = 760, 220, 130, 46, 26, 16
OURS, THEIRS, WHISKER, TEXT = "#2f81f7", "#8b949e", "#d29922", "#7d8590"
LOG_FROM = 20  # the highest so many times the lowest: a linear scale would hide the short bars


class Scale:
    """From 0, or on a logarithmic scale from the power of ten below the lowest."""

    def __init__(self, values):
        self.high = max(values)
        lowest = min((value for value in values if value > 0), default=self.high)
        self.log = lowest > 0 and self.high / lowest >= LOG_FROM
        self.low = 10.0 ** (math.ceil(math.log10(lowest)) - 1) if self.log else 0

    def x(self, value):
        room = WIDTH - LEFT - RIGHT
        if self.high <= 0:
            return LEFT
        if not self.log:
            return LEFT + room * value / self.high
        if value <= self.low:
            return LEFT
        return LEFT + room * math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self):
        if self.log:
            first = round(math.log10(self.low))
            return [10.0**power for power in range(first, math.floor(math.log10(self.high)) + 1)]
        if self.high <= 0:
            return [0]
        step = 10.0 ** math.floor(math.log10(self.high))
        while self.high / step < 3:
            step /= 2
        while self.high / step > 6:
            step *= 2
        return [step * i for i in range(math.floor(self.high / step) + 1)]


def short(value):
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"


def text(x, y, words, anchor="start", size=12, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
            f'font-weight="{weight}" fill="{TEXT}">{escape(words)}</text>')


def bars(title, note, rows, label):
    """`rows`: (name, median, lowest, highest, ours). `label` writes a value."""
    height = TOP + STEP * len(rows) + 34
    bottom = TOP + STEP * len(rows)
    scale = Scale([row[3] for row in rows] + [row[1] for row in rows])
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
             f'height="{height}" font-family="system-ui, sans-serif" role="img">',
             f"<title>{escape(title)}</title>",
             text(8, 18, title, size=15, weight="bold"),
             text(8, 35, note + (", logarithmic scale" if scale.log else ""))]
    for tick in scale.ticks():
        x = scale.x(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{TEXT}" '
                     'stroke-opacity="0.35" stroke-width="1"/>')
        parts.append(text(x, bottom + 16, short(tick), "middle", 11))
    for place, (name, middle, low, high, ours) in enumerate(rows):
        y = TOP + STEP * place + (STEP - BAR) / 2
        end = max(scale.x(middle), LEFT + 1)
        parts.append(text(LEFT - 8, y + BAR - 4, name, "end", weight="bold" if ours else "normal"))
        parts.append(f'<rect x="{LEFT}" y="{y:.1f}" width="{end - LEFT:.1f}" height="{BAR}" rx="2" '
                     f'fill="{OURS if ours else THEIRS}"/>')
        if high > low:
            mid = y + BAR / 2
            parts.append(f'<path d="M{scale.x(low):.1f} {mid:.1f}H{scale.x(high):.1f}" stroke="{WHISKER}" '
                         'stroke-width="3" fill="none"/>')
        parts.append(text(max(end, scale.x(high)) + 6, y + BAR - 4, label(middle)))
    return "\n".join([*parts, "</svg>"]) + "\n"
