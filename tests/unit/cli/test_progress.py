"""Lines that a terminal can redraw in place."""

from __future__ import annotations

from penstock.cli.progress import fit


def test_lines_that_fit_stay_as_they_are() -> None:
    assert fit(["a", "b" * 79], 80, 24) == ["a", "b" * 79]


def test_a_line_that_would_be_wrapped_is_cut() -> None:
    assert fit(["b" * 80], 80, 24) == ["b" * 78 + "…"]


def test_a_line_with_colours_is_left_alone() -> None:
    painted = f"\x1b[1m{'b' * 76}\x1b[0m"
    assert fit([painted], 80, 24) == [painted]


def test_of_more_lines_than_the_screen_has_the_rest_is_counted() -> None:
    assert fit([str(number) for number in range(30)], 80, 10) == [*map(str, range(8)), "... and 22 more lines"]
    assert fit([str(number) for number in range(9)], 80, 10) == [str(number) for number in range(9)]
