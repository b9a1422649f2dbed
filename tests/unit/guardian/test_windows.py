"""What is written to partitions, from sizes and end offsets alone."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support.fake_clusters import FakeClusters

from penstock.guardian.core import look_at_ends, windows
from penstock.guardian.core.sight import OFFSETS, of_broker
from penstock.guardian.core.windows import UNKNOWN, WINDOW_MS, Windows, coded, decoded
from penstock.protocol.messages.list_offsets_request import ListOffsetsRequest
from penstock.protocol.messages.list_offsets_response import ListOffsetsResponse

EVERY_MS = 10_000


def written(found: Windows, rates: list[float], *, at_ms: int = 0, size: float = 0.0) -> tuple[int, float]:
    """A window for each rate, in bytes a second; where the time and the size come to."""
    for rate in rates:
        for _ in range(WINDOW_MS // EVERY_MS):
            found.saw_size(1, round(size), at_ms)
            at_ms += EVERY_MS
            size += rate * EVERY_MS / 1000
    return at_ms, size


@pytest.mark.parametrize("rate", [0.0, 1.0, 77.0, 12_345.6, 1e6, 3e9, 1e13])
def test_a_rate_is_kept_in_two_bytes_with_little_loss(rate: float) -> None:
    assert decoded(coded(rate)) == pytest.approx(rate, rel=4e-4)
    assert coded(1e300) < UNKNOWN


def test_the_median_and_the_95th_percentile_of_windows() -> None:
    found = Windows()
    at_ms, size = written(found, [1_000.0] * 15 + [2_000.0] * 4 + [50_000.0, 9.0])
    found.saw_size(1, round(size), at_ms)
    median, peak, count = found.figures() or pytest.fail("nothing is known")
    assert count == 21
    assert median == pytest.approx(1_000, rel=0.02)
    assert peak == pytest.approx(2_000, rel=0.05)


def test_a_new_leader_has_a_figure_after_the_second_look() -> None:
    found = Windows()
    assert found.figures() is None
    found.saw_size(1, 5_000, 100)
    assert found.figures() is None
    found.saw_size(1, 15_000, 10_100)
    assert found.figures() == (1_000, 1_000, 1)


def test_where_segments_are_deleted_end_offsets_say_what_was_written() -> None:
    found = Windows()
    size, end, at_ms = 0, 0, 0
    found.saw_size(1, size, at_ms)
    found.saw_end(1, end)
    for number in range(60):
        at_ms += EVERY_MS
        size, end = size + 20_000, end + 100
        if number % 6 == 5:
            size -= 90_000
        found.saw_end(1, end)
        found.saw_size(1, size, at_ms)
    rates = found.rates()
    assert rates
    assert all(rate == pytest.approx(2_000, rel=0.01) for rate in rates)
    blind = Windows()  # without end offsets what was written meanwhile is not known, and not taken for nothing
    for size, at_ms in ((0, 0), (20_000, 10_000), (5_000, 20_000), (25_000, 30_000)):
        blind.saw_size(1, size, at_ms)
    assert blind.rates() == [2_000]


def test_another_leader_begins_anew() -> None:
    found = Windows()
    found.saw_size(1, 1_000, 0)
    found.saw_end(1, 10)
    found.saw_size(2, 900_000, 10_000)
    found.saw_end(1, 1_000_000)
    assert found.figures() is None
    found.saw_size(2, 910_000, 20_000)
    assert found.figures() == (1_000, 1_000, 1)


def test_windows_are_bounded_and_gaps_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "GUARDIAN_WINDOWS_KEPT", 5)
    found = Windows()
    at_ms, size = written(found, [100.0] * 9)
    assert len(found.rates()) == 5
    written(found, [100.0] * 2, at_ms=at_ms + 3 * WINDOW_MS, size=size)
    assert 2 <= len(found.rates()) < 5, "windows without a look are not counted"
    written(found, [100.0] * 2, at_ms=at_ms + 1_000_000 * WINDOW_MS, size=size)
    assert len(found._codes) <= 5


def test_a_day_of_a_partition_takes_less_than_a_kilobyte() -> None:
    found = Windows()
    written(found, [1_000.0] * 300)
    assert len(found.rates()) == 288
    assert sys.getsizeof(found) + sys.getsizeof(found._codes) < 1_024


def test_the_sampler_sees_what_is_written() -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics={"a": [[1, 2], [2, 3]]})
    for number in range(40):
        world.run(10_000)
        cluster.sizes["a", 0] = 100 + number * 50_000
        cluster.ends["a", 0] = number * 10
    seen = world.sight("clicks")
    assert seen.failures == {}
    median, _, _ = seen.windows["a", 0].figures() or pytest.fail("nothing is known")
    assert median == pytest.approx(5_000, rel=0.1)
    assert seen.windows["a", 1].figures() == (0, 0, 1)
    assert OFFSETS in seen.seen_ms
    del cluster.topics["a"]
    cluster.topics["b"] = [[1]]
    world.run(20_000)
    assert list(seen.windows) == [("b", 0)]


def changed(answer: ListOffsetsResponse, field: str, value: Any) -> ListOffsetsResponse:
    for topic in answer.topics:
        for each in topic.partitions:
            setattr(each, field, value)
    return answer


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("offset", -9, "a-0: it ends at -9"),
        ("partition_index", 70, "a-70: nobody has asked for it"),
        ("error_code", 29, "a-0: TOPIC_AUTHORIZATION_FAILED"),
        ("error_code", 6, None),
    ],
)
def test_ends_that_cannot_be_are_told(field: str, value: int, told: str | None) -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics={"a": [[1, 2]]})
    cluster.lies[ListOffsetsRequest, 1] = lambda answer: changed(answer, field, value)
    world.run(20_000)
    failure = world.sight("clicks").failures.get(of_broker(OFFSETS, 1))
    assert failure is None if told is None else told in str(failure)


def test_ends_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_at_ends, "GUARDIAN_ENDS_PER_CALL", 4)
    world = FakeClusters()
    cluster = world.add("clicks", topics={f"t{number}": [[1]] * 3 for number in range(3)})
    world.run(9_000)
    assert [name for name, _, _ in cluster.asked].count("ListOffsetsRequest") == 3
