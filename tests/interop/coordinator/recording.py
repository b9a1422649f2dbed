"""A world that writes down what is asked of it, so that Kafka's coordinator can be asked the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from unit.coordinator.consumers import ConsumerWorld, topic_id
from unit.coordinator.world import Answer

from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic_requests import heartbeat, join_group, leave_group, sync_group
from penstock.coordinator.group.consumer.describe import describe_consumer_groups
from penstock.coordinator.group.consumer.group import ConsumerGroup, is_homogeneous
from penstock.coordinator.group.consumer.heartbeat import consumer_group_heartbeat
from penstock.coordinator.group.context import Context
from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.errors import RequestError
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY_IMAGE
from penstock.protocol import codec
from penstock.protocol.consumer_protocol import decode_assignment
from penstock.protocol.message import Buffer, Message, Struct
from penstock.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.join_group_request import JoinGroupRequest
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest
from penstock.protocol.messages.leave_group_response import LeaveGroupResponse
from penstock.protocol.messages.metadata.partition_record import PartitionRecord
from penstock.protocol.messages.metadata.register_broker_record import RegisterBrokerRecord
from penstock.protocol.messages.metadata.remove_topic_record import RemoveTopicRecord
from penstock.protocol.messages.metadata.topic_record import TopicRecord
from penstock.protocol.messages.sync_group_request import SyncGroupRequest
from penstock.protocol.messages.sync_group_response import SyncGroupResponse
from penstock.protocol.record_frames import (
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from penstock.records.batch import read_header
from penstock.records.reader import records

RESPONSES: Mapping[str, type[Message]] = {
    "consumer": ConsumerGroupHeartbeatResponse,
    "join": JoinGroupResponse,
    "sync": SyncGroupResponse,
    "heartbeat": HeartbeatResponse,
    "leave": LeaveGroupResponse,
    "describe": ConsumerGroupDescribeResponse,
}
RACKS = {1: "ra", 2: None, 3: "r\u00e9"}


class Outcome(NamedTuple):
    """What came of an operation, in a form in which order does not count where it means nothing."""

    code: int
    message: str | None
    response: object
    records: list[str]


class GroupType(NamedTuple):
    """Epochs of a group, and whether its members subscribe to the same."""

    group_epoch: int
    assignment_epoch: int
    is_homogeneous: bool

    def mistakes(self, after: GroupType) -> bool:
        """Whether an assignment was computed, without a new group epoch, for a group of another kind than before."""
        return (
            self.group_epoch == after.group_epoch
            and self.assignment_epoch != after.assignment_epoch
            and self.is_homogeneous != after.is_homogeneous
        )


class RecordingWorld(ConsumerWorld):
    """See the module's head.

    Attributes:
        operations: as `group_peer` reads them. outcomes: what we answered to each.
        downgraded: how many requests members sent to a group that had become a classic one again.
        knows_better: ours differs from here on, on purpose. An assignment was computed where Kafka errs in the kind of
            the group (`will_be_homogeneous`), or a classic group changed its protocol while it was about to share anew:
            ours is assigned anew, in Kafka's some partitions may stay without an owner.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__(EMPTY_IMAGE, group_consumer_assignment_interval_ms=1_000, **config)
        self.started_ms = self.now_ms
        self.operations: list[dict[str, Any]] = []
        self.outcomes: list[Outcome] = []
        self.knows_better = False
        self.downgraded = 0

    def note(self, operation: dict[str, Any], before: int, answer: Answer[Any] | None = None) -> None:
        """Writes down an operation that was done, and the records that are in the log since `before`."""
        outcome = Outcome(0, None, None, [])
        if answer is not None and answer.response is None and answer.code:
            is_told = answer.message != answer.code.name and operation["operation"] not in WITHOUT_MESSAGE
            told = answer.message if is_told else None
            outcome = outcome._replace(code=int(answer.code), message=told)
        elif answer is not None and answer.response is not None:
            version = operation["version"]
            sent = codec.encode_bytes(answer.response, version)
            outcome = outcome._replace(response=plain(codec.decode(type(answer.response), version, sent, 0)[0]))
        written = [pair for batch in self.log.batches[before:] for pair in records_of(batch)]
        self.operations.append(operation)
        self.outcomes.append(outcome._replace(records=sorted(written)))

    def count(self) -> int:
        """How many batches there are."""
        return len(self.log.batches)

    # Operations

    def beat(self, group: str = "g", version: int = 1, **fields: Any) -> Answer[ConsumerGroupHeartbeatResponse]:
        return self.ask("consumer", ConsumerGroupHeartbeatRequest(group_id=group, **fields), version)

    def ask(self, kind: str, request: Any, version: int) -> Answer[Any]:
        """A request of any kind."""
        data = codec.encode_bytes(request, version)
        request, _ = codec.decode(type(request), version, data, 0)
        context = Context(version, "c", "/127.0.0.1")
        answer: Answer[Any] = Answer(version)
        before = self.count()

        def operation(state: Any) -> Result[Any]:
            match request:
                case ConsumerGroupHeartbeatRequest():
                    return consumer_group_heartbeat(state, context, request, self.now_ms)
                case HeartbeatRequest():
                    return heartbeat(state, request, self.now_ms)
                case LeaveGroupRequest():
                    return leave_group(state, context, request, self.now_ms)
                case JoinGroupRequest():
                    return join_group(state, context, request, answer.reply, self.now_ms)
                case SyncGroupRequest():
                    return sync_group(state, request, answer.reply, self.now_ms)
            raise AssertionError(request)

        was, unsettled = self.group_type(), self.is_unsettled()
        self.write(operation, answer)
        upgraded = isinstance(self.state.groups.find("g"), ConsumerGroup)
        self.knows_better = self.knows_better or was.mistakes(self.group_type()) or (unsettled and upgraded)
        self.note({"operation": kind, "version": version, "bytes": data.hex()}, before, answer)
        return answer

    def describe(self) -> None:
        """ConsumerGroupDescribe."""
        request = ConsumerGroupDescribeRequest(group_ids=["g"])
        answer: Answer[Any] = Answer(1)
        groups = self.runtime.read(
            self.PARTITION, lambda machine, at: describe_consumer_groups(machine.state, at, ["g"])
        )
        answer.reply(ConsumerGroupDescribeResponse(groups=groups), self.now_ms)
        data = codec.encode_bytes(request, 1)
        self.note({"operation": "describe", "version": 1, "bytes": data.hex()}, self.count(), answer)

    def check_commit(self, member_id: str, epoch: int, topic: str, partition: int, version: int) -> None:
        """Whether the member may commit for a partition."""
        answer: Answer[Any] = Answer(version)
        try:
            group = self.group()
            check = group.check_commit(member_id, None, epoch, version, transactional=False)
            if check is not None:
                check(topic, topic_id(topic), partition)
        except RequestError as error:
            answer.finished(None, error.code, error.message, self.now_ms)
        operation = {"operation": "commit", "member": member_id, "epoch": epoch, "version": version, "topic": topic}
        self.note({**operation, "id": topic_id(topic).int, "partition": partition}, self.count(), answer)

    def is_unsettled(self) -> bool:
        """Whether the group is a classic one that is about to share anew."""
        group = self.state.groups.find("g")
        return isinstance(group, ClassicGroup) and group.state is not State.STABLE and not group.is_empty

    def group_type(self) -> GroupType:
        """Of the group `g`."""
        group = self.state.groups.find("g")
        if not isinstance(group, ConsumerGroup):
            return GroupType(0, 0, True)
        topics, regexes = dict(group.topics.items()), dict(group.regex_members.items())
        return GroupType(*group.epoch()[::2][:2], is_homogeneous(regexes, topics, len(group.members)))

    def advance(self, ms: int) -> None:
        before = self.count()
        super().advance(ms)
        self.note({"operation": "advance", "ms": ms}, before)

    def record(self, record: CoordinatorRecord) -> None:
        """A record that was in the log before."""
        key = encode_coordinator_key(record.key)
        value = None if record.value is None else encode_coordinator_value(record.value, record.version)
        before = self.count()
        self.write(lambda state: Result(records=[record]), None)
        assert self.count() == before + 1
        self.note(
            {"operation": "record", "key": key.hex(), "value": None if value is None else value.hex()}, self.count()
        )

    def forget_last(self) -> None:
        """Kafka is not asked about the last operation."""
        while self.operations.pop()["operation"] == "advance":
            self.outcomes.pop()
        self.outcomes.pop()

    def set_topics(self, topics: Mapping[str, int], *, removed: Iterable[str] = (), brokers: bool = False) -> None:
        """Topics are created, grown or removed; at first the brokers come, too."""
        delta = MetadataDelta(self.image)
        operation: dict[str, Any] = {"operation": "topics", "topics": [], "removed": list(removed), "brokers": []}
        if brokers:
            for broker_id, rack in RACKS.items():
                delta.replay(RegisterBrokerRecord(broker_id=broker_id, rack=rack))
                operation["brokers"].append({"id": broker_id, "rack": rack})
        for name in operation["removed"]:
            delta.replay(RemoveTopicRecord(topic_id=topic_id(name)))
        for name, count in topics.items():
            present = self.image.topics_by_name.get(name)
            if present is None:
                delta.replay(TopicRecord(name=name, topic_id=topic_id(name)))
            for index in range(0 if present is None else len(present.partitions), count):
                delta.replay(
                    PartitionRecord(
                        topic_id=topic_id(name), partition_id=index, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1
                    )
                )
            operation["topics"].append({"name": name, "id": topic_id(name).int, "count": count})
        self.image = delta.apply(self.image.offset + 1, 1, 0)
        operation["offset"] = self.image.offset
        self.machine.image_changed(self.image, delta, self.now_ms)
        self.note(operation, self.count())

    def scenario(self, **config: str) -> dict[str, Any]:
        """What `group_peer` is asked."""
        return {"now": self.started_ms, "config": config, "operations": self.operations}


def records_of(batch: bytes) -> list[str]:
    """The records of a batch."""
    return [record_of(bytes(each.key or b""), each.value) for each in records(batch, read_header(batch), 0)]


def record_of(key: bytes, value: Buffer | None) -> str:
    """A record, to be compared."""
    decoded = decode_coordinator_key("group", key)
    told = None if value is None else decode_coordinator_value("group", decoded.KEY, value)[0]
    return repr((plain(decoded), plain(told)))


def outcome_of(operation: dict[str, Any], answer: dict[str, Any]) -> Outcome:
    """What Kafka answered, in the form of ours."""
    response = None
    if "response" in answer:
        cls = RESPONSES[operation["operation"]]
        response, _ = codec.decode(cls, operation["version"], bytes.fromhex(answer["response"]), 0)
    written = [
        record_of(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
        for key, value in answer["records"]
    ]
    if isinstance(response, SyncGroupResponse) and response.error_code:
        return Outcome(response.error_code, None, None, sorted(written))  # ours is raised
    message = None if operation["operation"] in WITHOUT_MESSAGE else answer.get("message")
    return Outcome(answer.get("code", 0), message, plain(response), sorted(written))


WITHOUT_MESSAGE = ("heartbeat",)
"""Answers that have no field for what an exception says."""
IGNORED = ("heartbeat_interval_ms", "throttle_time_ms", "leader", "log_append_time")
"""When to come again is ours; who leads a group that became classic is chance."""


def plain(value: Any) -> Any:
    """A message as dicts and lists; sets are sorted."""
    if isinstance(value, Message | Struct):
        fields = {name: getattr(value, name) for name in value.__slots__ if name not in IGNORED}
        if fields.get("assignment_epochs"):
            pairs = sorted(zip(fields["partitions"], fields["assignment_epochs"], strict=True))
            fields["partitions"], fields["assignment_epochs"] = [each[0] for each in pairs], [each[1] for each in pairs]
        if isinstance(fields.get("assignment"), bytes) and fields["assignment"]:
            fields["assignment"] = decode_assignment(fields["assignment"])
        return {type(value).__name__: {name: plain(each) for name, each in fields.items()}}
    if isinstance(value, list):
        plains = [plain(each) for each in value]
        return plains if all(isinstance(each, int) and not plains for each in plains) else sorted(plains, key=repr)
    if isinstance(value, UUID):
        return value.hex
    return value
