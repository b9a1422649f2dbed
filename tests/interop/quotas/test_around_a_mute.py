"""A mute connection on real sockets: over TLS, when its client goes away, and addresses that connect too often."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from interop.clients.valid_security_requests import quota_entry
from interop.clients.wire import Wire, request_frame
from interop.quotas.limited import (
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
from support.processes import wait_until
from support.tls import Authority, ssl_listeners

from penstock.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.slow

LIMIT, RECORD_BYTES = 20_000, 2_000
VERSIONS = request_frame(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[LocalBroker]:
    with LocalBroker({**WINDOWS, **ssl_listeners(), **authority.store("node").properties()}) as broker:
        yield broker


def over_tls(broker: LocalBroker, authority: Authority) -> Wire:
    wire = Wire(broker.addresses["SSL"])
    context = ssl.create_default_context(cafile=str(authority.trust))
    wire.socket = context.wrap_socket(wire.socket, server_hostname="127.0.0.1")
    return wire


def test_who_sends_fifty_requests_at_once_over_tls_gains_nothing(broker: LocalBroker, authority: Authority) -> None:
    """They are a few records of TLS, which the broker has received when the first of them makes it mute."""
    broker.create_topic("over-tls")
    frames = [produce_frame("over-tls", RECORD_BYTES, number=number) for number in range(1, 51)]
    size = counted_bytes(frames[0])
    with (
        limited(broker.bootstrap, WIRE, producer_byte_rate=LIMIT),
        over_tls(broker, authority) as wire,
        at_least(least_s(50 * size, LIMIT, more=size)),
    ):
        wire.send(b"".join(frames))
        for _ in frames:
            assert wire.receive() is not None


def descriptors() -> int:
    """Open files of this process, in which the broker is, too."""
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no list of open files here")
def test_nothing_is_left_of_clients_that_went_away_while_they_were_mute(broker: LocalBroker) -> None:
    broker.create_topic("gone")
    with Wire(broker.bootstrap) as wire:
        wire.ask(of_bytes("gone", 1_000), PRODUCE_VERSION)  # opens its files
    with limited(broker.bootstrap, WIRE, producer_byte_rate=LIMIT):
        before = descriptors()
        for number in range(6):
            with Wire(broker.bootstrap) as wire:
                wire.ask(of_bytes("gone", 25_000), PRODUCE_VERSION)
                if number % 2:
                    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                wire.send(VERSIONS)
    wait_until(lambda: descriptors() <= before, "their sockets are closed once the mute is over", timeout_s=60)


@contextmanager
def address_limited(broker: LocalBroker, connections: float) -> Iterator[None]:
    """Limits how often this machine connects; by one connection, which is there before."""
    with Wire(broker.bootstrap) as wire:

        def limit(value: float | None) -> None:
            entry = quota_entry({"ip": "127.0.0.1"}, connection_creation_rate=value)
            assert wire.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code == 0

        limit(connections)
        try:
            yield
        finally:
            limit(None)


def is_served(broker: LocalBroker) -> bool:
    """Connects and asks something. Whether there was an answer, or the connection was closed after a while."""
    host, _, port = broker.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 20) as made, suppress(ConnectionError):
        made.sendall(VERSIONS)
        return bool(made.recv(4))
    return False


def test_an_address_connects_no_more_often_than_it_may(broker: LocalBroker) -> None:
    rate, wanted = 2.0, 12
    refused_s = []
    with address_limited(broker, rate), at_least(least_s(wanted, rate, more=1)):
        served = 0
        while served < wanted:
            began_s = time.monotonic()
            if is_served(broker):
                served += 1
            else:
                refused_s.append(time.monotonic() - began_s)
    assert refused_s
    assert min(refused_s) > 0, "closed after its delay, not at once"
    assert is_served(broker), "without the limit everybody is"
