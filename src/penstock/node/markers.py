"""Sends the markers of ended transactions to the leaders of their partitions (WriteTxnMarkers), until all have them.

Markers wait by broker; one request a broker is under way, with what has come meanwhile, up to a bound. The newest
version of the request that the other side serves is used; from 2 on it says the transaction version (KIP-1228).

- A broker that does not answer is asked again after longer and longer waits. What waits for it then goes to the
  partitions' leaders by the metadata of that time.
- A partition whose leader refuses is tried again after longer and longer waits, with the leader that it has then.
- A partition whose replicas are slow (REQUEST_TIMED_OUT) is in another *lane* of its broker until one is in time: with
  requests and a connection of their own, slow partitions hold back nothing but each other.
- A partition without a leader is kept aside until its registration changes, looked at again from time to time.
- A partition that is deleted needs no marker.

So a partition delays its own transactions only. An end stops when its coordinator is another one; the next one goes on.
Kafka also stops at an answer that the coordinator is fenced (TRANSACTION_COORDINATOR_FENCED) or that the producer is
past the marker (INVALID_PRODUCER_EPOCH), so that the id stays as it is until it is loaded anew. Here the other
partitions get their markers all the same. A fenced coordinator tries again until it knows that it is one no more. As no
epoch goes back, a producer that is past the marker will stay so: after some tries the partition goes without. If that
was another coordinator's doing, the completion of this one is never committed. Source: TransactionMarkerChannelManager
and TransactionMarkerRequestCompletionHandler of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.coordinator.transaction.state import Ending
from penstock.coordinator.transaction.transaction import PREPARE_COMMIT
from penstock.errors import ErrorCode
from penstock.events import events
from penstock.metadata.image import NO_LEADER
from penstock.node.limits import (
    MARKER_FAILURES_TOLD,
    MARKER_PASSED_TRIES,
    MARKER_SLOW_LANES,
    MARKER_SLOW_PARTITIONS_MAX,
    MARKERS_ANSWER_MS,
    MARKERS_BACKOFF_MAX_MS,
    MARKERS_BACKOFF_MS,
    MARKERS_PER_PART_MAX,
    MARKERS_PER_REQUEST_MAX,
    MARKERS_RETRY_MS,
    MARKERS_UNPLACED_LOOK_MS,
)
from penstock.node.own_calls import OwnCalls
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from penstock.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.message import Message

CHANNEL = "transaction markers"
NO_MARKER = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
"""After these a partition needs no marker any more."""

TopicPartition = tuple[str, int]
Place = tuple[int, int]
"""A broker and one of its lanes: 0, or one of those for slow partitions."""

logger = events("node.markers")


class Part:
    """Some partitions of an end that go to one broker together.

    `index`: the coordinator's partition. `failures`: how often these partitions have refused the marker. `passed`: how
    often of late because the producer is past it. `image`: the metadata by which that broker leads them.
    """

    __slots__ = ("ending", "failures", "image", "index", "partitions", "passed")

    def __init__(
        self, index: int, ending: Ending, partitions: list[TopicPartition], failures: int = 0, passed: int = 0
    ) -> None:
        self.image: MetadataImage | None = None
        self.index = index
        self.ending = ending
        self.partitions = partitions
        self.failures = failures
        self.passed = passed

    def of(self, partitions: list[TopicPartition]) -> Part:
        """Some of its partitions."""
        return Part(self.index, self.ending, partitions, self.failures, self.passed)


class Destination:
    """What waits for one lane of a broker.

    `under_way`: a request is. `planned`: the next one will leave, at the next turn or after a wait. `failures`: how
    many requests in a row had no answer.
    """

    __slots__ = ("failures", "planned", "under_way", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Part] = deque()
        self.under_way = False
        self.planned = False
        self.failures = 0


class Markers:
    """See the module's head.

    Args:
        coordinator_epoch: the leader epoch of a partition of the coordinator's topic that this node leads; None if it
            does not. marked: told of an end, with its partition of the coordinator's topic and the time, whose
            partitions all have the marker.
    """

    def __init__(
        self,
        state: NodeState,
        scheduler: Scheduler,
        outgoing: OwnCalls,
        *,
        coordinator_epoch: Callable[[int], int | None],
        marked: Callable[[int, Ending, int], None],
    ) -> None:
        self._state = state
        self._scheduler = scheduler
        self._outgoing = outgoing
        self._coordinator_epoch = coordinator_epoch
        self._marked = marked
        self._destinations: dict[Place, Destination] = {}
        self._unplaced: dict[str, dict[int, list[tuple[int, Ending]]]] = {}
        self._slow: dict[TopicPartition, None] = {}
        self._looking = False

    @property
    def unplaced(self) -> int:
        """How many markers wait for a leader of their partition."""
        return sum(len(waiting) for indexes in self._unplaced.values() for waiting in indexes.values())

    @property
    def waiting(self) -> int:
        """How many markers wait for the broker that leads their partition."""
        return sum(len(part.partitions) for each in self._destinations.values() for part in each.waiting)

    def send(self, index: int, ending: Ending, now_ms: int) -> None:
        """Has an end marked in all its partitions. `index`: the coordinator's partition."""
        partitions = [(topic, each) for topic, indexes in ending.remaining.items() for each in sorted(indexes)]
        self._do(self._place([Part(index, ending, partitions)]))

    def published(self, delta: MetadataDelta, now_ms: int) -> None:
        """Looks again at partitions without a leader whose registration has changed."""
        if not self._unplaced:
            return
        found: list[TopicPartition] = []
        for topic in delta.topics.values():
            waiting = self._unplaced.get(topic.name, {})
            found += [(topic.name, index) for index in topic.partitions if index in waiting]
        for deleted in delta.deleted_topics.values():
            found += [(deleted.name, index) for index in self._unplaced.get(deleted.name, ())]
        if found:
            self._do(self._place(self._take_unplaced(found)))

    # Where markers go

    def _do(self, steps: Iterator[None]) -> None:
        """Does the first step now; the others are long work."""
        if next(steps, steps) is not steps:
            self._scheduler.do(steps)

    def _place(self, parts: Iterable[Part]) -> Iterator[None]:
        """Has partitions wait for their leaders, some in each step. What is over is dropped."""
        done = 0
        for part in parts:
            for start in range(0, max(1, len(part.partitions)), MARKERS_PER_PART_MAX):
                if part.ending.over:
                    break
                some = part.partitions[start : start + MARKERS_PER_PART_MAX]
                self._place_some(part, some)
                done += len(some) + 1
                if done >= MARKERS_PER_PART_MAX:
                    done = 0
                    yield
            self._finish_if_marked(part)

    def _place_some(self, part: Part, partitions: list[TopicPartition]) -> None:
        by_place: dict[Place, list[TopicPartition]] = {}
        reached: dict[int, int] = {}
        for partition in partitions:
            place = self._place_of(partition, reached)
            if place is None:
                part.ending.is_marked(*partition)
                self._slow.pop(partition, None)
            else:
                by_place.setdefault(place, []).append(partition)
        for place, led in by_place.items():
            if place[0] == NO_LEADER:
                for topic, index in led:
                    self._unplaced.setdefault(topic, {}).setdefault(index, []).append((part.index, part.ending))
                self._look_later()
            else:
                destination = self._destinations.setdefault(place, Destination())
                placed = part.of(led)
                placed.image = self._state.image
                destination.waiting.append(placed)
                self._plan(place, destination, 0)

    def _place_of(self, partition: TopicPartition, reached: dict[int, int]) -> Place | None:
        """The broker to ask, and its lane; NO_LEADER if there is none that can be reached; None for a partition that is
        gone. `reached`: by leader, which broker that is; what is found out is added.
        """
        registration = self._state.image.partition(*partition)
        if registration is None:
            return None
        leader = registration.leader
        found = reached.get(leader)
        if found is None:
            broker = self._state.image.brokers.get(leader)
            reachable = broker is not None and not broker.fenced and self._state.peer(leader) is not None
            found = reached[leader] = leader if reachable else NO_LEADER
        if found == NO_LEADER or partition not in self._slow:
            return found, 0
        topic, index = partition
        return found, 1 + (len(topic) + index) % MARKER_SLOW_LANES

    def _look_later(self) -> None:
        if not self._looking:
            self._looking = True
            self._scheduler.timers.at(self._scheduler.now_ms + MARKERS_UNPLACED_LOOK_MS, self._look, duty=True)

    def _look(self, now_ms: int) -> None:
        self._looking = False
        if not self._state.stopping:
            partitions = (
                (topic, index) for topic in list(self._unplaced) for index in list(self._unplaced.get(topic, ()))
            )
            self._do(self._place(self._take_unplaced(partitions)))

    def _take_unplaced(self, partitions: Iterable[TopicPartition]) -> Iterator[Part]:
        for topic, index in partitions:
            indexes = self._unplaced.get(topic, {})
            waiting = indexes.pop(index, ())
            if waiting and not indexes:
                del self._unplaced[topic]
            for coordinators, ending in waiting:
                yield Part(coordinators, ending, [(topic, index)])

    # Requests

    def _plan(self, place: Place, destination: Destination, delay_ms: int) -> None:
        """Sends at the next turn at the earliest, so that all markers of this one go together."""
        if not destination.under_way and not destination.planned:
            destination.planned = True
            if delay_ms:
                at_ms = self._scheduler.now_ms + delay_ms
                self._scheduler.timers.at(at_ms, partial(self._send, place, destination))
            else:
                self._scheduler.do(self._send_soon(place, destination))

    def _send_soon(self, place: Place, destination: Destination) -> Iterator[None]:
        """Sends with the next step of long work; a timer would keep every end waiting for its tick."""
        self._send(place, destination, self._scheduler.now_ms)
        yield from ()

    def _send(self, place: Place, destination: Destination, now_ms: int) -> None:
        destination.planned = False
        if destination.under_way:
            return
        parts = self._next_parts(place, destination)
        peer = self._state.peer(place[0])
        if not parts or self._state.stopping:
            if not destination.waiting:
                self._destinations.pop(place, None)
            return
        if peer is None:
            self._do(self._place(parts))
            return
        destination.under_way = True
        self._outgoing.call(
            peer,
            WriteTxnMarkersRequest(markers=[self._marker(part) for part in parts]),
            timeout_ms=self._state.settings.request_timeout_ms + MARKERS_ANSWER_MS,
            done=lambda answer, reason, at_ms: self._answered(place, destination, parts, answer, at_ms),
            now_ms=now_ms,
            channel=f"{CHANNEL} of slow partitions, {place[1]}" if place[1] else CHANNEL,
        )

    def _next_parts(self, place: Place, destination: Destination) -> list[Part]:
        """What goes with the next request. Parts that are over are dropped; those that belong elsewhere go there."""
        parts: list[Part] = []
        moved: list[Part] = []
        room = MARKERS_PER_REQUEST_MAX
        while destination.waiting and room >= len(destination.waiting[0].partitions):
            part = destination.waiting.popleft()
            if part.ending.over or self._coordinator_epoch(part.index) is None:
                continue
            room -= len(part.partitions)
            reached: dict[int, int] = {}
            is_settled = part.image is self._state.image and not place[1] and not self._slow
            if is_settled or all(self._place_of(each, reached) == place for each in part.partitions):
                parts.append(part)
            else:
                moved.append(part)
        if moved:
            self._do(self._place(moved))
        if not parts and destination.waiting:
            self._plan(place, destination, 0)
        return parts

    def _marker(self, part: Part) -> WritableTxnMarker:
        transaction = part.ending.transaction
        topics: dict[str, list[int]] = {}
        for topic, index in part.partitions:
            topics.setdefault(topic, []).append(index)
        return WritableTxnMarker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            transaction_result=transaction.state is PREPARE_COMMIT,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
            coordinator_epoch=self._coordinator_epoch(part.index) or 0,
            transaction_version=transaction.client_version,
        )

    # Answers

    def _answered(
        self, place: Place, destination: Destination, parts: list[Part], answer: Message | None, now_ms: int
    ) -> None:
        destination.under_way = False
        if isinstance(answer, WriteTxnMarkersResponse):
            destination.failures = 0
            codes = {
                (marker.producer_id, topic.name, partition.partition_index): partition.error_code
                for marker in answer.markers
                for topic in marker.topics
                for partition in topic.partitions
            }
            refused: dict[int, list[Part]] = {}
            for part in parts:
                for left in self._heard_or_again(part, codes):
                    delay_ms = min(MARKERS_BACKOFF_MAX_MS, MARKERS_RETRY_MS << min(left.failures - 1, 10))
                    refused.setdefault(delay_ms, []).append(left)
            for delay_ms, again in refused.items():
                self._scheduler.timers.at(now_ms + delay_ms, partial(self._again, again))
            if destination.waiting:
                self._plan(place, destination, 0)
            return
        destination.failures += 1
        delay_ms = min(MARKERS_BACKOFF_MAX_MS, MARKERS_BACKOFF_MS << min(destination.failures, 10))
        self._plan(place, destination, delay_ms)
        parts += destination.waiting
        destination.waiting.clear()
        self._do(self._place(parts))

    def _again(self, refused: Sequence[Part], now_ms: int) -> None:
        self._do(self._place(refused))

    def _heard_or_again(self, part: Part, codes: dict[tuple[int, str, int], int]) -> list[Part]:
        """Takes the answers to a part. Returns what is to be tried again; after a bug that is all of it."""
        try:
            return self._heard(part, codes)
        except Exception as error:
            self._scheduler.bug("call", f"the markers of {part.ending!r}", error)
            return [Part(part.index, part.ending, part.partitions, part.failures + 1)]

    def _heard(self, part: Part, codes: dict[tuple[int, str, int], int]) -> list[Part]:
        ending = part.ending
        if ending.over:
            return []
        producer_id = ending.transaction.producer_id
        refused: list[TopicPartition] = []
        passed: list[TopicPartition] = []
        for topic, index in part.partitions:
            code = ErrorCode.of_peer(codes.get((producer_id, topic, index), ErrorCode.REQUEST_TIMED_OUT))
            self._found_slow((topic, index), is_slow=code is ErrorCode.REQUEST_TIMED_OUT)
            if code in NO_MARKER:
                ending.is_marked(topic, index)
                continue
            if part.failures + 1 == MARKER_FAILURES_TOLD:
                self._tell("a transaction waits for its marker in a partition", part, topic, index, code)
            if code is not ErrorCode.INVALID_PRODUCER_EPOCH:
                refused.append((topic, index))
            elif part.passed + 1 < MARKER_PASSED_TRIES:
                passed.append((topic, index))
            else:
                self._tell("a partition goes without the marker of a transaction", part, topic, index, code)
                ending.is_marked(topic, index)
        self._finish_if_marked(part)
        failures = part.failures + 1
        again = [Part(part.index, ending, refused, failures)] if refused else []
        return again + ([Part(part.index, ending, passed, failures, part.passed + 1)] if passed else [])

    def _found_slow(self, partition: TopicPartition, *, is_slow: bool) -> None:
        if not is_slow:
            self._slow.pop(partition, None)
            return
        self._slow[partition] = None
        if len(self._slow) > MARKER_SLOW_PARTITIONS_MAX:
            del self._slow[next(iter(self._slow))]

    def _tell(self, what: str, part: Part, topic: str, index: int, code: ErrorCode) -> None:
        ending = part.ending
        logger.warning(
            what,
            transactional_id=ending.transactional_id,
            producer_id=ending.transaction.producer_id,
            partition=f"{topic}-{index}",
            error=code.name,
        )

    def _finish_if_marked(self, part: Part) -> None:
        if not part.ending.remaining and not part.ending.over:
            self._marked(part.index, part.ending, self._scheduler.now_ms)
