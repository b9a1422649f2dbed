"""Wide requests to the controller: decided in steps, answered as if they were not, whatever happens in between."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from random import Random
from typing import Any
from uuid import UUID

import pytest
from support.broker import Client, Node

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.image import ConfigResource
from penstock.metadata.records import image_records
from penstock.metadata.result import Result
from penstock.node import decisions
from penstock.node.channel import serialized
from penstock.node.handlers import registry
from penstock.node.limits import CHANGES_PER_STEP, JOURNAL_LINES_MAX
from penstock.node.steps import Lazily
from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER
from penstock.protocol.message import Message
from penstock.protocol.messages import alter_configs_request as legacy
from penstock.protocol.messages import alter_partition_reassignments_request as reassignments
from penstock.protocol.messages import alter_partition_request as in_sync
from penstock.protocol.messages import assign_replicas_to_dirs_request as assigned
from penstock.protocol.messages import incremental_alter_configs_request as incremental
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.envelope_request import EnvelopeRequest
from penstock.security.authorizer import ANONYMOUS

TOPICS = 20
IDS: list[UUID] = []
UNCUT = 1_000_000_000
WIDE = 3 * CHANGES_PER_STEP


def ids() -> list[UUID]:
    """Of topics that are there, the same in every node of the seed, and of one that is not."""
    return [*IDS, UUID(int=77)]


def name_in(random: Random) -> str:
    """Names that exist, that do not, that collide and that cannot be."""
    return random.choice([f"t{random.randrange(2 * TOPICS)}", f"a.{random.randrange(4)}", "a_1", "no/name"])


def create_topics(random: Random) -> Message:
    topics = [
        CreatableTopic(
            name=name_in(random),
            num_partitions=random.choice([-1, 0, 1, 3]),
            replication_factor=random.choice([1, 1, 1, 2]),
            configs=[CreatableTopicConfig(name="retention.ms", value=random.choice(["1", "x", None]))][
                : random.randrange(2)
            ],
        )
        for _ in range(30)
    ]
    return CreateTopicsRequest(topics=topics, validate_only=random.random() < 0.3)


def create_partitions(random: Random) -> Message:
    topics = [
        CreatePartitionsTopic(name=name_in(random), count=random.randrange(6), assignments=None) for _ in range(30)
    ]
    return CreatePartitionsRequest(topics=topics, validate_only=random.random() < 0.3)


def delete_topics(random: Random) -> Message:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name_in(random)) for _ in range(15)])


def resource_in(random: Random) -> tuple[int, str]:
    kind = random.choice([ConfigResource.TOPIC, ConfigResource.TOPIC, ConfigResource.BROKER, ConfigResource.GROUP, 99])
    return kind, random.choice(["1", ""]) if kind == ConfigResource.BROKER else name_in(random)


def alter_configs(random: Random) -> Message:
    resources = []
    for _ in range(30):
        kind, name = resource_in(random)
        configs = [
            legacy.AlterableConfig(name=random.choice(["retention.ms", "segment.ms", "bad"]), value=random.choice("1x"))
            for _ in range(random.randrange(3))
        ]
        resources.append(legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs))
    return legacy.AlterConfigsRequest(resources=resources, validate_only=random.random() < 0.3)


def incremental_alter_configs(random: Random) -> Message:
    resources = []
    for _ in range(30):
        kind, name = resource_in(random)
        configs = [
            incremental.AlterableConfig(
                name=random.choice(["retention.ms", "cleanup.policy", "bad"]),
                config_operation=random.randrange(5),
                value=random.choice(["1", "compact", None]),
            )
            for _ in range(random.randrange(3))
        ]
        resources.append(incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs))
    return incremental.IncrementalAlterConfigsRequest(resources=resources, validate_only=random.random() < 0.3)


def elect_leaders(random: Random) -> Message:
    topics = [
        TopicPartitions(topic=name_in(random), partitions=[random.randrange(3) for _ in range(random.randrange(4))])
        for _ in range(20)
    ]
    return ElectLeadersRequest(
        topic_partitions=random.choice([topics, topics, None]), election_type=random.randrange(3)
    )


def alter_partition_reassignments(random: Random) -> Message:
    topics = [
        reassignments.ReassignableTopic(
            name=name_in(random),
            partitions=[
                reassignments.ReassignablePartition(
                    partition_index=random.randrange(3), replicas=random.choice([None, [1], [1, 1], [7], []])
                )
                for _ in range(random.randrange(4))
            ],
        )
        for _ in range(20)
    ]
    return reassignments.AlterPartitionReassignmentsRequest(topics=topics)


def alter_partition(random: Random) -> Message:
    topics = [
        in_sync.TopicData(
            topic_id=random.choice(ids()),
            partitions=[
                in_sync.PartitionData(
                    partition_index=random.randrange(3),
                    leader_epoch=random.randrange(2),
                    partition_epoch=random.randrange(2),
                    new_isr_with_epochs=[in_sync.BrokerState(broker_id=1)] * random.randrange(3),
                )
                for _ in range(random.randrange(4))
            ],
        )
        for _ in range(20)
    ]
    return in_sync.AlterPartitionRequest(broker_id=1, topics=topics)


def assign_replicas_to_dirs(random: Random) -> Message:
    directories = [
        assigned.DirectoryData(
            id=UUID(int=1_000 + random.randrange(3)),
            topics=[
                assigned.TopicData(
                    topic_id=random.choice(ids()),
                    partitions=[assigned.PartitionData(partition_index=random.randrange(3)) for _ in range(2)],
                )
                for _ in range(5)
            ],
        )
        for _ in range(5)
    ]
    return assigned.AssignReplicasToDirsRequest(broker_id=1, directories=directories)


MAKERS: list[tuple[Callable[[Random], Message], int]] = [
    (create_topics, 7),
    (create_partitions, 3),
    (delete_topics, 6),
    (alter_configs, 2),
    (incremental_alter_configs, 1),
    (elect_leaders, 2),
    (alter_partition_reassignments, 1),
    (alter_partition, 3),
    (assign_replicas_to_dirs, 0),
]


def populated() -> Node:
    node = Node(num_partitions=2)
    for number in range(TOPICS):
        node.create_topic(f"t{number}", partitions=2)
    IDS[:] = node.broker.image.topics_by_id
    return node


def outcomes(make: Callable[[Random], Message], version: int) -> Iterator[object]:
    """The answers to random requests, byte for byte, and what became of the metadata."""
    node, random = populated(), Random(7)
    client = node.connect("CONTROLLER" if make in (alter_partition, assign_replicas_to_dirs) else "PLAINTEXT")
    for _ in range(12):
        message: Any = make(random)
        if hasattr(message, "broker_epoch"):
            message.broker_epoch = node.broker.image.brokers[1].epoch
        client.send(message, version)
        yield client.answers.popleft()
    yield list(image_records(node.broker.image))


@pytest.mark.parametrize(("make", "version"), MAKERS)
def test_a_request_in_parts_is_answered_as_one_that_is_not_cut(
    make: Callable[[Random], Message], version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = []
    for size in (UNCUT, 1, 4):
        monkeypatch.setattr(decisions, "CHANGES_PER_STEP", size)
        monkeypatch.setattr("penstock.node.handlers.elect_leaders.CHANGES_PER_STEP", size)
        found = list(outcomes(make, version))
        whole = whole or found
        assert found == whole


def new(count: int, prefix: str = "n") -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=f"{prefix}{number}", num_partitions=1, replication_factor=1) for number in range(count)
    ]
    return CreateTopicsRequest(topics=topics)


def deletion(count: int) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=f"n{number}") for number in range(count)])


def retention(count: int, value: str = "5") -> incremental.IncrementalAlterConfigsRequest:
    resources = [
        incremental.AlterConfigsResource(
            resource_type=ConfigResource.TOPIC,
            resource_name=f"n{number}",
            configs=[incremental.AlterableConfig(name="retention.ms", value=value)],
        )
        for number in range(count)
    ]
    return incremental.IncrementalAlterConfigsRequest(resources=resources)


def more(count: int) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name=f"n{number}", count=2, assignments=None) for number in range(count)]
    return CreatePartitionsRequest(topics=topics)


def begin(node: Node, client: Client, message: Message, version: int) -> None:
    """Sends a request, and has the first steps of it done: those of one turn."""
    node.broker.received(client.number, memoryview(client.frame(message, version)), node.now_ms)
    node.run()


def until_some_are_made(node: Node) -> None:
    """Goes on with what was begun until the first part of it is decided."""
    while not node.broker.image.topics_by_name:
        node.broker.tick(node.now_ms)
        node.run()


def batches_of(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records the controller appends at a time, from now on."""
    controller, sizes = node.broker.controller, []
    append = controller.append

    def noted(records: Any, *args: Any, **options: Any) -> None:
        sizes.append(len(records))
        append(records, *args, **options)

    monkeypatch.setattr(controller, "append", noted)
    return sizes


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_step_decides_on_so_many_changes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    client, quiet = node.connect(), node.connect()
    for message, version in ((new(WIDE), 7), (more(WIDE), 3), (retention(WIDE), 1), (deletion(WIDE), 6)):
        sizes = batches_of(node, monkeypatch)
        begin(node, client, message, version)
        while not client.answers:
            quiet.node.broker.received(quiet.number, memoryview(quiet.frame(more(0), 3)), node.now_ms)
            node.run()
            node.broker.tick(node.now_ms)
            node.run()
            assert quiet.receive().results == []
        answer = client.receive()
        [answers] = [getattr(answer, name) for name in answer.__slots__ if isinstance(getattr(answer, name), list)]
        assert [each.error_code for each in answers] == [ErrorCode.NONE] * WIDE
        assert max(sizes) <= 2 * CHANGES_PER_STEP, "a topic is a record of its own beside its partitions"
        assert len(sizes) >= WIDE / CHANGES_PER_STEP


def test_a_topic_that_goes_in_between_is_unknown_by_then(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.broker.dispatcher.turns, "_clock_ms", steps_of_a_turn())
    client = node.connect()
    client.ask(new(WIDE), 7)
    begin(node, client, retention(WIDE), 1)
    assert not client.answers
    node.delete_topic(f"n{WIDE - 1}")
    node.settle()
    codes = [each.error_code for each in client.receive().responses]
    assert codes == [ErrorCode.NONE] * (WIDE - 1) + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("by", ["the client", "the node"])
def test_one_whose_connection_is_closed_ends_with_the_part_under_way(
    node: Node, by: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If the client closes it, all that it has sent is done."""
    monkeypatch.setattr(node.broker.dispatcher.turns, "_clock_ms", steps_of_a_turn())
    caplog.set_level(logging.INFO, "penstock")
    client = node.connect()
    begin(node, client, new(WIDE), 7)
    until_some_are_made(node)
    if by == "the client":
        node.disconnect(client)
    else:
        node.broker.dispatcher.close(node.broker.connections[client.number], "a test")
    node.settle()
    made = len(node.broker.image.topics_by_name)
    assert made == WIDE if by == "the client" else 0 < made < WIDE
    assert "topic created topic=n0 " in caplog.text, "what was done is told"
    assert len(node.connect().ask(new(WIDE, "m"), 7).topics) == WIDE


def test_the_log_has_so_many_lines_of_all_parts(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    node.connect().ask(new(WIDE), 7)
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("topic created") for line in lines) == JOURNAL_LINES_MAX
    assert sum(line.startswith("and more of the same request") for line in lines) == 1


@pytest.mark.parametrize("enveloped", [False, True])
def test_a_controller_that_resigns_in_between_is_the_controller_no_more(
    node: Node, enveloped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.broker.dispatcher.turns, "_clock_ms", steps_of_a_turn())
    client = node.connect("CONTROLLER" if enveloped else "PLAINTEXT")
    request: Message = new(WIDE)
    if enveloped:
        chunks: Any = frames.encode_request(API_BY_NUMBER[CreateTopicsRequest.KEY], 7, 1, "client", request)
        request = EnvelopeRequest(
            request_data=b"".join(chunks)[4:],
            request_principal=serialized(ANONYMOUS),
            client_host_address=ip_address("10.0.0.7").packed,
        )
    begin(node, client, request, 0 if enveloped else 7)
    until_some_are_made(node)
    assert not client.answers
    node.broker.quorum.resign(node.now_ms)
    node.run()
    node.advance(10_000)
    assert node.broker.controller.active, "it leads again, which is another leadership"
    answer = client.receive()
    codes = {answer.error_code} if enveloped else {topic.error_code for topic in answer.topics}
    assert codes == {ErrorCode.NOT_CONTROLLER}
    assert 0 < len(node.broker.image.topics_by_name) < WIDE, "what was committed stands"


def steps_of_a_turn() -> Callable[[], float]:
    """A clock by which a step takes all of a turn."""
    readings = iter(range(0, 1_000_000, 10))
    return lambda: float(next(readings))


def test_more_than_a_request_may_name_is_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.handlers.alter_configs.RESOURCES_PER_REQUEST_MAX", 2)
    monkeypatch.setattr("penstock.node.handlers.alter_configs.CONFIGS_PER_RESOURCE_MAX", 2)
    client = node.connect()
    client.ask(new(3), 7)
    answer = client.ask(retention(3), 1)
    assert [(each.resource_name, each.error_code) for each in answer.responses] == [
        (f"n{number}", ErrorCode.POLICY_VIOLATION) for number in range(3)
    ]
    many = retention(2)
    many.resources[0].configs = [incremental.AlterableConfig(name=f"c{number}", value="") for number in range(3)]
    assert [each.error_code for each in client.ask(many, 1).responses] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


def test_every_refusal_is_made_as_it_is_written() -> None:
    """Those of requests that are cut: a refusal of what is wide would be a long step."""
    populated()
    for make, version in MAKERS:
        message = make(Random(1))
        handler = registry()[API_BY_NUMBER[message.KEY].key]
        request: Any = type("Asked", (), {"body": message, "api": handler.api, "version": version})()
        refusal = handler.refuse(request, ErrorCode.REQUEST_TIMED_OUT, "")
        values = [getattr(refusal, name) for name in refusal.__slots__]
        arrays = [each for each in values if isinstance(each, list | Lazily) and each]
        if getattr(refusal, "error_code", 0):
            assert refusal.error_code == ErrorCode.REQUEST_TIMED_OUT
        else:
            assert {each.error_code for each in arrays[0]} == {ErrorCode.REQUEST_TIMED_OUT}
        assert all(isinstance(each, Lazily) for each in arrays)


def test_parts_of_two_leaderships_are_not_one_decision(node: Node) -> None:
    request: Any = None
    steps = decisions.decided(node.broker, request, iter([1, 2]), lambda part: Result([part]))
    assert next(steps) is None
    node.broker.quorum.resign(node.now_ms)
    node.run()
    node.advance(10_000)
    assert node.broker.controller.active, "it leads again"
    with pytest.raises(RequestError) as raised:
        next(steps)
    assert raised.value.code is ErrorCode.NOT_CONTROLLER


def test_what_a_request_may_not_exceed_counts_over_its_parts(node: Node) -> None:
    """Of one that only validates, whose parts are not in the state."""
    client = node.connect()
    client.ask(new(2), 7)
    wanted = [CreatePartitionsTopic(name=f"n{number}", count=6_001, assignments=None) for number in range(2)]
    answer = client.ask(CreatePartitionsRequest(topics=wanted, validate_only=True), 3)
    assert [each.error_code for each in answer.results] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    first, second = new(2, "a").topics
    first.num_partitions, second.num_partitions = 5_000, 5_000
    answer = client.ask(CreateTopicsRequest(topics=[first, second], validate_only=True), 7)
    assert [each.error_code for each in answer.topics] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


def test_names_collide_over_the_parts_of_a_request(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "CHANGES_PER_STEP", 1)
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a.b", "a_b")]
    for validate_only in (True, False):
        answer = node.connect().ask(CreateTopicsRequest(topics=topics, validate_only=validate_only), 7)
        assert [each.error_code for each in answer.topics] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert answer.topics[1].error_message == "Topic 'a_b' collides with existing topic: a.b"


def test_answers_go_to_the_topics_of_their_partitions() -> None:
    topics = [
        reassignments.ReassignableTopic(partitions=[reassignments.ReassignablePartition()] * count)
        for count in (2, 0, 1)
    ]
    steps = decisions.by_topic(topics, [1, 2, 3])
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value == [(topics[0], [1, 2]), (topics[1], []), (topics[2], [3])]
