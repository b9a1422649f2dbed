"""What clients use of their quotas now, and who is held back: each broker of a Penstock cluster tells it of itself.

The API is our own (DescribeQuotaUsage). Brokers of Apache Kafka, and of older versions, do not serve it; what they have
instead is in their metrics.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.admin import Resource, ResourceType, describe_configs, refused
from penstock.client.cluster import describe_cluster
from penstock.client.features import BROKERS_AT_ONCE
from penstock.client.limits import CLIENT_QUOTA_USAGE_MS, CLIENT_QUOTA_USAGES
from penstock.client.quotas import DEFAULT, EXACT
from penstock.errors import RequestError, UnreachableError, UnsupportedVersionError
from penstock.quota.explained import SETTINGS
from penstock.quota.levels import Entity

if TYPE_CHECKING:
    from penstock.client.client import Client


@dataclass(frozen=True, slots=True)
class Usage:
    """What somebody uses of one limit on one broker; a name is None where the limit does not tell clients apart by it.

    `level` and `entity` say whose limit it is (`penstock.quota.levels`; of addresses 1, and 2 for the default; 0 for
    what clients beyond the broker's bound share). `used` is the rate now, in the unit of the limit.
    `throttled_for_ms`: how much longer its clients are muted. `held_back_ms`: for how long they have been held back
    without a pause. `throttle_time_total_ms`: how long they were told to wait, in all.
    """

    broker: int
    key: str
    limit: float
    used: float
    level: int
    entity: Entity
    user: str | None
    client_id: str | None
    address: str | None
    throttled_for_ms: int
    held_back_ms: int
    throttle_time_total_ms: int


@dataclass(frozen=True, slots=True)
class BrokerUsages:
    """What one broker says; or `failure`, why it says nothing. `matching`: how many usages the filter wants, of which
    those held back, and those nearest to their limits, are in `usages`. `shared_total`: how often a client had to share
    a measure with others. `measures_mutations`: whether the broker is the active controller.
    """

    broker: int
    failure: str | None = None
    matching: int = 0
    shared_total: int = 0
    measures_mutations: bool = False
    usages: tuple[Usage, ...] = ()


async def quota_usages(
    client: Client, wanted: Entity = (), *, throttled_only: bool = False, at_most: int = CLIENT_QUOTA_USAGES
) -> list[BrokerUsages]:
    """What every broker says, in the order of their ids, of those with these names, or with limits of these defaults
    (None); of all if none is given. `at_most` of each broker. Raises RequestError, such as
    CLUSTER_AUTHORIZATION_FAILED.
    """
    from penstock.protocol.messages.own.describe_quota_usage_request import ComponentData, DescribeQuotaUsageRequest

    request = DescribeQuotaUsageRequest(
        components=[
            ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
            for kind, name in wanted
        ],
        throttled_only=throttled_only,
        max_usages=at_most,
    )

    async def ask(node_id: int) -> BrokerUsages:
        try:
            answer = await client.send(request, node_id=node_id, timeout_ms=CLIENT_QUOTA_USAGE_MS)
        except UnsupportedVersionError:
            return BrokerUsages(node_id, "it does not tell: Apache Kafka's brokers, and older ones, have it in metrics")
        except UnreachableError as error:
            return BrokerUsages(node_id, str(error).partition("\n")[0])
        refused(answer.error_code, answer.error_message, f"broker {node_id}'s use of quotas")
        return BrokerUsages(
            node_id,
            None,
            answer.matching,
            answer.shared_total,
            answer.active_controller,
            tuple(usage_of(node_id, each) for each in answer.usages),
        )

    brokers = (await describe_cluster(client)).brokers
    found = [BrokerUsages(each.id, "it is fenced, so nobody uses it") for each in brokers if each.fenced]
    asked = [each.id for each in brokers if not each.fenced]
    for first in range(0, len(asked), BROKERS_AT_ONCE):
        found += await asyncio.gather(*map(ask, asked[first : first + BROKERS_AT_ONCE]))
    return sorted(found, key=lambda answer: answer.broker)


def usage_of(broker: int, of: object) -> Usage:
    """A usage of an answer."""
    from penstock.protocol.messages.own.describe_quota_usage_response import QuotaUsage

    assert isinstance(of, QuotaUsage)
    return Usage(
        broker,
        of.key,
        of.limit,
        of.used,
        of.level,
        tuple(sorted((each.entity_type, each.entity_name) for each in of.entity)),
        of.user,
        of.client_id,
        of.address,
        of.throttled_for_ms,
        of.held_back_ms,
        of.throttle_time_total_ms,
    )


async def setting_defaults(client: Client) -> dict[str, dict[int, float]]:
    """What `quota.producer.default` and `quota.consumer.default` are on the brokers that have them: by the key of the
    limit, by broker. Brokers that cannot be asked are left out.
    """
    found: dict[str, dict[int, float]] = {}

    async def ask(broker: int) -> None:
        try:
            configs = await describe_configs(client, Resource(ResourceType.BROKER, str(broker)), [*SETTINGS.values()])
        except (UnreachableError, RequestError):
            return
        values = {each.name: each.value for each in configs}
        for key, name in SETTINGS.items():
            if values.get(name) is not None:
                found.setdefault(key, {})[broker] = float(values[name] or 0)

    asked = [each.id for each in (await describe_cluster(client)).brokers if not each.fenced]
    for first in range(0, len(asked), BROKERS_AT_ONCE):
        await asyncio.gather(*map(ask, asked[first : first + BROKERS_AT_ONCE]))
    return {key: dict(sorted(by_broker.items())) for key, by_broker in found.items()}
