"""Plots as inline SVG text: lines over time and horizontal bars, for pages that must stand on their own.

Colours are CSS classes (`s0`, `s1`, ...) that the page defines, so that one plot serves light and dark. Every plot says
its figures in words too (`<title>` on each mark), for screen readers and for hovering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape

WIDTH, HEIGHT = 560, 220
LEFT, RIGHT, TOP, BOTTOM = 70, 10, 12, 28
SERIES_MAX = 8
BAR_HEIGHT, BAR_GAP, BAR_LABEL, BAR_VALUE = 18, 8, 176, 74
TEXT_CHARACTERS = 26
TIME_TICKS = 4

Point = tuple[float, float]
Format = Callable[[float], str]


def lines(series: Mapping[str, Sequence[Point]], form: Format, *, top: float | None = None) -> str:
    """Lines over time. Points are (epoch seconds, value); `form` writes a value; `top` fixes the upper end."""
    shown = {name: points for name, points in list(series.items())[:SERIES_MAX] if points}
    if not shown:
        return '<p class="none">nothing was recorded</p>'
    times = [at for points in shown.values() for at, _ in points]
    begin, end = min(times), max(*times, min(times) + 1)
    high, step = scale(max(value for points in shown.values() for _, value in points) if top is None else top)
    across = (WIDTH - LEFT - RIGHT) / (end - begin)
    up = (HEIGHT - TOP - BOTTOM) / high

    def place(point: Point) -> str:
        return f"{LEFT + (point[0] - begin) * across:.1f},{HEIGHT - BOTTOM - max(0.0, min(point[1], high)) * up:.1f}"

    peaks = {name: form(max(value for _, value in points)) for name, points in shown.items()}
    said = "; ".join(f"{name} up to {peak}" for name, peak in peaks.items())
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(said)}">']
    parts += [*_grid(high, step, form), *_time_axis(begin, end, across)]
    for number, (name, points) in enumerate(shown.items()):
        path = " ".join(map(place, points))
        if len(shown) == 1:
            low = HEIGHT - BOTTOM
            first, last = place(points[0]).split(",")[0], place(points[-1]).split(",")[0]
            parts.append(f'<polygon class="area" points="{first},{low} {path} {last},{low}"/>')
        title = f"<title>{escape(name)}: up to {escape(peaks[name])}</title>"
        if len(points) == 1:
            x, y = path.split(",")
            parts.append(f'<circle class="dot s{number}" cx="{x}" cy="{y}" r="3">{title}</circle>')
        else:
            parts.append(f'<polyline class="line s{number}" points="{path}">{title}</polyline>')
    return "".join([*parts, "</svg>", _legend(peaks)])


def bars(values: Sequence[tuple[str, float]], form: Format) -> str:
    """Horizontal bars, in the order given."""
    if not values:
        return '<p class="none">nothing was recorded</p>'
    height = len(values) * (BAR_HEIGHT + BAR_GAP) + BAR_GAP
    longest = max(value for _, value in values) or 1
    room = WIDTH - BAR_LABEL - BAR_VALUE
    said = escape("; ".join(f"{name} {form(value)}" for name, value in values))
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{said}">']
    for number, (name, value) in enumerate(values):
        y = BAR_GAP + number * (BAR_HEIGHT + BAR_GAP)
        middle, width = y + BAR_HEIGHT - 5, max(1.0, value / longest * room)
        short = name if len(name) <= TEXT_CHARACTERS else name[: TEXT_CHARACTERS - 1] + "…"
        parts += [
            f'<text class="label" x="{BAR_LABEL - 8}" y="{middle}" text-anchor="end">{escape(short)}</text>',
            f'<rect class="bar s0" x="{BAR_LABEL}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" rx="2">',
            f"<title>{escape(name)}: {escape(form(value))}</title></rect>",
            f'<text class="value" x="{BAR_LABEL + width + 6:.1f}" y="{middle}">{escape(form(value))}</text>',
        ]
    return "".join([*parts, "</svg>"])


def scale(high: float) -> tuple[float, float]:
    """The upper end of an axis that shows `high`, and the round step of its grid: three to five of them."""
    step = nice(high / 4)
    return step * max(1, math.ceil(high / step * 0.999999)), step


def nice(value: float) -> float:
    """The next round number (1, 2, 2.5, 5 times a power of ten) that is not below a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return float(next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999999))


def plain(value: float) -> str:
    """A number as people write it."""
    return f"{value:,.0f}" if abs(value) >= 99.5 or value == int(value) else f"{value:,.2g}"


def percent(value: float) -> str:
    return f"{value:.1f} %" if 0 < value < 0.95 else f"{value:.0f} %"


def size(value: float) -> str:
    """Bytes with a unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return (
                f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f}".removesuffix(".0") + f" {unit}"
            )
        value /= 1000
    return f"{value:.1f} TB"


def rate(value: float) -> str:
    """Bytes a second."""
    return f"{size(value)}/s"


def milliseconds(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f} s"
    return f"{value:,.0f} ms" if value >= 10 or value == int(value) else f"{value:.1f} ms"


def _grid(high: float, step: float, form: Format) -> list[str]:
    parts = []
    for number in range(round(high / step) + 1):
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * number * step / high
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = escape(form(number * step))
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    return parts


def _time_axis(begin: float, end: float, across: float) -> list[str]:
    parts = []
    for tick in range(TIME_TICKS + 1):
        at = begin + (end - begin) * tick / TIME_TICKS
        text = datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
        anchor = "start" if tick == 0 else "end" if tick == TIME_TICKS else "middle"
        x, spare = LEFT + (at - begin) * across, " spare" if tick % 2 else ""
        parts.append(f'<text class="tick{spare}" x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{text}</text>')
    return parts


def _legend(peaks: Mapping[str, str]) -> str:
    items = "".join(
        f'<li><i class="key s{number}"></i>{escape(name)} <small>up to {escape(peak)}</small></li>'
        for number, (name, peak) in enumerate(peaks.items())
    )
    return f'<ul class="legend">{items}</ul>'
