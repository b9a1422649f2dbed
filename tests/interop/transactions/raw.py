"""A producer that says exactly what it wants to: any producer id, epoch and version in any order.

    with Raw(bootstrap, "t-1") as raw:
        raw.create_topic("clicks", 2)
        producer = raw.begun("id", "clicks")
        raw.tell("commit", raw.end(producer.with_epoch(7)))
    assert raw.heard == ["commit: INVALID_PRODUCER_EPOCH"]

What is heard names neither topics nor producer ids, so that it can be compared between brokers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from interop.clients.valid_requests import batch
from interop.clients.wire import Wire
from support.heard import until_heard

from penstock.errors import ErrorCode
from penstock.protocol.message import Message, Struct
from penstock.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest
from penstock.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

TIMEOUT_S = 30.0
TIMEOUT_MS = 60_000
LOOK_EVERY_S = 0.01
GROUP, TRANSACTION = 0, 1
READ_COMMITTED = 1
UPGRADE, SAFE_DOWNGRADE = 1, 2
IN_TRANSITION = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""What is asked for again: an end that is not over, or a coordinator that has just begun."""

Partitions = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Id:
    """What a producer says it is."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def with_epoch(self, epoch: int) -> Id:
        return replace(self, producer_epoch=epoch)

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }


class Raw:
    """One connection to a broker. `prefix` begins the names of its topics and ids; `heard` is what was told of it."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        self.heard: list[str] = []
        self._wire = Wire(bootstrap, TIMEOUT_S)
        self._sequences: dict[tuple[str, int, int, int], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.socket.close()

    def name(self, text: str) -> str:
        """A topic, group or id of this test's own."""
        return f"{self.prefix}-{text}"

    def tell(self, what: str, answer: object) -> None:
        """Notes what came of something: the error codes of a response, or anything else as it is."""
        said = outcome(answer) if isinstance(answer, Message) else answer
        self.heard.append(f"{what}: {said}")

    def ask(self, message: Message, version: int) -> Any:
        """Asks once."""
        return self._wire.ask(message, version)

    def ask_until_settled(self, message: Message, version: int) -> Any:
        """Asks until nothing is in transition any more."""
        return until(
            lambda: self._wire.ask(message, version),
            lambda answer: not any(code in IN_TRANSITION for code in codes(answer)),
        )

    # The cluster, topics and coordinators

    def set_level(self, level: int) -> None:
        """Sets transaction.version, up or down, and waits until the broker has heard of it."""
        for kind in (UPGRADE, SAFE_DOWNGRADE):
            update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
            answer = self.ask(UpdateFeaturesRequest(feature_updates=[update]), 2)
            if answer.error_code == ErrorCode.NONE:
                break
        else:
            raise AssertionError(answer)
        until_heard(self.bootstrap)

    def create_topic(self, name: str, partitions: int = 1) -> str:
        """Makes a topic; gives its whole name."""
        topic = CreatableTopic(name=self.name(name), num_partitions=partitions, replication_factor=1)
        answer = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert codes(answer) == [ErrorCode.NONE], answer
        until_heard(self.bootstrap)
        return self.name(name)

    def delete_topic(self, whole_name: str) -> None:
        answer = self.ask(DeleteTopicsRequest(topic_names=[whole_name], timeout_ms=10_000), 5)
        assert codes(answer) == [ErrorCode.NONE], answer
        until_heard(self.bootstrap)

    def find(self, key: str, kind: int = TRANSACTION) -> None:
        """Waits until there is a coordinator."""
        self.ask_until_settled(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)

    # A producer's requests

    def init(
        self, transactional_id: str | None, timeout_ms: int = TIMEOUT_MS, was: Id | None = None, version: int = 5
    ) -> Any:
        """InitProducerId, until it is settled; `was` is who the producer thinks it is (KIP-360)."""
        known = {} if was is None else {"producer_id": was.producer_id, "producer_epoch": was.producer_epoch}
        if transactional_id:
            self.find(transactional_id)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **known)
        return self.ask_until_settled(request, version)

    def initialised(self, name: str, timeout_ms: int = TIMEOUT_MS, version: int = 5) -> Id:
        """A producer of a transactional id."""
        answer = self.init(self.name(name), timeout_ms, version=version)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return Id(self.name(name), answer.producer_id, answer.producer_epoch)

    def begun(self, name: str, topic: str, timeout_ms: int = TIMEOUT_MS) -> Id:
        """A producer that has written one record into partition 0 in a transaction."""
        producer = self.initialised(name, timeout_ms)
        assert codes(self.add(producer, {topic: [0]})) == [ErrorCode.NONE]
        assert codes(self.produce(producer, topic)) == [ErrorCode.NONE]
        return producer

    def add(self, producer: Id, partitions: Partitions, version: int = 3, *, settled: bool = True) -> Any:
        """AddPartitionsToTxn as a client of before version 4 sends it."""
        topics = [AddPartitionsToTxnTopic(name=name, partitions=list(each)) for name, each in partitions.items()]
        known = {f"v3_and_below_{name}": value for name, value in producer.fields.items()}
        request = AddPartitionsToTxnRequest(**known, v3_and_below_topics=topics)
        return (self.ask_until_settled if settled else self.ask)(request, version)

    def add_several(self, *each: tuple[Id, Partitions, bool], version: int = 5) -> Any:
        """AddPartitionsToTxn as brokers send it: producers, their partitions, and whether to verify only."""
        transactions = [
            AddPartitionsToTxnTransaction(
                **producer.fields,
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name=name, partitions=list(some)) for name, some in partitions.items()],
            )
            for producer, partitions, verify_only in each
        ]
        return self.ask_until_settled(AddPartitionsToTxnRequest(transactions=transactions), version)

    def add_offsets(self, producer: Id, group: str, version: int = 4) -> Any:
        return self.ask_until_settled(AddOffsetsToTxnRequest(**producer.fields, group_id=group), version)

    def commit_offsets(
        self, producer: Id, group: str, topic: str, offset: int = 1, version: int = 3, **fields: Any
    ) -> Any:
        """TxnOffsetCommit of partition 0."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=fields.pop("partition", 0), committed_offset=offset, committed_metadata=""
        )
        topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])]
        self.find(group, GROUP)
        return self.ask_until_settled(
            TxnOffsetCommitRequest(**producer.fields, group_id=group, topics=topics, **fields), version
        )

    def end(self, producer: Id, *, commit: bool = True, version: int = 5, settled: bool = True) -> Any:
        request = EndTxnRequest(**producer.fields, committed=commit)
        return (self.ask_until_settled if settled else self.ask)(request, version)

    def produce(
        self,
        producer: Id,
        topic: str,
        partition: int = 0,
        *,
        version: int = 11,
        sequence: int | None = None,
        value: bytes = b"v",
        transactional_id: str | None = "",
        **flags: bool,
    ) -> Any:
        """One record. The next sequence number of the producer, unless told which."""
        place = (topic, partition, producer.producer_id, producer.producer_epoch)
        number = self._sequences.get(place, 0) if sequence is None else sequence
        records = batch(
            value,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=number,
            **{"is_transactional": True, **flags},
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
        id_ = producer.transactional_id if transactional_id == "" else transactional_id
        answer = self.ask_until_settled(
            ProduceRequest(transactional_id=id_, acks=-1, timeout_ms=10_000, topic_data=[data]), version
        )
        if codes(answer) == [ErrorCode.NONE] and sequence is None:
            self._sequences[place] = number + 1
        return answer

    def markers(
        self,
        producer: Id,
        partitions: Partitions,
        *,
        commit: bool = True,
        coordinator_epoch: int = 0,
        version: int = 1,
        transaction_version: int = 0,
    ) -> Any:
        """WriteTxnMarkers, as a coordinator sends it."""
        topics = [WritableTxnMarkerTopic(name=name, partition_indexes=list(each)) for name, each in partitions.items()]
        level = {"transaction_version": transaction_version} if version >= 2 else {}
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=commit,
            topics=topics,
            coordinator_epoch=coordinator_epoch,
            **level,
        )
        return self.ask(WriteTxnMarkersRequest(markers=[marker]), version)

    # What there is

    def state(self, transactional_id: str) -> Any:
        """DescribeTransactions of one id."""
        (found,) = self.ask_until_settled(
            DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0
        ).transaction_states
        return found

    def wait_for_state(self, producer: Id, *states: str) -> Any:
        return until(lambda: self.state(producer.transactional_id), lambda found: found.transaction_state in states)

    def producers(self, topic: str, partition: int = 0) -> Any:
        """DescribeProducers of one partition."""
        wanted = TopicRequest(name=topic, partition_indexes=[partition])
        return self.ask(DescribeProducersRequest(topics=[wanted]), 0).topics[0].partitions[0]

    def wait_until_stable(self, topic: str, partition: int = 0) -> None:
        """Until nothing holds back the last stable offset."""
        until(
            lambda: (self.end_offset(topic, partition=partition), self.end_offset(topic, 0, partition)),
            lambda ends: ends[0] == ends[1],
        )

    def end_offset(self, topic: str, isolation: int = READ_COMMITTED, partition: int = 0) -> int:
        """The last stable offset, or the high watermark."""
        wanted = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=-1)]
        )
        answer = self.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[wanted]), 5)
        return int(answer.topics[0].partitions[0].offset)

    def fetched(self, topic: str, partition: int = 0) -> Any:
        """Everything that is stable in a partition, and the list of what is aborted in it."""
        wanted = FetchTopic(topic=topic, partitions=[FetchPartition(partition=partition, partition_max_bytes=1 << 20)])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=READ_COMMITTED, topics=[wanted])
        return self.ask(request, 12).responses[0].partitions[0]


def until(look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """Looks until it holds; gives what was seen."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not holds(found := look()):
        assert time.monotonic() < deadline_s, f"after {TIMEOUT_S:g} s still {found}"
        time.sleep(LOOK_EVERY_S)
    return found


def codes(value: Any) -> list[ErrorCode]:
    """Every error code in a response, by the names and numbers of what it is of: their order is anybody's."""
    if isinstance(value, list):
        return [code for each in sorted(value, key=place) for code in codes(each)]
    if not isinstance(value, Struct):
        return []
    found = []
    for name in value.__slots__:
        if name not in {"error_code", "partition_error_code"}:
            found += codes(getattr(value, name))
        elif not (name == "error_code" and isinstance(value, AddPartitionsToTxnResponse)):  # which old versions lack
            found.append(ErrorCode(getattr(value, name)))
    return found


def place(entry: Any) -> tuple[str, int]:
    """By what the entries of a response are told apart."""
    names = (getattr(entry, field, None) for field in ("name", "topic", "transactional_id", "group_id", "key"))
    numbers = (getattr(entry, field, None) for field in ("partition_index", "index", "producer_id"))
    return next((str(name) for name in names if name is not None), ""), next(filter(None, numbers), 0)


def outcome(answer: Message) -> str:
    """The error codes of a response."""
    return " ".join(code.name for code in codes(answer)) or "nothing"
