"""Helps handlers that take long: generators whose yields let others have their turn (see `penstock.node.request`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar, cast, overload

from penstock.errors import NotResident
from penstock.node.limits import PARTITIONS_PER_STEP
from penstock.protocol.limits import ELEMENTS_PER_STEP
from penstock.protocol.message import Struct

T = TypeVar("T")
R = TypeVar("R")

Stepped = Generator[NotResident | None, None, R]
"""Work in steps that comes to an R."""


class Lazily(Sequence[R]):
    """An array of an answer whose elements are made while it is encoded, and freed afterwards. So an array that is
    encoded in steps is also made in steps, and is never in memory as a whole.
    """

    __slots__ = ("_items", "_make")

    def __init__(self, make: Callable[[Any], R], items: Sequence[Any]) -> None:
        self._make = make
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[R]:
        return map(self._make, self._items)

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[R]: ...
    def __getitem__(self, index: int | slice) -> R | Sequence[R]:
        found = self._items[index]
        return Lazily(self._make, found) if isinstance(index, slice) else self._make(found)


def lazily(make: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """An array of an answer, `Lazily`: `make` of each item."""
    return cast("list[R]", Lazily(make, items))


@cache
def arrays_of(cls: type) -> tuple[str, ...]:
    """The names of the array fields of a message or struct class; none for any other class."""
    if not issubclass(cls, Struct):
        return ()
    return tuple(name for name, kind in cls.KINDS.items() if kind.startswith("list["))


def let_go(messages: list[Any]) -> Stepped[None]:
    """Frees messages that nobody else uses, in steps: freeing a wide one at once takes as long as many steps do.

    They are not changed: a message that is used after all stays intact. `messages` is empty in the end; the caller must
    have no other references to them.
    """
    yield from spread_out(messages)
    messages.reverse()  # what holds others goes before them, and they are let go by themselves
    while messages:
        del messages[-ELEMENTS_PER_STEP:]
        yield None


def spread_out(messages: list[Any]) -> Stepped[None]:
    """Appends the elements of the messages' arrays, and the elements of their arrays, in steps."""
    done = 0
    while done < len(messages):
        some = messages[done : done + ELEMENTS_PER_STEP]
        done += len(some)
        for each in some:
            for name in arrays_of(each.__class__):
                array = getattr(each, name)
                if array.__class__ is Lazily:
                    array = array._items
                if array.__class__ is list:
                    messages += array
        yield None


class Pace:
    """Counts items over several loops of a handler: `if pace.is_over(): yield None` before each."""

    __slots__ = ("_done", "_per_step")

    def __init__(self, per_step: int = PARTITIONS_PER_STEP) -> None:
        self._done = 0
        self._per_step = per_step

    def is_over(self) -> bool:
        """Counts an item; whether a new step should begin before it."""
        done = self._done
        self._done = done + 1
        return done > 0 and not done % self._per_step

    def pieces(self, items: Sequence[T]) -> Iterator[Sequence[T] | None]:
        """Counts many items, which it gives in pieces; None where a new step should begin."""
        start, per_step = 0, self._per_step
        while start < len(items):
            if self._done and not self._done % per_step:
                yield None
            end = start + per_step - self._done % per_step
            self._done += min(end, len(items)) - start
            yield items[start:end]
            start = end


def resident(look: Callable[[], R]) -> Stepped[R]:
    """Returns the result of `look`, as soon as the data that it needs is in memory."""
    while True:
        try:
            return look()
        except NotResident as missing:
            yield missing


def in_steps(do: Callable[[T], R], items: Iterable[T], pace: Pace | None = None) -> Stepped[list[R]]:
    """`do` of each item, in order. If it raises NotResident, it is repeated for that item alone."""
    pace = pace or Pace()
    results = []
    for item in items:
        if pace.is_over():
            yield None
        while True:
            try:
                results.append(do(item))
                break
            except NotResident as missing:
                yield missing
    return results
