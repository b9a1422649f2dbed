"""What is remembered of a compacted partition finds every way in which it may be wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.records.builder import BatchBuilder
from simulator.cluster.history import ONCE, SURVIVES, WRITTEN
from simulator.compacted.history import DELETED, LAST, MARKERS, YOUNG, Cleanup, KeyedHistory
from simulator.compacted.records import NAME, Contents, Kept, Written
from simulator.world.checks import Violation

NOW_MS = 100_000
LAG_MS, DELETE_RETENTION_MS, RETENTION_MS = 1_000, 5_000, 20_000
OLD = Written(b"k", b"old", NOW_MS - 50_000)
NEW = Written(b"k", b"new", NOW_MS - 49_000)
MARKER = Written(b"k", None, NOW_MS - 2_000)
YOUNG_ONE = Written(b"j", b"young", NOW_MS - 500)


def partition(*, retention_ms: int | None = None, apart_ms: int = 0) -> KeyedHistory:
    """A partition to which old, new, a marker and a young record were sent; the first two are acknowledged."""
    history = KeyedHistory("profiles", 0, Cleanup(LAG_MS, DELETE_RETENTION_MS, retention_ms, apart_ms))
    for name, written in ((b"old", OLD), (b"new", NEW), (b"marker", MARKER), (b"young", YOUNG_ONE)):
        history.send(name, written)
    history.acknowledge(0, b"old", 0)
    history.acknowledge(1, b"new", 1)
    return history


def last(history: KeyedHistory, *, now_ms: int = NOW_MS, had_ms: int | None = None, **found: int) -> None:
    keys = {key.encode(): offset for key, offset in found.items()}
    history.check_last(keys, history.last_acknowledged(), now_ms, "a reader", had_ms=had_ms)


def serves_another_value(history: KeyedHistory) -> None:
    history.found(Kept(1, b"new", NEW._replace(value=b"other")))


def changes_a_timestamp(history: KeyedHistory) -> None:
    history.found(Kept(1, b"new", NEW._replace(timestamp_ms=1)))


def serves_what_nobody_sent(history: KeyedHistory) -> None:
    history.found(Kept(2, b"z", NEW))


def has_another_record_at_an_offset(history: KeyedHistory) -> None:
    history.found(Kept(1, b"marker", MARKER))


def takes_a_record_twice(history: KeyedHistory) -> None:
    history.acknowledge(2, b"new", 1)


def has_lost_a_key(history: KeyedHistory) -> None:
    last(history)


def has_an_older_value(history: KeyedHistory) -> None:
    last(history, k=0)


def has_an_older_value_than_a_marker(history: KeyedHistory) -> None:
    history.acknowledge(2, b"marker", 2)
    last(history, k=1)


def has_no_marker_any_more(history: KeyedHistory) -> None:
    history.acknowledge(2, b"marker", 2)
    last(history)


def has_an_older_value_and_no_marker(history: KeyedHistory) -> None:
    history.acknowledge(2, b"marker", 2)
    last(history, now_ms=MARKER.timestamp_ms + DELETE_RETENTION_MS, had_ms=MARKER.timestamp_ms - 1, k=1)


def has_removed_what_is_young(history: KeyedHistory) -> None:
    history.acknowledge(3, b"young", 2)
    history.check_young({0, 1}, 4, NOW_MS, "a replica")


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (serves_another_value, WRITTEN),
        (changes_a_timestamp, WRITTEN),
        (serves_what_nobody_sent, WRITTEN),
        (has_another_record_at_an_offset, SURVIVES),
        (takes_a_record_twice, ONCE),
        (has_lost_a_key, LAST),
        (has_an_older_value, LAST),
        (has_an_older_value_than_a_marker, LAST),
        (has_no_marker_any_more, MARKERS),
        (has_an_older_value_and_no_marker, DELETED),
        (has_removed_what_is_young, YOUNG),
    ],
)
def test_a_wrong_partition_breaks_its_rule(wrong: Callable[[KeyedHistory], None], rule: str) -> None:
    with pytest.raises(Violation, match=rule):
        wrong(partition())


def test_a_right_partition_breaks_none() -> None:
    history = partition()
    history.found(Kept(1, b"new", NEW))
    last(history, k=1)
    history.acknowledge(2, b"marker", 2)
    last(history, k=2)
    last(history, k=2, now_ms=NOW_MS + DELETE_RETENTION_MS)
    last(history, now_ms=NOW_MS + DELETE_RETENTION_MS)
    history.acknowledge(3, b"young", 2)
    history.check_young({3}, 4, NOW_MS, "a replica")
    history.check_young(set(), 3, NOW_MS, "a replica that ends before")
    history.check_young(set(), 4, NOW_MS + LAG_MS, "a replica, later")
    assert history.last_below(3) == {b"k": 2}
    assert history.last_below(2) == {b"k": 1}


def test_who_was_away_when_a_key_was_deleted_may_keep_what_it_had() -> None:
    history = partition()
    history.acknowledge(2, b"marker", 2)
    later_ms = MARKER.timestamp_ms + DELETE_RETENTION_MS
    last(history, now_ms=later_ms, had_ms=MARKER.timestamp_ms + 1, k=1)
    last(history, now_ms=later_ms, had_ms=None, k=1)


def test_a_delete_marker_that_nobody_has_acknowledged_deletes_all_the_same() -> None:
    history = partition()
    last(history, now_ms=MARKER.timestamp_ms + DELETE_RETENTION_MS)
    with pytest.raises(Violation, match=LAST):
        last(history, now_ms=MARKER.timestamp_ms + DELETE_RETENTION_MS - 1)


def test_what_retention_deletes_may_be_gone() -> None:
    last(partition(retention_ms=RETENTION_MS))
    with pytest.raises(Violation, match=LAST):
        last(partition(retention_ms=NOW_MS))


def test_clocks_that_are_apart_give_as_much_room() -> None:
    history = partition(apart_ms=DELETE_RETENTION_MS - 2_000)
    history.acknowledge(2, b"marker", 2)
    last(history)
    history.acknowledge(3, b"young", 2)
    history.check_young(set(), 4, NOW_MS, "a replica")


def test_a_damaged_batch_is_no_record() -> None:
    builder = BatchBuilder()
    builder.append(NEW.timestamp_ms, NEW.key, NEW.value, ((NAME, b"new"),))
    batch = bytes(builder.build())
    contents = Contents()
    assert list(contents.records(batch + batch, "here")) == 2 * [Kept(0, b"new", NEW)]
    with pytest.raises(Violation, match=WRITTEN):
        list(contents.records(batch[:-1] + bytes([batch[-1] ^ 1]), "here"))
