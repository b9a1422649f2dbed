"""Random transactions, request by request to Apache Kafka and to ours: readers of committed records are told the same.

After each step every offset is fetched with read_committed from both, and the last stable offset and the producers are
asked for. Of the aborted transactions Kafka lists those up to the end of the segment, so those are compared that begin
below the last stable offset: what comes after it is not read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest
from interop.clients.wire import Wire
from interop.kafka_peer import KafkaPeer
from support.requests import batch, fetch, list_offsets, partitions_of, produce, values_of, wanted
from support.transactions import errors_of, marker, markers

from penstock.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.records.batch import headers
from penstock.testing.broker import LocalBroker

pytestmark = [pytest.mark.java, pytest.mark.slow]
TOPIC = "orders"
WRITERS = 3
SETTLED_TIMEOUT_S = 20
BUSY = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class Writer:
    """A transactional producer on a connection, whose ids are its own at each broker."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire = wire
        self.name = name
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
        self.ask(find, 4, lambda answer: answer.coordinators[0].error_code)
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        answer = self.ask(request, 4, lambda answer: answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0

    def ask(self, request: Any, version: int, code_of: Any) -> Any:
        """Asks until the coordinator is not busy any more."""
        deadline = time.monotonic() + SETTLED_TIMEOUT_S
        while True:
            answer = self.wire.ask(request, version)
            busy = (*BUSY, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if code_of(answer) not in busy or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    def add(self) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        answer = self.ask(request, 3, code)
        return code(answer)

    def write(self, values: Sequence[bytes], version: int, sequence: int) -> tuple[int, int]:
        request = produce(
            TOPIC,
            batch(
                *values,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                is_transactional=True,
                timestamp_ms=time.time_ns() // 1_000_000,
            ),
            acks=-1,
            timeout_ms=10_000,
        )
        request.transactional_id = self.name
        found = self.wire.ask(request, version).responses[0].partition_responses[0]
        return found.error_code, found.base_offset

    def end(self, commit: bool) -> int:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        return int(self.ask(request, 3, lambda answer: answer.error_code).error_code)

    def abort_by_hand(self, coordinator_epoch: int) -> set[ErrorCode]:
        """As an administrator ends a hanging transaction."""
        one = marker(
            TOPIC,
            commit=False,
            epoch=self.epoch,
            producer_id=self.producer_id,
            coordinator_epoch=coordinator_epoch,
        )
        return set(errors_of(self.wire.ask(markers(one), 1)).values())


def code(answer: Any) -> int:
    found: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return found


class Side:
    """One broker, and what it says."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        assert self.wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code == 0
        deadline = time.monotonic() + SETTLED_TIMEOUT_S
        while self.plain(b"first") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.writers = [Writer(self.wire, f"writer {number}") for number in range(WRITERS)]
        self.names = {each.producer_id: number for number, each in enumerate(self.writers)}

    def plain(self, value: bytes) -> int:
        data = batch(value, timestamp_ms=time.time_ns() // 1_000_000)
        return int(self.wire.ask(produce(TOPIC, data), 9).responses[0].partition_responses[0].error_code)

    def settled_end(self) -> int:
        return int(self.wire.ask(list_offsets(TOPIC, (0, -1)), 7).topics[0].partitions[0].offset)

    def seen(self) -> list[Any]:
        """All that a reader of committed records and DescribeProducers are told."""
        stable = self.wire.ask(list_offsets(TOPIC, (0, -1), isolation_level=1), 7).topics[0].partitions[0].offset
        told: list[Any] = [stable]
        for offset in range(self.settled_end() + 1):
            data = partitions_of(self.wire.ask(fetch(TOPIC, wanted(offset=offset), isolation_level=1), 12))[0]
            aborted = sorted(
                (self.names[each.producer_id], each.first_offset)
                for each in data.aborted_transactions or ()
                if each.first_offset < stable
            )
            view = memoryview(bytes(data.records or b""))
            batches = [
                (header.base_offset, header.is_control, header.is_transactional, self.names.get(header.producer_id))
                for _, header in headers(view)
            ]
            values = [value for value in values_of(data) if value and value.isalpha()]
            place = data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset
            told.append((offset, place, aborted if offset < stable else [], batches, values))
        request = DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0])])
        found = self.wire.ask(request, 0).topics[0].partitions[0]
        told.append(
            sorted(
                (
                    self.names[each.producer_id],
                    each.producer_epoch,
                    each.last_sequence,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                )
                for each in found.active_producers
            )
        )
        return told


@pytest.fixture
def sides() -> Iterator[Sides]:
    with KafkaPeer() as kafka, LocalBroker() as ours, Wire(kafka.bootstrap) as one, Wire(ours.bootstrap) as other:
        yield Sides(Side(one), Side(other))


class Sides:
    """Both brokers, to which the same is done, and what their writers are at.

    Attributes: `begun`, the writers with a transaction; `sequences`, where each is; `refused`, errors of batches that
    were part of no transaction.
    """

    def __init__(self, *sides: Side) -> None:
        self.sides = sides
        self.random = Random(3)
        self.begun: set[int] = set()
        self.sequences = [0] * WRITERS
        self.refused: set[int] = set()

    def both(self, do: Callable[[Side], Any]) -> Any:
        """Does the same on both sides, and gives the answer, which must be the same."""
        theirs, ours = (do(side) for side in self.sides)
        assert theirs == ours
        return theirs

    def write(self, number: int, *values: bytes) -> int:
        version, sequence = self.random.choice([5, 9, 11]), self.sequences[number]
        error, _ = self.both(lambda side: side.writers[number].write(values, version, sequence))
        return int(error)

    def step(self) -> None:
        """One step of one writer, or of somebody else."""
        random, number = self.random, self.random.randrange(WRITERS)
        kind = random.choice(["plain", "write", "write", "write", "end", "end", "not added", "by hand"])
        if kind == "plain":
            self.both(lambda side: side.plain(b"plain"))
        elif kind == "write":
            if number not in self.begun:
                assert self.both(lambda side: side.writers[number].add()) == 0
                self.begun.add(number)
            values = [b"value"] * random.randrange(1, 4)
            assert self.write(number, *values) == 0
            self.sequences[number] += len(values)
        elif kind == "end" and number in self.begun:
            commit = random.random() < 0.5
            assert self.both(lambda side: side.writers[number].end(commit)) == 0
            self.begun.discard(number)
        elif kind == "not added" and number not in self.begun:
            self.refused.add(self.write(number, b"late"))
        elif kind == "by hand" and number not in self.begun:
            coordinator_epoch = random.choice([-1, 0])
            self.both(lambda side: side.writers[number].abort_by_hand(coordinator_epoch))

    def settle(self) -> None:
        """EndTxn is answered before the markers are written: waits until they are."""
        deadline = time.monotonic() + SETTLED_TIMEOUT_S
        for side in self.sides:
            while time.monotonic() < deadline:
                if {number for number, _, _, _, first in side.seen()[-1] if first >= 0} <= self.begun:
                    break
                time.sleep(0.02)


def test_readers_of_committed_records_are_told_the_same(sides: Sides) -> None:
    for _ in range(60):
        sides.step()
        sides.settle()
        sides.both(Side.seen)
    assert sides.refused
    assert 0 not in sides.refused
