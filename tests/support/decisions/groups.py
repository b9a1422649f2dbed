"""Probes about groups and transactions."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.protocol.message import Message
from penstock.protocol.messages import (
    add_partitions_to_txn_request,
    join_group_request,
    leave_group_request,
    offset_commit_request,
    offset_delete_request,
    offset_fetch_request,
    txn_offset_commit_request,
)
from penstock.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from penstock.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.delete_groups_request import DeleteGroupsRequest
from penstock.protocol.messages.describe_groups_request import DescribeGroupsRequest
from penstock.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.list_groups_request import ListGroupsRequest
from penstock.protocol.messages.list_transactions_request import ListTransactionsRequest
from penstock.protocol.messages.sync_group_request import SyncGroupRequest
from penstock.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from support.decisions.probe import Probe

MEMBERS_FROM = 3
"""The version of TxnOffsetCommit that names a member."""


def of_groups() -> Iterator[Probe]:
    for version in (1, 2):
        yield Probe("find the group's coordinator", version, lambda ids: FindCoordinatorRequest(key="g", key_type=0))
        yield Probe(
            "find the transaction's coordinator", version, lambda ids: FindCoordinatorRequest(key="x", key_type=1)
        )
    yield Probe(
        "find the group's coordinator", 6, lambda ids: FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    )
    for version in (2, 9):
        yield Probe("commit offsets", version, lambda ids: offset_commit("t", "m"))
    for version in (1, 7):
        yield Probe(
            "fetch offsets",
            version,
            lambda ids: offset_fetch_request.OffsetFetchRequest(
                group_id="g",
                topics=[
                    offset_fetch_request.OffsetFetchRequestTopic(name=name, partition_indexes=[0])
                    for name in ("t", "m")
                ],
            ),
        )
    yield Probe("fetch all offsets", 7, lambda ids: offset_fetch_request.OffsetFetchRequest(group_id="g", topics=None))
    yield Probe(
        "fetch offsets",
        9,
        lambda ids: offset_fetch_request.OffsetFetchRequest(
            groups=[
                offset_fetch_request.OffsetFetchRequestGroup(
                    group_id="g",
                    topics=[
                        offset_fetch_request.OffsetFetchRequestTopics(name=name, partition_indexes=[0])
                        for name in ("t", "m")
                    ],
                )
            ]
        ),
    )
    yield Probe(
        "fetch all offsets",
        9,
        lambda ids: offset_fetch_request.OffsetFetchRequest(
            groups=[offset_fetch_request.OffsetFetchRequestGroup(group_id="g", topics=None)]
        ),
    )
    for version in (0, 9):
        yield Probe(
            "join",
            version,
            lambda ids: join_group_request.JoinGroupRequest(
                group_id="g",
                session_timeout_ms=1,
                rebalance_timeout_ms=1,
                protocol_type="consumer",
                protocols=[join_group_request.JoinGroupRequestProtocol(name="range")],
            ),
        )
    for version in (0, 4):
        yield Probe(
            "heartbeat", version, lambda ids: HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")
        )
    yield Probe("leave", 0, lambda ids: leave_group_request.LeaveGroupRequest(group_id="g", member_id="nobody"))
    yield Probe(
        "leave",
        5,
        lambda ids: leave_group_request.LeaveGroupRequest(
            group_id="g", members=[leave_group_request.MemberIdentity(member_id="nobody")]
        ),
    )
    for version in (0, 4):
        yield Probe("sync", version, lambda ids: SyncGroupRequest(group_id="g", generation_id=1, member_id="nobody"))
    for version in (0, 5):
        yield Probe(
            "describe groups",
            version,
            lambda ids, v=version: DescribeGroupsRequest(groups=["g"], include_authorized_operations=v > 0),
        )
        yield Probe("list groups", version, lambda ids: ListGroupsRequest())
    for version in (0, 2):
        yield Probe("delete a group that is not there", version, lambda ids: DeleteGroupsRequest(groups_names=["gone"]))
    yield Probe(
        "delete offsets",
        0,
        lambda ids: offset_delete_request.OffsetDeleteRequest(
            group_id="g",
            topics=[
                offset_delete_request.OffsetDeleteRequestTopic(
                    name=name, partitions=[offset_delete_request.OffsetDeleteRequestPartition(partition_index=5)]
                )
                for name in ("t", "m")
            ],
        ),
    )
    for version in (0, 1):
        yield Probe(
            "heartbeat of a consumer",
            version,
            lambda ids: ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="AAAAAAAAAAAAAAAAAAAAAg", member_epoch=5, rebalance_timeout_ms=5_000
            ),
        )
        yield Probe("describe a consumer group", version, lambda ids: ConsumerGroupDescribeRequest(group_ids=["gone"]))
    yield Probe(
        "join as a consumer of t and m",
        1,
        lambda ids: ConsumerGroupHeartbeatRequest(
            group_id="gone",
            member_id="AAAAAAAAAAAAAAAAAAAAAg",
            member_epoch=7,
            subscribed_topic_names=["t", "m"],
            topic_partitions=[],
        ),
    )


def offset_commit(*names: str) -> Message:
    topics = [
        offset_commit_request.OffsetCommitRequestTopic(
            name=name,
            partitions=[offset_commit_request.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
        )
        for name in names
    ]
    return offset_commit_request.OffsetCommitRequest(group_id="g", topics=topics)


def of_transactions() -> Iterator[Probe]:
    for version in (0, 5):
        yield Probe(
            "a producer id",
            version,
            lambda ids: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000),
        )
    yield Probe(
        "a producer id for x, timeout too long",
        4,
        lambda ids: InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=2**31 - 1),
    )
    for version in (0, 3):
        yield Probe(
            "add partitions to x",
            version,
            lambda ids: AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=1,
                v3_and_below_topics=[add_partitions_to_txn_request.AddPartitionsToTxnTopic(name="t", partitions=[0])],
            ),
        )
    yield Probe(
        "add a missing topic's partitions to x",
        3,
        lambda ids: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=1,
            v3_and_below_topics=[
                add_partitions_to_txn_request.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("t", "m")
            ],
        ),
    )
    yield Probe(
        "verify partitions of x",
        5,
        lambda ids: AddPartitionsToTxnRequest(
            transactions=[
                add_partitions_to_txn_request.AddPartitionsToTxnTransaction(
                    transactional_id="x",
                    producer_id=1,
                    verify_only=True,
                    topics=[add_partitions_to_txn_request.AddPartitionsToTxnTopic(name="t", partitions=[0])],
                )
            ]
        ),
    )
    for version in (0, 4):
        yield Probe(
            "add offsets to x",
            version,
            lambda ids: AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, group_id="g"),
        )
    for version in (0, 5):
        yield Probe("end x", version, lambda ids: EndTxnRequest(transactional_id="x", producer_id=1))
    for version in (0, 3):
        yield Probe(
            "commit offsets in x",
            version,
            lambda ids, v=version: txn_offset_commit_request.TxnOffsetCommitRequest(
                transactional_id="x",
                group_id="g",
                producer_id=-1,
                producer_epoch=-1,
                member_id="nobody" if v >= MEMBERS_FROM else "",
                generation_id=4 if v >= MEMBERS_FROM else -1,
                topics=[
                    txn_offset_commit_request.TxnOffsetCommitRequestTopic(
                        name=name, partitions=[txn_offset_commit_request.TxnOffsetCommitRequestPartition()]
                    )
                    for name in ("t", "m")
                ],
            ),
        )
    yield Probe("write markers", 1, lambda ids: WriteTxnMarkersRequest())
    yield Probe("describe transactions", 0, lambda ids: DescribeTransactionsRequest(transactional_ids=["x"]))
    for version in (0, 1):
        yield Probe("list transactions", version, lambda ids: ListTransactionsRequest())
