"""What the journal of a group must notice: an owner too many, a part too large, a record missed, a failed member."""

from __future__ import annotations

import pytest
from interop.groups import journal
from interop.groups.journal import Journal


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "TIMEOUT_S", 0)


def told(*events: str) -> Journal:
    """A journal with events, each a line as members write them."""
    result = Journal()
    for event in events:
        member, kind, *places = event.split()
        result.tell(member, kind, places)
    return result


def test_what_is_shared_fairly_among_all() -> None:
    told("a assigned t:0 t:1 t:2", "a revoked t:2", "b assigned t:2").wait_shared({"t": 3}, "ab")


@pytest.mark.parametrize(
    "events",
    [
        ("a assigned t:0 t:1 t:2", "b assigned t:2"),
        ("a assigned t:0", "b assigned t:2"),
        ("a assigned t:0 t:1 t:2", "b assigned"),
        ("a assigned t:0 t:1", "b assigned t:2", "c assigned"),
        ("a assigned t:0 t:1", "b assigned t:2", "b closed"),
        ("a assigned t:0 t:1", "b assigned t:2 u:0"),
    ],
    ids=["two owners", "no owner", "unfair", "a stranger", "an owner that left", "another topic"],
)
def test_what_is_not(events: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError, match="to be shared"):
        told(*events).wait_shared({"t": 3}, "ab")


def test_records_are_counted() -> None:
    read = told("a read t:0:0 t:0:1", "b read t:0:1")
    assert read.reads["t", 0, 1] == 2
    read.wait_read([("t", 0, 0), ("t", 0, 1)])
    with pytest.raises(AssertionError, match="to be read"):
        read.wait_read([("t", 0, 2)])


def test_a_failure_ends_every_wait() -> None:
    with pytest.raises(AssertionError, match=r"a failed: .*no:luck"):
        told("a failed no:luck").wait(lambda: False, "nothing")


def test_callbacks_and_changes() -> None:
    events = ("a assigned", "a assigned t:0 t:1", "a assigned t:2", "a revoked t:0", "a assigned", "a lost t:1 t:2")
    assert told(*events).callbacks("a") == "+0 +2 +1 -1 +0 !2"
    assert told(*events).changes("a") == "+3 -1 !2"
