"""The state of a log's idempotent and transactional producers (KIP-98), as of its reserved end.

Each producer id has one immutable `Producer`: its epoch, the last five batches, the first offset of an open
transaction. A batch replaces it by a new one, so undoing an append is putting the old one back. State is reserved when
an append is prepared and stays reserved if it completes; a rejected or failed append undoes its steps, last one first.

A producer's sequence is checked here (`check_sequence`), for batches of clients only (`Origin`). An unknown producer
may begin with any sequence: its records may have been deleted. Kafka's ProducerStateManager and ProducerAppendInfo are
the reference.

An open transaction bounds the last stable offset from its first record until its marker is replicated: a completed one
moves to `unreplicated`, and leaves it when the high watermark has passed the marker. Callers pass the high watermark
when they ask for the bound, and also when it moves, since nobody may ask for a long time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from penstock.errors import ErrorCode, RequestError
from penstock.log.limits import BATCHES_PER_PRODUCER, PRODUCER_IDS_PER_PARTITION_MAX
from penstock.records.batch import (
    CONTROL_FLAG,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)

NO_OFFSET = -1
NO_COORDINATOR_EPOCH = -1
MAX_PRODUCER_EPOCH = 32767
EPOCHS_END_TRANSACTIONS = 2
"""From this transaction.version on the coordinator ends a transaction with an epoch of its own (KIP-890)."""


class Origin(Enum):
    """Where an append comes from, which decides what is checked (Kafka's AppendOrigin)."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT = "raft"


CLIENT = Origin.CLIENT  # an Enum's member is found slowly in Python 3.11, and every append asks


class Batch(NamedTuple):
    """A batch that was appended, as much of it as finding a duplicate needs."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class Producer(NamedTuple):
    """One producer id. `batches` are the last ones of `epoch`, oldest first; `transaction_first_offset` is -1 if none
    is open."""

    epoch: int = NO_PRODUCER_EPOCH
    batches: tuple[Batch, ...] = ()
    transaction_first_offset: int = NO_OFFSET
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp_ms: int = NO_TIMESTAMP

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Marker(NamedTuple):
    """The end of a transaction, from a control batch (records.control)."""

    commit: bool
    coordinator_epoch: int


class VerificationGuard:
    """Permission to begin a transaction of a producer epoch here, once its coordinator confirms it (KIP-890).

    It becomes invalid with the producer's next batch or marker, with a newer epoch, and when the log is truncated: the
    confirmation may be about a transaction that has ended since. Only a marker of the guard's own epoch does not end it
    if the transaction `adds` its partitions by itself: that marker ends the transaction before.

    Attributes:
        lowest_sequence: of the batches that wait for the confirmation. None may be appended before that one.
        seen_idle_ms: when somebody looked first and it was there; None before.
    """

    __slots__ = ("adds", "lowest_sequence", "producer_epoch", "seen_idle_ms")

    def __init__(self, producer_epoch: int, lowest_sequence: int = NO_SEQUENCE, *, adds: bool = False) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.adds = adds
        self.seen_idle_ms: int | None = None


NOT_VERIFIED = VerificationGuard(NO_PRODUCER_EPOCH)
"""In place of a guard where nothing is to be verified (transaction.partition.verification.enable=false)."""


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended. `last_stable_offset` is what readers have once it is replicated."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: int


class Step(NamedTuple):
    """The change made by one batch, with enough detail to undo it."""

    producer_id: int
    before: Producer | None
    completed: CompletedTransaction | None
    started: int


UNKNOWN = Producer()
new_tuple = tuple.__new__
"""Makes a named tuple at a third of the cost of its own constructor, which is written in Python."""


class ProducerState:
    """All producers of one log.

    Attributes:
        end_offset: everything below is accounted for (Kafka's map end offset).
        ongoing: first offset -> producer id of open transactions, by rising first offset.
        unreplicated: first offset -> marker's offset of completed ones that may be above the high watermark.
    """

    __slots__ = ("_guards", "_idle_since", "end_offset", "ongoing", "producers", "unreplicated")

    def __init__(self, end_offset: int = 0) -> None:
        self.end_offset = end_offset
        self.producers: dict[int, Producer] = {}
        self.ongoing: dict[int, int] = {}
        self.unreplicated: dict[int, int] = {}
        self._guards: dict[int, VerificationGuard] = {}
        self._idle_since: dict[int, tuple[Producer, int]] = {}

    def load(self, entries: Iterable[tuple[int, Producer]]) -> None:
        """Loads the producers of a snapshot. Their idle time is unknown, and counts from now on."""
        self.producers.update(entries)
        open_transactions = [
            (producer.transaction_first_offset, producer_id)
            for producer_id, producer in self.producers.items()
            if producer.transaction_first_offset != NO_OFFSET
        ]
        self.ongoing = dict(sorted(open_transactions))

    def duplicate_of(self, header: BatchHeader) -> Batch | None:
        """The appended batch with the same producer, epoch and sequences, if it is among the last five."""
        producer = self.producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        first = header.base_sequence
        for batch in producer.batches:
            if batch.first_sequence == first and batch.last_sequence == header.last_sequence:
                return batch
        return None

    def guard(
        self, producer_id: int, producer_epoch: int, sequence: int = NO_SEQUENCE, *, adds: bool = False
    ) -> VerificationGuard | None:
        """The guard that a producer's next transactional batch needs; None while it has a transaction open in that
        epoch.

        A second call before the batch returns the same guard. `adds`: the coordinator is asked to add the partition
        (transaction.version 2), so each epoch has one transaction. Raises RequestError(INVALID_PRODUCER_EPOCH).
        """
        producer = self.producers.get(producer_id, UNKNOWN)
        check_epoch(producer_id, producer_epoch, producer)
        if producer.transaction_first_offset != NO_OFFSET and producer.epoch == producer_epoch:
            return None
        guard = self._guards.get(producer_id)
        if guard is None or guard.producer_epoch < producer_epoch:
            if len(self._guards) >= PRODUCER_IDS_PER_PARTITION_MAX:
                del self._guards[next(iter(self._guards))]
            guard = self._guards[producer_id] = VerificationGuard(producer_epoch, sequence, adds=adds)
        elif guard.producer_epoch == producer_epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        return guard

    def check_verified(self, header: BatchHeader, guard: VerificationGuard | None) -> None:
        """Checks a transactional batch before it is appended, in addition to what `reserve` checks.

        One that begins a transaction must have been verified: INVALID_TXN_STATE; INVALID_PRODUCER_EPOCH comes first.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        producer = self.producers.get(producer_id, UNKNOWN)
        if guard is NOT_VERIFIED or (producer.transaction_first_offset != NO_OFFSET and producer.epoch == epoch):
            return
        check_epoch(producer_id, epoch, producer)
        known = self._guards.get(producer_id)
        if known is None or known is not guard or known.producer_epoch != epoch:
            message = f"nobody has verified that a transaction of producer {producer_id} in epoch {epoch} goes on"
            raise RequestError(ErrorCode.INVALID_TXN_STATE, message)

    def check_coordinated(self, header: BatchHeader, guard: VerificationGuard | None, transaction_version: int) -> None:
        """Checks a coordinator's batch before it is appended, in addition to what `reserve` checks; as in Kafka 4.3.

        A marker must have a newer epoch than what it ends, if `transaction_version` is of that kind, unless it comes
        again: INVALID_PRODUCER_EPOCH. For others see `check_verified`.
        """
        if header.is_control:
            producer_id, epoch = header.producer_id, header.producer_epoch
            producer = self.producers.get(producer_id, UNKNOWN)
            is_open = producer.transaction_first_offset != NO_OFFSET and producer.epoch == epoch
            if is_open and transaction_version >= EPOCHS_END_TRANSACTIONS and epoch != MAX_PRODUCER_EPOCH:
                message = f"a marker of epoch {epoch} ends no transaction of that epoch, producer {producer_id} has one"
                raise RequestError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        elif header.is_transactional:
            self.check_verified(header, guard)

    def reserve(self, header: BatchHeader, base_offset: int, origin: Origin, marker: Marker | None = None) -> Step:
        """Accounts for a batch of a producer at `base_offset`.

        Raises RequestError with OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE or
        TRANSACTION_COORDINATOR_FENCED; nothing has changed then. What was accepted once (REPLICATION) is not refused.
        """
        producer_id = header.producer_id
        before = self.producers.get(producer_id)
        producer = before or UNKNOWN
        if header.producer_epoch < producer.epoch and origin is not Origin.REPLICATION:
            check_epoch(producer_id, header.producer_epoch, producer)
        if header.attributes & CONTROL_FLAG:
            return self._end_transaction(header, base_offset, origin, marker, before)
        if origin is CLIENT:
            check_sequence(header, producer, self._guards.get(producer_id))
        first_offset = producer.transaction_first_offset
        started = NO_OFFSET
        if header.attributes & TRANSACTIONAL_FLAG:
            if first_offset == NO_OFFSET:
                started = first_offset = base_offset
                self.ongoing[base_offset] = producer_id
        elif first_offset != NO_OFFSET and origin is not Origin.REPLICATION:
            raise RequestError(
                ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has a transaction open and wrote outside of it"
            )
        if self._guards and header.attributes & TRANSACTIONAL_FLAG:
            self._guards.pop(producer_id, None)
        kept = producer.batches if producer.epoch == header.producer_epoch else ()
        last_offset, timestamp_ms = base_offset + header.last_offset_delta, header.max_timestamp_ms
        batch = new_tuple(Batch, (header.base_sequence, header.last_sequence, base_offset, last_offset, timestamp_ms))
        batches = (*kept[-BATCHES_PER_PRODUCER + 1 :], batch)
        changed = (header.producer_epoch, batches, first_offset, producer.coordinator_epoch, timestamp_ms)
        producers = self.producers
        producers.pop(producer_id, None)
        producers[producer_id] = new_tuple(Producer, changed)
        if before is None and len(producers) > PRODUCER_IDS_PER_PARTITION_MAX:
            self._forget_idlest()
        return new_tuple(Step, (producer_id, before, None, started))

    def _end_transaction(
        self, header: BatchHeader, offset: int, origin: Origin, marker: Marker | None, before: Producer | None
    ) -> Step:
        producer_id = header.producer_id
        if marker is None:
            self._guards.pop(producer_id, None)
            return Step(producer_id, before, None, NO_OFFSET)
        producer = before or UNKNOWN
        if marker.coordinator_epoch < producer.coordinator_epoch and origin is not Origin.REPLICATION:
            raise RequestError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker of coordinator epoch {marker.coordinator_epoch} for producer {producer_id} comes after one "
                f"of epoch {producer.coordinator_epoch}",
            )
        guard = self._guards.get(producer_id)
        if guard is not None and not (guard.adds and guard.producer_epoch == header.producer_epoch):
            del self._guards[producer_id]
        completed = None
        first_offset = producer.transaction_first_offset
        if first_offset != NO_OFFSET:
            del self.ongoing[first_offset]
            last_stable_offset = next(iter(self.ongoing), offset + 1)
            completed = CompletedTransaction(producer_id, first_offset, offset, not marker.commit, last_stable_offset)
            self.unreplicated[first_offset] = offset
        kept = producer.batches if producer.epoch == header.producer_epoch else ()
        self.producers.pop(producer_id, None)
        self.producers[producer_id] = Producer(
            header.producer_epoch, kept, NO_OFFSET, marker.coordinator_epoch, header.max_timestamp_ms
        )
        if before is None and len(self.producers) > PRODUCER_IDS_PER_PARTITION_MAX:
            self._forget_idlest()
        return Step(producer_id, before, completed, NO_OFFSET)

    def undo(self, steps: Sequence[Step]) -> None:
        """Takes reserved batches back, the last one first."""
        for step in reversed(steps):
            if step.started != NO_OFFSET:
                del self.ongoing[step.started]
            if step.completed is not None:
                del self.unreplicated[step.completed.first_offset]
                self.ongoing[step.completed.first_offset] = step.producer_id
                self.ongoing = dict(sorted(self.ongoing.items()))
            if step.before is None:
                self.producers.pop(step.producer_id, None)
            else:
                self.producers[step.producer_id] = step.before

    def last_stable_offset(self, high_watermark: int) -> int:
        """What read_committed may read up to: the high watermark, or where the oldest transaction begins that is open
        or has its marker above the high watermark."""
        self.replicated_to(high_watermark)
        first = next(iter(self.ongoing), high_watermark)
        if self.unreplicated:
            first = min(first, *self.unreplicated)
        return first if first < high_watermark else high_watermark

    def replicated_to(self, high_watermark: int) -> None:
        """The high watermark (or the log start) has moved: transactions that ended below it no longer bound readers."""
        if self.unreplicated:
            done = [first for first, last in self.unreplicated.items() if last < high_watermark]
            for first in done:
                del self.unreplicated[first]

    def remove_idle(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers without an open transaction that have been idle for this long.

        Idle time does not go by their batches' timestamps, as in Kafka: after the clock was set, or for a client that
        writes records of last week, a batch that is sent again would be appended twice.
        """
        known, self._idle_since = self._idle_since, {}
        for producer_id, producer in list(self.producers.items()):
            found, since_ms = known.get(producer_id, (None, now_ms))
            if found is not producer:
                since_ms = now_ms
            if producer.transaction_first_offset == NO_OFFSET and now_ms - since_ms >= expiration_ms:
                del self.producers[producer_id]
            else:
                self._idle_since[producer_id] = producer, since_ms
        for producer_id, guard in list(self._guards.items()):
            if guard.seen_idle_ms is None:
                guard.seen_idle_ms = now_ms
            elif now_ms - guard.seen_idle_ms >= expiration_ms:
                del self._guards[producer_id]

    def _forget_idlest(self) -> None:
        """Producers are in the order of their last batch."""
        for producer_id, producer in self.producers.items():
            if producer.transaction_first_offset == NO_OFFSET:
                del self.producers[producer_id]
                return


def check_epoch(producer_id: int, producer_epoch: int, producer: Producer) -> None:
    """Raises RequestError(INVALID_PRODUCER_EPOCH) for an epoch behind the producer's latest."""
    if producer_epoch < producer.epoch:
        raise RequestError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch {producer_epoch} of producer {producer_id} is behind its latest, {producer.epoch}",
        )


def check_sequence(header: BatchHeader, producer: Producer, guard: VerificationGuard | None) -> None:
    """Raises RequestError(OUT_OF_ORDER_SEQUENCE_NUMBER) unless the batch goes on where its producer ended.

    A new epoch begins with 0; an unknown producer with anything. 2^31-1 is followed by 0. A batch that begins a
    transaction must not precede one whose verification has failed for now, which could never be appended then.
    """
    if guard is not None:
        first = 0 if guard.adds and not producer.batches else guard.lowest_sequence
        if header.base_sequence > first:
            raise out_of_order(header, first)
    if producer.epoch == NO_PRODUCER_EPOCH:
        return
    sequence = header.base_sequence
    same_epoch = header.producer_epoch == producer.epoch
    expected = (producer.last_sequence + 1) & MAX_SEQUENCE if same_epoch else 0
    if sequence != expected:
        raise out_of_order(header, expected)


def out_of_order(header: BatchHeader, expected: int) -> RequestError:
    """The error for a batch with another sequence than expected."""
    return RequestError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"sequence {header.base_sequence} of producer {header.producer_id} in epoch {header.producer_epoch} "
        f"is out of order: {expected} should come next",
    )
