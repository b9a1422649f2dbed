"""`penstock cluster describe` shows an ordinary user what that user may see, and says what it does not show."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from interop.security.commands import Capture, Commands

from penstock.testing.secure import SecureBroker, User


@pytest.fixture(scope="module")
def broker() -> Iterator[SecureBroker]:
    with SecureBroker() as broker:
        for topic in ("seen", "half", "unseen"):
            broker.create_topic(topic, partitions=2)
        yield broker


def commands(user: User, capsys: Capture) -> Commands:
    return Commands(user.bootstrap, user.client_file, capsys)


def test_without_rights_there_are_the_brokers(broker: SecureBroker, capsys: Capture) -> None:
    said = commands(broker.add_user("nobody"), capsys)("cluster", "describe")
    assert "controller  unknown: this user may not see it" in said
    assert "brokers 1, topics 0" in said
    assert broker.bootstrap in said
    assert "not shown  controller, voters and what is being moved, which need DESCRIBE on the cluster" in said
    assert "more than half" not in said, "the quorum is not said to be gone"


def test_topics_are_those_that_may_be_described(broker: SecureBroker, capsys: Capture) -> None:
    user = broker.add_user("some")
    broker.allow("some", "describe", topic="half")
    broker.allow("some", "describe", "describe_configs", topic="seen")
    said = commands(user, capsys)("cluster", "describe")
    assert "topics 2, partitions 4" in said
    assert "min.insync.replicas of 1 topics, which needs DESCRIBE_CONFIGS on them; it is counted as 1" in said
    found = json.loads(commands(user, capsys)("cluster", "describe", "--json"))
    assert (found["topics"], found["controller"], found["reassignments"]) == (2, None, None)
    assert len(found["not_seen"]) == 2
    assert "up" in commands(user, capsys)("cluster", "brokers")


def test_who_may_describe_the_cluster_sees_its_controller(broker: SecureBroker, capsys: Capture) -> None:
    user = broker.add_user("watcher")
    broker.allow("watcher", "describe", cluster="")
    broker.allow("watcher", "describe", "describe_configs", topic="*")
    said = commands(user, capsys)("cluster", "describe")
    assert "controller  1, epoch" in said
    assert "not shown" not in said


def test_an_administrator_is_shown_everything(broker: SecureBroker, capsys: Capture) -> None:
    found = json.loads(commands(broker.admin, capsys)("cluster", "describe", "--json"))
    assert found["not_seen"] == []
    assert found["controller"] == 1
    assert found["topics"] >= 3
