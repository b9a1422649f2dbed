"""Creating and deleting topics and adding partitions: Kafka's rules, codes and sentences."""

from __future__ import annotations

from typing import Any

import pytest
from unit.metadata.controller_state import State, directory_of

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import topics
from penstock.metadata.image import NO_LEADER
from penstock.metadata.result import ApiError
from penstock.metadata.topics import CreatedTopic
from penstock.protocol.messages.create_partitions_request import CreatePartitionsAssignment, CreatePartitionsTopic
from penstock.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)

NOT_POSITIVE = "Number of partitions was set to an invalid non-positive value."


def topic(name: str = "clicks", partitions: int = 1, replicas: int = 1, **more: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **more)


def assigned(*replicas: list[int], first: int = 0) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=first + number, broker_ids=broker_ids)
        for number, broker_ids in enumerate(replicas)
    ]
    return CreatableTopic(name="clicks", num_partitions=-1, replication_factor=-1, assignments=assignments)


def create(state: State, *wanted: CreatableTopic) -> list[CreatedTopic | ApiError]:
    result = topics.create_topics(state.controller, wanted)
    state.replay(result.records)
    return result.response


def error_of(state: State, wanted: CreatableTopic) -> tuple[ErrorCode, str | None]:
    [answer] = topics.create_topics(state.controller, [wanted]).response
    assert isinstance(answer, ApiError)
    return answer.code, answer.message


def test_a_new_topic_has_its_records_in_kafkas_order() -> None:
    state = State()
    configs = [CreatableTopicConfig(name="retention.ms", value="1000")]
    result = topics.create_topics(state.controller, [topic(partitions=2, configs=configs)])
    assert [record.NAME for record in result.records] == [
        "TopicRecord",
        "ConfigRecord",
        "PartitionRecord",
        "PartitionRecord",
    ]
    state.replay(result.records)
    image = state.controller.image.topics_by_name["clicks"]
    assert [(each.replicas, each.isr, each.leader, each.leader_epoch) for each in image.partitions] == [
        ((1,), (1,), 1, 0)
    ] * 2
    assert image.partitions[0].directories == (directory_of(1),)
    assert state.controller.image.topic_configs("clicks") == {"retention.ms": "1000"}


def test_minus_one_means_the_defaults_of_the_controller() -> None:
    state = State(broker_ids=(1, 2, 3), num_partitions=4, default_replication_factor=2)
    [answer] = create(state, topic(partitions=-1, replicas=-1))
    assert isinstance(answer, CreatedTopic)
    assert (answer.partition_count, answer.replication_factor) == (4, 2)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, f"the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("naïve", "'naïve' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_names_that_no_topic_may_have(name: str, reason: str) -> None:
    assert error_of(State(), topic(name)) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: {reason}",
    )


def test_a_name_that_is_taken_or_collides() -> None:
    state = State()
    create(state, topic("a.b"))
    assert error_of(state, topic("a.b")) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists.")
    collides = (ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b")
    assert error_of(state, topic("a_b")) == collides
    state.replay(topics.delete_topics(state.controller, list(state.controller.image.topics_by_id)).records)
    assert isinstance(create(state, topic("a_b"))[0], CreatedTopic)


def test_two_topics_of_one_request_collide_too() -> None:
    first, second = create(State(), topic("a.b"), topic("a_b"))
    assert isinstance(first, CreatedTopic)
    assert isinstance(second, ApiError)
    assert second.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("wanted", "code", "sentence"),
    [
        (topic(partitions=0), ErrorCode.INVALID_PARTITIONS, NOT_POSITIVE),
        (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS, NOT_POSITIVE),
        (
            topic(replicas=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic(replicas=3),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
            "only 2 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            topic(configs=[CreatableTopicConfig(name="retention.ms", value=None)]),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            CreatableTopic(name="a", num_partitions=-1, replication_factor=1, assignments=assigned([1]).assignments),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            CreatableTopic(name="a", num_partitions=1, replication_factor=-1, assignments=assigned([1]).assignments),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            assigned([]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            assigned([1, 1]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            assigned([9]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            assigned([1], [1, 2]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
            "previous partitions, which have 1 replica(s).",
        ),
        (
            assigned([1], first=1),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
    ],
)
def test_what_cannot_be_created(wanted: CreatableTopic, code: ErrorCode, sentence: str) -> None:
    assert error_of(State(broker_ids=(1, 2)), wanted) == (code, sentence)


def test_an_unknown_or_bad_config_is_named() -> None:
    state = State()
    code, message = error_of(state, topic(configs=[CreatableTopicConfig(name="retention.hours", value="1")]))
    assert code is ErrorCode.INVALID_CONFIG
    assert message is not None
    assert "retention.hours" in message
    code, message = error_of(state, topic(configs=[CreatableTopicConfig(name="retention.ms", value="soon")]))
    assert code is ErrorCode.INVALID_CONFIG
    assert message is not None
    assert "retention.ms" in message


def test_brokers_that_are_fenced_do_not_lead_new_partitions() -> None:
    state = State(broker_ids=(1, 2))
    state.fence(2)
    create(state, assigned([2, 1]))
    partition = state.controller.image.topics_by_name["clicks"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1,), 1)
    state.fence(1)
    assert error_of(state, topic("b")) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned.",
    )


def test_replicas_are_spread_over_racks_and_brokers() -> None:
    state = State(broker_ids=())
    for broker_id, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c"), (6, "c")):
        state.register(broker_id, rack=rack)
        state.unfence(broker_id)
    create(state, topic(partitions=12, replicas=3))
    partitions = state.controller.image.topics_by_name["clicks"].partitions
    racks = {broker.id: broker.rack for broker in state.controller.image.brokers.values()}
    assert all({racks[each] for each in partition.replicas} == {"a", "b", "c"} for partition in partitions)
    led = [sum(partition.leader == broker_id for partition in partitions) for broker_id in range(1, 7)]
    held = [sum(broker_id in partition.replicas for partition in partitions) for broker_id in range(1, 7)]
    assert held == [6] * 6
    assert led == [2] * 6


def test_an_error_of_one_topic_leaves_the_others_alone() -> None:
    state = State()
    good, bad = create(state, topic("good"), topic("b/d"))
    assert isinstance(good, CreatedTopic)
    assert isinstance(bad, ApiError)
    assert list(state.controller.image.topics_by_name) == ["good"]


def test_a_request_of_too_many_partitions_is_refused_before_any_is_placed() -> None:
    for wanted in ([topic(partitions=2_000_000_000)], [topic("a", partitions=9_000), topic("b", partitions=1_500)]):
        with pytest.raises(RequestError, match="Excessively large number of partitions per request") as raised:
            topics.create_topics(State().controller, wanted)
        assert raised.value.code is ErrorCode.POLICY_VIOLATION


def test_a_request_of_too_many_records_is_refused_topic_by_topic() -> None:
    configs = [CreatableTopicConfig(name="retention.ms", value="1"), CreatableTopicConfig(name="segment.ms", value="2")]
    first, second = create(State(), topic("a", partitions=9_000), topic("b", partitions=1_000, configs=configs))
    assert isinstance(first, CreatedTopic)
    assert isinstance(second, ApiError)
    assert second.code is ErrorCode.POLICY_VIOLATION


def test_too_many_partitions_are_not_added() -> None:
    state = State()
    create(state, topic())
    assert add(state, 10_002).code is ErrorCode.POLICY_VIOLATION
    assert add(state, 2_000_000_000).code is ErrorCode.POLICY_VIOLATION
    for count in range(9_001, 100_000, 9_000):
        assert add(state, count).code is ErrorCode.NONE
    assert add(state, 100_001).code is ErrorCode.INVALID_PARTITIONS


def test_topics_are_deleted_by_id() -> None:
    state = State()
    [created] = create(state, topic())
    assert isinstance(created, CreatedTopic)
    unknown = state.controller.random_id()
    result = topics.delete_topics(state.controller, [created.id, unknown])
    state.replay(result.records)
    assert [(topic_id, error.code) for topic_id, error in result.response] == [
        (created.id, ErrorCode.NONE),
        (unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert len(state.controller.image.topics_by_name) == 0


def add(state: State, count: int, assignments: list[list[int]] | None = None, name: str = "clicks") -> ApiError:
    chosen = None if assignments is None else [CreatePartitionsAssignment(broker_ids=each) for each in assignments]
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=chosen)
    result = topics.create_partitions(state.controller, [wanted])
    state.replay(result.records)
    return result.response[0]


def test_partitions_are_added() -> None:
    state = State(broker_ids=(1, 2))
    create(state, topic(partitions=1))
    assert add(state, 3).code is ErrorCode.NONE
    assert add(state, 4, [[2]]).code is ErrorCode.NONE
    partitions = state.controller.image.topics_by_name["clicks"].partitions
    assert len(partitions) == 4
    assert partitions[3].replicas == (2,)


@pytest.mark.parametrize(
    ("count", "assignments", "code", "sentence"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "The topic clicks currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            4,
            [[1]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            3,
            [[1, 2]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
            "previous partitions, which have 1 replica(s).",
        ),
    ],
)
def test_what_cannot_be_added(count: int, assignments: list[list[int]] | None, code: ErrorCode, sentence: str) -> None:
    state = State(broker_ids=(1, 2))
    create(state, topic(partitions=2))
    assert add(state, count, assignments) == ApiError(code, sentence)
    assert add(state, 9, name="unknown").code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(state.controller.image.topics_by_name["clicks"].partitions) == 2


def test_leaders_follow_brokers_that_come_and_go() -> None:
    state = State(broker_ids=(1, 2))
    alone = assigned([2])
    alone.name = "alone"
    create(state, assigned([1, 2], [2, 1]), alone)

    def now() -> list[tuple[int, int, tuple[int, ...]]]:
        found = state.controller.image.topics_by_name
        partitions = [*found["clicks"].partitions, *found["alone"].partitions]
        return [(each.leader, each.leader_epoch, each.isr) for each in partitions]

    assert now() == [(1, 0, (1, 2)), (2, 0, (2, 1)), (2, 0, (2,))]
    state.fence(2)
    assert now() == [(1, 0, (1,)), (1, 1, (1,)), (NO_LEADER, 1, (2,))]
    state.unfence(2)
    assert now() == [(1, 0, (1,)), (1, 1, (1,)), (2, 2, (2,))]


def test_an_unclean_election_takes_a_replica_that_is_not_in_sync_only_when_the_topic_allows_it() -> None:
    for allowed in ("false", "true"):
        state = State(broker_ids=(1, 2))
        wanted = assigned([1, 2])
        wanted.configs = [CreatableTopicConfig(name="unclean.leader.election.enable", value=allowed)]
        create(state, wanted)
        state.fence(2)
        state.unfence(2)
        state.fence(1)
        partition = state.controller.image.topics_by_name["clicks"].partitions[0]
        expected = (2, (2,), 1) if allowed == "true" else (NO_LEADER, (1,), 0)
        assert (partition.leader, partition.isr, partition.leader_recovery_state) == expected
