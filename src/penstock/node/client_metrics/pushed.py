"""What clients have pushed last, as series of /metrics.

`org.apache.kafka.producer.request.latency.avg` becomes `kafka_client_producer_request_latency_avg`; the name of a
metric that is the application's own begins with `kafka_client_application_`. A counter's name ends with `_total`. A
series has the client's id, its instance's id and its software as labels, and the attributes that the client gave the
number. Clients push how much counters have grown; here that is added up. No client can keep another's metric from being
shown: where they do not agree what it is, it has no type.

All of it is bounded: series in all, and of one client instance, and a connection has only one instance's, whatever ids
come by it. When there are too many in all, those of the client
that pushed least recently go; what a client pushes beyond its own bound is counted and not kept. What a client has
pushed is kept until it has not pushed for three of its intervals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from uuid import UUID

from penstock.config import client_metrics as configs
from penstock.node.client_metrics.instances import ClientInstance
from penstock.node.client_metrics.otlp import Attributes, Point, Pushed
from penstock.node.limits import (
    CLIENT_LABEL_CHARACTERS_MAX,
    CLIENT_NAMES_REMEMBERED_MAX,
    CLIENT_POINT_ATTRIBUTES_MAX,
    CLIENT_POINTS_PER_STEP,
    CLIENT_SERIES_PER_INSTANCE_MAX,
    METRICS_PARTITIONS_PER_STEP,
)
from penstock.node.metrics import COUNTER, GAUGE, UNTYPED, Sample
from penstock.node.steps import Pace, Stepped

KAFKAS = "org.apache.kafka."
UNFIT = re.compile(r"[^a-zA-Z0-9_]")
IDENTITY = (
    configs.CLIENT_ID,
    configs.CLIENT_INSTANCE_ID,
    configs.CLIENT_SOFTWARE_NAME,
    configs.CLIENT_SOFTWARE_VERSION,
)
"""The labels that every series has; no attribute takes their place."""
TOO_MANY, MEANINGLESS = "too many", "no meaning"


class Family:
    """The series of one name. `kind`: UNTYPED where clients do not agree. `clients`: those who push it, as keys."""

    __slots__ = ("clients", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.clients: dict[UUID, None] = {}


class PushedClient:
    """A client that has pushed: its labels, what else is told of it, and its series, by the names of their families."""

    __slots__ = ("connection", "count", "expires_ms", "facts", "labels", "series")

    def __init__(self, labels: Mapping[str, str], connection: int) -> None:
        self.labels = labels
        self.connection = connection
        self.facts: Mapping[str, str] = {}
        self.series: dict[str, dict[Attributes, float]] = {}
        self.count = 0
        self.expires_ms = 0


class PushedMetrics:
    """See the module's head. `left_out` counts points that are not kept, by the reason."""

    def __init__(self, series_max: Callable[[], int]) -> None:
        self._series_max = series_max
        self._families: dict[str, Family] = {}
        self._clients: dict[UUID, PushedClient] = {}
        self._by_connection: dict[int, UUID] = {}
        self._count = 0
        self.left_out = dict.fromkeys((TOO_MANY, MEANINGLESS), 0)

    def __len__(self) -> int:
        return self._count

    @property
    def empty(self) -> bool:
        return not self._clients

    def take(self, instance: ClientInstance, connection: int, user: str, pushed: Pushed, now_ms: int) -> Stepped[None]:
        """Keeps what a client has pushed by a connection, in steps. A client without a series is not kept, so that the
        bound of series is one of clients, too.
        """
        client = self._of(instance, connection)
        client.expires_ms = now_ms + instance.expiry_ms
        client.facts = facts_of(instance, user, pushed.resource)
        self.left_out[MEANINGLESS] += pushed.left_out
        try:
            yield from self._keep_all(instance, client, pushed)
        finally:  # also of a push that nobody goes on with
            if not client.count and self._clients.get(instance.id) is client:
                self._forget(instance.id)

    def _keep_all(self, instance: ClientInstance, client: PushedClient, pushed: Pushed) -> Stepped[None]:
        pace = Pace(CLIENT_POINTS_PER_STEP)
        for point in pushed.points:
            if pace.is_over():
                yield None
            if self._clients.get(instance.id) is not client:
                return  # so many others have pushed meanwhile
            self._keep(instance.id, client, point)

    def _of(self, instance: ClientInstance, connection: int) -> PushedClient:
        """The client, which is the one heard of last; no other is known by this connection any more."""
        earlier = self._by_connection.get(connection)
        if earlier is not None and earlier != instance.id:
            self._forget(earlier)
        client = self._clients.pop(instance.id, None)
        if client is None:
            client = PushedClient({each: label(instance.known_by[each] or "") for each in IDENTITY}, connection)
        elif client.connection != connection:
            self._by_connection.pop(client.connection, None)
            client.connection = connection
        self._clients[instance.id] = client
        self._by_connection[connection] = instance.id
        return client

    def _keep(self, instance_id: UUID, client: PushedClient, point: Point) -> None:
        if not has_meaning(point):
            self.left_out[MEANINGLESS] += 1
            return
        name, kind = name_of(point.name, point.is_counter), COUNTER if point.is_counter else GAUGE
        attributes = labels_of(point.attributes)
        found = client.series.get(name)
        if found is None or attributes not in found:
            if not self._has_room(instance_id, client):
                self.left_out[TOO_MANY] += 1
                return
            family = self._families.setdefault(name, Family(kind))
            family.clients[instance_id] = None
            if family.kind != kind:
                family.kind = UNTYPED
            found = client.series.setdefault(name, {})
            found[attributes] = 0.0
            client.count += 1
            self._count += 1
        found[attributes] = found[attributes] + point.value if point.is_delta else point.value

    def _has_room(self, instance_id: UUID, client: PushedClient) -> bool:
        """Whether there may be one more series of a client; the client that pushed least recently may have to go."""
        if client.count >= CLIENT_SERIES_PER_INSTANCE_MAX:
            return False
        while self._count >= self._series_max():
            first = next(iter(self._clients))
            if first == instance_id:
                return False
            self._forget(first)
        return True

    def _forget(self, instance_id: UUID) -> None:
        client = self._clients.pop(instance_id)
        self._by_connection.pop(client.connection, None)
        self._count -= client.count
        for name in client.series:
            family = self._families[name]
            del family.clients[instance_id]
            if not family.clients:
                del self._families[name]

    def expire(self, now_ms: int) -> None:
        """Forgets what was pushed by clients that have not pushed for too long."""
        for instance_id in [each for each, client in self._clients.items() if client.expires_ms <= now_ms]:
            self._forget(instance_id)

    def samples(self) -> Iterator[Sample | None]:
        """The series, family by family, in steps (`penstock.node.samples`)."""
        text = "1: a client that has pushed metrics, and what is known of it."
        pace = Pace(METRICS_PARTITIONS_PER_STEP)
        for client in list(self._clients.values()):
            if pace.is_over():
                yield None
            yield Sample("penstock_client_metrics_client_info", GAUGE, text, 1, {**client.labels, **client.facts})
        for name, family in list(self._families.items()):
            for instance_id in list(family.clients):
                of_client = self._clients.get(instance_id)
                if of_client is None:
                    continue
                for attributes, value in list(of_client.series.get(name, {}).items()):
                    if pace.is_over():
                        yield None
                    labels = {**of_client.labels, **dict(attributes)}
                    yield Sample(name, family.kind, "Pushed by clients (KIP-714).", value, labels)


def has_meaning(point: Point) -> bool:
    """Whether a number is one that can be shown: a counter's is finite and does not fall. A gauge may say NaN."""
    if point.is_counter:
        return math.isfinite(point.value) and point.value >= 0
    return not point.is_delta or math.isfinite(point.value)


@lru_cache(CLIENT_NAMES_REMEMBERED_MAX)
def name_of(name: str, is_counter: bool) -> str:
    """The name of a metric at /metrics."""
    own = name.removeprefix(KAFKAS)
    prefix = "kafka_client_application_" if own == name else "kafka_client_"
    fit = prefix + UNFIT.sub("_", own)
    return f"{fit}_total" if is_counter and not fit.endswith("_total") else fit


@lru_cache(CLIENT_NAMES_REMEMBERED_MAX)
def labels_of(attributes: Attributes) -> Attributes:
    """Attributes as labels: names that are fit to be some, and none that says who the client is. An empty value is left
    out: to Prometheus it is no label, so the series would be there twice.
    """
    found: dict[str, str] = {}
    for name, value in attributes:
        fit = UNFIT.sub("_", name)
        if not fit[:1].isalpha():
            fit = f"attribute_{fit}"
        if value and fit not in IDENTITY:
            found[fit] = value
    return tuple(sorted(found.items()))


def facts_of(instance: ClientInstance, user: str, resource: Mapping[str, str]) -> Mapping[str, str]:
    """What is told of a client beside the labels of its series: what the broker sees, and what it says of itself."""
    seen = {
        "user": label(user),
        configs.CLIENT_SOURCE_ADDRESS: instance.known_by[configs.CLIENT_SOURCE_ADDRESS] or "",
    }
    told = tuple((label(name), label(value)) for name, value in resource.items())  # short, as it is remembered
    return {**dict(labels_of(told[:CLIENT_POINT_ATTRIBUTES_MAX])), **seen}


def label(text: str) -> str:
    return text[:CLIENT_LABEL_CHARACTERS_MAX]
