"""Counters of a node, and the samples that the Prometheus endpoint prints.

Names are those that the usual rules of the JMX exporter give Kafka's metrics, so existing dashboards work:
`kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=T` is
`kafka_server_brokertopicmetrics_bytesin_total{topic="T"}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

COUNTER = "counter"
GAUGE = "gauge"

TOPICS_MAX = 10_000
"""Topics with counters of their own; what comes after counts in the sums only."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value. Samples of one name follow each other."""

    name: str
    kind: str
    help: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class TopicCounters:
    """What went in and out of one topic, or of all."""

    __slots__ = ("bytes_in", "bytes_out", "failed_fetches", "failed_produces", "fetches", "messages_in", "produces")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0


TOPIC_SAMPLES = (
    ("kafka_server_brokertopicmetrics_messagesin_total", "messages_in", "Records appended."),
    ("kafka_server_brokertopicmetrics_bytesin_total", "bytes_in", "Bytes of record batches appended."),
    ("kafka_server_brokertopicmetrics_bytesout_total", "bytes_out", "Bytes of record batches sent to consumers."),
    ("kafka_server_brokertopicmetrics_totalproducerequests_total", "produces", "Partitions in produce requests."),
    ("kafka_server_brokertopicmetrics_totalfetchrequests_total", "fetches", "Partitions looked at by fetches."),
    ("kafka_server_brokertopicmetrics_failedproducerequests_total", "failed_produces", "Batches refused."),
    (
        "kafka_server_brokertopicmetrics_failedfetchrequests_total",
        "failed_fetches",
        "Partitions that could not be read.",
    ),
)


class TopicMetrics:
    """Counters by topic. Their sums are made when they are asked for."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicCounters] = {}
        self._others = TopicCounters()

    def of(self, topic: str) -> TopicCounters:
        """The counters of a topic."""
        counters = self._topics.get(topic)
        if counters is None:
            if len(self._topics) >= TOPICS_MAX:
                return self._others
            counters = self._topics[topic] = TopicCounters()
        return counters

    def forget(self, topic: str) -> None:
        """The topic was deleted: what it had stays in the sums."""
        gone = self._topics.pop(topic, None)
        if gone is not None:
            for name in TopicCounters.__slots__:
                setattr(self._others, name, getattr(self._others, name) + getattr(gone, name))

    def samples(self) -> Iterator[Sample]:
        """For each counter the sum over all topics, without a label, and then each topic."""
        for name, attribute, text in TOPIC_SAMPLES:
            total = getattr(self._others, attribute) + sum(getattr(c, attribute) for c in self._topics.values())
            yield Sample(name, COUNTER, text, total)
            for topic, counters in self._topics.items():
                yield Sample(name, COUNTER, text, getattr(counters, attribute), {"topic": topic})


class RequestCounters:
    """Requests of one API: how many were answered, and how long they took from frame to answer, in all."""

    __slots__ = ("name", "requests", "total_time_ms")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.total_time_ms = 0


def request_samples(counters: Iterable[RequestCounters]) -> Iterator[Sample]:
    """The counters of all APIs."""
    found = list(counters)
    name = "kafka_network_requestmetrics_requests_total"
    for api in found:
        yield Sample(name, COUNTER, "Requests answered.", api.requests, {"request": api.name})
    name = "kafka_network_requestmetrics_totaltimems_sum"
    for api in found:
        text = "Time from a request's frame to its answer, in all."
        yield Sample(name, COUNTER, text, api.total_time_ms, {"request": api.name})
