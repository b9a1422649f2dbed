"""What several APIs do to single partitions of topics: with the topic's right, in steps, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.errors import ErrorCode, NotResident
from penstock.node.limits import PARTITIONS_PER_STEP
from penstock.node.request import Request
from penstock.node.steps import Pace, Stepped, in_steps, resident
from penstock.security.rights import Right

if TYPE_CHECKING:
    from penstock.node.broker import Broker

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class OfPartitions(Generic[T, R]):
    """What a request does to partitions, each by itself: one that fails is answered so, and the others go on.

    Attributes: `name`, for the log; the `right` on their topic that one needs; `index_of` an element, `do` it, and
    what is `failed` with a code.
    """

    name: str
    right: Right
    index_of: Callable[[T], int]
    do: Callable[[str, T], R]
    failed: Callable[[T, ErrorCode], R]

    def in_steps(
        self, node: Broker, request: Request[Any], topic: str, partitions: Sequence[T], pace: Pace
    ) -> Stepped[list[R]]:
        """`do` of each of a topic's partitions, whose logs are opened side by side before; for who may."""
        if not node.gate.allows(request, self.right, topic):
            refused = self.right.refusal
            return (yield from in_steps(lambda each: self.failed(each, refused), partitions, pace))
        results: list[R] = []
        for start in range(0, len(partitions), PARTITIONS_PER_STEP):
            some = partitions[start : start + PARTITIONS_PER_STEP]
            indexes = [self.index_of(each) for each in some]
            broken: dict[int, Exception] = {}
            yield from resident(partial(node.replicas.open_led, topic, indexes, broken, node.scheduler.now_ms))
            results += yield from in_steps(partial(self.alone, node, topic, broken), some, pace)
        return results

    def alone(self, node: Broker, topic: str, broken: dict[int, Exception], partition: T) -> R:
        """`do` of one partition, or what is answered instead; also when it is `broken`."""
        index = self.index_of(partition)
        try:
            if index in broken:
                raise broken.pop(index)
            return self.do(topic, partition)
        except NotResident:
            raise
        except Exception as error:
            return self.failed(partition, node.partition_error(self.name, topic, index, error, node.scheduler.now_ms))
