"""Horizontal bars and lines as SVG, readable on a light and on a dark background."""
import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, STEP, BAR = 760, 220, 130, 46, 26, 16
GRAPH_LEFT, GRAPH_HEIGHT = 60, 260
OURS, THEIRS, WHISKER, TEXT = "#2f81f7", "#8b949e", "#d29922", "#7d8590"
LOG_FROM = 20  # the highest so many times the lowest: a linear scale would hide the short bars


class Scale:
    """From 0, or on a logarithmic scale from the power of ten below the lowest; along x, or as told."""

    def __init__(self, values, start=LEFT, room=WIDTH - LEFT - RIGHT):
        self.start, self.room = start, room
        self.high = max(values)
        lowest = min((value for value in values if value > 0), default=self.high)
        self.log = lowest > 0 and self.high / lowest >= LOG_FROM
        self.low = 10.0 ** (math.ceil(math.log10(lowest)) - 1) if self.log else 0

    def at(self, value):
        if self.high <= 0:
            return self.start
        if not self.log:
            return self.start + self.room * value / self.high
        if value <= self.low:
            return self.start
        return self.start + self.room * math.log(value / self.low) / math.log(self.high / self.low)

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


def text(x, y, words, anchor="start", size=12, weight="normal", colour=TEXT):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
            f'font-weight="{weight}" fill="{colour}">{escape(words)}</text>')


def head(title, note, height):
    return [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" font-family="system-ui, sans-serif" role="img">',
            f"<title>{escape(title)}</title>",
            text(8, 18, title, size=15, weight="bold"),
            text(8, 35, note)]


def bars(title, note, rows, label):
    """`rows`: (name, median, lowest, highest, ours). `label` writes a value."""
    height = TOP + STEP * len(rows) + 34
    bottom = TOP + STEP * len(rows)
    scale = Scale([row[3] for row in rows] + [row[1] for row in rows])
    parts = head(title, note + (", logarithmic scale" if scale.log else ""), height)
    for tick in scale.ticks():
        x = scale.at(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{TEXT}" '
                     'stroke-opacity="0.35" stroke-width="1"/>')
        parts.append(text(x, bottom + 16, short(tick), "middle", 11))
    for place, (name, middle, low, high, ours) in enumerate(rows):
        y = TOP + STEP * place + (STEP - BAR) / 2
        end = max(scale.at(middle), LEFT + 1)
        parts.append(text(LEFT - 8, y + BAR - 4, name, "end", weight="bold" if ours else "normal"))
        parts.append(f'<rect x="{LEFT}" y="{y:.1f}" width="{end - LEFT:.1f}" height="{BAR}" rx="2" '
                     f'fill="{OURS if ours else THEIRS}"/>')
        if high > low:
            mid = y + BAR / 2
            parts.append(f'<path d="M{scale.at(low):.1f} {mid:.1f}H{scale.at(high):.1f}" stroke="{WHISKER}" '
                         'stroke-width="3" fill="none"/>')
        parts.append(text(max(end, scale.at(high)) + 6, y + BAR - 4, label(middle)))
    return "\n".join([*parts, "</svg>"]) + "\n"


def apart(names, gap=15):
    """(y, ...) from top to bottom, none over another."""
    placed = []
    for y, *rest in sorted(names):
        placed.append((max(y, placed[-1][0] + gap) if placed else y, *rest))
    return placed


def lines(title, note, series, along, label):
    """`series`: (name, [(x, median, lowest, highest)]). x is logarithmic; `along` writes one, `label` a value."""
    bottom, height = TOP + GRAPH_HEIGHT, TOP + GRAPH_HEIGHT + 34
    points = [point for _, found in series for point in found]
    places = sorted({x for x, *_ in points})
    room = WIDTH - GRAPH_LEFT - RIGHT

    def across(x):
        whole = math.log(places[-1] / places[0])
        return GRAPH_LEFT + (room * math.log(x / places[0]) / whole if whole else 0)

    scale = Scale([value for _, *values in points for value in values], bottom, -GRAPH_HEIGHT)
    parts = head(title, note + (", both scales logarithmic" if scale.log else ""), height)
    for tick in scale.ticks():
        y = scale.at(tick)
        parts.append(f'<line x1="{GRAPH_LEFT}" y1="{y:.1f}" x2="{GRAPH_LEFT + room}" y2="{y:.1f}" stroke="{TEXT}" '
                     'stroke-opacity="0.35" stroke-width="1"/>')
        parts.append(text(GRAPH_LEFT - 6, y + 4, short(tick), "end", 11))
    parts += [text(across(x), bottom + 16, along(x), "middle", 11) for x in places]
    names = []
    for colour, (name, found) in zip((OURS, WHISKER, THEIRS), series):
        path = " ".join(f"{across(x):.1f},{scale.at(middle):.1f}" for x, middle, *_ in found)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, middle, low, high in found:
            parts.append(f'<circle cx="{across(x):.1f}" cy="{scale.at(middle):.1f}" r="3" fill="{colour}"/>')
            if high > low:
                parts.append(f'<path d="M{across(x):.1f} {scale.at(low):.1f}V{scale.at(high):.1f}" stroke="{colour}" '
                             'stroke-opacity="0.5" stroke-width="3" fill="none"/>')
        names.append((scale.at(found[-1][1]) + 4, f"{name} {label(found[-1][1])}", colour))
    for y, name, colour in apart(names):
        parts.append(text(GRAPH_LEFT + room + 8, y, name, colour=colour))
    return "\n".join([*parts, "</svg>"]) + "\n"
