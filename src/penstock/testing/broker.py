"""A broker for tests: one node in this process, on free ports of the loopback, in a temporary directory, gone without a
trace.

    with LocalBroker() as broker:
        broker.create_topic("clicks", partitions=3)
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from penstock.cli.dev_data import check_fit
from penstock.client.tls import client_context, read_material
from penstock.config.broker.network import WITH_TLS
from penstock.config.server import Settings
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.frames import decode_response, encode_request
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.server.directories import format_storage
from penstock.server.embedded import EmbeddedServer

MEMORY_DIRECTORY = "/dev/shm"
MEMORY_WANTED_BYTES = 1 << 30
"""Free space in memory below which the broker's files go to the ordinary temporary directory."""
REQUEST_TIMEOUT_S = 30.0
CREATE_TOPICS_VERSION = 7


class LocalBroker:
    """One broker. Use it as a context manager, or call `start` and `stop`.

    Args:
        settings: server settings by Kafka's names (`{"num.partitions": "3"}`), over those of a small local node.
        data_dir: keep the data there (made and formatted if need be, not removed); None for a temporary directory.

    Attributes:
        bootstrap: `127.0.0.1:port`, of the first listener for clients; port: its port.
        addresses: of all listeners, by name.
        data_dir: where the logs are.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, data_dir: str | Path | None = None) -> None:
        self._given = dict(settings or {})
        self._temporary = data_dir is None
        self.data_dir = Path(data_dir) if data_dir is not None else Path()
        self.bootstrap = ""
        self.port = 0
        self.addresses: Mapping[str, str] = {}
        self._embedded: EmbeddedServer | None = None
        self._context: ssl.SSLContext | None = None

    def start(self) -> None:
        """Starts the broker; returns when it serves. Raises ConfigError if `data_dir` has what is no node's."""
        assert self._embedded is None, "the broker is running"
        if self._temporary:
            self.data_dir = Path(tempfile.mkdtemp(prefix="penstock-", dir=memory_directory()))
        check_fit(str(self.data_dir))
        try:
            settings = self._settings()
            format_storage(settings, None, Random(os.urandom(16)), time.time_ns() // 1_000_000, durable=False)
            self._embedded = EmbeddedServer(settings)
            self._embedded.start()
        except BaseException:
            self._embedded = None
            self._remove()
            raise
        self.addresses = self._embedded.addresses
        endpoint = settings.advertised_endpoints[0]
        self.bootstrap = self.addresses[endpoint.listener]
        self.port = int(self.bootstrap.rpartition(":")[2])
        self._context = None
        if endpoint.security_protocol in WITH_TLS:
            values = settings.of_listener(endpoint.listener)
            self._context = client_context(values, read_material(values), check_host_name=False)

    def stop(self) -> None:
        """Stops the broker cleanly and removes its temporary directory. Twice is no error."""
        if self._embedded is not None:
            self._embedded.stop()
            self._embedded = None
            self._remove()

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Creates a topic; it can be used when this returns. Raises RequestError as the broker refuses it."""
        settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(REQUEST_TIMEOUT_S * 1000))
        response = self.request(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, request)
        for result in response.topics:
            if result.error_code:
                raise RequestError(ErrorCode(result.error_code), result.error_message or "")

    def request(self, key: ApiKey, version: int, message: Any) -> Any:
        """Sends one request on a connection of its own and returns the answer."""
        with self._connect() as connection:
            return exchange(connection, key, version, message)

    def _settings(self) -> Settings:
        """What the node is started with."""
        return local_settings(self.data_dir, self._given)

    def _connect(self) -> socket.socket:
        host = self.bootstrap.rpartition(":")[0].strip("[]")
        connection = socket.create_connection((host, self.port), REQUEST_TIMEOUT_S)
        return connection if self._context is None else self._context.wrap_socket(connection)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _remove(self) -> None:
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)


def local_settings(data_dir: Path, given: Mapping[str, str]) -> Settings:
    """Settings of one small node that keeps its data in `data_dir`; `given` wins."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:0",
        "log.dirs": str(data_dir),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    return Settings.from_properties({**properties, **given}, strict=True)


def memory_directory() -> str | None:
    """A directory in memory if the system has one with room, else None for the ordinary temporary directory."""
    with suppress(OSError):
        status = os.statvfs(MEMORY_DIRECTORY)
        if os.access(MEMORY_DIRECTORY, os.W_OK) and status.f_bavail * status.f_frsize >= MEMORY_WANTED_BYTES:
            return MEMORY_DIRECTORY
    return None


def exchange(connection: socket.socket, key: ApiKey, version: int, message: Any) -> Any:
    """Sends one request and returns the answer."""
    api = APIS[key]
    for chunk in encode_request(api, version, 0, "penstock-testing", message):
        assert isinstance(chunk, bytes | bytearray | memoryview)
        connection.sendall(chunk)
    (size,) = struct.unpack(">i", receive(connection, 4))
    return decode_response(api, version, receive(connection, size))[1]


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes."""
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return bytes(data)
