"""Changing configs: operations on lists, validation with what would result, resources as a whole."""

from __future__ import annotations

import pytest
from unit.metadata.controller_state import State

from penstock.errors import ErrorCode
from penstock.metadata import topics
from penstock.metadata.configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    ConfigChange,
    Resource,
    alter_configs,
    replace_configs,
)
from penstock.metadata.image import ConfigResource
from penstock.protocol.messages.create_topics_request import CreatableTopic

CLICKS: Resource = (ConfigResource.TOPIC, "clicks")
OWN_BROKER: Resource = (ConfigResource.BROKER, "1")
ALL_BROKERS: Resource = (ConfigResource.BROKER, "")


@pytest.fixture
def state() -> State:
    state = State()
    wanted = CreatableTopic(name="clicks", num_partitions=1, replication_factor=1)
    state.replay(topics.create_topics(state.controller, [wanted]).records)
    return state


def change(state: State, resource: Resource, *changes: tuple[str, int, str | None]) -> ErrorCode:
    result = alter_configs(state.controller, {resource: [ConfigChange(*each) for each in changes]})
    state.replay(result.records)
    return result.response[resource].code


def configs(state: State, resource: Resource = CLICKS) -> dict[str, str]:
    return dict(state.controller.image.configs.get(resource) or {})


def test_set_and_delete(state: State) -> None:
    assert change(state, CLICKS, ("retention.ms", SET, "5"), ("segment.ms", SET, "6")) is ErrorCode.NONE
    assert change(state, CLICKS, ("retention.ms", DELETE, None)) is ErrorCode.NONE
    assert configs(state) == {"segment.ms": "6"}
    result = alter_configs(state.controller, {CLICKS: [ConfigChange("segment.ms", SET, "6")]})
    assert not result.records, "what stays the same is not written"


def test_append_and_subtract_work_on_lists_from_their_default_on(state: State) -> None:
    assert change(state, CLICKS, ("cleanup.policy", APPEND, "compact")) is ErrorCode.NONE
    assert configs(state) == {"cleanup.policy": "delete,compact"}
    assert change(state, CLICKS, ("cleanup.policy", APPEND, "compact")) is ErrorCode.NONE
    assert change(state, CLICKS, ("cleanup.policy", SUBTRACT, "delete")) is ErrorCode.NONE
    assert configs(state) == {"cleanup.policy": "compact"}
    result = alter_configs(state.controller, {CLICKS: [ConfigChange("retention.ms", APPEND, "1")]})
    assert result.response[CLICKS].message == "Can't APPEND to key retention.ms because its type is not LIST."


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, "never")], ErrorCode.INVALID_CONFIG),
        ([("no.such.config", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("remote.storage.enable", SET, "true")], ErrorCode.INVALID_CONFIG),
        ([("segment.bytes", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "shred")], ErrorCode.INVALID_CONFIG),
        ([("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_resource_with_one_bad_change_is_not_changed_at_all(
    state: State, changes: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    assert change(state, CLICKS, ("segment.ms", SET, "6"), *changes) is code
    assert configs(state) == {}


def test_resources_that_do_not_exist(state: State) -> None:
    assert change(state, (ConfigResource.TOPIC, "unknown"), ("retention.ms", SET, "1")) is (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert change(state, (ConfigResource.TOPIC, ""), ("retention.ms", SET, "1")) is ErrorCode.INVALID_REQUEST
    assert change(state, (ConfigResource.TOPIC, "a/b"), ("retention.ms", SET, "1")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (
        change(state, (ConfigResource.BROKER, "9"), ("log.retention.ms", SET, "1"))
        is ErrorCode.BROKER_ID_NOT_REGISTERED
    )
    assert change(state, (ConfigResource.BROKER, "x"), ("log.retention.ms", SET, "1")) is ErrorCode.INVALID_REQUEST
    assert change(state, (ConfigResource.BROKER, "-2"), ("log.retention.ms", SET, "1")) is ErrorCode.INVALID_REQUEST
    assert change(state, (ConfigResource.CLIENT_METRICS, "g"), ("a", SET, "1")) is ErrorCode.INVALID_REQUEST


def test_a_resource_that_fails_leaves_the_others_alone(state: State) -> None:
    result = alter_configs(
        state.controller,
        {CLICKS: [ConfigChange("retention.ms", SET, "x")], ALL_BROKERS: [ConfigChange("log.retention.ms", SET, "7")]},
    )
    state.replay(result.records)
    assert [error.code for error in result.response.values()] == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert configs(state, ALL_BROKERS) == {"log.retention.ms": "7"}


def test_topics_take_the_clusters_dynamic_defaults(state: State) -> None:
    assert state.controller.topic_config("clicks").retention_ms == 7 * 24 * 3600 * 1000
    assert change(state, ALL_BROKERS, ("log.retention.ms", SET, "7")) is ErrorCode.NONE
    assert state.controller.topic_config("clicks").retention_ms == 7


def test_broker_configs_that_cannot_change_at_run_time(state: State) -> None:
    assert change(state, OWN_BROKER, ("process.roles", SET, "broker")) is ErrorCode.INVALID_REQUEST
    assert change(state, ALL_BROKERS, ("log.retention.ms", SET, "never")) is ErrorCode.INVALID_REQUEST
    assert change(state, OWN_BROKER, ("log.retention.ms", SET, "9")) is ErrorCode.NONE


def test_a_broker_config_is_written_again_even_if_it_stays_the_same(state: State) -> None:
    assert change(state, OWN_BROKER, ("log.retention.ms", SET, "9")) is ErrorCode.NONE
    result = alter_configs(state.controller, {OWN_BROKER: [ConfigChange("log.retention.ms", SET, "9")]})
    assert len(result.records) == 1, "brokers read what the config points to again (KAFKA-14136)"


def test_replacing_all_configs_of_a_resource(state: State) -> None:
    change(state, CLICKS, ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    result = replace_configs(state.controller, {CLICKS: {"segment.ms": "7"}})
    state.replay(result.records)
    assert configs(state) == {"segment.ms": "7"}


@pytest.mark.parametrize("resource", [OWN_BROKER, ALL_BROKERS])
def test_so_many_threads_of_the_cleaner_that_none_has_room_for_a_key_are_refused(
    state: State, resource: Resource
) -> None:
    assert change(state, resource, ("log.cleaner.threads", SET, "2000000")) is ErrorCode.INVALID_REQUEST
    assert change(state, resource, ("log.cleaner.threads", SET, "4")) is ErrorCode.NONE
    assert configs(state, resource) == {"log.cleaner.threads": "4"}
