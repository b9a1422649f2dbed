"""Bad requests of the group APIs, to groups that are there: `stable` (classic), `reading` (KIP-848), `offsets` (empty).

`prepare_groups` makes them on a broker; what the broker calls the member of `stable` is kept in `MEMBERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from interop.bad_input.case import MISSING, MISSING_ID, Case, of
from interop.clients.valid_requests import World
from interop.clients.wire import Wire

from penstock.errors import ErrorCode
from penstock.protocol import codec
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.delete_groups_request import DeleteGroupsRequest
from penstock.protocol.messages.describe_groups_request import DescribeGroupsRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.list_groups_request import ListGroupsRequest
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

STABLE, READING, OFFSETS, NOWHERE = "stable", "reading", "offsets", "nowhere"
INSTANCE = "the-one"
READER = "AAAAAAAAAAAAAAAAAAAAAQ"
SESSION_MS = 1_800_000
"""As long as the corpus may take."""
MEMBERS: dict[UUID, str] = {}
"""The member id of the only member of `stable`, a static one, by the id of the broker's topic."""


def subscription(*topics: str) -> bytes:
    return b"\0\1" + codec.encode_bytes(ConsumerProtocolSubscription(topics=list(topics)), 1)


def until_there_is_a_coordinator(wire: Wire, ask: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
    """Asks until the coordinator is there and has loaded."""
    wait = (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    while code_of(answer := ask()) in wait:
        pass
    assert code_of(answer) == ErrorCode.NONE, answer
    return answer


def prepare_groups(wire: Wire, world: World) -> None:
    """The groups that the cases speak of."""
    for group in (STABLE, READING, OFFSETS):
        until_there_is_a_coordinator(
            wire,
            lambda group=group: wire.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4),  # type: ignore[misc]
            lambda answer: int(answer.coordinators[0].error_code),
        )
    joined = until_there_is_a_coordinator(
        wire,
        lambda: wire.ask(join(world, 9, group_id=STABLE, member_id="", group_instance_id=INSTANCE), 9),
        lambda answer: int(answer.error_code),
    )
    MEMBERS[world.topic_id] = joined.member_id
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    synced = wire.ask(sync(world, 5, assignments=[assignment]), 5)
    assert synced.assignment == b"all"
    until_there_is_a_coordinator(
        wire,
        lambda: wire.ask(reader(world, 1, member_epoch=0, topic_partitions=[]), 1),
        lambda answer: int(answer.error_code),
    )
    until_there_is_a_coordinator(
        wire,
        lambda: wire.ask(commit(world, 9, group_id=OFFSETS, member_id="", generation_id_or_member_epoch=-1), 9),
        lambda answer: int(answer.topics[0].partitions[0].error_code),
    )


def group_cases() -> Iterator[Case]:
    """All of them; those of consumer groups first, before the session of their member ends."""
    for family in (
        consumer_heartbeat_cases,
        commit_to_consumers_cases,
        join_cases,
        sync_cases,
        heartbeat_cases,
        leave_cases,
        commit_cases,
        fetch_cases,
        delete_cases,
        look_cases,
        find_cases,
    ):
        yield from family()


def several(key: ApiKey, make: Callable[..., Message], cases: Mapping[str, Mapping[str, Any]]) -> Iterator[Case]:
    """Cases that each change some fields of a request that is right; in the versions that have these fields."""
    for name, changes in cases.items():
        fields = {field: value for field, value in changes.items() if field != "versions"}
        versions = changes.get("versions")
        yield of(key, versions)(name, lambda world, version, f=fields: make(world, version, **f))  # type: ignore[misc]


# Classic members


def member_of(world: World, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with the member of `stable` where none is given."""
    return {"group_id": STABLE, "member_id": MEMBERS.get(world.topic_id, ""), **fields}


def join(world: World, version: int, **fields: Any) -> Message:
    values: dict[str, Any] = {
        "session_timeout_ms": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription(world.topic))],
    }
    if version >= 1:
        values["rebalance_timeout_ms"] = 10_000
    return JoinGroupRequest(**member_of(world, {**values, **fields}))


def join_cases() -> Iterator[Case]:
    """In Kafka a group stays behind when its first member is refused: those cases have a group of their own."""

    def protocols(*names: str) -> list[JoinGroupRequestProtocol]:
        return [JoinGroupRequestProtocol(name=name, metadata=subscription("corpus")) for name in names]

    stranger = {"group_id": NOWHERE, "member_id": "nobody"}
    yield from several(
        ApiKey.JOIN_GROUP,
        join,
        {
            "group id is empty": {"group_id": "", "member_id": ""},
            "session timeout too short": {"session_timeout_ms": 1},
            "session timeout too long": {"session_timeout_ms": 2**31 - 1},
            "session timeout negative": {"session_timeout_ms": -1},
            "unknown member": {"member_id": "nobody"},
            "unknown member of an unknown group": stranger,
            "no protocols": {"protocols": [], "member_id": "", "versions": range(5, 10)},
            "no protocols for a new group": {"group_id": "new", "member_id": "", "protocols": []},
            "protocol type is empty": {"group_id": "new", "member_id": "", "protocol_type": ""},
            "another protocol type": {"member_id": "", "protocol_type": "connect"},
            "protocols that nobody else has": {
                "member_id": "",
                "protocols": protocols("mine"),
                "versions": range(4, 10),
            },
            "fenced instance": {
                "member_id": "somebody-else",
                "group_instance_id": INSTANCE,
                "versions": range(5, 10),
            },
            "unknown instance of an unknown member": {
                "member_id": "nobody",
                "group_instance_id": "unheard-of",
                "versions": range(5, 10),
            },
            "classic member of a consumer group that is unknown": {"group_id": READING, "member_id": "nobody"},
            "garbage as the subscription of a consumer group": {
                "group_id": READING,
                "member_id": "",
                "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"\xff\xff\xff")],
                "group_instance_id": "garbage",
                "versions": range(5, 10),
            },
        },
    )


def sync(world: World, version: int, **fields: Any) -> Message:
    values: dict[str, Any] = {"generation_id": 1}
    if version >= 5:
        values |= {"protocol_type": "consumer", "protocol_name": "range"}
    return SyncGroupRequest(**member_of(world, {**values, **fields}))


STRANGERS: dict[str, dict[str, Any]] = {
    "group id is empty": {"group_id": ""},
    "unknown group": {"group_id": NOWHERE},
    "a group id as long as can be": {"group_id": "g" * 32_000},
    "unknown member": {"member_id": "nobody"},
    "member id is empty": {"member_id": ""},
    "a group that has no members": {"group_id": OFFSETS},
}
"""Who is not a member."""
GENERATIONS = {
    "an old generation": {"generation_id": 0},
    "a generation that is not there yet": {"generation_id": 2},
    "generation -1": {"generation_id": -1},
    "a classic member of a consumer group": {"group_id": READING, "member_id": READER},
}


def sync_cases() -> Iterator[Case]:
    yield from several(
        ApiKey.SYNC_GROUP,
        sync,
        {
            **STRANGERS,
            **GENERATIONS,
            "fenced instance": {"member_id": "nobody", "group_instance_id": INSTANCE, "versions": range(3, 6)},
            "unknown instance": {"group_instance_id": "unheard-of", "versions": range(3, 6)},
            "another protocol type": {"protocol_type": "connect", "versions": (5,)},
            "another protocol": {"protocol_name": "sticky", "versions": (5,)},
            "no protocol": {"protocol_name": None, "protocol_type": None, "versions": (5,)},
        },
    )


def heartbeat(world: World, version: int, **fields: Any) -> Message:
    return HeartbeatRequest(**member_of(world, {"generation_id": 1, **fields}))


def heartbeat_cases() -> Iterator[Case]:
    yield from several(
        ApiKey.HEARTBEAT,
        heartbeat,
        {
            **STRANGERS,
            **GENERATIONS,
            "fenced instance": {"member_id": "nobody", "group_instance_id": INSTANCE, "versions": (3, 4)},
            "unknown instance": {"group_instance_id": "unheard-of", "versions": (3, 4)},
        },
    )


def leave(world: World, version: int, *identities: tuple[str, str | None], group_id: str = STABLE) -> Message:
    if version < 3:
        return LeaveGroupRequest(group_id=group_id, member_id=identities[0][0] if identities else "")
    members = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in identities]
    return LeaveGroupRequest(group_id=group_id, members=members)


def leave_cases() -> Iterator[Case]:
    every, later = of(ApiKey.LEAVE_GROUP), of(ApiKey.LEAVE_GROUP, range(3, 6))
    nobody = ("nobody", None)
    for name, group in {"group id is empty": "", "unknown group": NOWHERE, "a consumer group": READING}.items():
        yield every(name, lambda world, version, g=group: leave(world, version, nobody, group_id=g))  # type: ignore[misc]
    yield every("unknown member", lambda world, version: leave(world, version, nobody))
    yield later("nobody at all", leave)
    yield later("unknown members twice", lambda world, version: leave(world, version, nobody, nobody))
    yield later("fenced instance", lambda world, version: leave(world, version, ("nobody", INSTANCE)))
    yield later("unknown instance", lambda world, version: leave(world, version, ("", "unheard-of")))


# Offsets


def commit(world: World, version: int, **fields: Any) -> Message:
    """Of partition 0 by the member of `stable`; `partition`: fields of it, `topic`: (name, id), `times`: how often."""
    partition = {"partition_index": 0, "committed_offset": 1, **fields.pop("partition", {})}
    name, topic_id = fields.pop("topic", (world.topic, world.topic_id))
    times = fields.pop("times", 1)
    by_id: dict[str, Any] = {"topic_id": topic_id} if version >= 10 else {"name": name}
    partitions = [OffsetCommitRequestPartition(**partition) for _ in range(times)]
    values = {"generation_id_or_member_epoch": 1, "topics": [OffsetCommitRequestTopic(**by_id, partitions=partitions)]}
    return OffsetCommitRequest(**member_of(world, {**values, **fields}))


def commit_cases() -> Iterator[Case]:
    generations = {
        name: {"generation_id_or_member_epoch": fields["generation_id"]}
        for name, fields in GENERATIONS.items()
        if "generation_id" in fields
    }
    yield from several(
        ApiKey.OFFSET_COMMIT,
        commit,
        {
            **STRANGERS,
            **generations,
            "nobody to a group with members": {"member_id": "", "generation_id_or_member_epoch": -1},
            "fenced instance": {"member_id": "nobody", "group_instance_id": INSTANCE, "versions": range(7, 11)},
            "unknown instance": {"group_instance_id": "unheard-of", "versions": range(7, 11)},
            "text too long": {"partition": {"committed_metadata": "x" * 4097}},
            "text too long in two of its units": {"partition": {"committed_metadata": "\U0001f600" * 2049}},
            "text as long as allowed": {"partition": {"committed_metadata": "x" * 4096}},
            "no text": {"partition": {"committed_metadata": None}},
            "negative offset": {"partition": {"committed_offset": -5}},
            "largest offset": {"partition": {"committed_offset": 2**63 - 1}},
            "unknown partition": {"partition": {"partition_index": 99}},
            "negative partition": {"partition": {"partition_index": -1}},
            "unknown topic": {"topic": (MISSING, MISSING_ID)},
            "zero topic id": {"topic": ("", UUID(int=0)), "versions": (10,)},
            "topic name is empty": {"topic": ("", MISSING_ID), "versions": range(2, 10)},
            "the same partition twice": {"times": 2},
            "no partitions": {"times": 0},
            "no topics": {"topics": []},
            "more than fits into a batch": {
                "group_id": OFFSETS,
                "member_id": "",
                "generation_id_or_member_epoch": -1,
                "partition": {"committed_metadata": "x" * 4096},
                "times": 300,
                "versions": (2, 8, 10),
            },
            "retention that has passed": {
                "group_id": "expiring",
                "member_id": "",
                "generation_id_or_member_epoch": -1,
                "retention_time_ms": 0,
                "versions": range(2, 5),
            },
        },
    )


def commit_to_consumers_cases() -> Iterator[Case]:
    reading = {"group_id": READING, "member_id": READER}
    yield from several(
        ApiKey.OFFSET_COMMIT,
        commit,
        {
            "unknown member of a consumer group": {**reading, "member_id": "nobody"},
            "an old epoch": {**reading, "generation_id_or_member_epoch": 0},
            "an epoch that is not there yet": {**reading, "generation_id_or_member_epoch": 99},
            "epoch -1 of a member": {**reading, "generation_id_or_member_epoch": -1},
            "nobody to a consumer group with members": {
                **reading,
                "member_id": "",
                "generation_id_or_member_epoch": -1,
            },
        },
    )


def fetch(world: World, version: int, **fields: Any) -> Message:
    """Of partition 0 of the topic, and fields of the group."""
    name, topic_id = fields.pop("topic", (world.topic, world.topic_id))
    stable = fields.pop("require_stable", False)
    partitions = fields.pop("partitions", [0])
    times = fields.pop("times", 1)
    if version < 8:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=partitions)]
        more = {"require_stable": stable} if version >= 7 else {}
        return OffsetFetchRequest(**{"group_id": OFFSETS, "topics": topics, **more, **fields})
    by_id: dict[str, Any] = {"topic_id": topic_id} if version >= 10 else {"name": name}
    values = {
        "group_id": OFFSETS,
        "topics": [OffsetFetchRequestTopics(**by_id, partition_indexes=partitions)],
        **fields,
    }
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(**values) for _ in range(times)], require_stable=stable)


def fetch_cases() -> Iterator[Case]:
    latest, batches = range(9, 11), range(8, 11)
    yield from several(
        ApiKey.OFFSET_FETCH,
        fetch,
        {
            "group id is empty": {"group_id": ""},
            "unknown group": {"group_id": NOWHERE},
            "unknown group, all topics": {"group_id": NOWHERE, "topics": None, "versions": range(2, 11)},
            "unknown topic": {"topic": (MISSING, MISSING_ID)},
            "zero topic id": {"topic": ("", UUID(int=0)), "versions": (10,)},
            "topic name is empty": {"topic": ("", MISSING_ID), "versions": range(1, 10)},
            "unknown and negative partitions": {"partitions": [99, -1]},
            "the same partition twice": {"partitions": [0, 0]},
            "no partitions": {"partitions": []},
            "no groups": {"times": 0, "versions": batches},
            "the same group twice": {"times": 2, "versions": batches},
            "unknown member": {"member_id": "nobody", "member_epoch": 1, "versions": latest},
            "unknown member of an unknown group": {
                "group_id": NOWHERE,
                "member_id": "nobody",
                "member_epoch": 1,
                "versions": latest,
            },
            "unknown member of a consumer group": {
                "group_id": READING,
                "member_id": "nobody",
                "member_epoch": 1,
                "versions": latest,
            },
            "an epoch that is not there yet": {
                "group_id": READING,
                "member_id": READER,
                "member_epoch": 99,
                "versions": latest,
            },
            "member epoch without a member": {"member_epoch": 7, "versions": latest},
            "stable offsets of an unknown group": {
                "group_id": NOWHERE,
                "require_stable": True,
                "versions": range(7, 11),
            },
        },
    )


def delete_offsets(world: World, version: int, **fields: Any) -> Message:
    index, name = fields.pop("partition", 0), fields.pop("topic", world.topic)
    wanted = [OffsetDeleteRequestPartition(partition_index=index)]
    values = {"group_id": OFFSETS, "topics": [OffsetDeleteRequestTopic(name=name, partitions=wanted)]}
    return OffsetDeleteRequest(**{**values, **fields})


def delete_cases() -> Iterator[Case]:
    yield from several(
        ApiKey.OFFSET_DELETE,
        delete_offsets,
        {
            "group id is empty": {"group_id": ""},
            "unknown group": {"group_id": NOWHERE},
            "a topic that a member reads": {"group_id": STABLE},
            "a topic that a consumer reads": {"group_id": READING},
            "unknown topic": {"topic": MISSING},
            "group id is empty, unknown topic": {"group_id": "", "topic": MISSING},
            "unknown group, unknown topic": {"group_id": NOWHERE, "topic": MISSING},
            "topic name is empty": {"topic": ""},
            "unknown partition": {"partition": 99},
            "negative partition": {"partition": -1},
            "no topics": {"topics": []},
        },
    )
    every = of(ApiKey.DELETE_GROUPS)
    for name, groups in {
        "group id is empty": [""],
        "unknown group": [NOWHERE],
        "a group with members": [STABLE],
        "no groups": [],
        "an unknown group twice": [NOWHERE, NOWHERE],
        "one that is there and one that is not": [STABLE, NOWHERE],
    }.items():
        yield every(name, lambda world, version, g=groups: DeleteGroupsRequest(groups_names=g))  # type: ignore[misc]


# Looking


def look_cases() -> Iterator[Case]:
    lists = of(ApiKey.LIST_GROUPS, (4, 5))
    for name, states in {"unknown state": ["Sleepy"], "state is empty": [""], "a state twice": ["Dead"] * 2}.items():
        yield lists(name, lambda world, version, s=states: ListGroupsRequest(states_filter=s))  # type: ignore[misc]
    for name, types in {"unknown type": ["sleepy"], "type is empty": [""]}.items():
        yield of(ApiKey.LIST_GROUPS, (5,))(
            name,
            lambda world, version, t=types: ListGroupsRequest(types_filter=t),  # type: ignore[misc]
        )
    for name, groups in {
        "group id is empty": [""],
        "unknown group": [NOWHERE],
        "a group of the other kind": [STABLE, READING],
        "no groups": [],
        "an unknown group twice": [NOWHERE, NOWHERE],
    }.items():
        yield of(ApiKey.DESCRIBE_GROUPS)(name, lambda world, version, g=groups: DescribeGroupsRequest(groups=g))  # type: ignore[misc]
        yield of(ApiKey.CONSUMER_GROUP_DESCRIBE)(
            name,
            lambda world, version, g=groups: ConsumerGroupDescribeRequest(group_ids=g),  # type: ignore[misc]
        )


def find_cases() -> Iterator[Case]:
    batches = of(ApiKey.FIND_COORDINATOR, range(4, 7))
    one = of(ApiKey.FIND_COORDINATOR, range(1, 4))
    for kind in (7, -1):
        yield batches(
            f"key type {kind}",
            lambda world, version, k=kind: FindCoordinatorRequest(key_type=k, coordinator_keys=["x"]),  # type: ignore[misc]
        )
        yield one(f"key type {kind}, one", lambda world, version, k=kind: FindCoordinatorRequest(key_type=k, key="x"))  # type: ignore[misc]
    yield batches("no keys", lambda world, version: FindCoordinatorRequest(coordinator_keys=[]))
    yield batches("an empty key", lambda world, version: FindCoordinatorRequest(coordinator_keys=[""]))
    yield batches("a key twice", lambda world, version: FindCoordinatorRequest(coordinator_keys=["x", "x"]))
    yield of(ApiKey.FIND_COORDINATOR, range(4))(
        "an empty key, one", lambda world, version: FindCoordinatorRequest(key="")
    )


# Consumer groups


def reader(world: World, version: int, **fields: Any) -> Message:
    values: dict[str, Any] = {
        "group_id": READING,
        "member_id": READER,
        "member_epoch": 1,
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": [world.topic],
    }
    return ConsumerGroupHeartbeatRequest(**{**values, **fields})


def consumer_heartbeat_cases() -> Iterator[Case]:
    new = {"group_id": NOWHERE, "member_epoch": 0, "topic_partitions": []}
    had = [TopicPartitions(topic_id=MISSING_ID, partitions=[0])]
    regex = {"subscribed_topic_names": None, "versions": (1,)}
    yield from several(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        reader,
        {
            "group id is empty": {**new, "group_id": ""},
            "group id of a space": {**new, "group_id": " "},
            "member id is empty": {**new, "member_id": "", "versions": (1,)},
            "member id is empty, of a member": {"member_id": ""},
            "no rebalance timeout": {**new, "rebalance_timeout_ms": -1},
            "no subscription": {**new, "subscribed_topic_names": None},
            "an empty subscription": {**new, "group_id": "idle", "subscribed_topic_names": []},
            "no partitions": {**new, "topic_partitions": None},
            "partitions before the first assignment": {**new, "topic_partitions": had},
            "rack id is empty": {**new, "rack_id": ""},
            "instance id is empty": {**new, "instance_id": ""},
            "unknown assignor": {**new, "server_assignor": "sleepy"},
            "assignor is empty": {**new, "server_assignor": ""},
            "unknown member": {"member_id": "nobody"},
            "unknown group": {"group_id": NOWHERE, "member_epoch": 1},
            "leaving an unknown group": {"group_id": NOWHERE, "member_epoch": -1},
            "leaving as nobody": {"member_id": "nobody", "member_epoch": -1},
            "leaving for a while without an instance": {"member_epoch": -2},
            "epoch -3": {"member_epoch": -3},
            "an epoch that is not there yet": {"member_epoch": 99},
            "unknown instance": {"instance_id": "unheard-of"},
            "partitions of an unknown topic": {"member_epoch": 99, "topic_partitions": had},
            "a regular expression that is none": {**new, **regex, "subscribed_topic_regex": "("},
            "a regular expression that looks behind": {**new, **regex, "subscribed_topic_regex": "(?<=a)b"},
            "a regular expression that refers back": {**new, **regex, "subscribed_topic_regex": r"(a)\1"},
        },
    )
    yield of(ApiKey.CONSUMER_GROUP_HEARTBEAT, (1,))(
        "a catastrophic regular expression",
        lambda world, version: reader(
            world,
            version,
            group_id="catastrophic",
            member_epoch=0,
            topic_partitions=[],
            subscribed_topic_names=None,
            subscribed_topic_regex="(a+)+$|(a|aa)+b|(.*a){25}",
        ),
    )
