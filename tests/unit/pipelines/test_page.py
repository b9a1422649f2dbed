"""Plots and pages: round axes, nothing that breaks out of the markup, nothing fetched from elsewhere."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.drawing import svg
from penstock.pipelines.drawing.page import Fact, card, page, table

NASTY = "<script>&\"'</svg>"


def parsed(plot: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{plot}</div>")


@pytest.mark.parametrize(
    ("value", "round_number"),
    [(0, 1), (-3, 1), (1, 1), (1.1, 2), (2, 2), (2.2, 2.5), (3, 5), (7, 10), (0.03, 0.05), (99, 100), (1e9, 1e9)],
)
def test_nice_is_the_next_round_number(value: float, round_number: float) -> None:
    assert math.isclose(svg.nice(value), round_number)


@given(st.floats(1e-6, 1e15))
def test_an_axis_holds_its_values_in_a_few_round_steps(high: float) -> None:
    top, step = svg.scale(high)
    assert top >= high * 0.99999
    assert 2 <= round(top / step) <= 5
    assert math.isclose(top / step, round(top / step))


def test_every_point_of_a_line_lies_within_the_plot() -> None:
    plot = parsed(svg.lines({"cpu": [(0, -5.0), (1, 50.0), (2, 500.0)]}, svg.percent, top=100))
    (line,) = plot.iter("polyline")
    for x, y in (map(float, point.split(",")) for point in line.attrib["points"].split()):
        assert svg.LEFT <= x <= svg.WIDTH - svg.RIGHT
        assert svg.TOP <= y <= svg.HEIGHT - svg.BOTTOM


def test_a_plot_says_its_figures_in_words() -> None:
    plot = parsed(svg.lines({"in": [(0, 1.0), (1, 4.0)], "out": [(0, 2.0)]}, svg.plain))
    (drawing,) = plot.iter("svg")
    assert drawing.attrib["aria-label"] == "in up to 4; out up to 2"
    assert [title.text for title in plot.iter("title")] == ["in: up to 4", "out: up to 2"]


def test_names_cannot_break_out() -> None:
    for plot in (
        svg.lines({NASTY: [(0, 1.0), (1, 2.0)], "b": [(0, 1.0), (1, 1.0)]}, svg.plain),
        svg.bars([(NASTY, 3.0)], svg.plain),
        card(NASTY, table([NASTY], [[NASTY]], marks=["good"]), note=NASTY),
    ):
        assert "<script>" not in plot
        parsed(plot)


@pytest.mark.parametrize("plot", [svg.lines({}, svg.plain), svg.lines({"a": []}, svg.plain), svg.bars([], svg.plain)])
def test_nothing_is_said_to_be_nothing(plot: str) -> None:
    assert "nothing was recorded" in plot


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (svg.size(0), "0 B"),
        (svg.size(1_500), "1.5 KB"),
        (svg.size(5_000_000), "5 MB"),
        (svg.size(3e13), "30.0 TB"),
        (svg.rate(25_000), "25 KB/s"),
        (svg.plain(1_234), "1,234"),
        (svg.plain(2.5), "2.5"),
        (svg.plain(99.6), "100"),
        (svg.plain(-120.4), "-120"),
        (svg.percent(99.6), "100 %"),
        (svg.percent(0.25), "0.2 %"),
        (svg.percent(0), "0 %"),
        (svg.milliseconds(0.25), "0.2 ms"),
        (svg.milliseconds(1_234), "1,234 ms"),
        (svg.milliseconds(12_345), "12 s"),
    ],
)
def test_figures_are_written_as_people_write_them(text: str, expected: str) -> None:
    assert text == expected


def test_a_page_fetches_nothing() -> None:
    text = page("Title", "lead", [Fact("1", "one", "good")], {"Part": [card("a", svg.bars([("b", 1.0)], svg.plain))]})
    assert not re.search(r"https?://|@import|url\(|src=", text)
    assert '<meta name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
