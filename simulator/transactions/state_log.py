"""What the log of the transaction coordinators must be, record by record: states follow each other as they may.

Nothing is compacted within most runs, so that it tells of all that was. Of each transactional id:

- one state follows another that may come before it: a transaction whose end was prepared is ended that way and in no
  other, whoever coordinates it by then;
- a commit is prepared for a producer that has asked for one, and there is one for each transaction that is committed;
- producer epochs go on only;
- in the end no transaction is open, or half ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from penstock.protocol.record_frames import decode_coordinator_key, decode_coordinator_value
from penstock.records.batch import headers
from penstock.records.reader import records
from simulator.transactions.history import EPOCHS, ONLY_COMMITTED, TransactionHistory
from simulator.transactions.log_rules import ENDS
from simulator.world.checks import check

PACKAGE = "transaction"
FORGOTTEN = "a coordinator never forgets a prepared end"
FOLLOWS = "the states of a transaction follow each other"
KNOWN = "a commit that a producer was told of is in the log of its coordinator"


class Status(IntEnum):
    """Of a transaction, as Kafka writes it."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6


RESTING = (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)
BEFORE: dict[Status, tuple[Status, ...]] = {
    Status.EMPTY: RESTING,
    Status.ONGOING: (Status.ONGOING, *RESTING),
    Status.PREPARE_COMMIT: (Status.ONGOING,),
    Status.PREPARE_ABORT: (Status.ONGOING, *RESTING),
    Status.COMPLETE_COMMIT: (Status.PREPARE_COMMIT,),
    Status.COMPLETE_ABORT: (Status.PREPARE_ABORT,),
    Status.DEAD: RESTING,
}
"""What may come before each. With transaction.version 2 also a producer whose transaction is empty ends it."""
PREPARED = {Status.PREPARE_COMMIT: Status.COMPLETE_COMMIT, Status.PREPARE_ABORT: Status.COMPLETE_ABORT}


def states(content: bytes) -> Iterator[tuple[int, str, Any]]:
    """(offset, transactional id, value) of all records; None for one that is deleted."""
    for position, header in headers(memoryview(content)):
        for record in records(content[position : position + header.size_bytes], header):
            assert record.key is not None
            key: Any = decode_coordinator_key(PACKAGE, record.key)
            value = None
            if record.value is not None:
                value, _ = decode_coordinator_value(PACKAGE, key.KEY, record.value)
            yield record.offset, key.transactional_id, value


class StateLog:
    """What the log has told so far.

    Args:
        cleaned: it is compacted: states are missing.

    Attributes:
        last: by transactional id, the last value. commits: by producer id, how many were prepared.
    """

    def __init__(self, history: TransactionHistory, *, cleaned: bool) -> None:
        self.history = history
        self.cleaned = cleaned
        self.last: dict[str, Any] = {}
        self.commits: dict[int, int] = {}
        self._asked: dict[tuple[int, int], bool] = {}
        for transaction in history.transactions.values():
            known = self._asked.get(transaction.identity, False)
            self._asked[transaction.identity] = known or transaction.asked_commit

    def check(self, content: bytes, where: str) -> int:
        """Reads one partition of it; how many records it has."""
        count = 0
        for offset, transactional_id, value in states(content):
            count += 1
            self._replay(transactional_id, value, f"{where} at {offset}: {transactional_id}")
        return count

    def _replay(self, transactional_id: str, value: Any, where: str) -> None:
        before = self.last.get(transactional_id)
        if value is None:
            self.last.pop(transactional_id, None)
            return
        self.last[transactional_id] = value
        status = Status(value.transaction_status)
        identity = (value.producer_id, value.producer_epoch)
        if before is not None:
            earlier = Status(before.transaction_status)
            same = before.producer_id == value.producer_id
            detail = f"{where}: {identity} after {(before.producer_id, before.producer_epoch)}"
            check(not same or value.producer_epoch >= before.producer_epoch, EPOCHS, detail)
            if not self.cleaned:
                expected = PREPARED.get(earlier, status)
                check(status is expected, FORGOTTEN, f"{where}: {status.name} after {earlier.name}")
                check(earlier in BEFORE[status], FOLLOWS, f"{where}: {status.name} after {earlier.name}")
        if status is Status.PREPARE_COMMIT:
            producer_id, epoch = identity
            self.commits[producer_id] = self.commits.get(producer_id, 0) + 1
            asked = self._asked.get((producer_id, epoch)) or self._asked.get((producer_id, epoch - 1))
            check(bool(asked), ONLY_COMMITTED, f"{where}: {identity} is to be committed, which nobody has asked for")

    def check_whole(self) -> None:
        """At its end: everything is over, and every commit is there."""
        half = {each: Status(value.transaction_status).name for each, value in self.last.items()}
        half = {each: name for each, name in half.items() if Status[name] not in (*RESTING, Status.DEAD)}
        check(not half, ENDS, f"the log of the coordinators ends with {half}")
        if self.cleaned:
            return
        committed: dict[int, int] = {}
        for transaction in self.history.transactions.values():
            if transaction.committed:
                producer_id = transaction.identity[0]
                committed[producer_id] = committed.get(producer_id, 0) + 1
        for producer_id, count in committed.items():
            found = self.commits.get(producer_id, 0)
            check(found >= count, KNOWN, f"producer {producer_id}: {found} are prepared, {count} were committed")
