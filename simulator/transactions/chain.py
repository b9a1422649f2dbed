"""A chain: it takes committed records of a partition, makes one of each, and commits both and how far it has come.

Its transactional id belongs to its partition, so whoever starts anew has those before him fenced, and begins where his
group has committed, once nothing of theirs is pending. So each record is taken once, whatever happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import ErrorCode
from penstock.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from penstock.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from simulator.cluster.load import AGAIN, RETRY_MS
from simulator.cluster.readers import FETCH_VERSION
from simulator.groups.history import NOTHING
from simulator.transactions.client import GROUP, Aborts, Codes, Fenced, TransactionalClient
from simulator.transactions.history import LedgerHistory, Place, Transaction
from simulator.transactions.load import INBOX, LEDGER, TransactionLoad
from simulator.transactions.process import Steps
from simulator.transactions.readers import COMMITTED_RECORDS, committed_values, fetch_request
from simulator.world.checks import check

ADD_OFFSETS_VERSION, COMMIT_VERSIONS, FETCH_OFFSETS_VERSION = 3, (4, 5), 8
IDLE_MS = 150
TAKEN_MAX = 8
ABORT_PROBABILITY = 0.2
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def offset_fetch_request(group_id: str, place: Place, *, stable: bool) -> OffsetFetchRequest:
    """Asks a group's coordinator what is committed."""
    topics = [OffsetFetchRequestTopics(name=place[0], partition_indexes=[place[1]])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=stable)


def fetched_offset(response: Any) -> tuple[ErrorCode, int, str]:
    """What was answered for the one partition that was asked for: error, offset, metadata."""
    (group,) = response.groups
    if group.error_code:
        return ErrorCode(group.error_code), NOTHING, ""
    (partition,) = group.topics[0].partitions
    return ErrorCode(partition.error_code), partition.committed_offset, partition.metadata or ""


class Chain(TransactionalClient):
    """See the module's head.

    Attributes:
        group_id: of its offsets. source: where it reads. position: the next offset; taken: how many records it took.
    """

    def __init__(self, load: TransactionLoad, transactional_id: str, name: str, index: int) -> None:
        super().__init__(load, transactional_id, name)
        self.group_id = f"group-of-{transactional_id}"
        self.source: LedgerHistory = load.ledgers[INBOX, index]
        self.position: int | None = None
        self.taken = 0

    @property
    def reached(self) -> dict[Place, int]:
        """How far it has come, where it reads."""
        return {} if self.position is None else {self.source.place: self.position}

    def member(self) -> dict[str, Any]:
        """What it says of itself where it commits offsets: nothing, it is no member of its group."""
        return {}

    def run(self) -> Steps[None]:
        try:
            yield from self.initialise()
            self.position = yield from self.committed()
            while not self.load.over:
                found, end = yield from self.fetch(self.position)
                if not found:
                    self.position = max(self.position, end)
                    yield self.sleep(self.random.randrange(IDLE_MS))
                    continue
                taken = dict(list(found.items())[: self.random.randint(1, TAKEN_MAX)])
                transaction = yield from self.begin()
                if (yield from self.one(transaction, taken, max(taken) + 1)):
                    self.position = max(taken) + 1
                    self.taken += len(taken)
                if self.load.clients.going_on:
                    yield self.sleep(self.load.clients.think())
        except Fenced as fenced:
            self.is_fenced(str(fenced))

    def committed(self) -> Steps[int]:
        """Where the group has come to, when nothing is pending."""
        while True:
            found = yield from self.committed_now(self.source.place)
            if found is not None:
                return found
            yield self.sleep(RETRY_MS)

    def committed_now(self, place: Place) -> Steps[int | None]:
        """Where the group has come to in a partition; None if it is not told, or something is pending."""
        address = yield from self.coordinator(GROUP, self.group_id)
        term = self.load.group_term(address, self.group_id)
        response = yield self.ask(
            address, offset_fetch_request(self.group_id, place, stable=True), FETCH_OFFSETS_VERSION
        )
        if response is None or term is None or term != self.load.group_term(address, self.group_id):
            self._coordinators.pop((GROUP, self.group_id), None)
            return None
        code, offset, metadata = fetched_offset(response)
        if code:
            known = code in AGAIN or code in (UNSTABLE, ErrorCode.NOT_COORDINATOR)
            check(known, "offsets are told", f"{self.name}: {code.name}")
            return None
        if offset != NOTHING:
            self.load.history.saw_offset(self.group_id, offset, metadata)
        self.trace(f"begins at {offset} of {place[0]}-{place[1]}")
        return max(0, offset)

    def fetch(self, start: int) -> Steps[tuple[dict[int, bytes], int]]:
        """Committed records from an offset on, if there are any, and where they end."""
        place = self.source.place
        address = yield from self.leader(place)
        request = fetch_request(self.source, start, self.client.leader_epochs[place], COMMITTED_RECORDS, 0)
        response = yield self.ask(address, request, FETCH_VERSION)
        if response is None or response.error_code or not response.responses:
            self.client.leaders.pop(place, None)
            yield self.sleep(RETRY_MS)
            return {}, start
        data = response.responses[0].partitions[0]
        if data.error_code:
            code = ErrorCode(data.error_code)
            check(code in AGAIN, "a fetch is answered", f"{self.name} at {start}: {code.name}")
            self.client.leaders.pop(place, None)
            return {}, start
        values, end = committed_values(data, start, f"{self.name} from {start}")
        self.source.gave_committed(start, end, values, self.name)
        return values, end

    def one(self, transaction: Transaction, taken: Mapping[int, bytes], position: int) -> Steps[bool]:
        """One transaction; whether it is known to be committed."""
        places = sorted(place for place in self.load.ledgers if place[0] == LEDGER)
        outputs: dict[Place, list[bytes]] = {}
        for offset, source in taken.items():
            place = places[self.random.randrange(len(places))]
            value = f"{transaction.name} of {self.source.name} {offset} ".encode()
            self.load.history.write(transaction, place, value, source)
            outputs.setdefault(place, []).append(value)
        commit = self.random.random() >= ABORT_PROBABILITY
        try:
            if not self.new:
                yield from self.add(transaction, outputs)
            for place, values in outputs.items():
                yield from self.produce(transaction, place, values)
            yield from self.commit_offset(transaction, position)
        except Aborts as why:
            self.trace(f"aborts {transaction}: {why}")
            commit = False
        return (yield from self.end(transaction, commit=commit))

    def commit_offset(self, transaction: Transaction, position: int) -> Steps[None]:
        """Brings an offset into the transaction."""
        transaction.offset, transaction.source = position, self.source.place
        if not self.new:
            wanted = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.identity[0],
                producer_epoch=self.identity[1],
                group_id=self.group_id,
            )
            code, _ = yield from self.asked(wanted, ADD_OFFSETS_VERSION, Codes.own, until_ms=self.patience_ms())
            self._expect(code, "a group is added")
            address = yield from self.known_coordinator()
            self.repeat(address, wanted, ADD_OFFSETS_VERSION)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=self.source.index, committed_offset=position, committed_metadata=transaction.name
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group_id,
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            topics=[TxnOffsetCommitRequestTopic(name=self.source.topic, partitions=[partition])],
            **self.member(),
        )
        version = COMMIT_VERSIONS[self.new]
        code, _ = yield from self.asked(
            request,
            version,
            Codes.committed,
            kind=GROUP,
            key=self.group_id,
            until_ms=self.patience_ms(),
            twice=not self.new,
        )
        self._expect(code, "an offset is committed")
        if self.new:
            address = yield from self.coordinator(GROUP, self.group_id)
            self.repeat(address, request, version)
