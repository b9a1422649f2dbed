"""Markers on their way to leaders: what goes together, what waits, what is tried again, and when it is over."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.coordinator.transaction.state import Ending, Term
from penstock.coordinator.transaction.transaction import PREPARE_COMMIT, Transaction
from penstock.errors import ErrorCode
from penstock.metadata.image import NO_LEADER
from penstock.node import markers
from penstock.node.limits import (
    MARKER_FAILURES_TOLD,
    MARKER_PASSED_TRIES,
    MARKER_SLOW_PARTITIONS_MAX,
    MARKERS_BACKOFF_MAX_MS,
    MARKERS_BACKOFF_MS,
    MARKERS_PER_PART_MAX,
    MARKERS_PER_REQUEST_MAX,
    MARKERS_RETRY_MS,
    MARKERS_UNPLACED_LOOK_MS,
)
from penstock.node.markers import CHANNEL, Markers
from penstock.node.scheduler import Scheduler
from penstock.protocol import codec
from penstock.protocol.message import Message
from penstock.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from penstock.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from penstock.records.wall import WallTime

Partition = tuple[str, int]
Asked = int | str
Done = Callable[[Message | None, str | None, int], None]
EPOCH = 5
"""Of the coordinator's partition."""


class Cluster:
    """Brokers 1 to 3, partitions of topic `t` by what `leaders` says, and requests that wait for an answer.

    Attributes:
        asked: requests without an answer, by broker; those with slow partitions by broker and channel. With each is
            how to answer.
        marked: ends that are complete.
    """

    def __init__(self) -> None:
        self.leaders: dict[Partition, int] = {}
        self.fenced: set[int] = set()
        self.asked: dict[Asked, tuple[WriteTxnMarkersRequest, Done]] = {}
        self.marked: list[Ending] = []
        self.coordinator_epoch: int | None = EPOCH
        self.scheduler = Scheduler(Random(1), WallTime())
        self.term = Term()
        self._ids = 0
        settings = SimpleNamespace(request_timeout_ms=30_000)
        state: Any = SimpleNamespace(image=self._image(), settings=settings, stopping=False, peer=lambda broker: broker)
        self._state = state
        self.markers = Markers(
            state,
            self.scheduler,
            self,  # type: ignore[arg-type]
            coordinator_epoch=lambda index: self.coordinator_epoch,
            marked=lambda index, ending, now_ms: self.marked.append(ending),
        )

    def _image(self) -> Any:
        return SimpleNamespace(
            partition=lambda topic, index: self._registration((topic, index)),
            brokers=SimpleNamespace(get=self._broker),
        )

    def _broker(self, broker: int) -> Any:
        return SimpleNamespace(fenced=broker in self.fenced) if broker in (1, 2, 3) else None

    def _registration(self, partition: Partition) -> Any:
        leader = self.leaders.get(partition)
        return None if leader is None else SimpleNamespace(leader=leader)

    def call(self, peer: int, message: Message, *, done: Done, channel: str, **_: Any) -> None:
        asked = peer if channel == CHANNEL else f"{peer}: {channel}"
        assert asked not in self.asked, "one request is under way to a lane of a broker"
        assert isinstance(message, WriteTxnMarkersRequest)
        for version in (1, 2):
            codec.encode_bytes(message, version)
        self.asked[asked] = message, done

    def end(self, *partitions: Partition, version: int = 2) -> Ending:
        """A transaction that is committed."""
        topics: dict[str, frozenset[int]] = {}
        for topic, index in partitions:
            topics[topic] = topics.get(topic, frozenset()) | {index}
        self._ids += 1
        transaction = Transaction(self._ids, -1, -1, 7, -1, 1, PREPARE_COMMIT, topics, 0, 0, version)
        ending = Ending(f"id-{self._ids}", transaction, self.term, 0)
        self.markers.send(0, ending, self.scheduler.now_ms)
        self.pass_time(0)
        return ending

    def pass_time(self, ms: int) -> None:
        self.scheduler.now_ms += ms
        for _ in range(3):
            while self.scheduler.working:
                self.scheduler.step()
            self.scheduler.timers.advance(self.scheduler.now_ms)

    def wait(self) -> int:
        """Waits for the next request; how long that was."""
        started_ms = self.scheduler.now_ms
        while not self.asked:
            self.pass_time(10)
        return self.scheduler.now_ms - started_ms

    def under_way(self, broker: Asked) -> dict[int, list[Partition]]:
        """The partitions of the request to a broker, by producer id."""
        request, _ = self.asked[broker]
        found: dict[int, list[Partition]] = {}
        for marker in request.markers:
            partitions = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
            found.setdefault(marker.producer_id, []).extend(partitions)
        return found

    def answer(self, broker: Asked, codes: dict[Partition, ErrorCode] | None = None) -> None:
        """The broker answers, with no error but these."""
        found = self.under_way(broker)
        _, done = self.asked.pop(broker)
        response = WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=(codes or {}).get((topic, index), ErrorCode.NONE)
                                )
                            ],
                        )
                        for topic, index in partitions
                    ],
                )
                for producer_id, partitions in found.items()
            ]
        )
        done(response, None, self.scheduler.now_ms)
        self.pass_time(0)

    def fail(self, broker: Asked) -> None:
        """The broker does not answer."""
        _, done = self.asked.pop(broker)
        done(None, "it broke", self.scheduler.now_ms)
        self.pass_time(0)

    def slow(self) -> Asked:
        """The one request that is under way with markers for slow partitions."""
        (found,) = (each for each in self.asked if isinstance(each, str))
        return found

    def change(self, partition: Partition, leader: int | None) -> None:
        """The metadata has another leader for a partition; None: it is deleted."""
        topics, deleted = {}, {}
        if leader is None:
            del self.leaders[partition]
            deleted = {0: SimpleNamespace(name=partition[0])}
        else:
            self.leaders[partition] = leader
            topics = {0: SimpleNamespace(name=partition[0], partitions={partition[1]: None})}
        self._state.image = self._image()
        delta: Any = SimpleNamespace(topics=topics, deleted_topics=deleted)
        self.markers.published(delta, self.scheduler.now_ms)
        self.pass_time(0)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.leaders = {("t", 0): 1, ("t", 1): 2, ("t", 2): 1}
    return made


def test_a_transaction_is_over_when_all_its_partitions_have_the_marker(cluster: Cluster) -> None:
    ending = cluster.end(("t", 0), ("t", 1), ("t", 2))
    assert cluster.under_way(1) == {1: [("t", 0), ("t", 2)]}
    assert cluster.under_way(2) == {1: [("t", 1)]}
    (marker,) = cluster.asked[2][0].markers
    assert (marker.producer_epoch, marker.transaction_result, marker.transaction_version) == (7, True, 2)
    assert marker.coordinator_epoch == EPOCH
    cluster.answer(1)
    assert not cluster.marked
    cluster.answer(2)
    assert cluster.marked == [ending]


def test_one_request_is_under_way_and_what_comes_meanwhile_goes_together(cluster: Cluster) -> None:
    first, second, third = cluster.end(("t", 0)), cluster.end(("t", 0)), cluster.end(("t", 2))
    assert cluster.under_way(1) == {1: [("t", 0)]}
    cluster.answer(1)
    assert cluster.under_way(1) == {2: [("t", 0)], 3: [("t", 2)]}
    cluster.answer(1)
    assert cluster.marked == [first, second, third]
    assert not cluster.markers.waiting


def test_a_wide_transaction_goes_in_bounded_requests(cluster: Cluster) -> None:
    wide = [("t", index) for index in range(2 * MARKERS_PER_REQUEST_MAX + 1)]
    cluster.leaders.update(dict.fromkeys(wide, 1))
    ending = cluster.end(*wide)
    cluster.pass_time(0)
    sizes = []
    while cluster.asked:
        sizes.append(sum(map(len, cluster.under_way(1).values())))
        cluster.answer(1)
    assert max(sizes) <= MARKERS_PER_REQUEST_MAX
    assert sum(sizes) == len(wide)
    assert MARKERS_PER_PART_MAX < MARKERS_PER_REQUEST_MAX
    assert cluster.marked == [ending]


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_a_partition_that_refuses_is_tried_again_for_ever_where_it_is_led_then(
    cluster: Cluster, code: ErrorCode
) -> None:
    ending = cluster.end(("t", 0), ("t", 2))
    waits = []
    for _ in range(3 * MARKER_FAILURES_TOLD):
        cluster.answer(1, {("t", 0): code})
        assert not cluster.asked
        waits.append(cluster.wait())
        assert cluster.under_way(1) == {1: [("t", 0)]}
    assert waits[0] <= MARKERS_RETRY_MS + 20
    assert sorted(waits) == waits
    assert waits[-1] <= MARKERS_BACKOFF_MAX_MS + 20
    cluster.answer(1, {("t", 0): code})
    cluster.leaders["t", 0] = 3
    cluster.wait()
    cluster.answer(3)
    assert cluster.marked == [ending]


def test_a_broker_that_does_not_answer_is_asked_after_longer_waits(cluster: Cluster) -> None:
    ending = cluster.end(("t", 0))
    waits = []
    for _ in range(8):
        cluster.fail(1)
        waits.append(cluster.wait())
    assert waits[0] >= 2 * MARKERS_BACKOFF_MS
    assert sorted(waits) == waits
    assert waits[-1] <= MARKERS_BACKOFF_MAX_MS + 20
    cluster.answer(1)
    assert cluster.marked == [ending]


def test_what_waits_for_a_broker_that_does_not_answer_goes_to_the_next_leader(cluster: Cluster) -> None:
    first, second = cluster.end(("t", 0)), cluster.end(("t", 2))
    cluster.leaders.update({("t", 0): 3, ("t", 2): 2})
    cluster.fail(1)
    assert cluster.under_way(3) == {1: [("t", 0)]}
    assert cluster.under_way(2) == {2: [("t", 2)]}
    cluster.answer(2)
    cluster.answer(3)
    assert cluster.marked == [second, first]


def test_a_partition_without_a_leader_delays_its_own_transactions_only(cluster: Cluster) -> None:
    cluster.leaders["t", 0] = NO_LEADER
    waits, other = cluster.end(("t", 0), ("t", 1)), cluster.end(("t", 2))
    cluster.answer(1)
    cluster.answer(2)
    assert cluster.marked == [other]
    assert cluster.markers.unplaced == 1
    cluster.pass_time(10 * MARKERS_UNPLACED_LOOK_MS)
    assert not cluster.asked
    cluster.change(("t", 0), 3)
    assert not cluster.markers.unplaced
    cluster.answer(3)
    assert cluster.marked == [other, waits]


def test_a_fenced_leader_is_none_and_is_looked_at_from_time_to_time(cluster: Cluster) -> None:
    cluster.fenced.add(1)
    ending = cluster.end(("t", 0))
    assert not cluster.asked
    cluster.fenced.clear()
    cluster.pass_time(MARKERS_UNPLACED_LOOK_MS + 10)
    cluster.answer(1)
    assert cluster.marked == [ending]


def test_deleted_partitions_need_no_marker(cluster: Cluster) -> None:
    unknown = cluster.end(("gone", 0))
    assert cluster.marked == [unknown]
    cluster.leaders["t", 0] = NO_LEADER
    waits = cluster.end(("t", 0))
    cluster.change(("t", 0), None)
    assert cluster.marked == [unknown, waits]


def test_a_transaction_without_partitions_is_over_at_once(cluster: Cluster) -> None:
    ending = cluster.end()
    assert cluster.marked == [ending]


def test_partitions_that_cannot_have_markers_are_passed_over(cluster: Cluster) -> None:
    ending = cluster.end(("t", 0))
    cluster.answer(1, {("t", 0): ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
    assert cluster.marked == [ending]


def test_where_the_coordinator_is_fenced_it_tries_again_and_the_other_partitions_get_their_markers(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    ending = cluster.end(("t", 0), ("t", 1), ("t", 2))
    for _ in range(MARKER_FAILURES_TOLD + 1):
        cluster.answer(1, {("t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED})
        if 2 in cluster.asked:
            cluster.answer(2)
        assert ending.remaining == {"t": {0}}
        cluster.wait()
    assert caplog.text.count("waits for its marker") == 1
    assert "TRANSACTION_COORDINATOR_FENCED" in caplog.text
    cluster.coordinator_epoch = EPOCH + 1
    cluster.answer(1, {("t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED})
    cluster.wait()
    assert cluster.asked[1][0].markers[0].coordinator_epoch == EPOCH + 1
    cluster.answer(1)
    assert cluster.marked == [ending]


def test_a_coordinator_that_is_fenced_stops_when_it_learns_that_it_is_one_no_more(cluster: Cluster) -> None:
    cluster.end(("t", 0))
    cluster.answer(1, {("t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED})
    cluster.term.over = True
    cluster.pass_time(10_000)
    assert not cluster.asked
    assert not cluster.marked


def test_a_partition_whose_producer_is_past_the_marker_goes_without_after_some_tries(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    ending, other = cluster.end(("t", 0), ("t", 1)), cluster.end(("t", 2))
    cluster.answer(2)
    for tries in range(MARKER_PASSED_TRIES):
        assert not cluster.marked or cluster.marked == [other]
        assert ending.remaining == {"t": {0}}
        cluster.answer(1, {("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH})
        if not tries:
            cluster.answer(1)
        if tries < MARKER_PASSED_TRIES - 1:
            cluster.wait()
    assert cluster.marked == [other, ending]
    assert "goes without the marker" in caplog.text
    assert "t-0" in caplog.text
    cluster.pass_time(10_000)
    assert not cluster.asked


def test_a_partition_goes_without_a_marker_only_after_refusals_in_a_row(cluster: Cluster) -> None:
    ending = cluster.end(("t", 0))
    past = {("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    for code in (past, past, past, {("t", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}, past, past, past, past):
        cluster.answer(1, code)
        cluster.wait()
    assert ending.remaining
    cluster.answer(1, past)
    assert cluster.marked == [ending]


def test_a_slow_partition_delays_its_own_transactions_only(cluster: Cluster) -> None:
    slow, first = cluster.end(("t", 0)), cluster.end(("t", 2))
    cluster.answer(1, {("t", 0): ErrorCode.REQUEST_TIMED_OUT})
    cluster.pass_time(MARKERS_RETRY_MS + 10)
    assert cluster.under_way(1) == {2: [("t", 2)]}
    assert cluster.under_way(cluster.slow()) == {1: [("t", 0)]}
    cluster.answer(1)
    others = [cluster.end(("t", 0), ("t", 2)), cluster.end(("t", 2))]
    for _ in others:
        cluster.answer(1)
    assert cluster.marked == [first, others[1]], "the slow partition is not asked with the others any more"
    assert cluster.under_way(cluster.slow()) == {1: [("t", 0)]}
    cluster.answer(cluster.slow())
    assert cluster.under_way(1) == {3: [("t", 0)]}, "it is slow no more, and so is what has waited for it"
    cluster.answer(1)
    assert cluster.marked == [first, others[1], slow, others[0]]
    assert not cluster.asked
    assert not cluster.markers.waiting


def test_slow_partitions_go_on_when_their_broker_does_not_answer_and_when_they_move(cluster: Cluster) -> None:
    ending = cluster.end(("t", 0))
    cluster.answer(1, {("t", 0): ErrorCode.REQUEST_TIMED_OUT})
    cluster.wait()
    cluster.leaders["t", 0] = 3
    cluster.fail(cluster.slow())
    assert cluster.slow().startswith("3: ")  # type: ignore[union-attr]
    cluster.change(("t", 0), None)
    cluster.fail(cluster.slow())
    assert cluster.marked == [ending]


def test_few_partitions_are_remembered_as_slow(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MARKER_SLOW_PARTITIONS_MAX > 1
    monkeypatch.setattr(markers, "MARKER_SLOW_PARTITIONS_MAX", 1)
    cluster.end(("t", 0), ("t", 2))
    cluster.answer(1, dict.fromkeys((("t", 0), ("t", 2)), ErrorCode.REQUEST_TIMED_OUT))
    cluster.pass_time(MARKERS_RETRY_MS + 10)
    assert cluster.under_way(1) == {1: [("t", 0)]}
    assert cluster.under_way(cluster.slow()) == {1: [("t", 2)]}


def test_an_error_that_nobody_knows_is_tried_again(cluster: Cluster) -> None:
    ending = cluster.end(("t", 0))
    unknown: Any = 9_999
    cluster.answer(1, {("t", 0): unknown})
    cluster.wait()
    cluster.answer(1)
    assert cluster.marked == [ending]


def test_a_bug_in_the_completion_of_one_transaction_ends_that_try_only(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, other = cluster.end(("t", 0)), cluster.end(("t", 2))
    cluster.scheduler.bugs._then = lambda what, error: None
    heard = cluster.markers._finish_if_marked

    def fail(part: Any) -> None:
        if part.ending is broken:
            raise RuntimeError("planted")
        heard(part)

    monkeypatch.setattr(cluster.markers, "_finish_if_marked", fail)
    cluster.answer(1)
    cluster.answer(1)
    assert cluster.marked == [other]
    monkeypatch.undo()
    cluster.wait()
    assert cluster.marked == [other, broken]


def test_nothing_is_sent_for_a_coordinator_that_is_one_no_more(cluster: Cluster) -> None:
    first, second = cluster.end(("t", 0)), cluster.end(("t", 0))
    cluster.term.over = True
    cluster.fail(1)
    cluster.pass_time(10_000)
    assert not cluster.asked
    assert not cluster.marked
    assert first.over
    assert second.over
    assert not cluster.markers.waiting


def test_a_partition_that_refuses_long_is_named_once(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.end(("t", 0))
    for _ in range(2 * MARKER_FAILURES_TOLD):
        cluster.answer(1, {("t", 0): ErrorCode.NOT_ENOUGH_REPLICAS})
        cluster.wait()
    assert caplog.text.count("waits for its marker") == 1
    assert "t-0" in caplog.text
