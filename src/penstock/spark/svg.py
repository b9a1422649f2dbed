"""Plots as inline SVG text: lines over time and horizontal bars, for pages that must stand on their own.

Colours are CSS classes (`s0`, `s1`, ...) that the page defines, so that one plot serves light and dark. Every plot says
its figures in words too (`<title>` on each mark), for screen readers and for hovering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape

WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 26
SERIES_MAX = 8
BAR_HEIGHT, BAR_GAP, BAR_LABEL = 18, 7, 190

Point = tuple[float, float]
Format = Callable[[float], str]


def lines(series: Mapping[str, Sequence[Point]], form: Format, *, top: float | None = None) -> str:
    """Lines over time. Points are (epoch seconds, value); `form` writes a value; `top` fixes the upper end."""
    shown = {name: points for name, points in list(series.items())[:SERIES_MAX] if points}
    if not shown:
        return '<p class="none">nothing was recorded</p>'
    times = [at for points in shown.values() for at, _ in points]
    begin, end = min(times), max(*times, min(times) + 1)
    high = top if top is not None else nice(max(value for points in shown.values() for _, value in points))
    across = (WIDTH - LEFT - RIGHT) / (end - begin)
    up = (HEIGHT - TOP - BOTTOM) / high

    def place(point: Point) -> str:
        return f"{LEFT + (point[0] - begin) * across:.1f},{HEIGHT - BOTTOM - min(point[1], high) * up:.1f}"

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">', *_grid(high, form), *_time_axis(begin, end, across)]
    for number, (name, points) in enumerate(shown.items()):
        peak = form(max(value for _, value in points))
        path = " ".join(map(place, points))
        parts.append(f'<polyline class="line s{number}" points="{path}"><title>{escape(name)}: up to {peak}</title>')
        parts.append("</polyline>")
    return "".join([*parts, "</svg>", _legend(list(shown))])


def bars(values: Sequence[tuple[str, float]], form: Format) -> str:
    """Horizontal bars, in the order given."""
    if not values:
        return '<p class="none">nothing was recorded</p>'
    height = len(values) * (BAR_HEIGHT + BAR_GAP) + BAR_GAP
    longest = max(value for _, value in values) or 1
    room = WIDTH - BAR_LABEL - 90
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img">']
    for number, (name, value) in enumerate(values):
        y = BAR_GAP + number * (BAR_HEIGHT + BAR_GAP)
        middle, width = y + BAR_HEIGHT - 5, max(1.0, value / longest * room)
        short = name if len(name) <= 28 else name[:27] + "…"
        parts += [
            f'<text class="label" x="{BAR_LABEL - 8}" y="{middle}" text-anchor="end">{escape(short)}</text>',
            f'<rect class="bar s0" x="{BAR_LABEL}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" rx="2">',
            f"<title>{escape(name)}: {form(value)}</title></rect>",
            f'<text class="value" x="{BAR_LABEL + width + 6:.1f}" y="{middle}">{escape(form(value))}</text>',
        ]
    return "".join([*parts, "</svg>"])


def nice(value: float) -> float:
    """The next round number (1, 2, 2.5, 5 times a power of ten) that is not below a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return float(next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999999))


def plain(value: float) -> str:
    """A number as people write it."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.2g}"


def percent(value: float) -> str:
    """A percentage."""
    return f"{value:.0f} %"


def size(value: float) -> str:
    """Bytes with a unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def rate(value: float) -> str:
    """Bytes a second."""
    return f"{size(value)}/s"


def milliseconds(value: float) -> str:
    """A duration."""
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def _grid(high: float, form: Format) -> list[str]:
    parts = []
    for step in range(5):
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * step / 4
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = escape(form(high * step / 4))
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    return parts


def _time_axis(begin: float, end: float, across: float) -> list[str]:
    parts = []
    steps = 4
    for step in range(steps + 1):
        at = begin + (end - begin) * step / steps
        text = datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
        anchor = "start" if step == 0 else "end" if step == steps else "middle"
        x = LEFT + (at - begin) * across
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{text}</text>')
    return parts


def _legend(names: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    items = "".join(f'<li><i class="key s{number}"></i>{escape(name)}</li>' for number, name in enumerate(names))
    return f'<ul class="legend">{items}</ul>'
