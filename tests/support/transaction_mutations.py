"""Faults to plant into what transactions stand on, one for each promise, with the scenario that is to find them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.offsets.committed import CommittedOffset
from penstock.coordinator.group.offsets.state import Offsets
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction import machine
from penstock.coordinator.transaction import transaction as transitions
from penstock.coordinator.transaction.state import Transactions
from penstock.coordinator.transaction.transaction import PREPARED, Transaction
from penstock.log.index import AbortedIndex
from penstock.log.producer_state import ProducerState, Step
from penstock.node.handlers import list_offsets, write_txn_markers
from penstock.node.markers import Markers
from penstock.node.verification import Operation, Verifier
from penstock.protocol.messages.write_txn_markers_request import WritableTxnMarker
from penstock.records.batch import NO_PRODUCER_ID, BatchHeader
from penstock.replication.partition import Partition
from simulator.transactions.history import ALL_OR_NOTHING, COUNT, EPOCHS, NO_CAUSE, ONLY_COMMITTED, PENDING
from simulator.transactions.log_rules import ENDS, NOT_TWICE, ONE_MARKER
from simulator.transactions.log_rules import STABLE as STABLE_BY_LOG
from simulator.transactions.readers import STABLE_STAYS
from simulator.transactions.watcher import GOES_ON
from support.group_mutations import Mutation

FINISHES = "every client finishes what it has begun"


def verification_skipped(patch: pytest.MonkeyPatch) -> None:
    """Whatever an older client writes is taken to be part of its transaction."""
    real: Any = Verifier.verify

    def verify(verifier: Any, *what: Any, operation: Operation, done: Any, now_ms: int) -> None:
        if operation is Operation.ADD_PARTITION:
            real(verifier, *what, operation=operation, done=done, now_ms=now_ms)
        else:
            verifier._scheduler.timers.at(now_ms, lambda at_ms: done({}, at_ms))

    patch.setattr(Verifier, "verify", verify)


def marker_twice(patch: pytest.MonkeyPatch) -> None:
    """A leader writes each marker twice."""
    real = write_txn_markers.appended

    def appended(partition: Partition, marker: WritableTxnMarker, now_ms: int) -> Any:
        real(partition, marker, now_ms)
        return real(partition, marker, now_ms)

    patch.setattr(write_txn_markers, "appended", appended)


def marker_of_another_epoch(patch: pytest.MonkeyPatch) -> None:
    """A marker has an epoch that is not the one in which the transaction was ended."""
    real: Any = Markers._marker

    def marker(markers: Markers, part: Any) -> WritableTxnMarker:
        made: WritableTxnMarker = real(markers, part)
        made.producer_epoch += 1
        return made

    patch.setattr(Markers, "_marker", marker)


def epoch_not_bumped(patch: pytest.MonkeyPatch) -> None:
    """A transaction of a newer client is ended in the epoch in which it was begun."""
    real = transitions.prepared

    def prepared(of: Transaction, *how: Any) -> Transaction:
        return real(of, *how)._replace(epoch=of.epoch, last_epoch=of.last_epoch)

    patch.setattr(transitions, "prepared", prepared)


def stable_offset_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """Readers of committed records are given the first record of an open transaction."""
    real = ProducerState.last_stable_offset

    def last_stable_offset(state: ProducerState, high_watermark: int) -> int:
        return min(high_watermark, real(state, high_watermark) + 1)

    patch.setattr(ProducerState, "last_stable_offset", last_stable_offset)


def end_is_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Readers of committed records are told an end beyond which they do not come yet."""
    patch.setattr(list_offsets, "readable_end", lambda partition, body: partition.high_watermark)


def pending_offsets_are_visible(patch: pytest.MonkeyPatch) -> None:
    """An offset of a transaction counts as soon as it is written."""
    real = Offsets.put_all

    def put_all(
        state: Offsets, producer_id: int, group_id: str, topic: str, offsets: Mapping[int, CommittedOffset]
    ) -> None:
        real(state, NO_PRODUCER_ID, group_id, topic, offsets)

    patch.setattr(Offsets, "put_all", put_all)


def offsets_of_nobody(patch: pytest.MonkeyPatch) -> None:
    """Offsets are brought into a transaction by whoever was a member of the group once."""
    patch.setattr(ConsumerGroup, "check_commit", lambda group, *_, **__: None)


def prepared_end_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not go on with the ends that were prepared."""
    real = machine.resume

    def resume(state: Transactions, key: tuple[str, ...], now_ms: int) -> Result[None]:
        for transactional_id in list(state.found):
            if state.ids[transactional_id].state in PREPARED:
                del state.found[transactional_id]
        return real(state, key, now_ms)

    patch.setitem(machine.EXPIRED, machine.RESUME, resume)  # type: ignore[arg-type]


def guard_is_not_voided(patch: pytest.MonkeyPatch) -> None:
    """What a coordinator has confirmed counts, though the transaction has ended since."""
    real: Any = ProducerState._end_transaction

    def end_transaction(state: ProducerState, header: BatchHeader, *how: Any) -> Step:
        guard = state._guards.get(header.producer_id)
        step: Step = real(state, header, *how)
        if guard is not None:
            state._guards[header.producer_id] = guard
        return step

    patch.setattr(ProducerState, "_end_transaction", end_transaction)


def aborted_only_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Aborted transactions are forgotten whose entries were not in the file when a disk was full."""
    patch.setattr(AbortedIndex, "take_over", lambda index, before, end_offset: None)


BROKEN = (ONE_MARKER, ALL_OR_NOTHING, ONLY_COMMITTED)

MUTATIONS = {
    "verification is skipped": Mutation(verification_skipped, "transactions-old", 3, (ENDS, FINISHES, *BROKEN)),
    "a marker is written twice": Mutation(marker_twice, "transactions-calm", 1, (NOT_TWICE,)),
    "a marker has another epoch": Mutation(
        marker_of_another_epoch, "transactions-calm", 1, (NO_CAUSE, *BROKEN, EPOCHS)
    ),
    "the epoch is not bumped": Mutation(epoch_not_bumped, "transactions", 1, (EPOCHS,)),
    "the last stable offset is off by one": Mutation(
        stable_offset_is_off_by_one, "transactions-calm", 1, (STABLE_BY_LOG, *BROKEN)
    ),
    "the end told is the high watermark": Mutation(end_is_the_high_watermark, "transactions-calm", 1, (STABLE_STAYS,)),
    "pending offsets are visible": Mutation(pending_offsets_are_visible, "transactions-calm", 1, (PENDING,)),
    "offsets of one that is no member": Mutation(offsets_of_nobody, "transactions-members", 1, (COUNT, GOES_ON)),
    "a prepared end is forgotten": Mutation(prepared_end_is_forgotten, "transactions", 8, (ENDS, FINISHES)),
    "a guard is not voided": Mutation(guard_is_not_voided, "transactions-old", 5, (ENDS, FINISHES, *BROKEN)),
    "aborted transactions that only memory knows": Mutation(
        aborted_only_in_memory, "transactions-full", 7, (ONLY_COMMITTED, ALL_OR_NOTHING)
    ),
}
