"""Wide requests to the controller, decided part by part.

The controller decides on its present state and appends the records at once; the next decision sees them. The topics,
partitions or resources of a request do not depend on each other, so a wide request is cut into parts of
CHANGES_PER_STEP, each of which is decided and appended in a step of its own. Other work has its turn in between and may
change the state. The answer leaves when all parts are committed. Most requests have one part: one batch of records.

If this node ceases to be the active controller meanwhile, the whole request fails, as if its records were lost, and the
requester asks the next controller. Parts that are committed by then stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.result import MetadataMessage, Result
from penstock.node.limits import CHANGES_PER_STEP
from penstock.node.request import Append, Request
from penstock.node.steps import Stepped, in_steps
from penstock.protocol.message import Message

if TYPE_CHECKING:
    from penstock.node.broker import Broker

T = TypeVar("T")
A = TypeVar("A")

Change = tuple[Any, Message]
"""A request of part of what was asked for, and its answer: what the log tells of it."""


def parts_of(items: Iterable[T], size_of: Callable[[T], int] = lambda item: 1) -> Iterator[list[T]]:
    """The parts of a request's items, at least one. `size_of`: how many changes an item may cause."""
    part: list[T] = []
    size = 0
    for item in items:
        of_item = size_of(item)
        if part and size + of_item > CHANGES_PER_STEP:
            yield part
            part, size = [], 0
        part.append(item)
        size += of_item
    yield part


class Decided(Generic[A]):
    """The controller's decisions on a request; the records of the last part are not appended yet.

    Attributes: `answers`, of all parts, in order.
    """

    def __init__(self, node: Broker, request: Request[Any]) -> None:
        self.answers: list[A] = []
        self._node = node
        self._request = request
        self._records: Sequence[MetadataMessage] = ()
        self._atomic = True
        self._change: Callable[[], Change] | None = None
        self._lines = 0

    def add(self, result: Result[list[A]], change: Callable[[], Change] | None) -> None:
        """Adds the decision on the next part."""
        self.answers += result.response
        self._records, self._atomic, self._change = result.records, result.atomic, change

    def append(self) -> None:
        """Appends the records of the last part, before another part is decided."""
        node, change = self._node, self._change

        def committed(now_ms: int) -> None:
            node.scheduler.guarded("metadata", "what the log says of a change", self._tell, change)

        def lost(code: ErrorCode, now_ms: int) -> None:
            """Does nothing: the records of the last part are then lost, too, and answer the request."""

        if self._records:
            node.controller.append(self._records, committed, lost, node.now_ms, atomic=self._atomic)
        else:
            node.controller.when_committed(committed, lost, node.now_ms)

    def outcome(self, response: Message) -> Append:
        """The outcome of the request: its answer, with the records of the last part."""
        change = self._change
        return Append(self._records, response, atomic=self._atomic, tell=lambda: self._tell(change))

    def _tell(self, change: Callable[[], Change] | None) -> None:
        if change is not None:
            self._lines = self._node.journal.committed(self._request, *change(), self._lines)


def decided(
    node: Broker,
    request: Request[Any],
    parts: Iterable[T],
    decide: Callable[[T], Result[list[A]]],
    change_of: Callable[[T, list[A]], Change] | None = None,
    *,
    validate_only: bool = False,
) -> Stepped[Decided[A]]:
    """Decides one part after the other, on this node as the active controller, and appends all but the last.

    `change_of` makes the log entry of a part and its answers. Raises RequestError NOT_CONTROLLER.
    """
    state = node.controller.state
    so_far: Decided[A] = Decided(node, request)
    for number, part in enumerate(parts):
        if number:
            if not validate_only:
                so_far.append()
            yield None
        if not node.controller.active or node.controller.state is not state:
            raise RequestError(ErrorCode.NOT_CONTROLLER)
        result = decide(part)
        so_far.add(result, change_of and changer(change_of, part, result.response))
    return so_far


def changer(change_of: Callable[[T, list[A]], Change], part: T, answers: list[A]) -> Callable[[], Change]:
    return lambda: change_of(part, answers)


def by_topic(topics: Sequence[Any], answers: Iterable[A]) -> Stepped[list[tuple[Any, list[A]]]]:
    """Topics with the answers for their partitions; `answers` are in the order of the request."""
    rest = iter(answers)
    return (yield from in_steps(lambda topic: (topic, list(islice(rest, len(topic.partitions)))), topics))
