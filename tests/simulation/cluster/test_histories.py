"""What clients remember of a partition finds every way in which it may be wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulator.cluster.history import PartitionHistory
from simulator.world.checks import Violation


@pytest.fixture
def history() -> PartitionHistory:
    """A partition to which a, b and c were sent; a is acknowledged at offset 0."""
    history = PartitionHistory("clicks", 0)
    history.sent |= {b"a", b"b", b"c"}
    history.acknowledge(0, b"a", 0)
    return history


def reads_something_else(history: PartitionHistory) -> None:
    history.saw(0, b"b")


def acknowledges_what_readers_passed(history: PartitionHistory) -> None:
    history.saw(0, b"a")
    history.saw(1, b"b")
    history.acknowledge(1, b"c", 1)


def acknowledges_before_what_was_there(history: PartitionHistory) -> None:
    history.acknowledge(0, b"b", 1)


def has_a_value_twice(history: PartitionHistory) -> None:
    history.saw(0, b"a")
    history.saw(1, b"a")


def serves_what_nobody_sent(history: PartitionHistory) -> None:
    history.saw(1, b"z")


def changes_what_was_read(history: PartitionHistory) -> None:
    history.saw(1, b"b")
    history.saw(1, b"c")


def has_lost_the_end(history: PartitionHistory) -> None:
    history.check_whole({})


def has_lost_what_was_read(history: PartitionHistory) -> None:
    history.saw(1, b"b")
    history.check_whole({0: b"a"})


def has_a_gap(history: PartitionHistory) -> None:
    history.check_whole({0: b"a", 2: b"b"})


def begins_after_what_may_be_deleted(history: PartitionHistory) -> None:
    history.may_start_at = 1
    history.saw(1, b"b")
    history.check_whole({2: b"c"})


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (reads_something_else, "what was acknowledged survives"),
        (acknowledges_what_readers_passed, "an offset keeps its value"),
        (acknowledges_before_what_was_there, "later writes come later"),
        (has_a_value_twice, "nothing is there twice"),
        (serves_what_nobody_sent, "nothing is served that was not written"),
        (changes_what_was_read, "an offset keeps its value"),
        (has_lost_the_end, "what was acknowledged survives"),
        (has_lost_what_was_read, "what a reader saw stays"),
        (has_a_gap, "offsets have no gap"),
        (begins_after_what_may_be_deleted, "what a reader saw stays"),
    ],
)
def test_a_wrong_partition_breaks_its_rule(
    history: PartitionHistory, wrong: Callable[[PartitionHistory], None], rule: str
) -> None:
    with pytest.raises(Violation, match=rule):
        wrong(history)


def test_what_was_deleted_may_be_gone_and_nothing_else(history: PartitionHistory) -> None:
    history.saw(1, b"b")
    history.may_start_at = 1
    history.check_whole({1: b"b", 2: b"c"})
    history.may_start_at = 0
    with pytest.raises(Violation, match="what was acknowledged survives"):
        history.check_whole({1: b"b", 2: b"c"})


def test_after_an_unclean_election_only_what_nobody_sent_is_wrong(history: PartitionHistory) -> None:
    history.elected_uncleanly()
    history.saw(0, b"b")
    history.acknowledge(0, b"c", 5)
    history.check_whole({0: b"c", 1: b"b"})
    with pytest.raises(Violation, match="nothing is served that was not written"):
        history.saw(1, b"z")
    with pytest.raises(Violation, match="offsets have no gap"):
        history.check_whole({0: b"c", 2: b"b"})


def test_a_right_partition_breaks_none(history: PartitionHistory) -> None:
    history.acknowledge(1, b"b", 1)
    history.saw(0, b"a")
    history.saw(1, b"b")
    history.saw(2, b"c")
    history.check_whole({0: b"a", 1: b"b", 2: b"c"})
    assert history.read_to == 3
    assert history.end == 2
