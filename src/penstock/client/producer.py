"""Appending records to one topic: partitions chosen, batches built, retries without duplicates.

Keys choose partitions as Kafka's Java producer does; records without a key stay in one partition until its batch is
sent, then the next partition has its turn. With acks=all the producer is idempotent: each batch carries the producer's
id and a sequence, so that a batch whose answer was lost is not appended twice. One batch a partition is in flight, so
order is kept. With `transactions` its batches belong to the transaction of that transactional id.

    producer = Producer(client, "clicks", partitions=3)
    await producer.open()
    await producer.add(Message(value=b"hello"))
    await producer.flush()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.admin import refused
from penstock.client.limits import CLIENT_BATCH_BYTES
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Buffer,
    increment_sequence,
)
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.partitioner import partition_for_key

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.transactional import Transactions

ACKS_ALL = -1
RETRIES_OF_PRODUCER_ID = 30
RETRY_WAIT_S = 0.1


@dataclass(frozen=True, slots=True)
class Message:
    """A record to be. A partition that is None is chosen by the key."""

    value: bytes | None
    timestamp_ms: int
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch that was appended. `base_offset` is -1 with acks=0."""

    partition: int
    base_offset: int
    records: int


class Producer:
    """See the module's head.

    Args:
        client: connected.
        topic: which must exist, with `partitions` partitions.
        acks: 0, 1, or -1 for all.
        transactions: open; then acks must be all, and whoever ends a transaction has flushed before.
        sent: told of each batch that was appended.
        first_partition: where records without a key begin.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        partitions: int,
        *,
        codec: Codec = Codec.NONE,
        acks: int = ACKS_ALL,
        batch_bytes: int = CLIENT_BATCH_BYTES,
        first_partition: int = 0,
        transactions: Transactions | None = None,
        sent: Callable[[Sent], None] = lambda batch: None,
    ) -> None:
        assert partitions > 0
        assert transactions is None or acks == ACKS_ALL
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._codec = codec
        self._acks = acks
        self._batch_bytes = batch_bytes
        self._sticky = first_partition % partitions
        self._transactions = transactions
        self._sent = sent
        self._producer_id, self._producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._sequences: dict[int, int] = {}
        self._builders: dict[int, BatchBuilder] = {}

    async def open(self) -> None:
        """Gets a producer id, where retries need one of its own. Raises RequestError."""
        if self._acks != ACKS_ALL or self._transactions is not None:
            return
        self._producer_id, self._producer_epoch = await producer_identity(self._client)

    async def add(self, message: Message) -> None:
        """Takes a record; sends the batch of its partition first when it would get too large."""
        partition = self.partition_of(message)
        builder = self._builders.get(partition)
        if builder is not None and self._size_with(builder, message) > self._batch_bytes:
            await self._send(partition)
            partition = self.partition_of(message)
            builder = self._builders.get(partition)
        if builder is None:
            builder = self._builders[partition] = BatchBuilder(codec=self._codec)
        builder.append(message.timestamp_ms, message.key, message.value, message.headers)

    async def flush(self) -> None:
        """Sends all that was taken. Raises RequestError when a broker refuses a batch."""
        partitions = list(self._builders)
        if self._transactions is not None:  # one request for all of them
            await self._transactions.join((self._topic, partition) for partition in partitions)
        await asyncio.gather(*map(self._send, partitions))

    def partition_of(self, message: Message) -> int:
        """Where a record goes. Raises RequestError for a partition that the topic does not have."""
        if message.partition is not None:
            if not 0 <= message.partition < self._partitions:
                raise RequestError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"{self._topic} has partitions 0 to {self._partitions - 1}, not {message.partition}",
                )
            return message.partition
        if message.key is not None:
            return partition_for_key(message.key, self._partitions)
        return self._sticky

    @staticmethod
    def _size_with(builder: BatchBuilder, message: Message) -> int:
        return builder.size_with(message.timestamp_ms, message.key, message.value, message.headers)

    async def _send(self, partition: int) -> None:
        builder = self._builders.pop(partition)
        if partition == self._sticky:
            self._sticky = (self._sticky + 1) % self._partitions
        if self._transactions is not None:
            await self._take_part(self._transactions, partition, builder)
        sequence = self._sequences.get(partition, 0)
        if self._producer_id != NO_PRODUCER_ID:
            builder.producer_id, builder.producer_epoch = self._producer_id, self._producer_epoch
            builder.base_sequence = sequence
        else:
            assert builder.base_sequence == NO_SEQUENCE
        count = builder.record_count
        offset = await self._append(partition, builder.build())
        self._sequences[partition] = increment_sequence(sequence, count)
        self._sent(Sent(partition, offset, count))

    async def _take_part(self, transactions: Transactions, partition: int, builder: BatchBuilder) -> None:
        """Makes a batch one of the transaction. A new producer id or epoch begins with sequence 0."""
        await transactions.join([(self._topic, partition)])
        builder.is_transactional = True
        identity = transactions.producer_id, transactions.producer_epoch
        if identity != (self._producer_id, self._producer_epoch):
            self._producer_id, self._producer_epoch = identity
            self._sequences.clear()

    async def _append(self, partition: int, batch: Buffer) -> int:
        """The offset at which a batch was appended."""
        transactions = self._transactions
        if transactions is None:
            return (await self._client.produce(self._topic, partition, batch, acks=self._acks))[0]
        try:
            offset, _ = await self._client.produce(
                self._topic,
                partition,
                batch,
                transactional_id=transactions.transactional_id,
                at_most=transactions.produce_at_most,
            )
        except RequestError as error:
            transactions.refused(error.code, error.message)
            raise
        return offset


async def producer_identity(client: Client) -> tuple[int, int]:
    """An id and an epoch for an idempotent producer. Raises RequestError."""
    for _ in range(RETRIES_OF_PRODUCER_ID):
        answer = await client.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1))
        if not (answer.error_code and ErrorCode(answer.error_code).retriable):
            break
        await asyncio.sleep(RETRY_WAIT_S)
    refused(answer.error_code, None, "producer id")
    return answer.producer_id, answer.producer_epoch
