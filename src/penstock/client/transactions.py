"""Transactions as an operator sees them: those that coordinators know, those that are open in partitions, and how to
end one.

    async with Client("127.0.0.1:9092") as client:
        for transaction in await list_transactions(client, states=["Ongoing"]): ...
        for each in await find_hanging(client, [("clicks", 0)], older_than_ms=900_000, now_ms=now_ms): ...

The leader of a partition knows which producers have a transaction open there (DescribeProducers), a coordinator which
partitions belong to the transaction of each of its transactional ids (DescribeTransactions). A transaction that is open
in a partition where no coordinator is about to end it is *hanging*: it holds back the last stable offset for ever
(KIP-664).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.client.admin import refused
from penstock.client.client import LATEST, READ_COMMITTED, Client, Partition, by_topic
from penstock.client.coordinators import CoordinatorKind, ask, ask_all
from penstock.client.limits import (
    CLIENT_DESCRIBED_PARTITIONS,
    CLIENT_DESCRIBED_TRANSACTIONS,
    CLIENT_RETRY_BACKOFF_MS,
)
from penstock.errors import ErrorCode, RequestError, UnsupportedVersionError
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.list_transactions_request import ListTransactionsRequest
from penstock.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

NONE = -1
"""No transaction, no time, no epoch."""
UNDER_WAY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States of a transaction that has begun and not ended everywhere."""
DURATION_FROM, PATTERN_FROM = 1, 2
"""Versions of ListTransactions that have these filters."""
INIT_PRODUCER_ID_MAX = 5
"""Version 6 is not stable in Kafka 4.3."""
ENDING_TIMEOUT_S = 30.0
"""How long the end of a transaction may take, with its markers in every partition."""
TIMEOUT_OF_THE_NEXT_MS = 60_000
"""The transaction timeout that a transactional id has after `end_transaction`, until its next producer says another."""


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id as its coordinator lists it, with the state of its last transaction."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionState:
    """A transactional id with its last transaction; `partitions` are those whose marker is still to be written.

    `started_ms` is when it began, -1 if there was none. `state` is Kafka's name of it, such as `PrepareCommit`.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    coordinator: int
    partitions: tuple[Partition, ...]

    @property
    def under_way(self) -> bool:
        """Whether the transaction has begun and has not ended in all its partitions."""
        return self.state in UNDER_WAY


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition: its first offset there, and the time of its producer's last record.

    `coordinator_epoch` is that of the producer's last marker, -1 if it has none.
    """

    partition: Partition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class OwnedTransaction:
    """An open transaction, and what the coordinator knows of its producer; None if none does."""

    open: OpenTransaction
    owner: TransactionState | None

    @property
    def hanging(self) -> bool:
        """Whether no coordinator is about to write a marker there."""
        return self.owner is None or self.open.partition not in self.owner.partitions


async def list_transactions(
    client: Client,
    *,
    states: Sequence[str] = (),
    producer_ids: Iterable[int] = (),
    longer_than_ms: int = NONE,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """All transactional ids of the cluster, by name: every broker is asked for those that it coordinates.

    `longer_than_ms` and `pattern` (a regular expression for the whole id) need brokers of Kafka 3.8 and 4.1; raises
    UnsupportedVersionError, RequestError (INVALID_REGULAR_EXPRESSION).
    """
    wanted = PATTERN_FROM if pattern is not None else DURATION_FROM if longer_than_ms >= 0 else 0
    if (version := (await client.connection(None)).version_for(ApiKey.LIST_TRANSACTIONS)) < wanted:
        raise UnsupportedVersionError(f"the brokers serve ListTransactions {version}; this filter needs {wanted}")
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=sorted(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    found = [
        ListedTransaction(each.transactional_id, each.transaction_state, each.producer_id, node_id)
        for node_id, answer in (await ask_all(client, request, "transactions")).items()
        for each in answer.transaction_states
    ]
    return sorted(found, key=lambda transaction: transaction.transactional_id)


async def describe_transaction(client: Client, transactional_id: str) -> TransactionState:
    """What its coordinator knows of a transactional id. Raises RequestError (TRANSACTIONAL_ID_NOT_FOUND)."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    answer, node_id = await ask(
        client,
        transactional_id,
        request,
        lambda got: int(got.transaction_states[0].error_code),
        kind=CoordinatorKind.TRANSACTION,
    )
    got = answer.transaction_states[0]
    if got.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise RequestError(
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            f"there is no transactional id {transactional_id}; `penstock transactions list` names those that are",
        )
    refused(got.error_code, None, CoordinatorKind.TRANSACTION.named(transactional_id))
    return TransactionState(
        transactional_id,
        got.transaction_state,
        got.producer_id,
        got.producer_epoch,
        got.transaction_timeout_ms,
        got.transaction_start_time_ms,
        node_id,
        tuple(sorted((topic.topic, index) for topic in got.topics for index in topic.partitions)),
    )


async def open_transactions(
    client: Client, partitions: Sequence[Partition], *, node_id: int | None = None
) -> list[OpenTransaction]:
    """Transactions that are open in partitions, as their leaders know them, or the one broker that is named.

    Raises RequestError; UnreachableError for a partition that has no leader for long.
    """
    found: list[OpenTransaction] = []

    async def asked(of: int, some: list[Partition]) -> list[Partition]:
        topics = [TopicRequest(name=name, partition_indexes=indexes) for name, indexes in by_topic(some).items()]
        answer = await client.send(DescribeProducersRequest(topics=topics), node_id=of)
        failed = []
        for topic in answer.topics:
            for got in topic.partitions:
                place = (topic.name, got.partition_index)
                if got.error_code == ErrorCode.NONE:
                    found.extend(opened(place, each) for each in got.active_producers if is_open(each))
                elif node_id is None:
                    failed.append(client.retriable(place, got.error_code, got.error_message))
                else:
                    refused(got.error_code, got.error_message, f"{place[0]}-{place[1]} on broker {node_id}")
        return failed

    for first in range(0, len(partitions), CLIENT_DESCRIBED_PARTITIONS):
        some = list(partitions[first : first + CLIENT_DESCRIBED_PARTITIONS])
        await (client.for_leaders(some, asked) if node_id is None else asked(node_id, some))
    return sorted(found, key=lambda each: (each.partition, each.start_offset))


def is_open(producer: Any) -> bool:
    """Whether a producer of DescribeProducers has a transaction open."""
    return int(producer.current_txn_start_offset) >= 0


def opened(partition: Partition, producer: Any) -> OpenTransaction:
    """The open transaction of a producer of DescribeProducers."""
    return OpenTransaction(
        partition,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.current_txn_start_offset,
        producer.last_timestamp,
    )


async def owned(client: Client, transactions: Sequence[OpenTransaction]) -> list[OwnedTransaction]:
    """What the coordinators know of open transactions, which may have ended meanwhile. Raises RequestError."""
    if not transactions:
        return []
    listed = await list_transactions(client, producer_ids={each.producer_id for each in transactions})
    states: dict[int, TransactionState] = {}

    async def describe(transactional_id: str) -> None:
        try:
            state = await describe_transaction(client, transactional_id)
        except RequestError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
        else:
            states[state.producer_id] = state

    for first in range(0, len(listed), CLIENT_DESCRIBED_TRANSACTIONS):
        some = listed[first : first + CLIENT_DESCRIBED_TRANSACTIONS]
        await asyncio.gather(*(describe(each.transactional_id) for each in some))
    return [OwnedTransaction(each, states.get(each.producer_id)) for each in transactions]


async def find_hanging(
    client: Client, partitions: Sequence[Partition], *, older_than_ms: int, now_ms: int, node_id: int | None = None
) -> list[OwnedTransaction]:
    """Hanging transactions whose producer has written nothing for longer than `older_than_ms`.

    One that its coordinator ended between two of the questions is none: the partitions are asked again at the end.
    """
    old = [
        each
        for each in await open_transactions(client, partitions, node_id=node_id)
        if now_ms - each.last_timestamp_ms > older_than_ms
    ]
    return await still_open(client, [each for each in await owned(client, old) if each.hanging], node_id=node_id)


async def still_open(
    client: Client, transactions: Sequence[OwnedTransaction], *, node_id: int | None = None
) -> list[OwnedTransaction]:
    """The transactions that are open in their partitions even now."""
    partitions = sorted({each.open.partition for each in transactions})
    still = set(map(identity, await open_transactions(client, partitions, node_id=node_id)))
    return [each for each in transactions if identity(each.open) in still]


def identity(transaction: OpenTransaction) -> tuple[Partition, int, int]:
    """What tells a transaction from every other that was open before or after it."""
    return transaction.partition, transaction.producer_id, transaction.start_offset


async def abort_in_partition(
    client: Client, partition: Partition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Has the leader write an abort marker (WriteTxnMarkers), which ends a producer's transaction in that partition
    alone. Meant for hanging ones: of a transaction that is under way this would abort a part.

    A coordinator epoch below 0, of a producer that has no marker yet, counts as 0, which no coordinator fences.

    Raises RequestError (INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, CLUSTER_AUTHORIZATION_FAILED).
    """
    topic = WritableTxnMarkerTopic(name=partition[0], partition_indexes=[partition[1]])
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[topic],
        coordinator_epoch=max(0, coordinator_epoch),
    )

    async def write(node_id: int, some: list[Partition]) -> list[Partition]:
        answer = await client.send(WriteTxnMarkersRequest(markers=[marker]), node_id=node_id)
        code = answer.markers[0].topics[0].partitions[0].error_code
        if code and ErrorCode(code).retriable:
            return [client.retriable(partition, code)]
        refused(code, WHY_NO_MARKER.get(code), f"{partition[0]}-{partition[1]}")
        return []

    await client.for_leaders([partition], write)


WHY_NO_MARKER: dict[int, str] = {
    ErrorCode.INVALID_PRODUCER_EPOCH: "the producer has a newer epoch there (INVALID_PRODUCER_EPOCH)",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "a coordinator with a newer epoch has written a marker there "
    "(TRANSACTION_COORDINATOR_FENCED)",
}


async def end_transaction(client: Client, transactional_id: str) -> None:
    """Ends what a transactional id has under way, by becoming its producer for a moment (InitProducerId).

    Its coordinator aborts an open transaction in all its partitions, finishes a prepared one, and fences the producer.

    Raises RequestError: CONCURRENT_TRANSACTIONS when it has not ended within 30 s.
    """
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_OF_THE_NEXT_MS)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ENDING_TIMEOUT_S
    while True:
        answer, _ = await ask(
            client,
            transactional_id,
            request,
            lambda got: int(got.error_code),
            kind=CoordinatorKind.TRANSACTION,
            at_most=INIT_PRODUCER_ID_MAX,
        )
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS or loop.time() > deadline:
            break
        await asyncio.sleep(CLIENT_RETRY_BACKOFF_MS / 1000)
    message = None
    if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        message = "it is still being ended: some partitions lack their marker (CONCURRENT_TRANSACTIONS)"
    refused(answer.error_code, message, CoordinatorKind.TRANSACTION.named(transactional_id))


async def holding_back(client: Client, partitions: Collection[Partition]) -> list[OwnedTransaction]:
    """Transactions that hold back the last stable offset of these partitions: of each, the one that began first."""
    stable = await client.offsets(partitions, LATEST, isolation=READ_COMMITTED)
    ends = await client.offsets(partitions, LATEST)
    held = [each for each in partitions if stable[each].offset < ends[each].offset]
    first: dict[Partition, OpenTransaction] = {}
    for each in await open_transactions(client, held):
        first.setdefault(each.partition, each)
    return await still_open(client, await owned(client, list(first.values())))
