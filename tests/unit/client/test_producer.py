"""The producer: where records go, what their batches carry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client.producer import Message, Producer, Sent
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.init_producer_id_response import InitProducerIdResponse
from penstock.records.batch import read_header
from penstock.records.partitioner import partition_for_key
from penstock.records.reader import records

PRODUCER_ID = 4000


class Broker:
    """Stands for a connected client: takes batches, gives offsets."""

    def __init__(self, *answers: InitProducerIdResponse) -> None:
        self.answers = list(answers) or [InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=2)]
        self.batches: list[tuple[int, bytes]] = []
        self.ends: dict[int, int] = {}

    async def send(self, _: Any) -> InitProducerIdResponse:
        return self.answers.pop(0)

    async def produce(self, topic: str, partition: int, batch: bytes, *, acks: int) -> tuple[int, int]:
        self.batches.append((partition, bytes(batch)))
        offset = self.ends.get(partition, 0)
        self.ends[partition] = offset + read_header(batch).record_count
        return offset, -1


def produce(broker: Broker, rounds: list[list[Message]], **options: Any) -> list[Sent]:
    """Adds and flushes round by round."""
    sent: list[Sent] = []

    async def work() -> None:
        producer = Producer(broker, "clicks", 3, sent=sent.append, **options)  # type: ignore[arg-type]
        await producer.open()
        for messages in rounds:
            for message in messages:
                await producer.add(message)
            await producer.flush()

    asyncio.run(work())
    return sent


def test_a_key_chooses_its_partition_as_in_kafka() -> None:
    broker = Broker()
    keys = [f"user-{number}".encode() for number in range(20)]
    produce(broker, [[Message(b"v", 1, key) for key in keys]])
    for partition, batch in broker.batches:
        for record in records(batch, read_header(batch)):
            assert record.key is not None
            assert partition_for_key(record.key, 3) == partition
    assert sum(read_header(batch).record_count for _, batch in broker.batches) == 20


def test_records_without_a_key_stay_together_and_then_move_on() -> None:
    broker = Broker()
    sent = produce(broker, [[Message(b"a", 1), Message(b"b", 1)], [Message(b"c", 1)]], first_partition=5)
    assert sent == [Sent(2, 0, 2), Sent(0, 0, 1)]


def test_sequences_go_on_within_a_partition() -> None:
    broker = Broker()
    rounds = [[Message(b"a", 1, partition=1), Message(b"b", 1, partition=1)], [Message(b"c", 1, partition=1)]]
    produce(broker, rounds)
    headers = [read_header(batch) for _, batch in broker.batches]
    assert [(each.producer_id, each.producer_epoch, each.base_sequence) for each in headers] == [
        (PRODUCER_ID, 2, 0),
        (PRODUCER_ID, 2, 2),
    ]


def test_without_acks_of_all_a_batch_has_no_sequence() -> None:
    broker = Broker()
    produce(broker, [[Message(b"a", 1)]], acks=1)
    assert not read_header(broker.batches[0][1]).has_producer_id


def test_a_batch_that_is_full_is_sent_and_large_records_go_alone() -> None:
    broker = Broker()
    sizes = [400, 400, 400, 5000, 10]
    produce(broker, [[Message(bytes(size), 1, partition=0) for size in sizes]], batch_bytes=1000)
    counts = [read_header(batch).record_count for _, batch in broker.batches]
    assert counts == [2, 1, 1, 1]
    assert all(len(batch) <= 1000 or count == 1 for (_, batch), count in zip(broker.batches, counts, strict=True))


def test_a_partition_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match="clicks has partitions 0 to 2, not 3"):
        produce(Broker(), [[Message(b"a", 1, partition=3)]])


def test_the_producer_id_is_asked_for_again_while_the_broker_is_not_ready() -> None:
    loading = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker = Broker(loading, InitProducerIdResponse(producer_id=9, producer_epoch=0))
    produce(broker, [[Message(b"a", 1)]])
    assert read_header(broker.batches[0][1]).producer_id == 9
    with pytest.raises(RequestError) as refused:
        produce(Broker(InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)), [])
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
