"""Clients with quotas that they exceed, beside those that a cluster always has.

They take no notice of the time for which they are told to wait: the brokers see to it that they gain nothing. Only who
is refused, for mutations of partitions, waits as it was told, and asks again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.records.builder import BatchBuilder
from simulator.cluster.admins import TIMEOUT_MS, create_request
from simulator.cluster.client import METADATA_VERSION, REQUEST_TIMEOUT_MS
from simulator.cluster.history import PartitionHistory
from simulator.cluster.load import Load
from simulator.cluster.producers import PRODUCE_VERSION, PlainProducer, produce
from simulator.quotas.rules import BUSY, FLOOD, KNOCKER, OLD
from simulator.world.checks import check

STRICT_VERSIONS, OLDER_VERSIONS = (7, 3, 5), (5, 2, 4)
"""Of CreateTopics, CreatePartitions and DeleteTopics: from which on a client can be refused, and before."""
PARTITIONS_MAX = 3
PAUSE_MS = (20, 300)
FLOOD_MS, BUSY_PAUSE_MS, KNOCK_MS = (60, 200), (40, 140), (20, 100)


class Mutator:
    """Creates topics, gives them partitions, and deletes them. `older`: as a client that cannot be refused.

    Attributes: `refused`, how often it was; `changes`, how often not. `busy`: it waits for an answer.
    """

    def __init__(self, load: Load, name: str, *, older: bool) -> None:
        self.load = load
        self.random = load.simulation.random
        self.client = load.client(name)
        self.refused = 0
        self.changes = 0
        self.busy = False
        self._older = older
        self._versions = OLDER_VERSIONS if older else STRICT_VERSIONS
        self._made = 0
        self._own: dict[str, int] = {}

    def go_on(self) -> None:
        """Asks for one change."""
        if not self.load.going_on:
            return
        create, extend, delete = self._versions
        name = self.random.choice(sorted(self._own)) if self._own else ""
        if not self._own or self.random.random() < 0.5:
            self._made += 1
            name = f"of-{self.client.name}-{self._made}"
            count = self.random.randrange(1, PARTITIONS_MAX + 1)
            self._ask(create_request([name], count, 1, {}), create, lambda: self._own.update({name: count}))
        elif self.random.random() < 0.5:
            count = self._own[name] + self.random.randrange(1, PARTITIONS_MAX + 1)
            topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
            self._ask(request, extend, lambda: self._own.update({name: count}))
        else:
            del self._own[name]
            self._ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS), delete, lambda: None)

    def _ask(self, request: Message, version: int, done: Callable[[], None]) -> None:
        self.busy = True

        def answered(response: Any) -> None:
            self.busy = False
            code = None if response is None else code_of(response)
            pause_ms = self.random.randrange(*PAUSE_MS)
            if code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                check(not self._older, OLD, f"{self.client.name}: {request}")
                self.refused += 1
                again_ms = response.throttle_time_ms
                self.load.simulation.after_ms(again_ms, lambda: self._again(request, version, done))
                return
            if code is ErrorCode.NONE:
                self.changes += 1
                done()
            self.load.simulation.after_ms(pause_ms, self.go_on)

        self.client.ask_any(request, version, answered)

    def _again(self, request: Message, version: int, done: Callable[[], None]) -> None:
        if self.load.going_on:
            self._ask(request, version, done)


def code_of(response: Any) -> ErrorCode:
    """The error of the only topic of an answer."""
    for field in ("topics", "results", "responses"):
        for each in getattr(response, field, ()):
            return ErrorCode(each.error_code)
    raise AssertionError(f"{response} names no topic")


class Flood(PlainProducer):
    """Produces and wants no answers (acks=0), so all that it knows is whether its connection is open."""

    def __init__(self, load: Load, partition: PartitionHistory) -> None:
        super().__init__(load, partition, FLOOD)

    def go_on(self) -> None:
        if not self.load.going_on:
            return
        leader = self.leader
        if leader is None:
            self.find_leader()
            return
        builder = BatchBuilder()
        for value in self.new_values():
            builder.append(self.load.simulation.now_ms, None, value)
        self.client.tell(leader, produce(self.partition, builder, acks=0), PRODUCE_VERSION)
        if self.load.simulation.random.random() < 0.1:
            self.client.leaders.pop((self.partition.topic, self.partition.index), None)
        self.later(self.load.simulation.random.randrange(*FLOOD_MS))


class Busy:
    """Asks for what takes the loop's time, at each broker, two requests in flight."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.client = load.client(BUSY)

    def go_on(self) -> None:
        """Asks once more, and does not wait for an answer."""
        if self.load.going_on:
            for _ in range(2):
                self.client.ask_any(MetadataRequest(topics=[]), METADATA_VERSION, lambda response: None)
            self.load.simulation.after_ms(self.load.simulation.random.randrange(*BUSY_PAUSE_MS), self.go_on)


class Knocker:
    """Connects again and again. `refused`: how often it was not let in."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.client = load.client(KNOCKER)
        self.let_in = 0
        self.refused = 0

    def go_on(self) -> None:
        """Connects, asks something, and hangs up."""
        if not self.load.going_on:
            return
        address = self.client.any_broker()

        def answered(response: Any) -> None:
            self.let_in += response is not None
            self.refused += response is None
            self.client.hang_up(address)
            self.load.simulation.after_ms(self.load.simulation.random.randrange(*KNOCK_MS), self.go_on)

        request = ApiVersionsRequest(client_software_name="knocker", client_software_version="1")
        self.client.ask(address, request, 3, answered, timeout_ms=REQUEST_TIMEOUT_MS)
