"""Clients that ignore `throttle_time_ms`, or look for a way around their quota: they pass no more than others."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest
from interop.clients.wire import Wire, decode_answer, request_frame
from interop.quotas.limited import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    WINDOWS,
    WIRE,
    at_least,
    counted_bytes,
    least_s,
    limited,
    of_bytes,
    produce_frame,
)
from support.requests import fetch, partitions_of, values_of, wanted

from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.slow

LIMIT = 20_000
RECORD_BYTES = 2_000
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(WINDOWS) as broker:
        yield broker


def receive_all(wire: Wire, count: int) -> list[int]:
    """The throttle times of so many answers to Produce requests, which come in order and are no errors."""
    times = []
    for number in range(1, count + 1):
        frame = wire.receive()
        assert frame is not None, "a connection over its quota stays open"
        answer = decode_answer(APIS[ApiKey.PRODUCE], PRODUCE_VERSION, number, frame)
        assert answer.responses[0].partition_responses[0].error_code == 0
        times.append(answer.throttle_time_ms)
    return times


def test_who_sends_fifty_requests_at_once_gains_nothing(broker: LocalBroker) -> None:
    broker.create_topic("pipelined")
    frames = [produce_frame("pipelined", RECORD_BYTES, number=number) for number in range(1, 51)]
    size = counted_bytes(frames[0])
    with (
        limited(broker.bootstrap, WIRE, producer_byte_rate=LIMIT),
        Wire(broker.bootstrap) as wire,
        at_least(least_s(50 * size, LIMIT, more=size)),
    ):
        wire.send(b"".join(frames))
        times = receive_all(wire, 50)
    assert any(times)


def test_who_wants_no_answers_gains_nothing(broker: LocalBroker) -> None:
    broker.create_topic("unanswered")
    frame = produce_frame("unanswered", RECORD_BYTES, acks=0)
    with (
        limited(broker.bootstrap, WIRE, producer_byte_rate=LIMIT),
        Wire(broker.bootstrap) as wire,
        at_least(least_s(40 * counted_bytes(frame), LIMIT)),
    ):
        wire.send(frame * 40)
        wire.ask(VERSIONS, 3)


def test_three_connections_have_one_share(broker: LocalBroker) -> None:
    broker.create_topic("shared")
    frames = [produce_frame("shared", RECORD_BYTES, number=number) for number in range(1, 18)]
    size = counted_bytes(frames[0])
    wires = [Wire(broker.bootstrap) for _ in range(3)]
    with limited(broker.bootstrap, WIRE, producer_byte_rate=LIMIT), at_least(least_s(51 * size, LIMIT, more=3 * size)):
        for wire in wires:
            wire.send(b"".join(frames))
        for wire in wires:
            receive_all(wire, len(frames))
    for wire in wires:
        wire.socket.close()


CONNECTIONS, ROUNDS, CONNECTIONS_LIMIT = 1_000, 2, 50_000


def test_a_thousand_connections_gain_no_more_than_a_request_each(broker: LocalBroker) -> None:
    broker.create_topic("crowd")
    frame = produce_frame("crowd", 90)
    size = counted_bytes(frame)
    host, _, port = broker.bootstrap.rpartition(":")
    left = {socket.create_connection((host, int(port)), 20): ROUNDS - 1 for _ in range(CONNECTIONS)}
    with (
        selectors.DefaultSelector() as selector,
        limited(broker.bootstrap, WIRE, producer_byte_rate=CONNECTIONS_LIMIT),
        at_least(least_s(ROUNDS * CONNECTIONS * size, CONNECTIONS_LIMIT, more=CONNECTIONS * size)),
    ):
        for connection in left:
            selector.register(connection, selectors.EVENT_READ, connection)
            connection.sendall(frame)
        while selector.get_map():
            ready = selector.select(20)
            assert ready, "every one of them is answered"
            for key, _ in ready:
                connection = key.data
                assert len(connection.recv(1_000)) > 4
                if left[connection]:
                    left[connection] -= 1
                    connection.sendall(frame)
                else:
                    selector.unregister(connection)
    for connection in left:
        connection.close()


def test_a_fetch_over_its_quota_keeps_its_session(broker: LocalBroker) -> None:
    broker.create_topic("session")
    with Wire(broker.bootstrap) as writer:
        for _ in range(6):
            assert writer.ask(of_bytes("session", 10_000), PRODUCE_VERSION).throttle_time_ms == 0
    with Wire(broker.bootstrap) as wire:
        first = wire.ask(fetch("session", wanted(max_bytes=11_000), session_epoch=0), FETCH_VERSION)
        assert first.session_id
        with limited(broker.bootstrap, WIRE, consumer_byte_rate=LIMIT), at_least(least_s(50_000, LIMIT)):
            epoch, offset, empty = 1, 1, 0
            while offset < 6:
                request = fetch(
                    "session",
                    wanted(offset=offset, max_bytes=11_000),
                    session_id=first.session_id,
                    session_epoch=epoch,
                )
                answer = wire.ask(request, FETCH_VERSION)
                assert (answer.error_code, answer.session_id) == (0, first.session_id)
                found = partitions_of(answer)
                if found:
                    assert values_of(found[0]) == [b"x" * 10_000]
                    offset += 1
                else:
                    assert answer.throttle_time_ms > 0
                    empty += 1
                epoch += 1
    assert empty


def test_a_mute_connection_does_nothing_else(broker: LocalBroker) -> None:
    broker.create_topic("mute")
    with limited(broker.bootstrap, WIRE, producer_byte_rate=LIMIT), Wire(broker.bootstrap) as wire, at_least(1.0):
        answer = wire.ask(of_bytes("mute", 60_000), PRODUCE_VERSION)
        assert 0 < answer.throttle_time_ms <= 1_100
        wire.send(request_frame(VERSIONS, 3))
        assert wire.receive() is not None
