"""Hostile sockets: their connection is closed, memory stays bounded, and nobody else notices."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.frames import encode_request
from penstock.protocol.messages.metadata_request import MetadataRequest

MIB = 1 << 20
TIMEOUT_S = 20.0
GROWTH_MAX_BYTES = 24 * MIB
RECEIVE_TIMEOUT_MS = 1500
CONNECTIONS_MAX = 120


class Node:
    """A broker in a process of its own, whose memory can be looked at."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    @property
    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)

    def answers(self, connection: socket.socket | None = None) -> bool:
        """Whether a well-behaved client is served."""
        with connection or self.connect() as client:
            return is_answered(client)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    data = tmp_path_factory.mktemp("node")
    words = [
        sys.executable,
        "-m",
        "penstock",
        "dev",
        "--json",
        "--port",
        "0",
        "--metrics-port",
        "0",
        "--data",
        str(data),
    ]
    words += ["--override", f"penstock.receive.timeout.ms={RECEIVE_TIMEOUT_MS}"]
    words += ["--override", f"max.connections={CONNECTIONS_MAX}"]
    words += ["--override", f"socket.listen.backlog.size={10 * CONNECTIONS_MAX}"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield Node(process, int(ready["bootstrap"].rpartition(":")[2]))
    finally:
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
        process.stdout.close()


def well_formed() -> bytes:
    chunks = encode_request(APIS[ApiKey.METADATA], 12, 7, "client", MetadataRequest())
    return b"".join(chunk for chunk in chunks if isinstance(chunk, bytes | bytearray | memoryview))


def is_answered(connection: socket.socket) -> bool:
    connection.sendall(well_formed())
    (size,) = struct.unpack(">i", receive(connection, 4))
    return len(receive(connection, size)) == size


def receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += more
    return bytes(data)


def closed_by_the_broker(connection: socket.socket) -> bool:
    """Reads until the broker closes; False if it does not within the timeout."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_random_bytes_close_the_connection(node: Node) -> None:
    rng = random.Random(5)
    before = node.resident_bytes
    for _ in range(300):
        with node.connect() as client:
            client.sendall(rng.randbytes(rng.choice([4, 9, 100, 5000])))
            client.shutdown(socket.SHUT_WR)
            assert closed_by_the_broker(client)
    assert node.answers()
    assert node.resident_bytes - before < GROWTH_MAX_BYTES


def test_random_bodies_in_honest_frames_are_answered_or_close_the_connection(node: Node) -> None:
    rng = random.Random(6)
    before = node.resident_bytes
    for key in APIS:
        for version in (0, 3, 9, 12, 99):
            body = struct.pack(">hhih", key, version, 1, -1) + rng.randbytes(rng.choice([0, 1, 7, 60]))
            with node.connect() as client:
                client.sendall(struct.pack(">i", len(body)) + body)
                client.shutdown(socket.SHUT_WR)
                assert closed_by_the_broker(client)
    assert node.answers()
    assert node.resident_bytes - before < GROWTH_MAX_BYTES


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 11, -1])
def test_a_truncated_frame_harms_nobody(node: Node, cut: int) -> None:
    with node.connect() as client:
        client.sendall(well_formed()[:cut])
        client.shutdown(socket.SHUT_WR)
        assert closed_by_the_broker(client)
    assert node.answers()


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 104857601])
def test_a_length_beyond_the_limit_closes_the_connection_at_once(node: Node, size: int) -> None:
    before = node.resident_bytes
    for _ in range(20):
        with node.connect() as client:
            client.sendall(struct.pack(">i", size) + b"x" * 1000)
            assert closed_by_the_broker(client)
    assert node.resident_bytes - before < GROWTH_MAX_BYTES


def test_announcing_large_frames_costs_no_memory(node: Node) -> None:
    before = node.resident_bytes
    with ExitStack() as clients:
        for _ in range(100):
            client = clients.enter_context(node.connect())
            client.sendall(struct.pack(">i", 100 * MIB) + b"x" * 1000)
        assert node.answers()
        assert node.resident_bytes - before < GROWTH_MAX_BYTES


def test_a_dribbling_client_is_closed_while_others_are_served(node: Node) -> None:
    frame = struct.pack(">i", 1000) + bytes(1000)
    with node.connect() as dribbler:
        dribbler.settimeout(0.05)
        closed = False
        deadline_s = time.monotonic() + TIMEOUT_S
        for byte in frame:
            assert node.answers()
            try:
                dribbler.sendall(bytes([byte]))
                closed = dribbler.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
            if closed or time.monotonic() > deadline_s:
                break
        assert closed


def test_a_flood_of_connections_waits_outside_and_the_earlier_ones_are_served(node: Node) -> None:
    with ExitStack() as stack:
        earlier = stack.enter_context(node.connect())
        before = node.resident_bytes
        clients = [stack.enter_context(node.connect()) for _ in range(CONNECTIONS_MAX * 2)]
        served = 0
        for client in clients:
            client.settimeout(0.02)
            with suppress(TimeoutError):
                served += is_answered(client)
        assert 0 < served < CONNECTIONS_MAX
        assert node.answers(earlier)
        assert node.resident_bytes - before < GROWTH_MAX_BYTES
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            assert node.answers()
            break
        except ConnectionError:
            assert time.monotonic() < deadline_s, "the places were not given back"


def test_a_client_that_never_reads_holds_little_memory(node: Node) -> None:
    before = node.resident_bytes
    request = well_formed()
    with node.connect() as client:
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.sendall(request * (200 * MIB // len(request)))
        assert node.answers()
        assert node.resident_bytes - before < GROWTH_MAX_BYTES


def test_disconnecting_in_every_state_leaves_no_descriptor(node: Node) -> None:
    rng = random.Random(7)
    assert node.answers()
    listing = Path(f"/proc/{node.process.pid}/fd")
    if not listing.is_dir():
        pytest.skip("needs /proc to see descriptors")
    before = len(os.listdir(listing))
    request = well_formed()
    with node.connect() as earlier:  # a later one is refused as long as the node has not noticed that enough have gone
        assert is_answered(earlier)
        for _ in range(200):
            with node.connect() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", rng.randrange(2), 0))
                client.sendall((request * 3)[: rng.randrange(1, len(request) * 3)])
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(os.listdir(listing)) > before + 2:
            assert is_answered(earlier)
            assert time.monotonic() < deadline_s, "descriptors were left open"
