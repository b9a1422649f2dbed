"""The rule of retention, on segments that are two numbers each."""

from __future__ import annotations

import pytest

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.log.retention import UNKNOWN_END_OFFSET, Retention, extents

WALL_MS = 1_000_000
START, SIZE, AGE = "log start offset", "retention.bytes", "retention.ms"
ENDLESS = 1 << 60


def due(rule: Retention, *, end_offset: int = 40, sizes: tuple[int, ...] = (100, 100, 100, 50)) -> list[str]:
    """Of segments at 0, 10, 20 and 30 that were written one second after the other, the last one a second ago."""
    count = len(sizes)
    segments = extents([10 * place for place in range(count)], sizes, end_offset)
    return rule.due(segments, WALL_MS, lambda place: WALL_MS - 1_000 * (count - place))


@pytest.mark.parametrize(
    ("rule", "reasons"),
    [
        (Retention(-1, -1, 0, ENDLESS), []),
        (Retention(-1, -1, 19, ENDLESS), [START]),
        (Retention(-1, -1, 40, ENDLESS), [START] * 3),  # the active segment stays, whatever the start is
        (Retention(-1, 250, 0, ENDLESS), [SIZE]),
        (Retention(-1, 251, 0, ENDLESS), []),  # what is left would be less than may be kept
        (Retention(-1, 0, 0, ENDLESS), [SIZE] * 4),
        (Retention(2_999, -1, 0, ENDLESS), [AGE] * 2),
        (Retention(3_000, -1, 0, ENDLESS), [AGE]),
        (Retention(0, -1, 0, ENDLESS), [AGE] * 4),
        (Retention(2_000, 150, 10, ENDLESS), [START, SIZE]),
        (Retention(1_000, 240, 10, ENDLESS), [START, AGE, AGE]),
        (Retention(0, 0, 40, 29), [START] * 2),  # nothing above the high watermark, or not yet tiered
        (Retention(0, 0, 40, 30), [START] * 3),
        (Retention(0, 0, 40, 40), [START] * 3 + [SIZE]),
    ],
)
def test_why_segments_go(rule: Retention, reasons: list[str]) -> None:
    assert due(rule) == reasons


def test_an_active_segment_whose_end_is_unknown_stays() -> None:
    assert due(Retention(0, 0, 40, ENDLESS), end_offset=UNKNOWN_END_OFFSET) == [START] * 3
    assert due(Retention(0, 0, 0, ENDLESS), end_offset=UNKNOWN_END_OFFSET, sizes=(0,)) == []


def test_a_time_is_asked_for_only_when_it_matters() -> None:
    def refuse(place: int) -> int:
        raise AssertionError(place)

    segments = extents([0, 10], [100, 100], 20)
    assert Retention(-1, 50, 0, ENDLESS).due(segments, WALL_MS, refuse) == [SIZE]
    assert Retention(1_000, 0, 0, ENDLESS).due(segments, WALL_MS, refuse) == [SIZE] * 2


def test_only_a_topic_whose_policy_deletes_loses_records_by_age_or_size() -> None:
    settings = Settings.for_node(1)
    limits = {"retention.ms": "5", "retention.bytes": "7"}
    kept = Retention.of(TopicConfig.resolve(settings, {**limits, "cleanup.policy": "compact"}), 3, 9)
    assert kept == (-1, -1, 3, 9)
    assert kept.next_ms(WALL_MS) is None
    both = Retention.of(TopicConfig.resolve(settings, {**limits, "cleanup.policy": "compact,delete"}), 3, 9)
    assert both == (5, 7, 3, 9)
    assert both.next_ms(WALL_MS) == WALL_MS + 6
