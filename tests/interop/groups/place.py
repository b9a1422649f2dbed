"""A broker with topics and records, for groups to read."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from support.heard import until_heard

TIMEOUT_S = 30.0


class Place:
    """A broker, and topics with records on it. `kind` is "penstock" or "kafka"."""

    def __init__(self, bootstrap: str, kind: str) -> None:
        self.bootstrap, self.kind = bootstrap, kind
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._ends: dict[tuple[str, int], int] = {}

    def create(self, topic: str, partitions: int) -> None:
        """Makes a topic. Kafka's broker leads it when it has heard of it, which may be after the answer."""
        for done in self._admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            done.result(TIMEOUT_S)
        if self.kind == "kafka":
            until_heard(self.bootstrap)

    def grow(self, topic: str, partitions: int) -> None:
        """Gives a topic more partitions."""
        for done in self._admin.create_partitions([NewPartitions(topic, partitions)]).values():
            done.result(TIMEOUT_S)

    def fill(self, topic: str, partitions: int, records: int) -> list[tuple[str, int, int]]:
        """Adds so many records to each partition; (topic, partition, offset) of all that there are."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        for index in range(partitions):
            for _ in range(records):
                producer.produce(topic, b"value", partition=index)
            self._ends[topic, index] = self._ends.get((topic, index), 0) + records
        assert producer.flush(TIMEOUT_S) == 0
        ends = [(index, end) for (name, index), end in self._ends.items() if name == topic]
        return [(topic, index, offset) for index, end in ends for offset in range(end)]

    def group(self, name: str) -> tuple[str, str]:
        """The type and the state of a group, as an administrator is told."""
        found = self._admin.list_consumer_groups().result(TIMEOUT_S)
        (listed,) = [each for each in found.valid if each.group_id == name]
        return listed.type.name.lower(), listed.state.name.lower()
