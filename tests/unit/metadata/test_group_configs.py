"""Configs of groups (resource type GROUP): checked by the controller, described in layers."""

from __future__ import annotations

import pytest
from unit.metadata.controller_state import State

from penstock.config.describe import describe_group
from penstock.config.setting import Source
from penstock.errors import ErrorCode
from penstock.metadata.configs import DELETE, SET, ConfigChange, alter_configs
from penstock.metadata.image import ConfigResource

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


def change(state: State, group: str, *changes: tuple[str, int, str | None]) -> tuple[ErrorCode, str | None]:
    resource = ConfigResource.GROUP, group
    result = alter_configs(state.controller, {resource: [ConfigChange(*each) for each in changes]})
    state.replay(result.records)
    answer = result.response[resource]
    return answer.code, answer.message


def configs(state: State, group: str = "g") -> dict[str, str]:
    return dict(state.controller.image.configs.get((ConfigResource.GROUP, group)) or {})


def test_a_group_that_does_not_exist_may_have_configs() -> None:
    state = State()
    assert change(state, "g", (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"))[0] is ErrorCode.NONE
    assert configs(state) == {SESSION: "50000", HEARTBEAT: "6000"}
    assert change(state, "g", (SESSION, DELETE, None))[0] is ErrorCode.NONE
    assert configs(state) == {HEARTBEAT: "6000"}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (SESSION, "1", f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        (SESSION, "60001", f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"),
        (HEARTBEAT, "4999", f"{HEARTBEAT} must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        (HEARTBEAT, "15001", f"{HEARTBEAT} must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        (ASSIGNMENT, "15001", f"{ASSIGNMENT} must be less than or equal to group.consumer.max.assignment.interval.ms"),
        ("session.timeout.ms", "1", "Unknown group config name: session.timeout.ms"),
    ],
)
def test_what_the_brokers_bounds_do_not_allow_is_refused(name: str, value: str, message: str) -> None:
    state = State()
    assert change(state, "g", (name, SET, value)) == (ErrorCode.INVALID_CONFIG, message)
    assert configs(state) == {}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("share.delivery.count.limit", "11", "must be less than or equal to group.share.max.delivery.count.limit"),
        ("share.heartbeat.interval.ms", "1", "must be greater than or equal to group.share.min.heartbeat.interval.ms"),
        ("share.auto.offset.reset", "by_duration:-PT1H", "must be earliest, latest, or by_duration: and a duration"),
        ("streams.num.standby.replicas", "3", "must be less than or equal to group.streams.max.standby.replicas"),
    ],
)
def test_configs_of_groups_that_are_not_served_yet_are_checked_too(name: str, value: str, message: str) -> None:
    state = State()
    code, text = change(state, "g", (name, SET, value))
    assert code is ErrorCode.INVALID_CONFIG
    assert message in str(text)
    assert configs(state) == {}


def test_configs_of_groups_that_are_not_served_yet_are_kept_and_say_so() -> None:
    state = State()
    wanted = {"share.auto.offset.reset": "by_duration:P1DT12H", "streams.num.standby.replicas": "2"}
    assert change(state, "g", *((name, SET, value) for name, value in wanted.items()))[0] is ErrorCode.NONE
    assert configs(state) == wanted
    for described in describe_group(state.controller.settings, wanted):
        kind = described.name.split(".")[0]
        assert (f"as long as there are no {kind} groups" in str(described.doc)) == (kind != "consumer")
        assert (described.source is Source.GROUP_CONFIG) == (described.name in wanted)


def test_a_value_that_is_no_number_is_refused() -> None:
    assert change(State(), "g", (SESSION, SET, "long"))[0] is ErrorCode.INVALID_CONFIG


def test_there_are_no_configs_of_all_groups() -> None:
    answer = change(State(), "", (SESSION, SET, "50000"))
    assert answer == (ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def test_a_config_is_described_with_its_layers() -> None:
    settings = State().controller.settings
    session, heartbeat, assignment, *_ = describe_group(settings, {HEARTBEAT: "6000"})
    assert (session.name, session.value, session.source) == (SESSION, "45000", Source.DEFAULT_CONFIG)
    assert (heartbeat.value, heartbeat.source) == ("6000", Source.GROUP_CONFIG)
    assert [(each.name, each.value) for each in heartbeat.synonyms] == [
        (HEARTBEAT, "6000"),
        ("group.consumer.heartbeat.interval.ms", "5000"),
    ]
    assert assignment.value == "1000"
    assert [each.name for each in describe_group(settings, {}, [ASSIGNMENT])] == [ASSIGNMENT]
