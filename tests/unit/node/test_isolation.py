"""Whatever goes wrong while one thing is handled ends that thing: every API in every version, at every hand-over.

A test plants an error where the node hands over to code that serves one request, one waiter, one timer or one part of
the node. Then the one who is concerned is refused or loses the connection, everybody else is served, the error was
reported once, under its place, and what has to happen again and again still does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.broker import Node
from support.isolation import (
    APIS,
    HANDLERS,
    PlantedError,
    Unencodable,
    ask,
    broken,
    check_only_sender_hurt,
    forget_bugs,
    running_node,
    versions,
)

from penstock.node.bugs import PLACES
from penstock.node.limits import DUTY_PAUSE_MS
from penstock.node.request import AGAIN, LATER, Handler, Parked
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

KEY = "something that happens"


@pytest.fixture(scope="module")
def running() -> Node:
    return running_node()


@pytest.fixture
def node(running: Node) -> Node:
    return forget_bugs(running)


@APIS
def test_a_handler_that_raises_ends_its_request(node: Node, handler: Handler) -> None:
    for version in versions(handler):
        check_only_sender_hurt(node, ask(node, handler, version, handle=broken), place="request")


@APIS
def test_a_request_that_cannot_even_be_refused_ends_its_connection(node: Node, handler: Handler) -> None:
    for version in versions(handler):
        client = ask(node, handler, version, handle=broken, refuse=broken)
        check_only_sender_hurt(node, client, place="request", closed=True)


@APIS
def test_an_answer_that_cannot_be_encoded_ends_its_connection(
    node: Node, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in versions(handler):
        with monkeypatch.context() as plant:
            plant.setattr("penstock.node.exit.encode_response", broken)
            client = ask(node, handler, version, handle=lambda *_: handler.api.response_class())
        check_only_sender_hurt(node, client, place="answer", closed=True)


@APIS
def test_a_parked_request_whose_completion_raises_ends_alone(node: Node, handler: Handler) -> None:
    for version in versions(handler):
        bad = Parked((KEY,), None, broken, broken)
        good = Parked((KEY,), None, lambda now_ms: handler.api.response_class(), broken)
        client = ask(node, handler, version, handle=lambda *_, parked=bad: parked)
        innocent = ask(node, handler, version, handle=lambda *_, parked=good: parked)
        node.broker.purgatory.fire(KEY, node.now_ms)
        node.run()
        innocent.receive()
        check_only_sender_hurt(node, client, place="parked")
        assert not len(node.broker.purgatory)


@APIS
def test_a_parked_request_whose_expiry_raises_ends_alone(node: Node, handler: Handler) -> None:
    for version in versions(handler):
        parked = Parked((KEY,), node.now_ms + 50, broken, broken)
        client = ask(node, handler, version, handle=lambda *_, parked=parked: parked)
        node.advance(100)
        check_only_sender_hurt(node, client, place="parked")
        assert not len(node.broker.purgatory)


@APIS
def test_a_request_that_raises_in_its_second_step_ends_alone(node: Node, handler: Handler) -> None:
    def in_steps(request: Any, now_ms: int) -> Any:
        if request.repeats:
            raise PlantedError
        return AGAIN

    for version in versions(handler):
        check_only_sender_hurt(node, ask(node, handler, version, handle=in_steps), place="request")


def test_records_that_break_the_controller_end_their_request(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state goes back to what is committed, and the controller is active again."""
    with monkeypatch.context() as plant:
        plant.setattr(type(node.broker.controller.state.indexes), "apply", broken)
        client = node.connect()
        client.send(CreateTopicsRequest(topics=[CreatableTopic(name="bad", num_partitions=1, replication_factor=1)]), 7)
    check_only_sender_hurt(node, client, place="request")
    node.advance(10_000)
    node.create_topic("good")
    assert "bad" not in node.broker.image.topics_by_name


def test_an_answer_given_later_that_cannot_be_encoded_ends_its_connection(node: Node) -> None:
    held: list[Any] = []

    def hold(request: Any, now_ms: int) -> Any:
        held.append(request)
        return LATER

    handler = HANDLERS[ApiKey.HEARTBEAT]
    first, second = ask(node, handler, 4, handle=hold), ask(node, handler, 4, handle=hold)
    node.broker.answer(held[0], Unencodable(), node.now_ms)
    node.broker.answer(held[1], handler.api.response_class(), node.now_ms)
    node.run()
    assert first.closed
    assert second.receive().error_code == 0
    assert node.broker.bugs.counts["answer"] == 1


def test_a_frame_that_breaks_the_decoder_ends_its_connection(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = HANDLERS[ApiKey.HEARTBEAT]
    with monkeypatch.context() as planted:
        planted.setattr("penstock.node.dispatcher.decode", broken)
        client = ask(node, handler, 4)
    check_only_sender_hurt(node, client, place="request", closed=True)


# What has to happen again and again


def test_a_timer_that_raises_keeps_no_other_from_firing(node: Node) -> None:
    fired: list[int] = []
    at_ms = node.now_ms + 100
    node.broker.scheduler.timers.at(at_ms, broken)
    node.broker.scheduler.timers.at(at_ms, fired.append)
    node.advance(200)
    assert len(fired) == 1
    assert node.broker.bugs.counts["timer"] == 1


def test_a_duty_that_raises_is_armed_again(node: Node) -> None:
    tries: list[int] = []

    def duty(now_ms: int) -> None:
        tries.append(now_ms)
        if len(tries) < 3:
            raise PlantedError

    node.broker.scheduler.timers.at(node.now_ms, duty, duty=True)
    node.advance(3 * DUTY_PAUSE_MS)
    assert len(tries) == 3
    assert node.broker.bugs.counts["timer"] == 2


def part_of(part: str) -> Callable[[Any], tuple[Any, str]]:
    def find(broker: Any) -> tuple[Any, str]:
        *path, name = part.split(".")
        for step in path:
            broker = getattr(broker, step)
        return broker, name

    return find


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ("logs.deadlines.due", "duty"),
        ("controller.duties.due", "duty"),
        ("coordinators.groups.runtime.timers.due", "duty"),
    ],
)
def test_a_part_of_the_node_that_raises_rests_and_goes_on(
    node: Node, part: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = part_of(part)(node.broker)
    real = getattr(owner, name)
    calls: list[int] = []

    def flaky(*arguments: Any) -> Any:
        calls.append(node.now_ms)
        if len(calls) == 1:
            raise PlantedError
        return real(*arguments)

    def of_one(self: Any, *arguments: Any) -> Any:
        return flaky(*arguments) if self is owner else unhurt(self, *arguments)

    unhurt = getattr(type(owner), name)
    monkeypatch.setattr(type(owner), name, of_one)
    duties = node.broker.scheduler.duties
    for duty in duties:
        duty.tick(node.now_ms)
        duty.tick(node.now_ms)
    assert len(calls) == 1, "it rests"
    node.now_ms += DUTY_PAUSE_MS
    for duty in duties:
        duty.tick(node.now_ms)
    assert len(calls) > 1, "and goes on"
    assert node.broker.bugs.counts[place] == 1


def test_long_work_that_raises_is_dropped_and_other_work_goes_on(node: Node) -> None:
    done: list[str] = []

    def bad() -> Iterator[None]:
        yield
        raise PlantedError

    def good() -> Iterator[None]:
        yield
        yield
        done.append("good")

    node.broker.scheduler.do(bad())
    node.broker.scheduler.do(good())
    node.settle()
    assert done == ["good"]
    assert node.broker.bugs.counts["work"] == 1


def test_errors_are_in_the_metrics_by_place(node: Node) -> None:
    node.broker.scheduler.timers.at(node.now_ms, broken)
    node.advance(10)
    samples = {
        sample.labels["place"]: sample.value
        for sample in node.broker.metrics()
        if sample.name == "penstock_node_bugs_total"
    }
    assert set(samples) == {*PLACES, "group", "transaction"}
    assert samples["timer"] == 1
    assert sum(samples.values()) == 1
