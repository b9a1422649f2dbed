"""What the job `mirror` gives the other cluster: a round of batches and how far it goes, in one transaction.

Becoming the producer of `penstock-mirror-ID` fences whoever mirrored before, and ends its transaction. From there on
the progress that is read is the last, and what it does not cover is not there. After an error nobody knows what became
of the transaction: the next round begins with `open` again, which finds out.

Over a distance many batches must be under way at once: with 50 ms to the other cluster and back, five batches of 16 KB
at once are 1.6 MB/s. An idempotent producer has no more of a partition in flight, for a broker remembers only five;
here the whole transaction is aborted and sent again where that was too few.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from uuid import UUID

from penstock.client.client import Client, Partition
from penstock.client.transactional import FENCED, Transactions
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.pipelines.jobs.mirror_batches import Taken
from penstock.pipelines.jobs.mirror_progress import (
    PROGRESS,
    PROGRESS_PARTITION,
    Kept,
    Place,
    Reached,
    key_of,
    prepare_progress,
    reached_of,
    read_progress,
    value_of,
)
from penstock.pipelines.limits import MIRROR_BATCHES_IN_FLIGHT, MIRROR_PROGRESS_RECORDS, MIRROR_REQUESTS_IN_FLIGHT
from penstock.protocol.api import ApiKey
from penstock.records.batch import increment_sequence
from penstock.records.builder import BatchBuilder
from penstock.spark.write.stamping import stamp
from penstock.spark.write.transaction_sending import InFlight, Piece, TransactionSending

logger = logging.getLogger(__name__)
PRODUCE_BY_ID = 13
"""The version of Produce from which on topics have their ids there (KIP-516)."""


class Step(Enum):
    """What a mirror has just done at the target, in order."""

    FENCED = 1
    PROGRESS_READ = 2
    BATCH_SENT = 3
    ALL_SENT = 4
    ENDED = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic of the source and the one of the target that it is mirrored into."""

    topic: str
    topic_id: UUID
    partitions: int
    to: str
    to_id: UUID

    def place(self, partition: int) -> Place:
        """One of its partitions."""
        return Place(self.topic_id, self.to_id, partition)


@dataclass(slots=True)
class Round:
    """What is sent in one transaction.

    Attributes:
        batches: by partition of the target.
        moved: how far partitions are then.
        pairs: of these partitions.
        records: in all batches.
        lag: offsets that the source has beyond it.
    """

    batches: dict[Partition, list[Taken]] = field(default_factory=dict)
    moved: dict[Place, Reached] = field(default_factory=dict)
    pairs: dict[Place, Pair] = field(default_factory=dict)
    records: int = 0
    lag: int = 0

    def moves(self, pair: Pair, partition: int, reached: Reached) -> None:
        """Notes how far a partition is after this round."""
        self.moved[pair.place(partition)] = reached
        self.pairs[pair.place(partition)] = pair


@dataclass(frozen=True, slots=True)
class Times:
    """How long sending may take; the defaults are those of Kafka's producers."""

    transaction_timeout_ms: int = 60_000
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000


class Target:
    """The way to one cluster.

    Args:
        client: connected.
        mirror_id: of the mirror, the same after each restart; another that has it is fenced.
        kept: what the one before, in the same process, knew of the progress.
        reached: told of each step.
    """

    def __init__(
        self,
        client: Client,
        mirror_id: str,
        *,
        kept: Kept | None = None,
        reached: Callable[[Step], None] = lambda step: None,
    ) -> None:
        self._client = client
        self._mirror_id = mirror_id
        self._kept = kept if kept is not None else Kept()
        self._reached = reached
        self._times = Times()
        self._transactions = Transactions(
            client, f"penstock-mirror-{mirror_id}", timeout_ms=self._times.transaction_timeout_ms
        )
        self._sequences: dict[Partition, int] = {}

    async def open(self) -> Mapping[Place, Reached]:
        """Takes the mirror over; how far it is. Raises PenstockError."""
        await prepare_progress(self._client)
        await self._transactions.open()
        self._sequences.clear()
        self._reached(Step.FENCED)
        values = dict(await read_progress(self._client, self._mirror_id))
        topic_id = (await self._client.topic(PROGRESS)).topic_id
        if self._kept.lost(topic_id):
            if self._kept.is_sure:
                logger.warning("topic %s of the target was deleted: the progress is written anew", PROGRESS)
                values = self._kept.values | values
                await self._transaction({}, values, ())
            else:
                logger.warning("topic %s of the target was deleted, and it is not known what it had", PROGRESS)
        self._kept.topic_id, self._kept.values, self._kept.is_sure = topic_id, values, True
        self._reached(Step.PROGRESS_READ)
        return reached_of(values)

    async def send(self, round_: Round) -> None:
        """Sends a round and how far it goes; both are there when this returns.

        Raises SinkError, RequestError, UnreachableError: call `open` before the next round, which tells what is there.
        """
        if not round_.moved:
            return
        moved = {
            key_of(self._mirror_id, place): value_of(reached, round_.pairs[place].topic, round_.pairs[place].to)
            for place, reached in round_.moved.items()
        }
        await self._transaction(round_.batches, moved, set(round_.pairs.values()))
        self._kept.values |= moved

    async def _transaction(
        self, batches: Mapping[Partition, list[Taken]], progress: Mapping[bytes, bytes], pairs: Iterable[Pair]
    ) -> None:
        """Sends batches and records of progress in one transaction."""
        work = {partition: self._pieces(partition, some) for partition, some in batches.items()}
        place = (PROGRESS, PROGRESS_PARTITION)
        work[place] = self._pieces(place, progress_batches(progress, time.time_ns() // 1_000_000))
        in_flight = InFlight(MIRROR_BATCHES_IN_FLIGHT, MIRROR_REQUESTS_IN_FLIGHT)
        try:
            await self._transactions.join(work)
            sending = TransactionSending(
                self._client, self._transactions, self._times, lambda _: self._reached(Step.BATCH_SENT), in_flight
            )
            await sending.send(work)
            await self._check_ids(pairs)
            self._reached(Step.ALL_SENT)
            epoch = self._transactions.producer_epoch
            self._kept.is_sure = False
            await self._transactions.end(committed=True)
        except RequestError as error:
            raise self._explained(error) from None
        self._kept.is_sure = True
        if self._transactions.producer_epoch != epoch:
            self._sequences.clear()  # each epoch counts from 0
        self._reached(Step.ENDED)

    async def _check_ids(self, pairs: Iterable[Pair]) -> None:
        """Raises RequestError for a topic that is another one now.

        Brokers before Produce 13 are told names alone, and may have written into the new one before this client heard
        of it: their metadata are asked for.
        """
        ids = {pair.to: pair.to_id for pair in pairs}
        connection = await self._client.connection(None)
        if connection.version_for(ApiKey.PRODUCE, self._transactions.produce_at_most) < PRODUCE_BY_ID:
            there = {topic.name: topic.topic_id for topic in (await self._client.refresh(ids)).topics}
        else:
            there = {name: (await self._client.topic(name)).topic_id for name in ids}
        for name, wanted in ids.items():
            if there.get(name) != wanted:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic {name} was made again at the target")

    def _pieces(self, partition: Partition, batches: list[Taken]) -> list[Piece]:
        pieces = []
        for each in batches:
            sequence = self._sequences.get(partition, 0)
            pieces.append(Piece(partial(self._stamped, each.batch, sequence)))
            self._sequences[partition] = increment_sequence(sequence, each.records)
        return pieces

    def _stamped(self, batch: bytearray, sequence: int) -> bytearray:
        stamp(batch, self._transactions.producer_id, self._transactions.producer_epoch, sequence)
        return batch

    def _explained(self, error: RequestError) -> PenstockError:
        if error.code not in FENCED:
            return error
        return PenstockError(
            f"{error}. The target has nothing of this round. If another mirror runs with the id {self._mirror_id}, stop"
            " one of the two, or give each an id of its own"
        )


def progress_batches(values: Mapping[bytes, bytes], now_ms: int) -> list[Taken]:
    """Records of progress as batches, each of at most MIRROR_PROGRESS_RECORDS."""
    records, batches = list(values.items()), []
    for first in range(0, len(records), MIRROR_PROGRESS_RECORDS):
        builder = BatchBuilder()
        for key, value in records[first : first + MIRROR_PROGRESS_RECORDS]:
            builder.append(now_ms, key, value, ())
        batches.append(Taken(builder.build(), builder.record_count))
    return batches
