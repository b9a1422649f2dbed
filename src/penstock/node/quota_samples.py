"""What clients use of their quotas, as samples: by user and client id under Kafka's names, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from penstock.node.limits import METRICS_QUOTA_USAGES_MAX
from penstock.node.metrics import COUNTER, GAUGE, Sample
from penstock.quota.levels import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from penstock.quota.usages import Usage

if TYPE_CHECKING:
    from penstock.node.client_quotas import ClientQuotas


class Group(NamedTuple):
    """The group that Kafka's metrics of a quota have, the name of the rate, and what that is."""

    name: str
    rate: str
    help: str


GROUPS = {
    PRODUCER_BYTE_RATE: Group("produce", "byte_rate", "Bytes a second of Produce requests of who has a quota."),
    CONSUMER_BYTE_RATE: Group("fetch", "byte_rate", "Bytes a second of Fetch answers to who has a quota."),
    REQUEST_PERCENTAGE: Group("request", "request_time", "Percent of the loop's time for who has a quota."),
    CONTROLLER_MUTATION_RATE: Group(
        "controllermutation", "mutation_rate", "Partitions a second that who has a quota creates and deletes."
    ),
}


MUTATIONS = f"kafka_server_{GROUPS[CONTROLLER_MUTATION_RATE].name}"


def quota_samples(quotas: ClientQuotas, now_ms: int) -> Iterator[Sample]:
    """The rates of at most METRICS_QUOTA_USAGES_MAX usages, and how many there are."""
    usages = quotas.usages
    shown: dict[str, list[Usage]] = {key: [] for key in GROUPS}
    for usage in islice(usages.kept.values(), METRICS_QUOTA_USAGES_MAX):
        shown[usage.key].append(usage)
    for key, group in GROUPS.items():
        name = f"kafka_server_{group.name}"
        for usage in shown[key]:
            yield Sample(f"{name}_{group.rate}", GAUGE, group.help, usage.rate.per_second(now_ms), labels_of(usage))
        for usage in shown[key]:
            help_ = "Milliseconds for which clients were told to wait lately, on average, when they were."
            yield Sample(f"{name}_throttle_time", GAUGE, help_, usage.mean_delay_ms(now_ms), labels_of(usage))
        for usage in shown[key]:
            help_ = "Milliseconds that clients were told to wait, in all."
            yield Sample(f"{name}_throttle_time_total", COUNTER, help_, usage.delayed_ms, labels_of(usage))
    for usage in shown[CONTROLLER_MUTATION_RATE]:
        if usage.tokens is not None:
            help_ = "Partitions that may still be created and deleted at once; below 0: a debt."
            yield Sample(f"{MUTATIONS}_tokens", GAUGE, help_, usage.tokens.tokens(now_ms), labels_of(usage))
    kept, crowded = len(usages.kept), usages.crowded
    yield Sample("penstock_quota_entities", GAUGE, "Users and client ids that are measured because of quotas.", kept)
    help_ = "Clients that are measured with others, because penstock.quota.entities.max are measured apart."
    yield Sample("penstock_quota_shared_total", COUNTER, help_, crowded)
    help_ = "Connections that were closed because of the quota of their address."
    yield Sample("penstock_quota_refused_connections_total", COUNTER, help_, quotas.connections.refused)


def labels_of(usage: Usage) -> dict[str, str]:
    return {"user": usage.user, "client_id": usage.client_id}
