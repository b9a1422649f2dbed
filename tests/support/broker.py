"""A whole broker without a shell: frames in, frames out, on simulated disks and a clock that stands still.

    node = Node()
    node.create_topic("clicks", partitions=2)
    client = node.connect()
    answer = client.ask(ProduceRequest(...), version=9)

Effects are carried out at once, in order, on the blocking disk, until none is left. `node.held` says which operations
wait instead (until `node.let_go()`), `node.now_ms` is the time, `node.advance(ms)` lets it pass, deadline by deadline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from penstock.config.server import Settings
from penstock.errors import ErrorCode
from penstock.log.directory import LogDirectory
from penstock.log.disk import FileSlice, Operation
from penstock.log.events import LogEvent
from penstock.metadata import topics
from penstock.metadata.format import FormatRequest, format_directories
from penstock.metadata.image import Endpoint
from penstock.metadata.result import MetadataMessage
from penstock.node.broker import Broker
from penstock.node.effects import Close, PauseReading, ResumeReading, Run, Send
from penstock.node.handlers import registry
from penstock.node.plugged import NOTHING_PLUGGED, Plugged
from penstock.node.request import Handler
from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER, Api, ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.create_partitions_request import CreatePartitionsTopic
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from penstock.raft.voters import VoterEndpoint
from penstock.records.wall import WallTime
from penstock.security.authorizer import AclChanges, AclOperation, Authorizer, Principal, ResourceType
from penstock.security.certificates import Shown
from simulator.world.disk import SimulatedDisk

M = TypeVar("M", bound=Message)

START_MS = 1_800_000_000_000
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


class Client:
    """One connection. `answers` are the frames that came, without their length; `closed` is why it was closed."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.answers: deque[bytes] = deque()
        self.asked: deque[tuple[int, Api, int]] = deque()
        self.closed: str | None = None
        self.paused = False
        self._correlation_id = 0

    def frame(self, message: Message, version: int, client_id: str | None = "test") -> bytearray:
        """A request as a frame, without the length."""
        api = API_BY_NUMBER[message.KEY]
        self._correlation_id += 1
        self.asked.append((self._correlation_id, api, version))
        chunks = frames.encode_request(api, version, self._correlation_id, client_id, message)
        return bytearray(b"".join(chunks)[4:])  # type: ignore[arg-type]

    def send(self, message: Message, version: int, client_id: str | None = "test") -> None:
        """Gives the broker a request and carries out what it causes."""
        self.send_bytes(self.frame(message, version, client_id))

    def send_bytes(self, frame: bytes | bytearray) -> None:
        self.node.broker.received(self.number, memoryview(bytearray(frame)), self.node.now_ms)
        self.node.run()
        self.node.settle()

    def receive(self) -> Any:
        """The next answer; it must be there, and for the oldest request that has none."""
        correlation_id, api, version = self.asked.popleft()
        assert self.answers, f"no answer to {api.name}" + (f": closed, {self.closed}" if self.closed else "")
        frame = self.answers.popleft()
        answered, message = frames.decode_response(api, version, memoryview(frame))
        assert answered == correlation_id, "answers leave in the order of the requests"
        return message

    def ask(self, message: Message, version: int, client_id: str | None = "test") -> Any:
        self.send(message, version, client_id)
        return self.receive()


class Acls:
    """An authorizer that refuses what `refused(operation, resource type, name)` says: nothing, until a test has it."""

    has_acls = False
    acl_count = 0
    NOTHING: Callable[[AclOperation, ResourceType, str], bool] = staticmethod(lambda *_: False)

    def __init__(self) -> None:
        self.refused = self.NOTHING

    def authorize(
        self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> bool:
        return not self.refused(operation, resource, name)

    def reason(
        self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> str:
        return "the test says so"

    def authorize_any(self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType) -> bool:
        return not self.refused(operation, resource, "any")

    def is_super(self, principal: Principal) -> bool:
        return self.refused is self.NOTHING

    def changed(self, changes: AclChanges) -> None:
        """It has no ACLs."""

    def loaded(self) -> None:
        """It is at once."""


class Node:
    """A broker and its world. Settings are attribute names of `Settings`.

    Attributes: `bugs`, errors that should never happen and ended one thing; any fails the test unless `bugs_expected`.
    """

    def __init__(
        self,
        *,
        directories: int = 1,
        start: bool = True,
        seed: int = 1,
        release: str | None = None,
        features: Mapping[str, int] = MappingProxyType({}),
        authorizer: Authorizer | None = None,
        handlers: Mapping[ApiKey, Handler[Broker]] = MappingProxyType({}),
        properties: Mapping[str, str] = MappingProxyType({}),
        users: Sequence[MetadataMessage] = (),
        plugged: Plugged = NOTHING_PLUGGED,
        **settings: Any,
    ) -> None:
        """`release` is the metadata.version to format with, `features` the levels of others; `handlers` take the place
        of the node's own. `properties` are those that no attribute of the settings has, such as those of a listener.
        `users` are records of those that it is formatted with. `plugged`: see there.
        """
        self.handlers = handlers
        self.plugged = plugged
        self.now_ms = START_MS
        self.wall = WallTime()
        self.acls = Acls()
        self.authorizer = authorizer or self.acls
        self.random = Random(seed)
        self.disks = [SimulatedDisk(index, clock=lambda: self.now_ms) for index in range(directories)]
        paths = tuple(f"/data/{index}" for index in range(directories))
        self.settings = Settings.for_node(log_dirs=paths, **settings)
        if properties:
            self.settings = Settings.from_properties({**self.settings.given, **properties}, strict=True)
        self.events: list[LogEvent] = []
        self.bugs: list[Exception] = []
        self.bugs_expected = False
        self.clients: dict[int, Client] = {}
        self.held: Callable[[Operation], bool] | None = None
        self.waiting_operations: list[Operation] = []
        self.ran: list[Operation] = []
        format_directories(
            dict(zip(paths, self.disks, strict=True)),
            FormatRequest(
                CLUSTER_ID,
                self.settings.node_id,
                paths[0],
                release_version=release,
                feature_levels=features,
                standalone=True,
                controller=VoterEndpoint("CONTROLLER", "127.0.0.1", 9093),
                users=users,
            ),
            self.random,
            self.now_ms,
        )
        if start:
            self.start()

    def start(self) -> None:
        """Boots until the broker is ready."""
        self.boot()
        self.run()
        self.settle()
        assert self.broker.ready, "the node did not come up"

    def boot(self) -> None:
        """Reads the directories, and gets no further."""
        self.broker = Broker(
            self.settings,
            [
                LogDirectory(index, path, disk.loop, disk)  # type: ignore[arg-type]
                for index, (path, disk) in enumerate(zip(self.settings.directories, self.disks, strict=True))
            ],
            {**registry(), **self.handlers},
            random=self.random,
            report=self.events.append,
            bug=self._bug,
            wall=self.wall,
            authorizer=self.authorizer,
            plugged=self.plugged,
        )
        self.clients = {}
        self.waiting_operations = []
        self.broker.start([Endpoint("PLAINTEXT", "127.0.0.1", 9092)], self.now_ms)

    def stop(self) -> None:
        """A clean stop."""
        self.broker.shutdown(self.now_ms)
        self.run()
        assert self.broker.stopped

    def restart(self) -> None:
        """A clean stop, and a start."""
        self.stop()
        self.start()

    def crash(self, *, power_failed: bool = True) -> None:
        """The process or the machine dies, and comes back."""
        for disk in self.disks:
            disk.restart(power_failed=power_failed)
        self.start()

    def _bug(self, where: str, error: Exception) -> None:
        if not self.bugs_expected:
            raise AssertionError(f"error in {where}") from error
        self.bugs.append(error)

    # Effects and time

    def run(self) -> None:
        """Carries out effects until there are none."""
        while effects := self.broker.take_effects():
            for effect in effects:
                self.carry_out(effect)

    def carry_out(self, effect: Any) -> None:
        """Carries out one effect."""
        if isinstance(effect, Send):
            self._sent(effect)
        elif isinstance(effect, Close):
            self.clients[effect.connection].closed = effect.reason
        elif isinstance(effect, PauseReading | ResumeReading):
            self.clients[effect.connection].paused = isinstance(effect, PauseReading)
        elif isinstance(effect, Run):
            self.operate(effect.operation)

    def operate(self, operation: Operation) -> None:
        """Runs an operation, or keeps it when it is to be held or something of its order is."""
        orders = {(other.directory, other.order) for other in self.waiting_operations}
        if (operation.directory, operation.order) in orders or (self.held is not None and self.held(operation)):
            self.waiting_operations.append(operation)
            return
        self.ran.append(operation)
        try:
            result = operation.run(self.disks[operation.directory])  # type: ignore[arg-type]
        except OSError as error:
            self.broker.operation_failed(operation, error, self.now_ms)
        except Exception as error:
            self.broker.operation_broke(operation, error, self.now_ms)
        else:
            self.broker.operation_completed(operation, result, self.now_ms)

    def let_go(self) -> None:
        """Runs the held operations, in order."""
        waiting, self.waiting_operations, self.held = self.waiting_operations, [], None
        for operation in waiting:
            self.operate(operation)
            self.run()
        self.settle()

    def _sent(self, send: Send) -> None:
        client = self.clients[send.connection]
        pieces = []
        for chunk in send.chunks:
            if isinstance(chunk, FileSlice):
                content = self.disks[chunk.directory].content(chunk.path)
                pieces.append(content[chunk.position : chunk.position + chunk.length])
            else:
                pieces.append(bytes(chunk))
        data = b"".join(pieces)
        while data:
            length = int.from_bytes(data[:4], "big")
            client.answers.append(data[4 : 4 + length])
            assert len(data) >= 4 + length, "only whole frames are sent"
            data = data[4 + length :]

    def settle(self) -> None:
        """Does all long work."""
        while (deadline_ms := self.broker.next_deadline_ms()) is not None and deadline_ms <= self.now_ms:
            self.broker.tick(self.now_ms)
            self.run()

    def advance(self, duration_ms: int) -> None:
        """Lets time pass, with a tick at every deadline."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.broker.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.broker.tick(self.now_ms)
            self.run()
        self.now_ms = end_ms

    # Clients

    def connect(self, listener: str = "PLAINTEXT", shown: Shown | None = None) -> Client:
        number = len(self.clients) + 1
        client = self.clients[number] = Client(self, number)
        self.broker.connected(number, listener, "127.0.0.1:40000", self.now_ms, shown)
        return client

    def disconnect(self, client: Client) -> None:
        self.broker.disconnected(client.number, self.now_ms)
        self.run()

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> UUID:
        """Has the controller create a topic; configs are named with `_` for `.`. Gives its id."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        self.change(topics.create_topics(self.broker.controller.state, [topic]).records)
        found = self.broker.image.topics_by_name.get(name)
        assert found is not None
        return found.id

    def add_partitions(self, name: str, partitions: int) -> None:
        """Has the controller raise the number of partitions of a topic."""
        wanted = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        self.change(topics.create_partitions(self.broker.controller.state, [wanted]).records)

    def delete_topic(self, name: str) -> None:
        """Has the controller delete a topic."""
        found = self.broker.image.topics_by_name.get(name)
        assert found is not None
        self.change(topics.delete_topics(self.broker.controller.state, [found.id]).records)

    def change(self, records: Sequence[Any]) -> None:
        """Commits metadata records."""
        ended: list[ErrorCode] = []
        self.broker.controller.append(
            records, lambda now_ms: ended.append(ErrorCode.NONE), lambda code, now_ms: ended.append(code), self.now_ms
        )
        self.run()
        self.settle()
        assert ended == [ErrorCode.NONE]
