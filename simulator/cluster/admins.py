"""Admins of a simulated cluster: they create and delete topics of their own, through any broker.

What was answered holds from then on; where no answer came either may be the case. A topic that was deleted stays away,
but one of its name may be there: a broker that hears nothing of a request which it forwarded, asks the next controller,
and the first may still carry it out much later, as Kafka's may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from simulator.cluster.load import RETRY_MS, Load
from simulator.world.checks import check

CREATE_VERSION, DELETE_VERSION, METADATA_VERSION = 7, 5, 12
TIMEOUT_MS = 5_000
DELETE_PROBABILITY = 0.4


def create_request(
    names: Sequence[str], partition_count: int, replication_factor: int, configs: Mapping[str, str]
) -> CreateTopicsRequest:
    """The request that makes these topics, all alike."""
    settings = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
    topics = [
        CreatableTopic(
            name=name, num_partitions=partition_count, replication_factor=replication_factor, configs=settings
        )
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


class Admin:
    """One admin.

    Attributes:
        present: topics that it was told are made. absent: ids of those that it was told are gone.
        changes: how many of its requests were answered well.
        busy: it waits for the outcome of a request.
    """

    def __init__(self, load: Load, number: int, replication_factor: int) -> None:
        self.load = load
        self.number = number
        self.replication_factor = replication_factor
        self.client = load.client(f"admin-{number}")
        self.present: set[str] = set()
        self.absent: set[UUID] = set()
        self.changes = 0
        self.busy = False
        self._made = 0
        self._ids: dict[str, UUID] = {}

    def create(self, request: CreateTopicsRequest, then: Callable[[], None]) -> None:
        """Creates topics, again and again until all are there."""

        def answered(response: Any) -> None:
            made = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            if response is not None and all(topic.error_code in made for topic in response.topics):
                self.present.update(topic.name for topic in response.topics)
                then()
            else:
                self.load.simulation.after_ms(RETRY_MS, lambda: self.create(request, then))

        self.client.ask_any(request, CREATE_VERSION, answered)

    def go_on(self) -> None:
        """Creates a topic, or deletes one of those it created."""
        if not self.load.going_on:
            return
        self.busy = True
        random = self.load.simulation.random
        own = sorted(name for name in self.present if name.startswith("other"))
        if own and random.random() < DELETE_PROBABILITY:
            name = random.choice(own)
            self.present.discard(name)
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
            self.client.ask_any(request, DELETE_VERSION, lambda response: self._deleted(name, response))
        else:
            self._made += 1
            name = f"other-{self.number}-{self._made}"
            wanted = create_request([name], random.randrange(1, 4), self.replication_factor, {})
            self.client.ask_any(wanted, CREATE_VERSION, lambda response: self._created(name, response))

    def _created(self, name: str, response: Any) -> None:
        if response is not None and response.topics[0].error_code == ErrorCode.NONE:
            self.present.add(name)
            self._ids[name] = response.topics[0].topic_id
            self.changes += 1
        self._later()

    def _deleted(self, name: str, response: Any) -> None:
        if response is not None and response.responses[0].error_code == ErrorCode.NONE:
            self.absent.add(self._ids[name])
            self.changes += 1
        self._later()

    def _later(self) -> None:
        self.busy = False
        self.load.simulation.after_ms(8 * self.load.think(), self.go_on)

    def check_topics(self, then: Callable[[], None]) -> None:
        """What was created is there, what was deleted is not, whichever broker is asked; when they are all well."""

        def answered(response: Any) -> None:
            if response is None or not response.brokers:
                self.load.simulation.after_ms(RETRY_MS, lambda: self.check_topics(then))
                return
            names = {topic.name for topic in response.topics}
            check(self.present <= names, "metadata survives", f"created and gone: {sorted(self.present - names)}")
            back = sorted(topic.name for topic in response.topics if topic.topic_id in self.absent)
            check(not back, "metadata survives", f"deleted and back: {back}")
            then()

        self.client.ask_any(MetadataRequest(topics=None), METADATA_VERSION, answered)
