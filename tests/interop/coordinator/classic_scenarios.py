"""What clients of a classic group may do, drawn at random, and the same done to our coordinator.

The operations are those of `classic_peer`. Member ids are random on both sides, so they are compared by name: the
second id that client 3 was told is `3#2`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Container, Mapping
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from unit.coordinator.world import Answer, World, subscription

from penstock.coordinator.group import maintenance
from penstock.coordinator.group.classic.describe import describe_groups
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic_requests import heartbeat, join_group, leave_group, sync_group
from penstock.coordinator.group.context import Context
from penstock.coordinator.group.offsets.commit import commit_offsets
from penstock.coordinator.group.offsets.delete import delete_offsets
from penstock.coordinator.group.offsets.fetch import fetch_offsets
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import Result
from penstock.protocol import codec
from penstock.protocol.message import Message, Struct
from penstock.protocol.messages.delete_groups_response import DeleteGroupsResponse
from penstock.protocol.messages.describe_groups_response import DescribeGroupsResponse
from penstock.protocol.messages.group.group_metadata_key import GroupMetadataKey
from penstock.protocol.messages.group.group_metadata_value import GroupMetadataValue
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.leave_group_response import LeaveGroupResponse
from penstock.protocol.messages.list_groups_response import ListGroupsResponse
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
from penstock.protocol.messages.offset_fetch_response import OffsetFetchResponse
from penstock.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.messages.sync_group_response import SyncGroupResponse
from penstock.protocol.record_frames import decode_coordinator_key, decode_coordinator_value

R = TypeVar("R", bound=Message)
Operation = dict[str, Any]
Written = tuple[Message, Message | None, int]

RESPONSES: Mapping[str, type[Message]] = {
    "join": JoinGroupResponse,
    "sync": SyncGroupResponse,
    "heartbeat": HeartbeatResponse,
    "leave": LeaveGroupResponse,
    "commit": OffsetCommitResponse,
    "fetch": OffsetFetchResponse,
    "delete offsets": OffsetDeleteResponse,
    "delete groups": DeleteGroupsResponse,
    "describe": DescribeGroupsResponse,
    "list": ListGroupsResponse,
}
DYNAMIC = range(4)
STATIC = {"4": "s", "5": "t", "6": "s"}
"""Clients that are static members: the last one wants the place of the first."""
PROTOCOLS = (("a", "b", "c"), ("a", "b", "c"), ("b", "c"), ("a", "c"), ("c",))
"""In one order, so that there is no tie in the vote, which Kafka decides by chance."""
DAY_MS = 24 * 60 * 60 * 1_000
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


# What may be done


class Draw:
    """Draws the operations of one scenario."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rebalance_ms = random.choice((6_000, 20_000))  # one for all: of two deaths at once, the order is chance

    def scenario(self, length: int) -> list[Operation]:
        """A group that exists, and what happens to it."""
        made = self.join("0", version=3, member="")
        made["request"].update(protocolType="consumer", protocols=[{"name": "c", "metadata": b64(b"")}])
        operations = [self.random.choice((made, self.commit("", -1)))]
        while len(operations) < length:
            operations += self.some()
            operations.append({"kind": "advance", "ms": self.random.randint(1, 40)})
        return operations

    def some(self) -> list[Operation]:
        """An operation, or some that belong together."""
        client = str(self.random.randrange(7))
        draws: dict[Callable[[], list[Operation]], float] = {
            lambda: [self.join(client)]: 30,
            lambda: [self.sync(client)]: 25,
            lambda: [self.heartbeat(client)]: 10,
            lambda: [self.leave(client)]: 4,
            lambda: [self.commit(f"$id{client}", client)]: 8,
            lambda: [self.commit("", -1)]: 2,
            lambda: [self.fetch()]: 4,
            lambda: [self.delete_offsets()]: 1.5,
            lambda: [self.delete_group(), self.commit("", -1)]: 0.5,
            lambda: [self.look()]: 4,
            lambda: [{"kind": "advance", "ms": self.random.choice((700, 3_100, 5_300, 9_700, 20_900))}]: 12,
            lambda: [{"kind": "advance", "ms": self.random.choice((600_011, 8 * DAY_MS))}, self.commit("", -1)]: 0.3,
            lambda: [{"kind": "fail over"}]: 0.7,
        }
        return self.random.choices(list(draws), list(draws.values()))[0]()

    def few(self, share: float) -> bool:
        return self.random.random() < share

    def request(self, kind: str, client: str, version: int, request: dict[str, Any]) -> Operation:
        return {"kind": kind, "client": client, "version": version, "request": request}

    def generation(self, client: str) -> str:
        return f"$gen{client}+{1 if self.few(0.05) else 0}"

    def join(self, client: str, *, version: int | None = None, member: str | None = None) -> Operation:
        instance = STATIC.get(client)
        if version is None:
            version = self.random.choice((5, 7, 9) if instance else (3, 4, 5, 9))
        if member is None:
            member = "" if self.few(0.1) else "nobody" if self.few(0.03) else f"$id{client}"
        protocols = [] if self.few(0.02) else self.random.choice(PROTOCOLS)
        metadata = b64(subscription(self.random.choice((["t"], ["t"], ["t", "u"]))) if not self.few(0.03) else b"\0")
        request: dict[str, Any] = {
            "groupId": "g",
            "sessionTimeoutMs": self.random.choice((10_000, 10_000, 30_000)),
            "rebalanceTimeoutMs": self.rebalance_ms,
            "memberId": member,
            "protocolType": "connect" if self.few(0.02) else "consumer",
            "protocols": [{"name": name, "metadata": metadata} for name in protocols],
        }
        if version >= 5:
            request["groupInstanceId"] = instance
        if version >= 8:
            request["reason"] = None
        return self.request("join", client, version, request)

    def sync(self, client: str) -> Operation:
        version = self.random.choice((3, 5))
        request: dict[str, Any] = {
            "groupId": "g",
            "generationId": self.generation(client),
            "memberId": f"$id{client}",
            "groupInstanceId": STATIC.get(client),
            "assignments": f"$members{client}",
        }
        if version >= 5:
            request["protocolType"] = None if not self.few(0.1) else self.random.choice(("consumer", "connect"))
            request["protocolName"] = None if not self.few(0.1) else self.random.choice("abc")
        return self.request("sync", client, version, request)

    def heartbeat(self, client: str) -> Operation:
        request = {
            "groupId": "g",
            "generationId": self.generation(client),
            "memberId": f"$id{client}",
            "groupInstanceId": STATIC.get(client),
        }
        return self.request("heartbeat", client, 4, request)

    def leave(self, client: str) -> Operation:
        members = []
        for each in {client: None, str(self.random.randrange(7)): None} if self.few(0.3) else {client: None}:
            member_id = "" if each in STATIC and self.few(0.5) else f"$id{each}"
            members.append({"memberId": member_id, "groupInstanceId": STATIC.get(each), "reason": None})
        return self.request("leave", client, 5, {"groupId": "g", "members": members})

    def commit(self, member: str, client: str | int) -> Operation:
        version = self.random.choice((2, 4, 5, 8, 9, 10))
        partitions = []
        for index in range(self.random.randint(1, 2)):
            partition: dict[str, Any] = {
                "partitionIndex": index,
                "committedOffset": self.random.randrange(1_000),
                "committedMetadata": self.random.choice((None, "", "x" * 20, "x" * (21 if member else 3))),
            }
            if version >= 6:
                partition["committedLeaderEpoch"] = self.random.choice((-1, 3))
            partitions.append(partition)
        request: dict[str, Any] = {"groupId": "g", "memberId": member}
        request["generationIdOrMemberEpoch"] = -1 if client == -1 else self.generation(str(client))
        if version >= 7:
            request["groupInstanceId"] = STATIC.get(str(client))
        if version <= 4:
            request["retentionTimeMs"] = self.random.choice((-1, -1, 600_000))
        name = {"name": self.random.choice("tuv")} if version < 10 else {"topicId": NO_TOPIC_ID}
        request["topics"] = [{**name, "partitions": partitions}]
        return self.request("commit", str(client), version, request)

    def fetch(self) -> Operation:
        topics: Any = None
        if self.few(0.6):
            topics = [{"name": name, "partitionIndexes": [0, 1, 2]} for name in self.random.sample("tuvw", 2)]
        request = {"groups": [{"groupId": "g", "memberId": None, "memberEpoch": -1, "topics": topics}]}
        return self.request("fetch", "0", 9, {**request, "requireStable": True})

    def delete_offsets(self) -> Operation:
        partitions = [{"partitionIndex": 0}, {"partitionIndex": 5}]
        topics = [{"name": name, "partitions": partitions} for name in self.random.sample("tuv", 2)]
        return self.request("delete offsets", "0", 0, {"groupId": "g", "topics": topics})

    def delete_group(self) -> Operation:
        return self.request("delete groups", "0", 2, {"groupsNames": ["g", "none"]})

    def look(self) -> Operation:
        if self.few(0.6):
            version = self.random.choice((5, 6))
            request: dict[str, Any] = {"groups": ["g", "none"], "includeAuthorizedOperations": False}
            return self.request("describe", "0", version, request)
        states = self.random.choice(([], ["Stable"], ["empty", "PREPARINGrebalance"], ["no state"]))
        types = self.random.choice(([], ["Classic"], ["consumer"]))
        return self.request("list", "0", 5, {"statesFilter": states, "typesFilter": types})


def b64(data: bytes) -> str:
    """Bytes in the JSON of Kafka's messages."""
    return base64.b64encode(data).decode()


# The same with our coordinator


class Ours:
    """Does the operations of a scenario to a World, as `classic_peer` does them to Kafka."""

    def __init__(self, **config: Any) -> None:
        self.world = World(offset_metadata_max_bytes=20, **config)
        self.started_ms = self.world.now_ms
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.joined: dict[str, JoinGroupResponse] = {}
        self.rosters: dict[int, list[Any]] = {}
        self.waiting: list[tuple[int, Operation, Answer[Any]]] = []

    def do(self, number: int, operation: Operation, heard: Container[int]) -> tuple[list[Written], dict[int, Any]]:
        """The records that were written and the answers that left, by the number of the operation: code or response.

        Clients hear of those alone that Kafka has given, too.
        """
        before = len(self.world.log.batches)
        match operation["kind"]:
            case "advance":
                self.world.advance(operation["ms"])
            case "fail over":
                self.world.fail_over()
            case _:
                self.waiting.append((number, operation, self.ask(operation)))
        left: dict[int, Any] = {}
        for to, asked, answer in [each for each in self.waiting if each[2].done]:
            heeded = answer.response is not None and to in heard
            left[to] = self.heard(asked, answer.response) if heeded else answer.code
        self.waiting = [each for each in self.waiting if not each[2].done]
        kept, self.world.log.batches[:] = self.world.log.batches[:before], self.world.log.batches[before:]
        written = self.world.written()
        self.world.log.batches[:0] = kept
        return written, left

    def heard(self, asked: Operation, response: Any) -> Any:
        """What a client keeps of an answer."""
        version, client = asked["version"], asked["client"]
        if isinstance(response, JoinGroupResponse):
            if response.member_id:
                self.ids[client] = response.member_id
            if not response.error_code:
                self.generations[client] = response.generation_id
                if response.members:
                    self.rosters[response.generation_id] = response.members
                response = as_sent(response, version)
                self.joined[client] = response
                return response
        return as_sent(response, version)

    def lead(self, member_id: str, left: dict[int, Any], versions: list[int]) -> None:
        """Who leads is chance when a leader has gone: here it is whom Kafka has chosen."""
        group = self.world.state.groups.find("g")
        if isinstance(group, ClassicGroup) and member_id in group.members:
            group.leader_id = member_id
        told = {number: each for number, each in left.items() if isinstance(each, JoinGroupResponse)}
        for number, joined in told.items():
            if not joined.error_code and not joined.skip_assignment and joined.leader != member_id:
                joined.leader = member_id
                leads = joined.member_id == member_id
                joined.members = self.rosters[joined.generation_id] if leads else []
                told[number].members = as_sent(joined, versions[number]).members

    def ask(self, operation: Operation) -> Answer[Any]:
        version, request = operation["version"], self.resolve(operation["request"])
        context = Context(version, "c", "/127.0.0.1")
        answer: Answer[Any] = Answer(version)
        now_ms = self.world.now_ms

        def run(state: GroupState) -> Result[Any]:
            match operation["kind"]:
                case "join":
                    return join_group(state, context, join_of(request), answer.reply, now_ms)
                case "sync":
                    return sync_group(state, sync_of(request), answer.reply, now_ms)
                case "heartbeat":
                    return heartbeat(state, HeartbeatRequest(**snake(request)), now_ms)
                case "leave":
                    members = [MemberIdentity(**snake(each)) for each in request["members"]]
                    return leave_group(state, context, LeaveGroupRequest(group_id="g", members=members), now_ms)
                case "commit":
                    return commit_offsets(state, context, commit_of(request), now_ms)
                case "fetch":
                    return Result(fetched(state, request))
                case "delete offsets":
                    return delete_offsets(state, deletion_of(request), now_ms)
                case "delete groups":
                    deleted = maintenance.delete_groups(state, request["groupsNames"], now_ms)
                    return Result(DeleteGroupsResponse(results=deleted.response or []), deleted.records)
            return Result(looked(state, self.world.shard.committed_offset, operation["kind"], request, version))

        return self.world.write(run, answer)

    def resolve(self, node: Any) -> Any:
        """Puts in what stands for ids, generations and assignments."""
        if isinstance(node, dict):
            return {name: self.resolve(value) for name, value in node.items()}
        if isinstance(node, list):
            return [self.resolve(each) for each in node]
        if not isinstance(node, str) or not node.startswith("$"):
            return node
        if node.startswith("$id"):
            return self.ids.get(node[3:], "")
        if node.startswith("$gen"):
            client, more = node[4:].split("+")
            return self.generations.get(client, -1) + int(more)
        joined = self.joined.get(node.removeprefix("$members"))
        return [(each.member_id, each.metadata) for each in joined.members] if joined is not None else []


def as_sent(response: R, version: int) -> R:
    """A response as its receiver reads it."""
    return codec.decode(type(response), version, codec.encode_bytes(response, version), 0)[0]


def snake(fields: dict[str, Any]) -> dict[str, Any]:
    """Names of fields as our messages have them."""
    return {"".join("_" + each.lower() if each.isupper() else each for each in name): fields[name] for name in fields}


def join_of(request: dict[str, Any]) -> JoinGroupRequest:
    offered = [
        JoinGroupRequestProtocol(name=each["name"], metadata=base64.b64decode(each["metadata"]))
        for each in request["protocols"]
    ]
    return JoinGroupRequest(**{**snake(request), "protocols": offered})


def sync_of(request: dict[str, Any]) -> SyncGroupRequest:
    assignments = [SyncGroupRequestAssignment(member_id=each, assignment=data) for each, data in request["assignments"]]
    return SyncGroupRequest(**{**snake(request), "assignments": assignments})


def commit_of(request: dict[str, Any]) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            name=topic.get("name", ""),
            topic_id=UUID(int=0),
            partitions=[OffsetCommitRequestPartition(**snake(each)) for each in topic["partitions"]],
        )
        for topic in request["topics"]
    ]
    return OffsetCommitRequest(**{**snake(request), "topics": topics})


def deletion_of(request: dict[str, Any]) -> OffsetDeleteRequest:
    topics = [
        OffsetDeleteRequestTopic(
            name=topic["name"], partitions=[OffsetDeleteRequestPartition(**snake(each)) for each in topic["partitions"]]
        )
        for topic in request["topics"]
    ]
    return OffsetDeleteRequest(group_id="g", topics=topics)


def fetched(state: GroupState, request: dict[str, Any]) -> OffsetFetchResponse:
    (asked,) = request["groups"]
    topics = asked["topics"] and [OffsetFetchRequestTopics(**snake(each)) for each in asked["topics"]]
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    return OffsetFetchResponse(groups=[fetch_offsets(state, group, None, require_stable=True)])


def looked(state: GroupState, at: int, kind: str, request: dict[str, Any], version: int) -> Message:
    if kind == "describe":
        return DescribeGroupsResponse(groups=describe_groups(state, at, request["groups"], api_version=version))
    return ListGroupsResponse(
        groups=maintenance.list_some(state.groups.all(at=at), at, request["statesFilter"], request["typesFilter"])
    )


# To compare


class Names:
    """The names of member ids of one side."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def learn(self, operations: list[Operation], left: dict[int, Any]) -> None:
        """Clients have been told ids."""
        for number, response in sorted(left.items(), key=lambda each: each[0]):
            if isinstance(response, JoinGroupResponse) and response.member_id and response.member_id != "nobody":
                client = operations[number]["client"]
                if response.member_id not in self._names:
                    self._counts[client] = self._counts.get(client, 0) + 1
                    self._names[response.member_id] = f"{client}#{self._counts[client]}"

    def id_of(self, name: str) -> str | None:
        return next((each for each, known in self._names.items() if known == name), None)

    def name_of(self, member_id: str) -> str | None:
        return self._names.get(member_id)

    def plain(self, value: Any) -> Any:
        """A message as dicts and lists, with names for ids; the order of lists does not count."""
        if isinstance(value, Message | Struct):
            return {name: self.plain(getattr(value, name)) for name in value.__slots__}
        if isinstance(value, list):
            return sorted((self.plain(each) for each in value), key=repr)
        if isinstance(value, str):
            return self._names.get(value, "?" if len(value) >= 36 and value[-13] == "-" else value)
        return value

    def record(self, key: Message, value: Message | None, version: int) -> str | None:
        """A record; None for that of a group without members that is new: we write it later than Kafka."""
        if isinstance(key, GroupMetadataKey) and isinstance(value, GroupMetadataValue):
            if not value.protocol_type and not value.generation:
                return None
            assert not value.members or value.leader is not None
        return repr((type(key).__name__, self.plain(key), self.plain(value), version))


def record_of_kafka(key: str, value: str | None) -> tuple[Message, Message | None, int]:
    """A record as the peer tells it."""
    decoded = decode_coordinator_key("group", bytes.fromhex(key))
    if value is None:
        return decoded, None, -1
    return (decoded, *decode_coordinator_value("group", decoded.KEY, bytes.fromhex(value)))


def answers_left(operations: list[Operation], answers: list[dict[str, Any]]) -> dict[int, Any]:
    """The answers that the peer tells of, by operation: code or response."""
    left: dict[int, Any] = {}
    for each in answers:
        asked = operations[each["to"]]
        if "code" in each:
            left[each["to"]] = each["code"]
        else:
            data = bytes.fromhex(each["response"])
            left[each["to"]] = codec.decode(RESPONSES[asked["kind"]], asked["version"], data, 0)[0]
    return left
