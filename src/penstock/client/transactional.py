"""The transactions of one transactional id, one after the other: their producer, their partitions, their ends.

A `Producer` that is given one sends its batches in transactions:

    transactions = Transactions(client, "copier")
    await transactions.open()                       # fences whoever had this id, aborts what they left open
    producer = Producer(client, "clicks", 3, transactions=transactions)
    await producer.add(message)
    await producer.flush()
    await transactions.end(committed=True)

Where the cluster has transaction.version 2 (KIP-890), a partition joins with its first batch (Produce 12), and each end
gives the next epoch (EndTxn 5). Otherwise partitions are added before (AddPartitionsToTxn), and the epoch stays.

After an error the transaction can only be aborted; then a new `Transactions` goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from penstock.client.admin import refused
from penstock.client.client import Partition, by_topic
from penstock.client.coordinators import CoordinatorKind, ask
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from penstock.client.client import Client

TRANSACTION_VERSION = "transaction.version"
TIMEOUT_MS = 60_000
"""How long a transaction may take before its coordinator aborts it, as in Kafka's producers."""
PATIENCE_MS = 30_000
"""How long the end of the transaction before may take."""
RETRY_S = 0.02
"""Between two tries while the transaction before is still ending, as in Kafka's producers."""
INIT_PRODUCER_ID_MAX = 5
ADD_PARTITIONS_MAX = 3
"""Later versions are for brokers."""
END_BEFORE_V2, PRODUCE_BEFORE_V2 = 4, 11


class Transactions:
    """See the module's head.

    Args:
        client: connected.
        transactional_id: whose transactions; a second one with the same id fences the first.
        timeout_ms: how long each may take before its coordinator aborts it.
        patience_ms: how long to look for a coordinator that answers, and to wait for the end of the transaction before.

    Attributes: producer_id, producer_epoch.
    """

    def __init__(
        self, client: Client, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS, patience_ms: int = PATIENCE_MS
    ) -> None:
        self._client = client
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._patience_s = patience_ms / 1000
        self._coordinator: int | None = None
        self._v2 = False
        self._joined: set[Partition] = set()
        self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH

    @property
    def produce_at_most(self) -> int | None:
        """The version of Produce that batches may have at most."""
        return None if self._v2 else PRODUCE_BEFORE_V2

    async def open(self) -> None:
        """Becomes the id's producer; whatever its last one has left open is aborted first. Raises RequestError."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms)
        answer = await self._ask(request, lambda got: int(got.error_code), INIT_PRODUCER_ID_MAX)
        assert self._coordinator is not None
        levels = (await self._client.connection(self._coordinator)).features
        self._v2 = levels.get(TRANSACTION_VERSION, 0) >= 2
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self._joined.clear()

    async def join(self, partitions: Iterable[Partition]) -> None:
        """Has partitions take part in the transaction. Call it before their first batch. Raises RequestError."""
        new = [each for each in partitions if each not in self._joined]
        if new and not self._v2:
            topics = [AddPartitionsToTxnTopic(name=name, partitions=some) for name, some in by_topic(new).items()]
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.producer_epoch,
                v3_and_below_topics=topics,
            )
            await self._ask(request, adding_error, ADD_PARTITIONS_MAX)
        self._joined.update(new)

    async def end(self, *, committed: bool) -> None:
        """Commits or aborts the transaction; does nothing when no partition takes part. Raises RequestError."""
        if not self._joined:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        at_most = None if self._v2 else END_BEFORE_V2
        answer = await self._ask(request, lambda got: int(got.error_code), at_most)
        self._joined.clear()
        if self._v2:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    async def _ask(self, request: Any, error_of: Callable[[Any], int], at_most: int | None) -> Any:
        """The coordinator's answer; asks again while the transaction before is ending. Raises RequestError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        while True:
            answer, self._coordinator = await ask(
                self._client,
                self.transactional_id,
                request,
                error_of,
                kind=CoordinatorKind.TRANSACTION,
                known=self._coordinator,
                at_most=at_most,
                timeout_s=self._patience_s,
            )
            code = error_of(answer)
            if code != ErrorCode.CONCURRENT_TRANSACTIONS or loop.time() > deadline:
                break
            await asyncio.sleep(RETRY_S)
        self.refused(code)
        return answer

    def refused(self, code: int, message: str | None = None) -> None:
        """Raises RequestError in a sentence if the code is an error."""
        named = CoordinatorKind.TRANSACTION.named(self.transactional_id)
        if code in FENCED:
            name = ErrorCode(code).name
            raise RequestError(
                ErrorCode(code),
                f"{named}: another producer has taken it over, or the transaction took longer than "
                f"{self._timeout_ms / 1000:g} s ({name})",
            )
        refused(code, message or WHY_NOT.get(code), named)


FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE})
"""Errors of a producer that is not the id's any more. A coordinator that aborts a transaction for its time bumps the
epoch, too; and a partition whose transaction was ended so says INVALID_TXN_STATE."""
WHY_NOT: dict[int, str] = {
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "its timeout must be above 0, and not above the brokers' "
    "transaction.max.timeout.ms (INVALID_TRANSACTION_TIMEOUT)",
    ErrorCode.CONCURRENT_TRANSACTIONS: "its last transaction is still being ended: some partitions lack their marker "
    "(CONCURRENT_TRANSACTIONS)",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "its coordinator does not know this producer any more "
    "(INVALID_PRODUCER_ID_MAPPING)",
}


def adding_error(answer: Any) -> int:
    """The error of AddPartitionsToTxn up to version 3, or 0. One that says why nothing was added comes first."""
    codes = [
        int(each.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
        if each.partition_error_code
    ]
    why = (code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED)
    return next(why, codes[0] if codes else 0)
