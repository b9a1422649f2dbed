"""An immutable ordered map: every change gives a new map that shares nearly all of its nodes with the old one.

A B+ tree of tuples. A leaf is two tuples (keys, values), an inner node is (smallest keys, children, size); no node is
ever changed. `set` and `remove` copy one node a level: with 32 entries a node and 200,000 keys that is four small
tuples. Keys are compared, never hashed, so that the order of iteration is the same in every process, and a walk may
begin anywhere, which is what a paged listing of topics needs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

NODE_ENTRIES = 32
"""Most entries of a node. A fuller one is cut in two; one with fewer than a quarter is joined with its neighbour."""

_SPARSE_ENTRIES = NODE_ENTRIES // 4


class _Leaf:
    __slots__ = ("keys", "values")

    def __init__(self, keys: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        self.keys = keys
        self.values = values

    def __len__(self) -> int:
        return len(self.keys)


class _Inner:
    """`keys[i]` is a lower bound of the keys under `children[i]`."""

    __slots__ = ("children", "keys")

    def __init__(self, keys: tuple[Any, ...], children: tuple[_Node, ...]) -> None:
        self.keys = keys
        self.children = children


_Node = _Leaf | _Inner


class PersistentMap(Generic[K, V]):
    """An immutable map in the order of its keys, which must all be comparable with each other."""

    __slots__ = ("_root", "_size")

    def __init__(self, root: _Node | None = None, size: int = 0) -> None:
        self._root: _Node = _Leaf((), ()) if root is None else root
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self.items())

    def __contains__(self, key: K) -> bool:
        leaf, position = self._find(key)
        return position < len(leaf.keys) and bool(leaf.keys[position] == key)

    def __getitem__(self, key: K) -> V:
        leaf, position = self._find(key)
        if position < len(leaf.keys) and leaf.keys[position] == key:
            value: V = leaf.values[position]
            return value
        raise KeyError(key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PersistentMap):
            return NotImplemented
        if self._root is other._root:
            return True
        return self._size == other._size and all(
            mine == its for mine, its in zip(self.items(), other.items(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        leaf, position = self._find(key)
        if position < len(leaf.keys) and leaf.keys[position] == key:
            value: V = leaf.values[position]
            return value
        return None

    def items(self, start: K | None = None) -> Iterator[tuple[K, V]]:
        """Keys and values in order, from the first key that is not less than `start`."""
        yield from _walk(self._root, start)

    def values(self) -> Iterator[V]:
        """Values in the order of their keys."""
        return (value for _, value in self.items())

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """A map with this key set."""
        nodes, added = _set(self._root, key, value)
        root = nodes[0] if len(nodes) == 1 else _Inner(tuple(_lowest(node) for node in nodes), nodes)
        return PersistentMap(root, self._size + added)

    def remove(self, key: K) -> PersistentMap[K, V]:
        """A map without this key; the same map if it has no such key."""
        root = _remove(self._root, key)
        if root is None:
            return self
        while isinstance(root, _Inner) and len(root.children) == 1:
            root = root.children[0]
        return PersistentMap(root, self._size - 1)

    def _find(self, key: K) -> tuple[_Leaf, int]:
        node = self._root
        while isinstance(node, _Inner):
            node = node.children[max(0, bisect_right(node.keys, key) - 1)]
        return node, bisect_left(node.keys, key)


def _lowest(node: _Node) -> Any:
    return node.keys[0]


def _walk(node: _Node, start: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, _Leaf):
        position = 0 if start is None else bisect_left(node.keys, start)
        yield from zip(node.keys[position:], node.values[position:], strict=True)
        return
    first = 0 if start is None else max(0, bisect_right(node.keys, start) - 1)
    for number in range(first, len(node.children)):
        yield from _walk(node.children[number], start if number == first else None)


def _set(node: _Node, key: Any, value: Any) -> tuple[tuple[_Node, ...], int]:
    """The node or two nodes that take this one's place, and how many keys were added."""
    if isinstance(node, _Leaf):
        position = bisect_left(node.keys, key)
        if position < len(node.keys) and node.keys[position] == key:
            return (_Leaf(node.keys, (*node.values[:position], value, *node.values[position + 1 :])),), 0
        keys = (*node.keys[:position], key, *node.keys[position:])
        values = (*node.values[:position], value, *node.values[position:])
        return _split(_Leaf(keys, values)), 1
    number = max(0, bisect_right(node.keys, key) - 1)
    nodes, added = _set(node.children[number], key, value)
    return _split(_replace(node, number, number + 1, nodes)), added


def _remove(node: _Node, key: Any) -> _Node | None:
    """The node without the key, or None if it does not have it."""
    if isinstance(node, _Leaf):
        position = bisect_left(node.keys, key)
        if position == len(node.keys) or node.keys[position] != key:
            return None
        return _Leaf(
            (*node.keys[:position], *node.keys[position + 1 :]), (*node.values[:position], *node.values[position + 1 :])
        )
    number = max(0, bisect_right(node.keys, key) - 1)
    child = _remove(node.children[number], key)
    if child is None:
        return None
    if len(child.keys) > _SPARSE_ENTRIES or len(node.children) == 1:
        return _replace(node, number, number + 1, (child,) if child.keys else ())
    first = number - 1 if number > 0 else number
    pair = (node.children[first], child) if number > 0 else (child, node.children[1])
    return _replace(node, first, first + 2, _split(_join(*pair)))


def _replace(node: _Inner, start: int, end: int, nodes: tuple[_Node, ...]) -> _Inner:
    return _Inner(
        (*node.keys[:start], *(_lowest(child) for child in nodes), *node.keys[end:]),
        (*node.children[:start], *nodes, *node.children[end:]),
    )


def _join(left: _Node, right: _Node) -> _Node:
    if isinstance(left, _Leaf):
        assert isinstance(right, _Leaf), "the children of a node are of one height"
        return _Leaf(left.keys + right.keys, left.values + right.values)
    assert isinstance(right, _Inner), "the children of a node are of one height"
    return _Inner(left.keys + right.keys, left.children + right.children)


def _split(node: _Node) -> tuple[_Node, ...]:
    if len(node.keys) <= NODE_ENTRIES:
        return (node,)
    half = len(node.keys) // 2
    if isinstance(node, _Leaf):
        return (_Leaf(node.keys[:half], node.values[:half]), _Leaf(node.keys[half:], node.values[half:]))
    return (_Inner(node.keys[:half], node.children[:half]), _Inner(node.keys[half:], node.children[half:]))
