"""One transactional id: its producer, its transaction, and the transitions from one state to the next.

Transitions are functions from a transaction to the next one; they do not ask whether a client may have them. Each keeps
the producer id from before it as the previous one. Source: TransactionMetadata of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from penstock.errors import ErrorCode, RequestError

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
EPOCH_MAX = 2**15 - 1
NO_START_MS = -1
TWO_PHASE_TIMEOUT_MS = 2**31 - 1
"""A transaction with this time-out is ended by its client alone."""
EPOCH_BUMP_FROM = 2
"""The transaction version from which on the epoch is raised with each end."""

Partitions = Mapping[str, frozenset[int]]
"""Partitions by topic; never changed."""
NO_PARTITIONS: Partitions = {}


class TransactionState(IntEnum):
    """The states by their numbers in records. No record has the last two."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
PREPARED = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
IDLE = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""There is no transaction: a new one may begin, and the id may expire."""


class Producer(NamedTuple):
    """A producer id and its epoch."""

    id: int
    epoch: int


class Transaction(NamedTuple):
    """See the module's head.

    Attributes:
        producer_id, epoch: of the producer that may use the id.
        previous_producer_id: from before the last transition. next_producer_id: that the end will bring, or -1.
        last_epoch: with which a repeated request is still answered, or -1; not in records.
        timeout_ms: after which an open transaction is aborted.
        partitions: of the transaction. start_ms: when it began, or -1. updated_ms: of the last transition; both in wall
            time.
        client_version: the transaction version of who made the last transition.
    """

    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    epoch: int
    last_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: Partitions
    start_ms: int
    updated_ms: int
    client_version: int

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether no client may have the next epoch: the last one is for fencing."""
        return is_exhausted(self.epoch)

    @property
    def is_two_phase(self) -> bool:
        """Whether it has no time-out."""
        return self.timeout_ms == TWO_PHASE_TIMEOUT_MS

    def has(self, partitions: Partitions) -> bool:
        """Whether all these partitions are in the transaction."""
        own = self.partitions
        return all(wanted <= own.get(topic, frozenset()) for topic, wanted in partitions.items())


def is_exhausted(epoch: int) -> bool:
    """See `Transaction.is_epoch_exhausted`."""
    return epoch >= EPOCH_MAX - 1


def created(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A transactional id that nobody has used yet, before its first epoch."""
    return Transaction(
        producer_id=producer_id,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
        epoch=NO_PRODUCER_EPOCH,
        last_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        state=EMPTY,
        partitions=NO_PARTITIONS,
        start_ms=NO_START_MS,
        updated_ms=now_ms,
        client_version=0,
    )


def with_next_epoch(of: Transaction, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
    """A producer begins with the next epoch. Raises RequestError: PRODUCER_FENCED; UNKNOWN_SERVER_ERROR, as in Kafka,
    if there is no next epoch.

    `expected_epoch`: the one that the producer had (KIP-360). If it is the last but one, the request is a repeated one,
    and the epoch stays.
    """
    if of.is_epoch_exhausted:
        raise RequestError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"there are no more epochs of the producer id {of.producer_id}"
        )
    if expected_epoch is None:
        epoch, last_epoch = of.epoch + 1, NO_PRODUCER_EPOCH
    elif of.epoch in (NO_PRODUCER_EPOCH, expected_epoch):
        epoch, last_epoch = of.epoch + 1, of.epoch
    elif expected_epoch == of.last_epoch:
        epoch, last_epoch = of.epoch, of.last_epoch
    else:
        raise RequestError(ErrorCode.PRODUCER_FENCED, f"the epoch is {of.epoch} by now, not {expected_epoch}")
    return emptied(of, Producer(of.producer_id, epoch), last_epoch, timeout_ms, now_ms)


def with_new_producer_id(
    of: Transaction, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_last_epoch: bool
) -> Transaction:
    """A producer begins with a new producer id, as the epochs of the old one are used up."""
    last_epoch = of.epoch if keeps_last_epoch else NO_PRODUCER_EPOCH
    return emptied(of, Producer(producer_id, 0), last_epoch, timeout_ms, now_ms)


def emptied(of: Transaction, producer: Producer, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A producer has begun."""
    assert of.state in IDLE, of
    return of._replace(
        producer_id=producer.id,
        previous_producer_id=of.producer_id,
        epoch=producer.epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        state=EMPTY,
        partitions=NO_PARTITIONS,
        start_ms=NO_START_MS,
        updated_ms=now_ms,
    )


def with_partitions(of: Transaction, partitions: Partitions, client_version: int, now_ms: int) -> Transaction:
    """Partitions are added; a transaction begins if none is open."""
    assert of.state in IDLE or of.state is ONGOING, of
    merged = dict(of.partitions)
    for topic, added in partitions.items():
        merged[topic] = merged.get(topic, frozenset()) | added
    return of._replace(
        previous_producer_id=of.producer_id,
        state=ONGOING,
        partitions=merged,
        start_ms=of.start_ms if of.state is ONGOING else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def fenced(of: Transaction) -> Transaction:
    """An open transaction whose producer is fenced, for an end in the way of transaction version 1."""
    assert of.state is ONGOING, of
    return of._replace(epoch=min(of.epoch + 1, EPOCH_MAX), last_epoch=NO_PRODUCER_EPOCH)


def prepared(
    of: Transaction, state: TransactionState, client_version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """The end is decided. An abort may come without a transaction from version 2 on: it begins and ends now."""
    assert of.state is ONGOING or (state is PREPARE_ABORT and client_version >= EPOCH_BUMP_FROM), of
    epoch, last_epoch = of.epoch, of.last_epoch
    if client_version >= EPOCH_BUMP_FROM:
        epoch, last_epoch = min(of.epoch + 1, EPOCH_MAX), of.epoch
    return of._replace(
        previous_producer_id=of.producer_id,
        next_producer_id=next_producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        state=state,
        start_ms=of.start_ms if of.state is ONGOING else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def completed(of: Transaction, now_ms: int) -> Transaction:
    """All markers are written. If the epochs were used up, the new producer id counts from now on."""
    assert of.state in PREPARED, of
    producer_id, epoch = of.producer_id, of.epoch
    if of.client_version >= EPOCH_BUMP_FROM and of.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = of.next_producer_id, 0
    return of._replace(
        producer_id=producer_id,
        previous_producer_id=of.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        epoch=epoch,
        state=COMPLETE_COMMIT if of.state is PREPARE_COMMIT else COMPLETE_ABORT,
        partitions=NO_PARTITIONS,
        updated_ms=now_ms,
    )


NAMES: Mapping[TransactionState, str] = {
    EMPTY: "Empty",
    ONGOING: "Ongoing",
    PREPARE_COMMIT: "PrepareCommit",
    PREPARE_ABORT: "PrepareAbort",
    COMPLETE_COMMIT: "CompleteCommit",
    COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
"""The states as the APIs call them."""
