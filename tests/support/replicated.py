"""Several whole nodes that replicate to each other, with their metadata dictated: a cluster without its controller.

    cluster = Cluster(3)
    cluster.create("t", leader=1)
    cluster.client(1).send(produce("t", batch(), acks=-1), 9)
    cluster.settle()

Each node is as in `support.broker`, a quorum of itself for its start; then brokers and topics are what all are told.
Bytes between nodes arrive when `settle` or `advance` is called, unless a link is cut. AlterPartition is decided by
`Cluster.decide`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.log.disk import FileSlice
from penstock.log.log import Log
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import PartitionRegistration
from penstock.node.broker import Broker
from penstock.node.effects import Dial, HangUp, Send, SendTo
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_partition_request import AlterPartitionRequest
from penstock.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.protocol.messages.metadata.partition_record import PartitionRecord
from penstock.protocol.messages.metadata.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from penstock.protocol.messages.metadata.topic_record import TopicRecord
from support.broker import Client, Node

PORT = 9000
PEERS_FROM = 1_000_000
"""Connections of other nodes have numbers from here on."""


class Linked(Node):
    """A node that reaches others."""

    def __init__(self, cluster: Cluster, node_id: int, **settings: Any) -> None:
        self.cluster = cluster
        super().__init__(node_id=node_id, seed=node_id, **settings)

    def start(self) -> None:
        """Boots; from then on its metadata is what it is told."""
        super().start()
        self.broker.image_published = lambda *_: None  # type: ignore[method-assign]

    def learn(self, records: list[Any]) -> None:
        """Takes over committed records."""
        broker = self.broker
        old = broker.image
        delta = MetadataDelta(old)
        for record in records:
            delta.replay(record)
        Broker.image_published(broker, old, delta.apply(old.offset + 1, old.epoch, self.now_ms), delta, self.now_ms)
        self.run()
        self.settle()

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, Dial):
            self.cluster.dial(self, effect)
        elif isinstance(effect, SendTo):
            self.cluster.sent(self, effect.link, b"".join(bytes(chunk) for chunk in effect.chunks))  # type: ignore[arg-type]
        elif isinstance(effect, HangUp):
            self.cluster.hung_up(self, effect.link)
        elif isinstance(effect, Send) and effect.connection >= PEERS_FROM:
            self.cluster.answered(self, effect.connection, b"".join(self.content(chunk) for chunk in effect.chunks))
        elif getattr(effect, "connection", 0) < PEERS_FROM:
            super().carry_out(effect)

    def content(self, chunk: Any) -> bytes:
        if isinstance(chunk, FileSlice):
            return self.disks[chunk.directory].content(chunk.path)[chunk.position : chunk.position + chunk.length]
        return bytes(chunk)

    @property
    def id(self) -> int:
        return self.settings.node_id


class Cluster:
    """Nodes 1 to `count`.

    Attributes: `nodes`, by id; `dead`: ids of those that do nothing; `cut`: (from, to) of links that break; `refused`:
    what AlterPartition answers for the next partitions, instead of doing it; `altered`: its requests.
    """

    def __init__(self, count: int = 3, **settings: Any) -> None:
        self.messages: deque[Callable[[], None]] = deque()
        self.links: dict[int, tuple[Linked, int, Linked]] = {}
        self.dead: set[int] = set()
        self.cut: set[tuple[int, int]] = set()
        self.refused: list[ErrorCode] = []
        self.altered: list[AlterPartitionRequest] = []
        self.nodes = {number: Linked(self, number, **settings) for number in range(1, count + 1)}
        for node in self.nodes.values():
            node.broker.replication.isr_changes._channel = Controller(self, node)
        self.tell([self.registered(node) for node in self.nodes.values()])

    # Metadata

    def registered(self, node: Linked) -> RegisterBrokerRecord:
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=PORT + node.id, security_protocol=0)
        return RegisterBrokerRecord(
            broker_id=node.id,
            incarnation_id=UUID(int=node.id),
            broker_epoch=node.broker.state.broker_epoch,
            end_points=[endpoint],
            log_dirs=[each.id for each in node.broker.logs.table.directories if each.id is not None],
            fenced=False,
            rack=f"rack {node.id}",
        )

    def tell(self, records: list[Any], *, but: tuple[int, ...] = ()) -> None:
        """Commits records on all nodes that are alive."""
        for node in self.nodes.values():
            if node.id not in self.dead and node.id not in but:
                node.learn(records)

    def create(self, name: str, *, leader: int = 1, partitions: int = 1, isr: tuple[int, ...] = ()) -> UUID:
        """A topic on all nodes."""
        topic_id = UUID(int=0xABC0 + len(name) * 256 + ord(name[-1]))
        replicas = sorted(self.nodes, key=lambda each: (each != leader, each))
        records: list[Any] = [TopicRecord(name=name, topic_id=topic_id)]
        for index in range(partitions):
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=list(isr) or replicas,
                    leader=leader,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[UUID(int=0)] * len(replicas),
                )
            )
        self.tell(records)
        return topic_id

    def registration(self, name: str, index: int = 0) -> PartitionRegistration:
        node = next(node for node in self.nodes.values() if node.id not in self.dead)
        found = node.broker.image.partition(name, index)
        assert found is not None
        return found

    def change(self, name: str, index: int = 0, *, but: tuple[int, ...] = (), **fields: Any) -> None:
        """Another leader, ISR or replica set of a partition."""
        topic = next(iter(self.nodes.values())).broker.image.topics_by_name.get(name)
        assert topic is not None
        self.tell([PartitionChangeRecord(partition_id=index, topic_id=topic.id, **fields)], but=but)

    def decide(self, node: Linked, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.altered.append(request)
        answer = AlterPartitionResponse()
        for topic in request.topics:
            found = TopicData(topic_id=topic.topic_id)
            answer.topics.append(found)
            image = node.broker.image.topics_by_id.get(topic.topic_id)
            assert image is not None
            for each in topic.partitions:
                data = PartitionData(partition_index=each.partition_index)
                found.partitions.append(data)
                if self.refused:
                    data.error_code = self.refused.pop(0)
                    continue
                isr = [broker.broker_id for broker in each.new_isr_with_epochs]
                self.change(image.name, each.partition_index, isr=isr)
                now = self.registration(image.name, each.partition_index)
                data.leader_id, data.leader_epoch = now.leader, now.leader_epoch
                data.isr, data.partition_epoch = isr, now.partition_epoch
        return answer

    # The network

    def dial(self, node: Linked, dial: Dial) -> None:
        target = self.nodes.get(dial.port - PORT)

        def arrive() -> None:
            if target is None or not self.reachable(node, target):
                node.broker.link_lost(dial.link, "unreachable", node.now_ms)
                node.run()
                return
            connection = PEERS_FROM * node.id + dial.link
            self.links[connection] = (node, dial.link, target)
            target.broker.connected(connection, dial.listener, f"127.0.0.1:{PORT + node.id}", target.now_ms)
            node.broker.link_up(dial.link, node.now_ms)
            node.run()

        self.messages.append(arrive)

    def reachable(self, one: Linked, other: Linked) -> bool:
        return not {one.id, other.id} & self.dead and (one.id, other.id) not in self.cut

    def sent(self, node: Linked, link: int, data: bytes) -> None:
        connection = PEERS_FROM * node.id + link

        def arrive() -> None:
            _, _, target = self.links.get(connection, (node, link, node))
            if target is not node and self.reachable(node, target):
                for frame in framed(data):
                    target.broker.received(connection, frame, target.now_ms)
                    target.run()
                    target.settle()
            else:
                self.lose(connection)

        self.messages.append(arrive)

    def answered(self, target: Linked, connection: int, data: bytes) -> None:
        node, link, _ = self.links[connection]

        def arrive() -> None:
            if connection in self.links and self.reachable(node, target):
                for frame in framed(data):
                    node.broker.link_received(link, frame, node.now_ms)
                    node.run()
                    node.settle()
            else:
                self.lose(connection)

        self.messages.append(arrive)

    def hung_up(self, node: Linked, link: int) -> None:
        found = self.links.pop(PEERS_FROM * node.id + link, None)
        if found is not None:
            self.messages.append(lambda: found[2].broker.disconnected(PEERS_FROM * node.id + link, found[2].now_ms))

    def lose(self, connection: int) -> None:
        found = self.links.pop(connection, None)
        if found is not None:
            node, link, target = found
            if node.id not in self.dead:
                node.broker.link_lost(link, "connection reset", node.now_ms)
                node.run()
            if target.id not in self.dead:
                target.broker.disconnected(connection, target.now_ms)
                target.run()

    def kill(self, node_id: int) -> None:
        """A node dies; its connections break."""
        self.dead.add(node_id)
        for connection, (node, _, target) in list(self.links.items()):
            if node_id in (node.id, target.id):
                self.lose(connection)

    # Time

    @property
    def alive(self) -> list[Linked]:
        return [node for node in self.nodes.values() if node.id not in self.dead]

    def settle(self) -> None:
        """Delivers what is under way; no time passes but the tick that timers are rounded up to."""
        for _ in range(10_000):
            if not self.messages:
                return
            self.messages.popleft()()
        raise AssertionError("the nodes never stop talking")

    def advance(self, duration_ms: int, step_ms: int = 5) -> None:
        for _ in range(0, duration_ms, step_ms):
            self.settle()
            for node in self.alive:
                node.advance(step_ms)
        self.settle()

    # Looking

    def client(self, node_id: int) -> Client:
        return self.nodes[node_id].connect()

    def log(self, node_id: int, name: str = "t", index: int = 0) -> Log:
        found = self.nodes[node_id].broker.logs.open_log(name, index)
        assert isinstance(found, Log)
        return found

    def bytes_of(self, node_id: int, name: str = "t", index: int = 0) -> bytes:
        """All records of a replica, as they are on its disk."""
        node = self.nodes[node_id]
        segments = self.log(node_id, name, index).segments.all
        return b"".join(node.disks[0].content(segment.log_path) for segment in segments)


class Controller:
    """The way to the controller: `Cluster.decide`, a moment later."""

    def __init__(self, cluster: Cluster, node: Linked) -> None:
        self.cluster = cluster
        self.node = node

    def to_controller(self, message: Any, answered: Callable[[Message | None, int], None], now_ms: int, /) -> None:
        def arrive() -> None:
            request = message() if callable(message) else message
            answer = self.cluster.decide(self.node, request)
            answered(answer, self.node.now_ms)
            self.node.run()

        self.cluster.messages.append(arrive)


def framed(data: bytes) -> list[memoryview]:
    """The frames of a stream, without their lengths."""
    frames = []
    while data:
        length = int.from_bytes(data[:4], "big")
        frames.append(memoryview(bytearray(data[4 : 4 + length])))
        data = data[4 + length :]
    return frames
