"""Transactions as tests of partitions write them, with a coordinator that says what the test has it say.

coordinator = ScriptedCoordinator()
node = coordinator.node()
coordinator.says.append(ErrorCode.CONCURRENT_TRANSACTIONS)        # once; then it confirms everything
answer = written(client, "orders", b"a", version=12)
ended(client, "orders", commit=True)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.errors import ErrorCode
from penstock.node.broker import Broker
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from penstock.protocol.messages.produce_request import ProduceRequest
from penstock.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from support.broker import Client, Node
from support.requests import batch, produce

PRODUCER_ID = 7
TRANSACTIONAL_ID = "mine"


class ScriptedCoordinator:
    """Answers AddPartitionsToTxn of brokers.

    Attributes: `asked`, the requests; `says`, the errors of the next transactions, for all their partitions, or what
    finds them by (topic, index); then there is none. `silent`: requests wait until `let_go`.
    """

    def __init__(self) -> None:
        self.asked: list[AddPartitionsToTxnRequest] = []
        self.says: deque[ErrorCode | Callable[[str, int], ErrorCode]] = deque()
        self.whole = ErrorCode.NONE
        self.silent = False
        self._waiting: list[tuple[Broker, Request[Any], AddPartitionsToTxnRequest]] = []

    def node(self, **settings: Any) -> Node:
        """A node whose coordinator this is, with a topic of transactions."""
        node = Node(handlers=self.handlers, **settings)
        node.create_topic("__transaction_state", partitions=3)
        return node

    @property
    def handlers(self) -> dict[ApiKey, Handler[Broker]]:
        """What takes the place of the node's own coordinator."""
        return {ApiKey.ADD_PARTITIONS_TO_TXN: Handler(ApiKey.ADD_PARTITIONS_TO_TXN, self.handle)}

    @property
    def transactions(self) -> list[list[AddPartitionsToTxnTransaction]]:
        """What was asked, request by request."""
        return [each.transactions for each in self.asked]

    def handle(self, node: Broker, request: Request[AddPartitionsToTxnRequest], now_ms: int) -> Outcome:
        self.asked.append(request.body)
        if self.silent:
            self._waiting.append((node, request, request.body))
            return LATER
        return self.answer(request.body)

    def let_go(self, node: Node) -> None:
        """Answers the requests that wait, and all later ones at once."""
        self.silent = False
        waiting, self._waiting = self._waiting, []
        for broker, request, body in waiting:
            broker.answer(request, self.answer(body), node.now_ms)
        node.run()
        node.settle()

    def answer(self, body: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        if self.whole:
            return AddPartitionsToTxnResponse(error_code=self.whole, results_by_transaction=[])
        return AddPartitionsToTxnResponse(results_by_transaction=[self._result(each) for each in body.transactions])

    def _result(self, asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        code = self.says.popleft() if self.says else ErrorCode.NONE
        return AddPartitionsToTxnResult(
            transactional_id=asked.transactional_id,
            topic_results=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index,
                            partition_error_code=code if isinstance(code, ErrorCode) else code(topic.name, index),
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in asked.topics
            ],
        )


def transactional(
    value: bytes = b"t", *, sequence: int = 0, epoch: int = 0, producer_id: int = PRODUCER_ID, **builder: Any
) -> bytearray:
    """A batch of a transaction."""
    return batch(
        value,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
        **builder,
    )


def in_transaction(topic: str, *batches: bytearray | None, acks: int = -1, **fields: Any) -> ProduceRequest:
    """A produce request with a transactional id."""
    request = produce(topic, *batches, acks=acks, **fields)
    request.transactional_id = TRANSACTIONAL_ID
    return request


def written(client: Client, topic: str, *batches: bytearray, version: int = 12, **fields: Any) -> Any:
    """Produces one batch of a transaction and gives the partition's answer."""
    answer = client.ask(in_transaction(topic, *batches, **fields), version)
    return answer.responses[0].partition_responses[0]


def marker(
    topic: str,
    *indexes: int,
    commit: bool = True,
    epoch: int = 0,
    producer_id: int = PRODUCER_ID,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WritableTxnMarker:
    """The end of a transaction in partitions of one topic."""
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(indexes or (0,)))],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )


def markers(*each: WritableTxnMarker) -> WriteTxnMarkersRequest:
    """A request with these markers."""
    return WriteTxnMarkersRequest(markers=list(each))


def errors_of(response: Any) -> dict[tuple[int, str, int], ErrorCode]:
    """The errors of a WriteTxnMarkers response by producer id, topic and partition."""
    return {
        (each.producer_id, topic.name, found.partition_index): ErrorCode(found.error_code)
        for each in response.markers
        for topic in each.topics
        for found in topic.partitions
    }


def ended(client: Client, topic: str, *indexes: int, version: int = 2, **fields: Any) -> set[ErrorCode]:
    """Ends a transaction in partitions of one topic, and gives the errors."""
    return set(errors_of(client.ask(markers(marker(topic, *indexes, **fields)), version)).values())
