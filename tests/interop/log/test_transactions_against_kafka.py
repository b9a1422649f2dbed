"""Random histories of transactions in one partition: Kafka's log and ours answer alike, and know the same afterwards.

Left out is where we are stricter on purpose: a guard here is void after a truncation and for any other epoch than that
which it was given for; in Kafka a newer epoch and a truncation leave it valid. And where Kafka forgets or rounds: what
comes before the log start is not read again when the log is cut, and a log start within a batch is a last stable offset
at the batch's beginning. So a history either deletes records, up to the end of a batch, or is cut. After a cut Kafka's
log is told its high watermark again, without which its last stable offset can be too low.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from interop.log.transaction_peer import kafkas
from support.broker import START_MS
from support.leader import Leader
from support.requests import batch

from penstock.errors import ErrorCode, RequestError
from penstock.log.producer_state import Producer, VerificationGuard
from penstock.records.batch import read_header
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from penstock.replication.appends import Prepared, Rejected

pytestmark = [pytest.mark.java, pytest.mark.slow]
PRODUCERS = 4
FIRST: dict[str, Any] = {"do": "append", "producer": -1, "count": 1}


class Ours:
    """Our log, led with three replicas, which goes through the same operations."""

    def __init__(self) -> None:
        self.leader = Leader()
        self.partition = self.leader.partition
        self.guards: dict[str, VerificationGuard | None] = {}
        self.ends = [1]  # of batches

    def through(self, operation: dict[str, Any]) -> dict[str, Any]:
        """Does one operation and gives the answer."""
        answer: dict[str, Any] = {}
        try:
            answer |= getattr(self, operation["do"])(operation)
            answer["error"] = 0
        except RequestError as error:
            answer["error"] = int(error.code)
        self.leader.write()
        log = self.partition.log
        self.ends = [*(end for end in self.ends if end < log.log_end_offset), log.log_end_offset]
        return answer | {
            "end": log.log_end_offset,
            "start": log.log_start_offset,
            "stable": self.partition.last_stable_offset,
            "segments": list(log.segments.bases),
            "producers": [self.described(*each) for each in log.producers.producers.items()],
        }

    def described(self, producer_id: int, producer: Producer) -> list[int]:
        return [
            producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.coordinator_epoch,
            producer.transaction_first_offset,
        ]

    def verify(self, operation: dict[str, Any]) -> dict[str, Any]:
        producers = self.partition.log.producers
        guard = producers.guard(
            operation["producer"], operation["epoch"], operation["sequence"], adds=operation["adds"]
        )
        self.guards[operation["guard"]] = guard
        return {"guarded": guard is not None}

    def append(self, operation: dict[str, Any]) -> dict[str, Any]:
        values = [b"value"] * operation["count"]
        if operation["producer"] < 0:
            data = batch(*values)
        else:
            producer = {
                "producer_id": operation["producer"],
                "producer_epoch": operation["epoch"],
                "base_sequence": operation["sequence"],
            }
            data = batch(*values, **producer, is_transactional=operation["transactional"])
        guard = self.guards.get(operation["guard"]) if "guard" in operation else None
        now_ms = self.leader.node.now_ms
        outcome = self.partition.append_as_leader(data, read_header(data), 1, now_ms, guard=guard)
        if isinstance(outcome, Rejected):
            raise RequestError(outcome.code, outcome.message)
        assert isinstance(outcome, Prepared)
        return {"offset": outcome.base_offset}

    def marker(self, operation: dict[str, Any]) -> dict[str, Any]:
        kind = ControlType.COMMIT if operation["commit"] else ControlType.ABORT
        data = end_transaction_marker(
            EndTransactionMarker(kind, operation["coordinator"]),
            producer_id=operation["producer"],
            producer_epoch=operation["epoch"],
            wall_ms=START_MS,
        )
        version, now_ms = operation["version"], self.leader.node.now_ms
        prepared = self.partition.append_as_coordinator(data, read_header(data), now_ms, transaction_version=version)
        return {"offset": prepared.base_offset}

    def replicated(self, operation: dict[str, Any]) -> dict[str, Any]:
        self.leader.followers_have(b2=operation["offset"], b3=operation["offset"])
        return {}

    def delete(self, operation: dict[str, Any]) -> dict[str, Any]:
        self.partition.delete_records(operation["offset"], self.leader.node.now_ms)
        return {}

    def truncate(self, operation: dict[str, Any]) -> dict[str, Any]:
        self.partition.log.truncate_to(operation["offset"], self.leader.node.now_ms)
        self.guards.clear()
        self.leader.write()
        return {}

    def roll(self, operation: dict[str, Any]) -> dict[str, Any]:
        self.partition.log.roll(self.leader.node.now_ms)
        return {}

    def aborted(self, operation: dict[str, Any]) -> dict[str, Any]:
        """The list of a fetch; Kafka's goes to the end of the segment, whatever is read of it."""
        log = self.partition.log
        after = [base for base in log.segments.bases if base > operation["from"]]
        found = log.segments.aborted_transactions(operation["from"], min([*after, log.log_end_offset]))
        return {"aborted": [[each.producer_id, each.first_offset] for each in found]}


class Writers:
    """Makes up operations, from what our log knows, right and wrong ones."""

    def __init__(self, ours: Ours, random: Random) -> None:
        self.ours = ours
        self.random = random
        self.given: dict[int, tuple[str, int]] = {}
        self.count = 0
        self.deletes = random.random() < 0.5

    def operation(self) -> dict[str, Any]:
        kinds = [self.verify] * 4 + [self.append] * 8 + [self.marker] * 4 + [self.replicated] * 3
        kinds += [self.aborted] * 3 + [self.delete if self.deletes else self.truncate, self.roll, self.plain]
        return self.random.choice(kinds)()

    def producer(self) -> tuple[int, Producer]:
        producer_id = self.random.randrange(PRODUCERS)
        return producer_id, self.ours.partition.log.producers.producers.get(producer_id, Producer())

    def writer(self) -> tuple[int, int, int]:
        """A producer, an epoch and a sequence."""
        producer_id, producer = self.producer()
        epoch, sequence = max(producer.epoch, 0), producer.last_sequence + 1
        if producer_id in self.given and self.given[producer_id][1] > epoch:
            epoch, sequence = self.given[producer_id][1], 0
        elif self.random.random() < 0.15:
            epoch, sequence = epoch + 1, 0
        elif self.random.random() < 0.1 and producer.epoch > 0:
            epoch = producer.epoch - 1
        if self.random.random() < 0.15:
            sequence = max(0, sequence + self.random.choice([-2, -1, 1, 2]))
        return producer_id, epoch, sequence

    def verify(self) -> dict[str, Any]:
        producer_id, epoch, sequence = self.writer()
        self.count += 1
        name = f"guard {self.count}"
        known = self.ours.partition.log.producers.producers.get(producer_id, Producer())
        if epoch >= known.epoch:
            self.given[producer_id] = name, epoch
        return {
            "do": "verify",
            "producer": producer_id,
            "epoch": epoch,
            "sequence": sequence,
            "guard": name,
            "adds": producer_id % 2 == 1,
        }

    def append(self) -> dict[str, Any]:
        producer_id, epoch, sequence = self.writer()
        made: dict[str, Any] = {
            "do": "append",
            "producer": producer_id,
            "epoch": epoch,
            "sequence": sequence,
            "count": self.random.randrange(1, 4),
            "transactional": self.random.random() < 0.9,
        }
        name, given_for = self.given.get(producer_id, ("", -1))
        if given_for == epoch and self.random.random() < 0.9:
            made["guard"] = name
        return made

    def plain(self) -> dict[str, Any]:
        return dict(FIRST)

    def marker(self) -> dict[str, Any]:
        producer_id, producer = self.producer()
        epoch = max(0, producer.epoch + self.random.choice([0, 0, 0, 1, 1, 1, -1]))
        return {
            "do": "marker",
            "producer": producer_id,
            "epoch": epoch,
            "commit": self.random.random() < 0.5,
            "coordinator": max(0, producer.coordinator_epoch + self.random.choice([0, 0, 0, 1, -1])),
            "version": self.random.choice([0, 1, 2]),
        }

    def replicated(self) -> dict[str, Any]:
        return {"do": "replicated", "offset": self.batch_end()}

    def batch_end(self) -> int:
        """Where the high watermark may go, or the log be cut."""
        ours = self.ours
        return self.random.choice([end for end in ours.ends if end >= ours.partition.high_watermark])

    def delete(self) -> dict[str, Any]:
        ours, partition = self.ours, self.ours.partition
        first, last = partition.log_start_offset, partition.high_watermark
        return {"do": "delete", "offset": self.random.choice([end for end in ours.ends if first <= end <= last])}

    def truncate(self) -> dict[str, Any]:
        """Cuts, if all markers are replicated: Kafka forgets those that are not, and shows what they end too early."""
        offset = self.batch_end()
        if offset == self.ours.partition.log_end_offset or self.ours.partition.log.producers.unreplicated:
            return self.replicated()
        self.given.clear()
        return {"do": "truncate", "offset": offset}

    def roll(self) -> dict[str, Any]:
        return {"do": "roll"}

    def aborted(self) -> dict[str, Any]:
        partition = self.ours.partition
        first, last = partition.log_start_offset, partition.last_stable_offset
        return {"do": "aborted", "from": self.random.randrange(first, last)} if first < last else self.roll()


def history(seed: int, length: int = 120) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Operations, and what our log answers."""
    ours = Ours()
    writers = Writers(ours, Random(seed))
    operations: list[dict[str, Any]] = [dict(FIRST), {"do": "replicated", "offset": 1}]
    answers: list[dict[str, Any]] = [{}, {}]
    for _ in range(length):
        operation = writers.operation()
        operations.append(operation)
        answers.append(ours.through(operation))
    return operations, answers


def compared(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with its producers in order."""
    return answer | {"producers": sorted(answer["producers"])} if "producers" in answer else answer


@pytest.mark.parametrize("first", [0, 100])
def test_kafkas_log_and_ours_go_through_the_same(first: int) -> None:
    made = [history(seed) for seed in range(first, first + 50)]
    theirs = kafkas([operations for operations, _ in made])
    refused: dict[ErrorCode, int] = {}
    for seed, ((operations, ours), kafka) in enumerate(zip(made, theirs, strict=True), first):
        for step, (operation, mine, other) in enumerate(zip(operations[2:], ours[2:], kafka[2:], strict=True), 2):
            assert compared(mine) == compared(other), f"seed {seed}, step {step}: {operation}, of {operations[:step]}"
            if mine["error"]:
                code = ErrorCode(mine["error"])
                refused[code] = refused.get(code, 0) + 1
    assert {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    } <= set(refused), "the histories have tried what is refused"
