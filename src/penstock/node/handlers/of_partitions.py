"""What several APIs do for each partition separately: check the topic's right, open the logs, work in steps."""

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
    """What a request does to each partition; one that fails is answered with its error, and the others go on.

    Attributes: `name`, for the log; `right` on the topic that is needed; `index_of` an element; `do` it; `failed`, its
    answer with an error code.
    """

    name: str
    right: Right
    index_of: Callable[[T], int]
    do: Callable[[str, T], R]
    failed: Callable[[T, ErrorCode], R]

    def in_steps(
        self, node: Broker, request: Request[Any], topic: str, partitions: Sequence[T], pace: Pace
    ) -> Stepped[list[R]]:
        """`do` of each of a topic's partitions, after opening their logs concurrently; or the right's error for all."""
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
        """`do` of one partition, or its error; an error from opening it is in `broken`."""
        index = self.index_of(partition)
        try:
            if index in broken:
                raise broken.pop(index)
            return self.do(topic, partition)
        except NotResident:
            raise
        except Exception as error:
            return self.failed(
                partition, node.replication.partition_error(self.name, topic, index, error, node.scheduler.now_ms)
            )
