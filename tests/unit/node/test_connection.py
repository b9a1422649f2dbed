"""Connections: order of execution and of answers, holds, bounds, and what closes them."""

from __future__ import annotations

import random

import pytest
from support.broker import Node
from support.requests import batch, fetch, list_offsets, partitions_of, produce, produced, values_of, wanted

from penstock.errors import ErrorCode
from penstock.log.operations import Write
from penstock.node.handlers import registry
from penstock.protocol.api import ApiKey
from penstock.protocol.limits import TAGGED_FIELDS_MAX
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest


@pytest.fixture(scope="module")
def shared() -> Node:
    made = Node()
    made.create_topic("t", partitions=2)
    return made


def test_requests_execute_in_order_and_answers_leave_in_order() -> None:
    """A fetch that waits holds back later answers, not later requests."""
    node = Node()
    node.create_topic("t", partitions=2)
    client = node.connect()
    client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=500), 12)
    client.send(produce("t", batch(b"from behind"), first=1), 9)
    client.send(list_offsets("t", (1, -1)), 7)
    assert not client.answers
    assert node.broker.replicas.leader("t", 1, node.now_ms).high_watermark == 1  # type: ignore[union-attr]
    produced(node.connect(), "t", batch(b"now"))
    assert values_of(partitions_of(client.receive())[0]) == [b"now"]
    assert client.receive().responses[0].partition_responses[0].base_offset == 0
    assert client.receive().topics[0].partitions[0].offset == 1


def test_a_hold_keeps_later_requests_from_executing(shared: Node) -> None:
    """What authentication and throttling need: not even frames that have come already are executed."""
    client = shared.connect()
    dispatcher, connection = shared.broker.dispatcher, shared.broker.connections[client.number]
    dispatcher.hold(connection)
    dispatcher.hold(connection)
    for _ in range(3):
        client.send(list_offsets("t", (0, -1)), 7)
    dispatcher.release(connection, shared.now_ms)
    shared.run()
    assert not client.answers
    dispatcher.release(connection, shared.now_ms)
    shared.run()
    assert [client.receive().topics[0].partitions[0].error_code for _ in range(3)] == [0, 0, 0]


def test_reading_stops_at_the_bound_of_requests_and_goes_on_at_half() -> None:
    node = Node(penstock_connection_max_in_flight=4)
    node.create_topic("t")
    client = node.connect()
    assert produced(client, "t", batch()).error_code == 0
    node.held = lambda operation: isinstance(operation, Write)
    paused = []
    for _ in range(5):
        client.send(produce("t", batch()), 9)
        paused.append(client.paused)
    assert paused == [False, False, False, True, True], "what was read already is still served"
    node.let_go()
    assert not client.paused
    assert len(client.answers) == 5


def test_reading_stops_at_the_bound_of_bytes() -> None:
    node = Node(penstock_connection_max_in_flight_bytes=300)
    node.create_topic("t")
    client = node.connect()
    assert produced(client, "t", batch()).error_code == 0
    assert not client.paused
    node.held = lambda operation: isinstance(operation, Write)
    client.send(produce("t", batch(b"x" * 100)), 9)
    assert not client.paused
    client.send(produce("t", batch(b"x" * 100)), 9)
    assert client.paused
    node.let_go()
    assert not client.paused


def test_nothing_of_a_lost_connection_is_answered_and_its_appends_stay(shared: Node) -> None:
    shared.create_topic("lost")
    client = shared.connect()
    assert produced(client, "lost", batch()).error_code == 0
    shared.held = lambda operation: isinstance(operation, Write)
    client.send(produce("lost", batch(b"sent")), 9)
    shared.disconnect(client)
    shared.let_go()
    assert not client.answers
    assert values_of(partitions_of(shared.connect().ask(fetch("lost", wanted(offset=1)), 12))[0]) == [b"sent"]


# What closes a connection, and no other


def header(key: int, version: int, correlation_id: int = 1, client_id: bytes = b"x") -> bytes:
    start = key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big")
    return start + len(client_id).to_bytes(2, "big") + client_id


BAD_FRAMES = {
    "nothing": b"",
    "half a header": header(1, 12)[:7],
    "unknown key": header(999, 0),
    "negative key": b"\xff\xff" + header(1, 12)[2:],
    "retired key": header(4, 0),
    "client id beyond the frame": header(1, 12)[:8] + b"\x7f\xff",
    "client id of length -2": header(1, 12)[:8] + b"\xff\xfe",
    "client id that is no UTF-8": header(3, 1, client_id=b"\xff\xfe"),
    "produce version 2": header(0, 2) + b"\0" * 20,
    "fetch version 99": header(1, 99) + b"\0" * 20,
    "version -1": header(1, 0)[:2] + b"\xff\xff" + header(1, 0)[4:],
    "empty body": header(2, 7) + b"\0",
    "array of two billion": header(2, 1) + b"\xff\xff\xff\xff" + b"\x7f\xff\xff\xff",
    "negative array": header(2, 1) + b"\xff\xff\xff\xff" + b"\xff\xff\xff\x80",
    "string beyond the frame": header(2, 1) + b"\xff\xff\xff\xff" + b"\0\0\0\1" + b"\x7f\x00abc",
    "varint without end": header(1, 12) + b"\0" + b"\xff" * 12,
    "too many tagged fields": header(1, 12) + b"\xff" * 4 + TAGGED_FIELDS_MAX.to_bytes(2, "big"),
}


@pytest.mark.parametrize("frame", BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_a_broken_frame_closes_its_connection_and_no_other(frame: bytes, shared: Node) -> None:
    client, other = shared.connect(), shared.connect()
    client.send_bytes(frame)
    assert client.closed is not None
    assert not client.answers
    client.send_bytes(header(3, 1))  # it is forgotten: nothing happens
    assert produced(other, "t", batch()).error_code == 0


def test_an_api_that_is_not_served_closes_the_connection(shared: Node) -> None:
    assert ApiKey.SHARE_GROUP_DESCRIBE not in registry()
    client = shared.connect()
    client.send(ShareGroupDescribeRequest(), 1)
    assert client.closed is not None


def test_random_bytes_and_mutated_frames_never_do_more_than_close(shared: Node) -> None:
    generator = random.Random(7)
    good = shared.connect()
    frames = [
        bytes(good.frame(produce("t", batch(b"x" * 50)), 9)),
        bytes(good.frame(fetch("t", wanted(), session_id=0, session_epoch=0), 12)),
        bytes(good.frame(list_offsets("t", (0, -1)), 7)),
        bytes(good.frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)),
    ]
    good.asked.clear()
    for number in range(2000):
        data = bytearray(generator.choice(frames)) if number % 4 else bytearray(generator.randbytes(60))
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        client = shared.connect()
        client.send_bytes(data[: generator.randint(1, len(data))])
        shared.disconnect(client)
    assert produced(good, "t", batch()).error_code == 0


def test_answers_before_the_error_are_sent_before_the_close(shared: Node) -> None:
    client = shared.connect()
    frames = [client.frame(list_offsets("t", (0, -1)), 7), bytearray(b"\0\1")]
    for frame in frames:
        shared.broker.received(client.number, memoryview(frame), shared.now_ms)
    shared.run()
    assert client.receive().topics[0].partitions[0].error_code == ErrorCode.NONE
    assert client.closed is not None
