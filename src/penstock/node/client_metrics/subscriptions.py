"""What the cluster asks of clients: the subscriptions in the metadata, and what comes of them for one client.

A client that matches several pushes all that any of them names, as often as the one that wants it most often. The
subscription id says what that is; every broker comes to the same one, Kafka's too, so a client may push to another
broker than the one that it asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any, NamedTuple
from uuid import UUID

from crc32c import crc32c

from penstock.config.client_metrics import ALL_METRICS, ClientMetricsConfigs
from penstock.errors import PenstockError
from penstock.events import events
from penstock.metadata.image import ConfigResource, Configs
from penstock.node.limits import CLIENT_METRICS_SUBSCRIPTIONS_MAX, CLIENT_WANTED_REMEMBERED_MAX

logger = events("node.client_metrics")

DEFAULT_INTERVAL_MS = ClientMetricsConfigs.interval_ms.default
MASK = 0xFFFFFFFF
SMALLEST_TABLE = 16


class Subscription(NamedTuple):
    """One subscription; `patterns` are what all of a client has to match, by what they ask about."""

    name: str
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any]

    def matches(self, known_by: Mapping[str, str | None]) -> bool:
        """Whether it is about a client that is known by this."""
        return all(
            (value := known_by[what]) is not None and pattern.fullmatch(value) is not None
            for what, pattern in self.patterns.items()
        )


class Wanted(NamedTuple):
    """What a client is asked for."""

    metrics: tuple[str, ...]
    push_interval_ms: int

    def subscription_id(self, instance_id: UUID) -> int:
        """The id of this, of one client instance: Kafka's, whose text is Java's of a set of strings."""
        told = f"[{', '.join(self.metrics)}]{self.push_interval_ms}"
        bits = (crc32c(told.encode()) ^ uuid_hash(instance_id)) & MASK
        return bits - (1 << 32) if bits >> 31 else bits


class Subscriptions:
    """All of them. `version` rises with every change, so that what was decided before is decided anew."""

    def __init__(self) -> None:
        self.version = 0
        self._by_name: dict[str, Subscription | None] = {}
        self._used: tuple[Subscription, ...] = ()
        self._remembered: dict[tuple[bool, ...], Wanted] = {}

    def __len__(self) -> int:
        return len(self._used)

    def configure(self, changed: Mapping[tuple[int, str], Configs]) -> None:
        """Goes by changed configs, by resource type and name; none are left of a subscription that was deleted."""
        names = [name for kind, name in changed if kind == ConfigResource.CLIENT_METRICS]
        if not names:
            return
        self.version += 1
        self._remembered.clear()
        for name in names:
            overrides = changed[ConfigResource.CLIENT_METRICS, name]
            if overrides:
                self._by_name[name] = understood(name, overrides)
            else:
                self._by_name.pop(name, None)
        known = [each for _, each in sorted(self._by_name.items()) if each is not None]
        if len(known) > CLIENT_METRICS_SUBSCRIPTIONS_MAX:
            logger.error("too many client metrics subscriptions", of=len(known), used=CLIENT_METRICS_SUBSCRIPTIONS_MAX)
            known = known[:CLIENT_METRICS_SUBSCRIPTIONS_MAX]
        table = table_of(len(known))
        self._used = tuple(sorted(known, key=lambda each: spread(each.name) & (table - 1)))

    def of(self, known_by: Mapping[str, str | None]) -> Wanted:
        """What a client is asked for that is known by this. Clients that match the same are told the same."""
        matching = tuple(each.matches(known_by) for each in self._used)
        found = self._remembered.get(matching)
        if found is None:
            if len(self._remembered) >= CLIENT_WANTED_REMEMBERED_MAX:
                self._remembered.clear()
            found = self._remembered[matching] = wanted(compress(self._used, matching))
        return found


def wanted(matching: Iterable[Subscription]) -> Wanted:
    """What several subscriptions ask for together."""
    metrics: dict[str, None] = {}
    push_interval_ms = DEFAULT_INTERVAL_MS
    for each in matching:
        metrics.update(dict.fromkeys(in_java_order(each.metrics, table_of(len(each.metrics)))))
        push_interval_ms = min(push_interval_ms, each.interval_ms)
    if ALL_METRICS in metrics:
        return Wanted((ALL_METRICS,), push_interval_ms)
    return Wanted(tuple(in_java_order(metrics, table_of(len(metrics)))), push_interval_ms)


def understood(name: str, overrides: Configs) -> Subscription | None:
    """A subscription; None, with a line in the log, for one that is about nobody since this broker, which may lack RE2
    or be older, does not understand it.
    """
    try:
        configs = ClientMetricsConfigs.resolve(overrides)
        return Subscription(name, configs.metrics, configs.interval_ms, configs.patterns())
    except PenstockError as wrong:
        logger.error("client metrics subscription matches nobody", subscription=name, reason=str(wrong))
        return None


def in_java_order(texts: Iterable[str], table: int) -> list[str]:
    """The order in which a HashSet with a table of that size goes through them."""
    return sorted(texts, key=lambda each: spread(each) & (table - 1))


def table_of(size: int) -> int:
    """The size of the table of a HashSet that has grown to so many elements."""
    table = SMALLEST_TABLE
    while size > table * 3 // 4:
        table *= 2
    return table


def spread(text: str) -> int:
    """String.hashCode, its upper half mixed into the lower one, as HashMap does it."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for at in range(0, len(units), 2):
        found = (31 * found + (units[at] << 8 | units[at + 1])) & MASK
    return found ^ found >> 16


def uuid_hash(of: UUID) -> int:
    """Uuid.hashCode of Kafka's, as an unsigned number."""
    mixed = of.int >> 64 ^ of.int & 0xFFFFFFFFFFFFFFFF
    return (mixed >> 32 ^ mixed) & MASK
