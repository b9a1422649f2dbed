"""A tenant with 200 connections and one with a single connection, on one broker that finds requests of all at once.

What is compared is the order in which the broker has appended what they produce, by the offsets that it answers with,
and not how long that takes: the broker stands still until all has been sent, so it is never faster than its clients.
Work is counted, not timed.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from interop.quotas.limited import LENGTH_BYTES, PRODUCE_VERSION
from support.requests import batch, produce

from penstock.node.connection import Connection
from penstock.node.tenants import ADDRESS, Tenants
from penstock.node.turns import CountedWork
from penstock.protocol.api import API_BY_NUMBER, ApiKey
from penstock.protocol.frames import decode_response, encode_request
from penstock.protocol.message import Message
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.slow


CONNECTIONS, IN_FLIGHT = 200, 10
WORK_MS = 1
"""What a request counts for at least: a turn of the loop is less than what a connection sends."""
RECORDS = [b"x"] * 2
REQUESTS = 20
"""Of the single connection."""
FEW = 5
"""Of two that are equal, one has at most so many times what the other one has, however they meet."""
READ_BYTES = 1 << 16


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is as much work as any other."""
    monkeypatch.setattr("penstock.server.server.work_ms", CountedWork(WORK_MS))


def frame_of(message: Message, client_id: str) -> bytes:
    chunks = encode_request(API_BY_NUMBER[message.KEY], PRODUCE_VERSION, 1, client_id, message)
    return b"".join(map(bytes, chunks))


class Producing:
    """A connection that sends the same request again and again. `answers`: those that have come, without length."""

    def __init__(self, broker: LocalBroker, frame: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", broker.port), 20)
        self.frame = frame
        self.answers: list[bytes] = []
        self._received = bytearray()

    def send(self, count: int) -> None:
        self.socket.sendall(self.frame * count)

    def receive(self) -> int:
        """Takes what has come; how many answers that were."""
        received, before = self._received, len(self.answers)
        data = self.socket.recv(READ_BYTES)
        assert data, "the broker has closed the connection"
        received += data
        while len(received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(received[:LENGTH_BYTES], "big")
            if end > len(received):
                break
            self.answers.append(bytes(received[LENGTH_BYTES:end]))
            del received[:end]
        return len(self.answers) - before


class Tenancy:
    """The connections of a greedy tenant, each with IN_FLIGHT requests, and a modest one's."""

    def __init__(self, broker: LocalBroker) -> None:
        data = batch(*RECORDS, timestamp_ms=time.time_ns() // 1_000_000)
        greedy, modest = (frame_of(produce("t", data), name) for name in ("greedy", "modest"))
        self.broker = broker
        self.greedy = [Producing(broker, greedy) for _ in range(CONNECTIONS)]
        self.modest = Producing(broker, modest)
        self._selector = selectors.DefaultSelector()
        for each in (*self.greedy, self.modest):
            self._selector.register(each.socket, selectors.EVENT_READ, each)

    def order(self) -> list[int]:
        """The greedy tenant asks for all it can, then the modest one. How many requests had been appended before each
        of the modest one's."""
        with standing_still(self.broker):
            for each in self.greedy:
                each.send(IN_FLIGHT)
            self.modest.send(REQUESTS)
        while len(self.modest.answers) < REQUESTS:
            found = self._selector.select(20)
            assert found, "the broker has answered nothing for 20 s"
            for key, _ in found:
                key.data.receive()
        return [appended_before(answer) for answer in self.modest.answers]

    def close(self) -> None:
        self._selector.close()
        for each in (*self.greedy, self.modest):
            each.socket.close()


def appended_before(answer: bytes) -> int:
    """How many requests had been appended before the one that is answered."""
    _, message = decode_response(API_BY_NUMBER[ApiKey.PRODUCE], PRODUCE_VERSION, memoryview(answer))
    first = message.responses[0].partition_responses[0]  # type: ignore[attr-defined]
    assert first.error_code == 0
    offset: int = first.base_offset
    return offset // len(RECORDS)


@contextmanager
def standing_still(broker: LocalBroker) -> Iterator[None]:
    """The broker does nothing in the meantime."""
    embedded = broker._embedded
    assert embedded is not None
    assert embedded._loop is not None
    stands, goes_on = threading.Event(), threading.Event()

    def stand() -> None:
        stands.set()
        goes_on.wait(20)

    embedded._loop.call_soon_threadsafe(stand)
    assert stands.wait(20)
    try:
        yield
    finally:
        goes_on.set()


@contextmanager
def tenancy() -> Iterator[Tenancy]:
    """Both tenants, on a broker of their own."""
    with LocalBroker() as broker:
        broker.create_topic("t")
        both = Tenancy(broker)
        try:
            yield both
        finally:
            both.close()


def test_a_single_connection_gets_what_200_get() -> None:
    with tenancy() as both:
        order = both.order()
    assert order[-1] - order[0] < (1 + FEW) * REQUESTS
    assert max(later - before for before, later in pairwise(order)) < CONNECTIONS * IN_FLIGHT // FEW


def test_planted_turns_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_connection(tenants: Tenants, connection: Connection, client_id: str | None) -> None:
        connection.named = client_id
        tenants._move(connection, tenants._of((ADDRESS, str(connection.id))))

    monkeypatch.setattr(Tenants, "named", by_connection)
    with tenancy() as both:
        order = both.order()
    assert order[-1] - order[0] > (1 + FEW) * REQUESTS
