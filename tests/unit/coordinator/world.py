"""A group coordinator over one partition, with time, commits and failures under a test's control.

Time stands still unless the test moves it. A turn (`settle`, which every request makes at its end) appends what was
written and, with `commits`, commits it. `fail_over` throws the machine away and loads another one from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Generic, TypeVar
from uuid import UUID

from unit.coordinator.one_partition import OnePartition

from penstock.config.server import Settings
from penstock.coordinator.group import maintenance
from penstock.coordinator.group.classic.describe import describe_groups
from penstock.coordinator.group.classic_requests import heartbeat, join_group, leave_group, sync_group
from penstock.coordinator.group.consumer.pace import SettlingPace
from penstock.coordinator.group.context import Context
from penstock.coordinator.group.machine import GroupMachine
from penstock.coordinator.group.offsets.commit import commit_offsets
from penstock.coordinator.group.offsets.delete import delete_offsets
from penstock.coordinator.group.offsets.fetch import fetch_offsets
from penstock.coordinator.group.offsets.transactional import commit_transactional_offsets
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.runtime.transactions import Transaction, TransactionEnd
from penstock.errors import ErrorCode, RequestError
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.protocol import codec
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from penstock.protocol.messages.describe_groups_response import DescribedGroup
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.leave_group_response import LeaveGroupResponse
from penstock.protocol.messages.list_groups_response import ListedGroup
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_commit_response import OffsetCommitResponse
from penstock.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.messages.offset_delete_response import OffsetDeleteResponse
from penstock.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from penstock.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup
from penstock.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.messages.sync_group_response import SyncGroupResponse
from penstock.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from penstock.protocol.record_frames import decode_coordinator_key, decode_coordinator_value
from penstock.records.batch import read_header
from penstock.records.reader import records
from penstock.records.wall import WallTime

R = TypeVar("R")

SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Answer(Generic[R]):
    """What a request is answered, once it is. The first answer counts, as in a node.

    It is encoded, as in a node, in the `version` that was asked (None: nobody has, the node itself wants to know);
    whoever answers hears it if that cannot be done.

    Attributes:
        response: None until there is one. code: why there is none, or the code in the response. at_ms: when.
    """

    def __init__(self, version: int | None) -> None:
        self.version = version
        self.response: R | None = None
        self.code = ErrorCode.NONE
        self.message = ""
        self.at_ms: int | None = None

    def __repr__(self) -> str:
        return f"Answer({self.code.name}, {self.response})" if self.done else "Answer(waits)"

    @property
    def done(self) -> bool:
        return self.at_ms is not None

    @property
    def value(self) -> R:
        """The response. An assertion fails if there is none."""
        assert self.response is not None, self
        return self.response

    def reply(self, response: R, now_ms: int) -> None:
        if not self.done:
            if self.version is not None:
                codec.encode_bytes(whole(response), self.version)
            self.response, self.at_ms = response, now_ms
            self.code = ErrorCode(getattr(response, "error_code", 0))

    def finished(self, response: R | None, code: ErrorCode, message: str, now_ms: int) -> None:
        """As the runtime tells it."""
        if code and not self.done:
            self.code, self.message, self.at_ms = code, message, now_ms
        elif response is not None:
            self.reply(response, now_ms)


def whole(response: Any) -> Message:
    """The message that a coordinator's answer becomes: some give only the part that concerns one group."""
    match response:
        case Message():
            return response
        case OffsetFetchResponseGroup():
            return OffsetFetchResponse(groups=[response])
        case list():
            return DeleteGroupsResponse(results=response)
    raise AssertionError(f"no message has {response}")


KAFKAS = Settings.for_node(penstock_group_consumer_stable_heartbeats_per_second=0)
"""Stable members come as seldom as in Apache Kafka."""


class World(OnePartition[GroupMachine]):
    """See the module's head. Settings may be given, and contradict each other."""

    def __init__(self, *, image: MetadataImage = EMPTY_IMAGE, seed: int = 1, **settings: Any) -> None:
        self.wall = WallTime()
        self.random = Random(seed)
        self.image = image
        self.settings = KAFKAS
        self.configure(**settings)
        self.group_settings = GroupSettings(lambda: self.settings)
        pace = SettlingPace()
        super().__init__(
            "__consumer_offsets",
            "group",
            lambda index, timers: GroupMachine(
                GroupState(
                    timers,
                    settings=self.group_settings,
                    random=self.random,
                    image=self.image,
                    wall=self.wall,
                    pace=pace,
                )
            ),
            self.wall,
        )
        self.elect()

    @property
    def machine(self) -> GroupMachine:
        machine: GroupMachine = self.shard.machine
        return machine

    @property
    def state(self) -> GroupState:
        return self.machine.state

    def configure(self, **settings: Any) -> None:
        """Changes settings."""
        self.settings = Settings({**vars(self.settings), **settings})

    # Requests

    def write(self, operation: Callable[[GroupState], Result[Any]], answer: Answer[Any] | int | None) -> Answer[Any]:
        """Has the runtime run an operation; its answer is the Result's, in the version given, unless the operation has
        one of its own.
        """
        answer = answer if isinstance(answer, Answer) else Answer(answer)
        self.runtime.write(self.PARTITION, lambda machine: operation(machine.state), answer.finished, self.now_ms)
        self.settle()
        return answer

    def join(
        self,
        group: str = "g",
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Sequence[str | tuple[str, bytes]] = ("range",),
        protocol_type: str = "consumer",
        topics: Sequence[str] = ("t",),
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 9,
        client: str = "c",
        reason: str | None = None,
    ) -> Answer[JoinGroupResponse]:
        """JoinGroup of a consumer of `topics`; protocols are names, or names and metadata."""
        offered = [
            JoinGroupRequestProtocol(name=each, metadata=subscription(topics))
            if isinstance(each, str)
            else JoinGroupRequestProtocol(name=each[0], metadata=each[1])
            for each in protocols
        ]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=offered,
            reason=reason,
        )
        answer: Answer[JoinGroupResponse] = Answer(version)
        context = Context(version, client, "/127.0.0.1")
        return self.write(lambda state: join_group(state, context, request, answer.reply, self.now_ms), answer)

    def member_id(self, group: str = "g", **request: Any) -> str:
        """Asks for a member id (KIP-394)."""
        answer = self.join(group, **request)
        assert answer.code is ErrorCode.MEMBER_ID_REQUIRED, answer
        return answer.value.member_id

    def join_new(self, group: str = "g", **request: Any) -> Answer[JoinGroupResponse]:
        """A dynamic member gets its id and joins with it."""
        return self.join(group, self.member_id(group, **request), **request)

    def sync(
        self,
        joined: JoinGroupResponse,
        assignment: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        version: int = 5,
        **fields: Any,
    ) -> Answer[SyncGroupResponse]:
        """SyncGroup after a join; the leader brings the assignment by member id."""
        request = SyncGroupRequest(
            group_id=group,
            generation_id=fields.pop("generation_id", joined.generation_id),
            member_id=joined.member_id,
            protocol_type=fields.pop("protocol_type", joined.protocol_type),
            protocol_name=fields.pop("protocol_name", joined.protocol_name),
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assigned)
                for member_id, assigned in (assignment or {}).items()
            ],
            **fields,
        )
        answer: Answer[SyncGroupResponse] = Answer(version)
        return self.write(lambda state: sync_group(state, request, answer.reply, self.now_ms), answer)

    def sync_all(self, joined: Sequence[JoinGroupResponse], group: str = "g") -> list[Answer[SyncGroupResponse]]:
        """All members of a generation sync, the leader last; each is assigned its own id as bytes."""
        followers = [each for each in joined if each.member_id != each.leader]
        (leader,) = (each for each in joined if each.member_id == each.leader)
        answers = [self.sync(each, group=group) for each in followers]
        return [*answers, self.sync(leader, {each.member_id: each.member_id.encode() for each in joined}, group=group)]

    def stable(self, members: int = 1, group: str = "g", **request: Any) -> list[JoinGroupResponse]:
        """A stable group of so many new dynamic members. Returns what each was told when it joined."""
        joins = [self.join_new(group, **request) for _ in range(members)]
        self.advance(self.settings.group_initial_rebalance_delay_ms * (members + 1))
        joined = [each.value for each in joins]
        assert all(not each.error_code for each in joined), joined
        assert all(answer.value.assignment for answer in self.sync_all(joined, group))
        return joined

    def heartbeat(
        self,
        member_id: str,
        generation_id: int = 1,
        *,
        group: str = "g",
        instance_id: str | None = None,
    ) -> Answer[HeartbeatResponse]:
        """Heartbeat."""
        request = HeartbeatRequest(
            group_id=group, generation_id=generation_id, member_id=member_id, group_instance_id=instance_id
        )
        return self.write(lambda state: heartbeat(state, request, self.now_ms), HeartbeatRequest.MAX_VERSION)

    def leave(self, *members: str | tuple[str, str], group: str = "g", version: int = 5) -> Answer[LeaveGroupResponse]:
        """LeaveGroup of members, each an id, or a member id (may be empty) and an instance id."""
        identities = [
            MemberIdentity(member_id=each)
            if isinstance(each, str)
            else MemberIdentity(member_id=each[0], group_instance_id=each[1])
            for each in members
        ]
        request = LeaveGroupRequest(group_id=group, members=identities)
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=identities[0].member_id)
        context = Context(version, "c", "/127.0.0.1")
        return self.write(lambda state: leave_group(state, context, request, self.now_ms), version)

    # Offsets

    def commit_offsets(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        member_id: str = "",
        generation_id: int = -1,
        instance_id: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        topic_id: UUID = ZERO_UUID,
        version: int = 9,
    ) -> Answer[OffsetCommitResponse]:
        """OffsetCommit of offsets by topic and partition."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )
        context = Context(version, "c", "/127.0.0.1")
        return self.write(lambda state: commit_offsets(state, context, request, self.now_ms), version)

    def commit_in_transaction(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        producer_id: int = 7,
        epoch: int = 0,
        group: str = "g",
        member_id: str = "",
        generation_id: int = -1,
        instance_id: str | None = None,
        metadata: str | None = "",
        version: int = 5,
    ) -> Answer[TxnOffsetCommitResponse]:
        """TxnOffsetCommit of offsets by topic and partition; the transaction has been verified."""
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        request = TxnOffsetCommitRequest(
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        context = Context(version, "c", "/127.0.0.1")
        answer: Answer[TxnOffsetCommitResponse] = Answer(version)
        try:
            guard = self.runtime.guard(self.PARTITION, producer_id, epoch, self.now_ms)
        except RequestError as error:
            answer.finished(None, error.code, str(error), self.now_ms)
            return answer
        self.runtime.write(
            self.PARTITION,
            lambda machine: commit_transactional_offsets(machine.state, context, request, self.now_ms),
            answer.finished,
            self.now_ms,
            transaction=Transaction(producer_id, epoch, guard),
        )
        self.settle()
        return answer

    def end_transaction(
        self, *, commit: bool = True, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0, version: int = 0
    ) -> Answer[Any]:
        """A marker for the partition, of a transaction that ends by the rules of this transaction.version."""
        answer: Answer[Any] = Answer(None)
        end = TransactionEnd(producer_id, epoch, commit, coordinator_epoch, version)
        self.runtime.end_transaction(self.PARTITION, end, answer.finished, self.now_ms)
        self.settle()
        return answer

    def fetch_offsets(
        self,
        wanted: dict[str, list[int]] | None = None,
        *,
        group: str = "g",
        require_stable: bool = False,
        topic_id: UUID = ZERO_UUID,
    ) -> Answer[OffsetFetchResponseGroup]:
        """OffsetFetch as the node does it: of what is committed, or waiting for it."""
        topics = None
        if wanted is not None:
            topics = [
                OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=partitions)
                for name, partitions in wanted.items()
            ]
        request = OffsetFetchRequestGroup(group_id=group, topics=topics)
        if require_stable:
            return self.write(
                lambda state: Result(fetch_offsets(state, request, None, require_stable=True)),
                OffsetFetchResponse.MAX_VERSION,
            )
        answer: Answer[OffsetFetchResponseGroup] = Answer(OffsetFetchResponse.MAX_VERSION)
        fetched = self.runtime.read(
            self.PARTITION, lambda machine, at: fetch_offsets(machine.state, request, at, require_stable=False)
        )
        answer.reply(fetched, self.now_ms)
        return answer

    def offsets(self, group: str = "g", **request: Any) -> dict[tuple[str, int], int]:
        """All offsets of a group that are committed."""
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in self.fetch_offsets(group=group, **request).value.topics
            for partition in topic.partitions
        }

    def delete_offsets(self, places: dict[str, list[int]], group: str = "g") -> Answer[OffsetDeleteResponse]:
        """OffsetDelete."""
        topics = [
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=partition) for partition in partitions],
            )
            for name, partitions in places.items()
        ]
        request = OffsetDeleteRequest(group_id=group, topics=topics)
        return self.write(lambda state: delete_offsets(state, request, self.now_ms), OffsetDeleteResponse.MAX_VERSION)

    # Groups

    def delete_groups(self, *group_ids: str) -> Answer[list[DeletableGroupResult]]:
        """DeleteGroups."""
        return self.write(
            lambda state: maintenance.delete_groups(state, group_ids, self.now_ms), DeleteGroupsResponse.MAX_VERSION
        )

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
        """ListGroups."""
        return self.runtime.read(
            self.PARTITION,
            lambda it, at: maintenance.list_some(it.state.groups.all(at=at), at, states, types),
        )

    def describe(self, group: str = "g", *, version: int = 6) -> DescribedGroup:
        """DescribeGroups of one group."""
        (described,) = self.runtime.read(
            self.PARTITION, lambda machine, at: describe_groups(machine.state, at, [group], api_version=version)
        )
        return described

    # The log

    def written(self, *, committed: bool = False) -> list[tuple[Message, Message | None, int]]:
        """All records in the log, or those that are committed: key, value, version of the value."""
        found: list[tuple[Message, Message | None, int]] = []
        for batch in self.log.batches:
            if committed and read_header(batch).next_offset > self.log.high_watermark:
                break
            for record in records(batch, read_header(batch), 0):
                assert record.key is not None
                key = decode_coordinator_key("group", record.key)
                if record.value is None:
                    found.append((key, None, -1))
                else:
                    found.append((key, *decode_coordinator_value("group", key.KEY, record.value)))
        return found


def subscription(topics: Sequence[str], version: int = 1) -> bytes:
    """Metadata of the consumer protocol."""
    return version.to_bytes(2, "big") + codec.encode_bytes(ConsumerProtocolSubscription(topics=list(topics)), version)
