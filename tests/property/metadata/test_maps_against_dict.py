"""The persistent map and the timeline map, held against plain dicts over random histories."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.persistent import PersistentMap
from penstock.metadata.timeline import Timeline, TimelineMap

KEYS = st.integers(0, 400)
CHANGES = st.lists(st.tuples(st.booleans(), st.integers(0, 400)), max_size=900)


@settings(max_examples=60)
@given(CHANGES)
def test_a_persistent_map_is_a_sorted_dict_and_its_older_versions_never_change(changes: list[tuple[bool, int]]) -> None:
    model: dict[int, int] = {}
    mapping: PersistentMap[int, int] = PersistentMap()
    kept: list[tuple[PersistentMap[int, int], dict[int, int]]] = []
    for number, (is_set, key) in enumerate(changes):
        if number % 100 == 0:
            kept.append((mapping, dict(model)))
        if is_set:
            mapping = mapping.set(key, number)
            model[key] = number
        else:
            mapping = mapping.remove(key)
            model.pop(key, None)
        assert mapping.get(key) == model.get(key)
    kept.append((mapping, model))
    for version, expected in kept:
        assert list(version.items()) == sorted(expected.items())
        assert len(version) == len(expected)
        for start in (0, 57, 399, 401):
            assert [key for key, _ in version.items(start)] == sorted(key for key in expected if key >= start)


HISTORY = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 8)),
        st.tuples(st.just("update"), st.integers(0, 8)),
        st.tuples(st.just("pop"), st.integers(0, 8)),
        st.tuples(st.just("snapshot"), st.just(0)),
        st.tuples(st.just("revert"), st.integers(0, 5)),
        st.tuples(st.just("forget"), st.integers(0, 5)),
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(HISTORY)
def test_a_timeline_map_reads_and_reverts_as_if_every_snapshot_were_a_copy(history: list[tuple[str, int]]) -> None:
    timeline = Timeline()
    mapping: TimelineMap[int, int] = TimelineMap(timeline)
    model: dict[int, int] = {}
    copies: dict[int, dict[int, int]] = {}
    for number, (what, argument) in enumerate(history):
        offsets = list(timeline.offsets)
        if what == "set":
            mapping[argument] = model[argument] = number
        elif what == "update":
            values = {each % 9: number for each in range(argument, argument + 3)}
            mapping.update(values)
            model.update(values)
        elif what == "pop":
            assert mapping.pop(argument) == model.pop(argument, None)
        elif what == "snapshot":
            timeline.snapshot(number)
            copies[number] = dict(model)
        elif offsets and what == "revert":
            offset = offsets[argument % len(offsets)]
            timeline.revert_to(offset)
            model = dict(copies[offset])
        elif offsets:
            timeline.forget_before(offsets[argument % len(offsets)])
        assert dict(mapping.items()) == model
        for offset in timeline.offsets:
            assert dict(mapping.items(at=offset)) == copies[offset]
            assert all(mapping.get(key, at=offset) == copies[offset].get(key) for key in range(9))
