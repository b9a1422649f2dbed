"""The snapshottable map: what it holds now, what it held then, and going back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.metadata.timeline import Timeline, TimelineMap


def test_a_revert_undoes_what_was_set_changed_and_removed_since() -> None:
    timeline = Timeline()
    names: TimelineMap[str, int] = TimelineMap(timeline)
    names["kept"] = 1
    names["gone"] = 2
    timeline.snapshot(10)
    names["kept"] = 3
    names["new"] = 4
    assert names.pop("gone") == 2
    timeline.snapshot(20)
    names["kept"] = 5
    timeline.revert_to(10)
    assert dict(names.items()) == {"kept": 1, "gone": 2}
    assert timeline.offsets == (10,)


def test_readers_of_a_committed_offset_do_not_see_what_is_only_appended() -> None:
    timeline = Timeline()
    names: TimelineMap[str, int] = TimelineMap(timeline)
    names["a"] = 1
    timeline.snapshot(10)
    names["a"] = 2
    timeline.snapshot(20)
    names["b"] = 3
    assert names.pop("a") == 2
    assert (names.get("a", at=10), names.get("a", at=20), names.get("a")) == (1, 2, None)
    assert (names.get("b", at=20), names.get("b")) == (None, 3)
    assert dict(names.items(at=10)) == {"a": 1}
    assert dict(names.items(at=20)) == {"a": 2}
    assert dict(names.items()) == {"b": 3}


def test_a_revert_can_be_followed_by_new_changes_and_another_revert() -> None:
    timeline = Timeline()
    names: TimelineMap[str, int] = TimelineMap(timeline)
    timeline.snapshot(1)
    names["a"] = 1
    timeline.revert_to(1)
    names["a"] = 2
    timeline.snapshot(2)
    names["a"] = 3
    timeline.revert_to(2)
    assert names["a"] == 2
    timeline.revert_to(1)
    assert "a" not in names


def test_forgotten_offsets_cannot_be_returned_to_and_cost_nothing() -> None:
    timeline = Timeline()
    names: TimelineMap[str, int] = TimelineMap(timeline)
    timeline.snapshot(1)
    names["a"] = 1
    timeline.snapshot(2)
    timeline.forget_before(2)
    assert timeline.offsets == (2,)
    with pytest.raises(KeyError, match="offset 1 was not kept"):
        timeline.revert_to(1)
    names["a"] = 5
    timeline.revert_to(2)
    assert names["a"] == 1


def test_maps_of_one_timeline_go_back_together() -> None:
    timeline = Timeline()
    first: TimelineMap[str, int] = TimelineMap(timeline)
    second: TimelineMap[int, str] = TimelineMap(timeline)
    timeline.snapshot(0)
    first["a"] = 1
    second[1] = "a"
    timeline.revert_to(0)
    assert (len(first), len(second)) == (0, 0)


def test_a_kept_offset_cannot_be_kept_again_after_a_change() -> None:
    timeline = Timeline()
    names: TimelineMap[str, int] = TimelineMap(timeline)
    timeline.snapshot(5)
    timeline.snapshot(5)
    names["a"] = 1
    with pytest.raises(AssertionError, match="has changed since"):
        timeline.snapshot(5)
    with pytest.raises(AssertionError, match="not newer"):
        timeline.snapshot(4)


class Watched(list[Any]):
    """Snapshots that are not gone through one by one."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("all snapshots are looked at")

    def __getitem__(self, position: Any) -> Any:
        assert not isinstance(position, slice), "many snapshots are looked at"
        return super().__getitem__(position)


def test_to_read_a_map_costs_nothing_for_what_has_changed_in_others() -> None:
    timeline = Timeline()
    names: TimelineMap[str, int] = TimelineMap(timeline)
    others: TimelineMap[str, int] = TimelineMap(timeline)
    timeline.snapshot(0)
    for offset in range(1, 100):
        others["a"] = offset
        if offset == 50:
            names["a"] = offset
        timeline.snapshot(offset)
    timeline._snapshots = Watched(timeline._snapshots)
    assert (names.get("a", at=49), names.get("a", at=50), names.get("a", at=99)) == (None, 50, 50)
    assert dict(names.items(at=0)) == {}
    assert others.get("a", at=98) == 98
