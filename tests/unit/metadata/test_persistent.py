"""The immutable ordered map."""

from __future__ import annotations

import pytest

from penstock.metadata.persistent import NODE_ENTRIES, PersistentMap, _Inner, _Leaf


def nodes_of(node: _Leaf | _Inner) -> list[_Leaf | _Inner]:
    return [node] + (
        [inner for child in node.children for inner in nodes_of(child)] if isinstance(node, _Inner) else []
    )


def full(size: int) -> PersistentMap[int, str]:
    mapping: PersistentMap[int, str] = PersistentMap()
    for key in range(size):
        mapping = mapping.set(key, str(key))
    return mapping


def test_a_change_copies_one_node_a_level_whatever_the_size() -> None:
    before = full(20_000)
    after = before.set(12_345, "changed")
    old_nodes = {id(node) for node in nodes_of(before._root)}
    assert sum(id(node) not in old_nodes for node in nodes_of(after._root)) <= 4
    assert (before[12_345], after[12_345]) == ("12345", "changed")


def test_nodes_stay_within_their_bound_and_shrink_again() -> None:
    mapping = full(5_000)
    assert max(len(node.keys) for node in nodes_of(mapping._root)) <= NODE_ENTRIES
    for key in range(4_990):
        mapping = mapping.remove(key)
    assert list(mapping) == list(range(4_990, 5_000))
    assert len(nodes_of(mapping._root)) == 1


def test_missing_keys() -> None:
    mapping = full(3)
    assert mapping.get(7) is None
    assert 7 not in mapping
    assert mapping.remove(7) is mapping
    with pytest.raises(KeyError):
        mapping[7]


def test_maps_are_equal_by_content() -> None:
    assert full(100) == full(101).remove(100)
    assert full(100) != full(101)
    assert full(100) != full(100).set(5, "other")
