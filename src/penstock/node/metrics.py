"""Counters of a node, and the samples that the Prometheus endpoint prints.

Names are those that the usual rules of the JMX exporter give Kafka's metrics, so existing dashboards work:
`kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=T` is
`kafka_server_brokertopicmetrics_bytesin_total{topic="T"}`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter

from penstock.errors import ErrorCode

COUNTER = "counter"
GAUGE = "gauge"
HISTOGRAM = "histogram"
SUMMARY = "summary"
UNTYPED = "untyped"

TOPICS_MAX = 10_000
"""Topics with counters of their own; what comes after counts in the sums only."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric. Samples of one name follow each other."""

    name: str
    kind: str
    help: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class LoginCounters:
    """Logins of clients on one listener."""

    __slots__ = ("again", "again_failed", "expired", "first", "first_failed", "without_lifetimes")

    def __init__(self) -> None:
        self.first = 0
        self.first_failed = 0
        self.again = 0
        self.again_failed = 0
        self.without_lifetimes = 0
        self.expired = 0

    def succeeded(self, *, again: bool, knows_lifetimes: bool) -> None:
        """Counts a login; `knows_lifetimes`: of a client that could log in again in time."""
        if again:
            self.again += 1
            return
        self.first += 1
        self.without_lifetimes += not knows_lifetimes

    def failed(self, *, again: bool) -> None:
        if again:
            self.again_failed += 1
        else:
            self.first_failed += 1


LOGIN_SAMPLES = (
    ("successful_authentication_total", "first", "Logins of clients."),
    ("failed_authentication_total", "first_failed", "Logins of clients that failed."),
    ("successful_reauthentication_total", "again", "Logins of clients that were logged in already (KIP-368)."),
    ("failed_reauthentication_total", "again_failed", "Such logins that failed."),
    (
        "successful_authentication_no_reauth_total",
        "without_lifetimes",
        "Logins of clients that cannot log in again.",
    ),
    (
        "expired_connections_killed_count",
        "expired",
        "Connections that were used after their login had expired, and closed.",
    ),
)


def login_samples(counters: Mapping[str, LoginCounters]) -> Iterator[Sample]:
    """Logins by listener, under the names of Kafka's socket-server-metrics; there is one network processor."""
    for name, attribute, help_ in LOGIN_SAMPLES:
        for listener, of_listener in counters.items():
            labels = {"listener": listener, "networkProcessor": "0"}
            value = getattr(of_listener, attribute)
            yield Sample(f"kafka_server_socketservermetrics_{name}", COUNTER, help_, value, labels)


class TopicCounters:
    """The traffic of one topic, or of all topics."""

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
    """Counters by topic. Their sums are computed on demand."""

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
        """The topic was deleted: its counts stay in the sums."""
        gone = self._topics.pop(topic, None)
        if gone is not None:
            for name in TopicCounters.__slots__:
                setattr(self._others, name, getattr(self._others, name) + getattr(gone, name))

    def samples(self) -> Iterator[Sample]:
        """For each counter the sum over all topics, without a label, then one sample for each topic."""
        for name, attribute, text in TOPIC_SAMPLES:
            total = getattr(self._others, attribute) + sum(map(attrgetter(attribute), self._topics.values()))
            yield Sample(name, COUNTER, text, total)
            for topic, counters in list(self._topics.items()):
                yield Sample(name, COUNTER, text, getattr(counters, attribute), {"topic": topic})


LATENCY_BOUNDS_MS = (
    1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000,
    30_000,
)  # fmt: skip
"""Upper bounds of the buckets of request times; one more bucket has what took longer."""
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those of Kafka's timers."""
WINDOW_MS = 60_000
"""Quantiles are of the requests of the last one to two of these, as far as somebody has asked in time."""


class RequestCounters:
    """Requests of one API: how many were answered, and how long they took from frame to answer.

    Attributes: `buckets`, how many took no longer than each bound of LATENCY_BOUNDS_MS but longer than the one before;
    the last, how many took longer than all bounds. `errors`, how often a whole request was refused, by error.
    """

    __slots__ = ("_older", "_since_ms", "_window", "buckets", "errors", "name", "total_time_ms")

    def __init__(self, name: str) -> None:
        self.name = name
        self.total_time_ms = 0
        self.errors: dict[ErrorCode, int] = {}
        self.buckets = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self._older = self._window = tuple(self.buckets)
        self._since_ms = 0

    @property
    def requests(self) -> int:
        """The number of requests."""
        return sum(self.buckets)

    def add(self, time_ms: int) -> None:
        """Counts a request."""
        if time_ms <= 0:  # most are answered in the turn of the loop that they came in
            self.buckets[0] += 1
            return
        self.total_time_ms += time_ms
        self.buckets[bisect_left(LATENCY_BOUNDS_MS, time_ms)] += 1

    def refused(self, code: ErrorCode) -> None:
        """Counts a request that is refused as a whole, by its error."""
        self.errors[code] = self.errors.get(code, 0) + 1

    def quantiles_ms(self, now_ms: int) -> Sequence[tuple[float, float]]:
        """(share, time) pairs: this share of the recent requests took no longer; empty when there were none."""
        if now_ms - self._since_ms >= WINDOW_MS:
            self._older, self._window, self._since_ms = self._window, tuple(self.buckets), now_ms
        counts = [after - before for after, before in zip(self.buckets, self._older, strict=True)]
        total = sum(counts)
        if not total:
            return ()
        cumulated = list(accumulate(counts))
        last = len(LATENCY_BOUNDS_MS) - 1
        return [(share, LATENCY_BOUNDS_MS[min(last, bisect_left(cumulated, share * total))]) for share in QUANTILES]


def request_samples(counters: Iterable[RequestCounters], now_ms: int) -> Iterator[Sample]:
    """The counters of all APIs, and the latencies of those that have been used."""
    found = list(counters)
    name = "kafka_network_requestmetrics_requests_total"
    for api in found:
        yield Sample(name, COUNTER, "Requests answered.", api.requests, {"request": api.name})
    name, text = "kafka_network_requestmetrics_errors_total", "Requests refused as a whole, by error."
    for api in found:
        for code, count in list(api.errors.items()):
            yield Sample(name, COUNTER, text, count, {"request": api.name, "error": code.name})
    name = "kafka_network_requestmetrics_totaltimems"
    text = "Time from a request's frame to its answer; quantiles of the last minutes, rounded up."
    for api in found:
        for share, time_ms in api.quantiles_ms(now_ms):
            yield Sample(name, SUMMARY, text, time_ms, {"request": api.name, "quantile": f"{share:g}"})
        yield Sample(f"{name}_sum", SUMMARY, text, api.total_time_ms, {"request": api.name})
        yield Sample(f"{name}_count", SUMMARY, text, api.requests, {"request": api.name})
    name, text = "penstock_request_seconds", "The same as a histogram."
    for api in found:
        if api.requests:
            label = {"request": api.name}
            cumulated, requests, total_ms = list(accumulate(api.buckets)), api.requests, api.total_time_ms
            for bound_ms, count in zip(LATENCY_BOUNDS_MS, cumulated, strict=False):
                yield Sample(f"{name}_bucket", HISTOGRAM, text, count, {**label, "le": f"{bound_ms / 1000:g}"})
            yield Sample(f"{name}_bucket", HISTOGRAM, text, requests, {**label, "le": "+Inf"})
            yield Sample(f"{name}_sum", HISTOGRAM, text, total_ms / 1000, label)
            yield Sample(f"{name}_count", HISTOGRAM, text, requests, label)
