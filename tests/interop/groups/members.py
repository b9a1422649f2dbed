"""Members of groups by real clients behind one small interface: they join, process, commit what they processed, leave.

    with Hosts() as hosts:
        member = hosts.open(journal, "java", "a", Joining(bootstrap, "group", ("clicks",), protocol="consumer"))
        member.close()

What a member does is in its journal. Java, Go and JavaScript clients live in one process a language, which takes
orders and tells of events a line each; Python's are threads of ours.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AioListener
from aiokafka.coordinator.assignors import range as aio_range
from aiokafka.coordinator.assignors import roundrobin as aio_roundrobin
from confluent_kafka import Consumer, KafkaError, KafkaException
from interop.clients import builds
from interop.clients.ordered_process import OrderedProcess
from interop.groups.journal import Journal
from interop.kafka_peer import TOOL_OPTIONS, java_source
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from penstock.client.admin import wait_for_topic
from penstock.client.client import Client, Partition
from penstock.client.member import Member as GroupMember

END_TIMEOUT_S = 30.0
POLL_S = 0.1
LONG_POLL_MS = 1000
"""For kafka-python, which may never take over an assignment when a poll times out in the middle of a rebalance."""
SESSION_MS = 10_000
HEARTBEAT_MS = 200
REFRESH_MS = 500
JAVA_SOURCE = Path(__file__).with_name("Members.java")
JAVA_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


@dataclass(frozen=True)
class Joining:
    """Which group to join, and how.

    Attributes:
        protocol: "classic" or "consumer"; None for the choice of our own client.
        assignor: by its name in the protocol; None for the client's own choice.
        instance: the group.instance.id of a static member.
        pattern: topics by a regular expression of the client's own kind, instead of `topics`.
        more: settings in the client's own terms.
    """

    bootstrap: str
    group: str
    topics: tuple[str, ...] = ()
    protocol: str | None = "classic"
    assignor: str | None = None
    instance: str | None = None
    pattern: str | None = None
    more: dict[str, Any] = field(default_factory=dict)


class Member(Protocol):
    def close(self) -> None:
        """Leaves the group; returns when it has."""

    def abandon(self) -> None:
        """Ends without leaving, as far as the client knows how."""


class Threaded:
    """A member that is a thread of this process."""

    def __init__(self, journal: Journal, name: str, joining: Joining) -> None:
        self.journal, self.name, self.joining = journal, name, joining
        self.ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"member {name}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.run()
            self.journal.tell(self.name, "closed")
        except Exception as error:
            self.journal.tell(self.name, "failed", [repr(error)])

    def run(self) -> None:
        """Joins, works until `ending` is set, and leaves."""
        raise NotImplementedError

    def tell(self, kind: str, places: Iterable[Sequence[Any]]) -> None:
        self.journal.tell(self.name, kind, [":".join(map(str, place)) for place in places])

    def close(self) -> None:
        self.ending.set()
        self._thread.join(END_TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    abandon = close
    """Static members do not leave a classic group when they are closed, and say that they will be back in a new one."""


class ConfluentMember(Threaded):
    """librdkafka."""

    def run(self) -> None:
        consumer = Consumer(self.settings())
        topics = [f"^{self.joining.pattern}"] if self.joining.pattern else list(self.joining.topics)
        consumer.subscribe(topics, on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost)
        try:
            while not self.ending.is_set():
                messages = consumer.consume(100, POLL_S)
                for message in messages:
                    if message.error() is not None:
                        raise KafkaException(message.error())
                if messages:
                    self.tell("read", [(each.topic(), each.partition(), each.offset()) for each in messages])
                    commit(consumer)
        finally:
            consumer.close()

    def settings(self) -> dict[str, Any]:
        joining = self.joining
        settings: dict[str, Any] = {
            "bootstrap.servers": joining.bootstrap,
            "client.id": self.name,
            "group.id": joining.group,
            "group.protocol": joining.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": REFRESH_MS,
            "log_level": 0,
        }
        if joining.protocol == "classic":
            settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        if joining.assignor:
            name = "partition.assignment.strategy" if joining.protocol == "classic" else "group.remote.assignor"
            settings[name] = joining.assignor
        if joining.instance:
            settings["group.instance.id"] = joining.instance
        return settings | joining.more

    def assigned(self, _: Consumer, partitions: list[Any]) -> None:
        self.tell("assigned", [(each.topic, each.partition) for each in partitions])

    def revoked(self, consumer: Consumer, partitions: list[Any]) -> None:
        self.tell("revoked", [(each.topic, each.partition) for each in partitions])

    def lost(self, _: Consumer, partitions: list[Any]) -> None:
        self.tell("lost", [(each.topic, each.partition) for each in partitions])


def commit(consumer: Consumer) -> None:
    """Commits what was consumed. A commit in the middle of a rebalance may be refused; the next one has it too."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as refused:
        later = {KafkaError._NO_OFFSET, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.STALE_MEMBER_EPOCH}
        if refused.args[0].code() not in later:
            raise


class KafkaPythonMember(Threaded, ConsumerRebalanceListener):  # type: ignore[misc]
    """kafka-python."""

    ASSIGNORS = {  # noqa: RUF012
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }

    def run(self) -> None:
        joining = self.joining
        more = dict(joining.more)
        if joining.assignor:
            more["partition_assignment_strategy"] = [self.ASSIGNORS[joining.assignor]]
        consumer = KafkaConsumer(
            bootstrap_servers=joining.bootstrap,
            client_id=self.name,
            group_id=joining.group,
            group_instance_id=joining.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=REFRESH_MS,
            **more,
        )
        try:
            consumer.subscribe(topics=list(joining.topics), pattern=joining.pattern, listener=self)
            while not self.ending.is_set():
                found = consumer.poll(timeout_ms=LONG_POLL_MS)
                if found:
                    self.tell("read", [(m.topic, m.partition, m.offset) for batch in found.values() for m in batch])
                    consumer.commit()
        finally:
            consumer.close()
            del consumer
            gc.collect()  # finds a socket that was left while it connected; later it would be another test's fault

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.tell("assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.tell("revoked", revoked)


class AiokafkaMember(Threaded, AioListener):  # type: ignore[misc]
    """aiokafka."""

    ASSIGNORS = {  # noqa: RUF012
        "range": aio_range.RangePartitionAssignor,
        "roundrobin": aio_roundrobin.RoundRobinPartitionAssignor,
    }

    def run(self) -> None:
        asyncio.run(self.consume())

    async def consume(self) -> None:
        joining = self.joining
        more = dict(joining.more)
        if joining.assignor:
            more["partition_assignment_strategy"] = [self.ASSIGNORS[joining.assignor]]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=joining.bootstrap,
            client_id=self.name,
            group_id=joining.group,
            group_instance_id=joining.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=REFRESH_MS,
            **more,
        )
        consumer.subscribe(topics=joining.topics, pattern=joining.pattern, listener=self)
        await consumer.start()
        try:
            while not self.ending.is_set():
                found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                if found:
                    self.tell("read", [(m.topic, m.partition, m.offset) for batch in found.values() for m in batch])
                    await consumer.commit()
        finally:
            await consumer.stop()

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.tell("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.tell("revoked", revoked)


class PenstockMember(Threaded):
    """Our own client, as `penstock consume --group` uses it. It offers all assignors that it has."""

    def run(self) -> None:
        asyncio.run(self.consume())

    async def consume(self) -> None:
        joining = self.joining
        had: set[Partition] = set()
        async with Client(joining.bootstrap) as client:
            for topic in joining.topics:
                await wait_for_topic(client, topic, expected=1)
            async with GroupMember(client, joining.group, joining.topics, protocol=joining.protocol) as member:
                while not self.ending.is_set():
                    found = await member.poll()
                    has = set(member.positions)
                    for kind, places in (("revoked", had - has), ("assigned", has - had)):
                        if places:
                            self.tell(kind, places)
                    had = has
                    if found:
                        self.tell("read", [(topic, index, record.offset) for topic, index, record in found])
                        await member.commit()


class Host(OrderedProcess):
    """A process with the members of one language."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self.journals: dict[str, Journal] = {}

    def __enter__(self) -> Self:
        super().__enter__()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def ended(self) -> None:
        self._listener.join(END_TIMEOUT_S)

    def _listen(self) -> None:
        for line in self.lines():
            member, kind, *places = line.split()
            self.journals[member].tell(member, kind, places)

    def order(self, *words: str) -> None:
        self.give(" ".join(words))


class HostedMember:
    """A member in a host."""

    def __init__(self, host: Host, journal: Journal, name: str, settings: dict[str, Any]) -> None:
        self.host, self.journal, self.name = host, journal, name
        host.journals[name] = journal
        host.order("open", name, *(f"{key}={value}" for key, value in settings.items() if value is not None))

    def close(self) -> None:
        self._end("close")

    def abandon(self) -> None:
        self._end("abandon")

    def _end(self, how: str) -> None:
        self.host.order(how, self.name)
        self.journal.wait(lambda: self.name not in self.journal.owned, f"{self.name} to end")


def java_settings(name: str, joining: Joining) -> dict[str, Any]:
    """Properties of the Java client."""
    classic = joining.protocol == "classic"
    settings: dict[str, Any] = {
        "bootstrap.servers": joining.bootstrap,
        "client.id": name,
        "group.id": joining.group,
        "group.protocol": joining.protocol,
        "group.instance.id": joining.instance,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "metadata.max.age.ms": REFRESH_MS,
        "topics": ",".join(joining.topics) or None,
        "pattern": joining.pattern if classic else None,
        "re2": None if classic else joining.pattern,
    }
    if classic:
        settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    if joining.assignor:
        place = f"org.apache.kafka.clients.consumer.{JAVA_ASSIGNORS.get(joining.assignor)}"
        settings["partition.assignment.strategy" if classic else "group.remote.assignor"] = (
            place if classic else joining.assignor
        )
    return settings | joining.more


def plain_settings(name: str, joining: Joining) -> dict[str, Any]:
    """What the members in Go and JavaScript are told."""
    return {
        "bootstrap": joining.bootstrap,
        "group": joining.group,
        "topics": ",".join(joining.topics) or None,
        "pattern": joining.pattern,
        "assignor": joining.assignor,
        "instance": joining.instance,
        "session_ms": SESSION_MS,
        "heartbeat_ms": HEARTBEAT_MS,
        "refresh_ms": REFRESH_MS,
    } | joining.more


class Hosts:
    """Opens members by any client; a process of another language is started when it is first wanted."""

    THREADED = {  # noqa: RUF012
        "librdkafka": ConfluentMember,
        "kafka-python": KafkaPythonMember,
        "aiokafka": AiokafkaMember,
        "penstock": PenstockMember,
    }

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for host in self._hosts.values():
            host.__exit__()

    def open(self, journal: Journal, client: str, name: str, joining: Joining) -> Any:
        """A new member, which is joining when this returns."""
        journal.owned[name] = set()
        if client in self.THREADED:
            return self.THREADED[client](journal, name, joining)
        if client not in self._hosts:
            self._hosts[client] = Host(command_of(client)).__enter__()
        settings = java_settings if client == "java" else plain_settings
        return HostedMember(self._hosts[client], journal, name, settings(name, joining))


def command_of(client: str) -> list[str]:
    """The command that runs members of another language."""
    if client == "java":
        return java_source(JAVA_SOURCE.read_text(), options=[*TOOL_OPTIONS, "-Xmx512m"])
    if client == "franz-go":
        return [*builds.go_clients(), "members"]
    assert client == "kafkajs", client
    *node, script = builds.kafkajs_client()
    return [*node, str(Path(script).with_name("members.js"))]
