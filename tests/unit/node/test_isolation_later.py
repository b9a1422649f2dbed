"""What goes wrong after a handler has returned: a commit is told, something was read, the controller has answered.

As test_isolation.py, for every API in every version that is advertised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import pytest
from support.broker import Client, Node
from support.isolation import (
    APIS,
    HANDLERS,
    PlantedError,
    ask,
    broken,
    check_only_sender_hurt,
    client_of,
    forget_bugs,
    running_node,
    served,
    versions,
)
from support.requests import batch, produced

from penstock.errors import NotResident
from penstock.metadata.image import ConfigResource
from penstock.metadata.result import MetadataMessage
from penstock.node.request import FORWARD, LATER, Append, Handler
from penstock.protocol.api import SOFTWARE_NAME
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.metadata.config_record import ConfigRecord


@pytest.fixture(scope="module")
def running() -> Node:
    return running_node()


@pytest.fixture
def node(running: Node) -> Node:
    return forget_bugs(running)


def record() -> MetadataMessage:
    return ConfigRecord(resource_type=ConfigResource.TOPIC, resource_name="nobody", name="retention.ms", value="1")


class Unreadable(NotResident):
    """Data that breaks who gets it."""

    def __init__(self) -> None:
        super().__init__(0, "some file", 0, 1)

    def read(self, disk: Any) -> None:
        """Nothing."""

    def was_read(self, result: Any) -> None:
        raise PlantedError


def test_the_tests_are_about_all_that_a_node_advertises(node: Node) -> None:
    for listener in ("PLAINTEXT", "CONTROLLER"):
        kind = "broker" if listener == "PLAINTEXT" else "controller"
        told = node.connect(listener).ask(
            ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="1"), 4
        )
        tested = {
            (int(key), handler.advertised_min_version, handler.max_version)
            for key, handler in HANDLERS.items()
            if kind in handler.api.listeners
        }
        assert {(each.api_key, each.min_version, each.max_version) for each in told.api_keys} == tested


@APIS
def test_a_change_whose_commit_cannot_be_told_ends_its_connection(
    node: Node, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in versions(handler):
        with monkeypatch.context() as plant:
            plant.setattr("penstock.node.exit.encode_response", broken)
            client = ask(node, handler, version, handle=lambda *_: Append([record()], handler.api.response_class()))
        check_only_sender_hurt(node, client, place="answer", closed=True)
        assert node.broker.controller.active


@APIS
def test_what_the_log_says_of_a_change_is_no_reason_to_refuse_it(
    node: Node, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in versions(handler):
        with monkeypatch.context() as plant:
            plant.setattr(type(node.broker.journal), "committed", broken)
            client = ask(node, handler, version, handle=lambda *_: Append([record()], handler.api.response_class()))
        check_only_sender_hurt(node, client, place="metadata", closed=False)


@APIS
def test_what_was_read_for_a_request_and_breaks_ends_it(node: Node, handler: Handler) -> None:
    def read_first(*_: Any) -> Any:
        raise Unreadable

    for version in versions(handler):
        check_only_sender_hurt(node, ask(node, handler, version, handle=read_first), place="operation", closed=None)


@APIS
def test_what_was_read_for_a_step_and_breaks_ends_the_request(node: Node, handler: Handler) -> None:
    def in_steps(*_: Any) -> Iterator[Any]:
        yield None
        yield Unreadable()
        raise AssertionError("it never goes on")

    for version in versions(handler):
        client = ask(node, handler, version, handle=in_steps)
        check_only_sender_hurt(node, client, place="operation", closed=True)


@APIS
def test_a_request_that_breaks_when_it_is_gone_on_with_ends_alone(node: Node, handler: Handler) -> None:
    held: list[Callable[..., None]] = []

    def hold(request: Any, now_ms: int) -> Any:
        held.append(node.broker.dispatcher.later(request, broken))
        return LATER

    for version in versions(handler):
        client = ask(node, handler, version, handle=hold)
        held.pop()(node.now_ms)
        node.run()
        check_only_sender_hurt(node, client, place="request")


@APIS
def test_who_leaves_while_it_waits_hurts_nobody_by_breaking(node: Node, handler: Handler) -> None:
    def hold(request: Any, now_ms: int) -> Any:
        request.abandoned = broken
        return LATER

    for version in versions(handler):
        client = ask(node, handler, version, handle=hold)
        node.disconnect(client)
        client.closed = "it left"
        check_only_sender_hurt(node, client, place="request", closed=True)


@APIS
def test_who_cannot_be_told_that_there_is_no_controller_loses_the_connection(node: Node, handler: Handler) -> None:
    for version in versions(handler):
        client = without_answer(node, handler, version)
        check_only_sender_hurt(node, client, place="request", closed=True)


def without_answer(node: Node, handler: Handler, version: int) -> Client:
    """A request that waits for a controller until its time is over, and then cannot be refused."""
    client = client_of(node, handler)
    with pytest.MonkeyPatch.context() as plant:
        plant.setattr(served(node, client, handler), "handle", lambda *_: FORWARD)
        plant.setattr(served(node, client, handler), "refuse", broken)
        client.send(handler.api.request_class(), version)
        assert not client.answers
        node.advance(node.settings.request_timeout_ms + 10)
    return client


def test_an_image_that_nobody_can_say_anything_of_is_published_all_the_same(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as plant:
        plant.setattr(type(node.broker.journal), "published", broken)
        node.create_topic("made")
    assert "made" in node.broker.image.topics_by_name
    assert node.broker.replicas.leader("made", 0, node.now_ms)
    assert node.broker.bugs.counts["metadata"] == 1


@pytest.mark.parametrize(
    "part",
    [
        "replicas.set_image",
        "replication.publishing._topic_changed",
        "replication.publishing._place",
        "replicas.partition_changed",
        "coordinators.groups.published",
        "lifecycle.published",
        "logs.create",
    ],
)
def test_a_part_of_the_node_that_breaks_over_an_image_keeps_nobody_from_it(
    node: Node, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, _, name = part.rpartition(".")
    hurt = f"hurt-{part.replace('_', '-')}"
    with monkeypatch.context() as plant:
        plant.setattr(type(attrgetter(owner)(node.broker)), name, broken)
        node.create_topic(hurt)
    assert node.broker.failure is None
    hurt_parts = len(node.broker.coordinators.all) if owner == "coordinators.groups" else 1
    assert node.broker.bugs.counts["metadata"] == hurt_parts
    node.create_topic(f"next-{hurt}")
    assert node.broker.logs.exists(f"next-{hurt}", 0)
    assert node.broker.bugs.counts["metadata"] == hurt_parts


def test_a_log_that_does_not_know_what_to_write_is_given_up_alone(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.create_topic("bad")
    node.create_topic("fine")
    client = node.connect()
    log = node.broker.replicas.leader("bad", 0, node.now_ms).log  # type: ignore[union-attr]
    with monkeypatch.context() as plant:
        plant.setattr(type(log), "take_operations", refusing(log, type(log).take_operations))
        assert produced(client, "bad", batch()).error_code
    assert produced(node.connect(), "fine", batch()).error_code == 0
    assert all(directory.error is None for directory in node.broker.logs.table.directories)
    assert node.broker.bugs.counts["operation"] == 1


def refusing(bad: Any, real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda log: broken() if log is bad else real(log)
