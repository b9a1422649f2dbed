"""DescribeQuotaUsage (key 30000, our own): what clients use of their quotas on this broker, and who is held back.

Version 0, flexible. Needs DESCRIBE_CONFIGS on the cluster, as quotas do. The answer has each usage that the filter
wants with the limit that counts for it, the entity and the level that it comes from (1 to 8; 9 is the setting
`quota.producer.default` or `quota.consumer.default`; of addresses 1, and 2 for the default), its rate now, for how many
ms its clients are still muted (`throttled_for_ms`), and for how many they have been held back without a pause
(`held_back_ms`).

A filter names the user, client id or address that shares the limit, or wants a default's limits, or any of the type, in
the notation of DescribeClientQuotas. Those that are held back come first, then those nearest to their limits, at most
`max_usages` (1 to QUOTA_USAGES_PER_ANSWER_MAX, else INVALID_REQUEST); `matching` says how many there are. Who has used
nothing lately is left out. What clients beyond `penstock.quota.entities.max` share is of nobody in particular, at
level 0.

Each broker answers for itself. Mutations of partitions are measured by the active controller alone.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from penstock.config.addresses import canonical_address
from penstock.errors import ErrorCode, RequestError
from penstock.metadata.client_quotas import QuotaFilter, filter_of
from penstock.node.limits import QUOTA_USAGES_PER_ANSWER_MAX, QUOTA_USAGES_PER_STEP
from penstock.node.request import Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.own.describe_quota_usage_request import DescribeQuotaUsageRequest
from penstock.protocol.messages.own.describe_quota_usage_response import (
    DescribeQuotaUsageResponse,
    EntityData,
    QuotaUsage,
)
from penstock.quota.levels import CLIENT_ID, CONNECTION_CREATION_RATE, IP, USER, Entity
from penstock.quota.rate import Rate
from penstock.quota.usages import Usage

if TYPE_CHECKING:
    from penstock.node.broker import Broker
    from penstock.node.client_quotas import ClientQuotas
    from penstock.node.scheduler import Scheduler


class Seen(NamedTuple):
    """What is measured of somebody, as it is now. `names` of whom it is, by type."""

    key: str
    level: int
    entity: Entity
    names: dict[str, str]
    limit: float
    used: float
    throttled_for_ms: int
    held_back_ms: int
    throttle_time_total_ms: int

    @property
    def urgency(self) -> tuple[bool, float]:
        """What comes first: who is held back, then who is nearest to the limit."""
        return self.held_back_ms > 0, self.used / self.limit if self.limit > 0 else self.used

    def is_wanted(self, wanted: QuotaFilter, *, throttled_only: bool) -> bool:
        if not self.held_back_ms and (throttled_only or not self.used):
            return False
        of = dict(self.entity)
        named = all(
            kind in of and (of[kind] is None if name is None else self.names[kind] == name)
            for kind, name in wanted.names.items()
        )
        return named and all(kind in of for kind in wanted.any_name)


def describe(node: Broker, request: Request[DescribeQuotaUsageRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    most, throttled_only = body.max_usages, body.throttled_only
    if not 1 <= most <= QUOTA_USAGES_PER_ANSWER_MAX:
        sentence = f"max_usages is {most}: it must be 1 to {QUOTA_USAGES_PER_ANSWER_MAX}."
        raise RequestError(ErrorCode.INVALID_REQUEST, sentence)
    wanted = canonical(filter_of(body.components, strict=False))
    quotas, pace, order = node.quotas, Pace(QUOTA_USAGES_PER_STEP), count()
    matching = 0
    found: list[tuple[bool, float, int, Seen]] = []
    for seen in measured(quotas, node.scheduler):
        if pace.is_over():
            yield None
        if seen is None or not seen.is_wanted(wanted, throttled_only=throttled_only):
            continue
        matching += 1
        entry = (*seen.urgency, -next(order), seen)
        if len(found) < most:
            heapq.heappush(found, entry)
        else:
            heapq.heappushpop(found, entry)
    found.sort(reverse=True)
    return DescribeQuotaUsageResponse(
        broker_id=node.state.node_id,
        active_controller=node.controller.active,
        matching=matching,
        shared_total=quotas.usages.crowded,
        usages=lazily(described, [entry[-1] for entry in found]),
    )


def canonical(wanted: QuotaFilter) -> QuotaFilter:
    """The filter, with an address as connections have it."""
    address = wanted.names.get(IP)
    if address is None:
        return wanted
    return QuotaFilter({IP: canonical_address(address) or address}, wanted.any_name, wanted.strict)


def measured(quotas: ClientQuotas, scheduler: Scheduler) -> Iterator[Seen | None]:
    """All that is measured; None for what is not limited any more."""
    waiting = [*quotas.usages.shared.values(), *quotas.usages.kept.values()]
    while waiting:  # one by one, since letting go of many at once takes long
        yield of_clients(quotas, waiting.pop(), scheduler.now_ms)
    connections = quotas.connections
    for address, limit, rate in list(connections.measured()):
        yield of_address(address, limit, rate, scheduler.now_ms, own=connections.has_own_limit(address))


def of_clients(quotas: ClientQuotas, usage: Usage, now_ms: int) -> Seen | None:
    """The usage of a user, a client id or both."""
    level, limit = 0, usage.limit
    entity: Entity = ()
    if usage.level:
        standing = quotas.usages.standing(usage)
        if standing is None or not standing.value < math.inf:
            return None
        limit, entity, level = standing
    names = {kind: usage.user if kind == USER else usage.client_id for kind, _ in entity}
    return Seen(
        usage.key,
        level,
        entity,
        names,
        limit,
        usage.rate.per_second(now_ms),
        max(0, usage.delayed_until_ms - now_ms),
        usage.held_back_ms(now_ms),
        usage.delayed_ms,
    )


def of_address(address: str, limit: float, rate: Rate, now_ms: int, *, own: bool) -> Seen:
    """New connections of an address; it is held back while a further one would be refused."""
    wait_ms = rate.delay_ms(limit, now_ms, 1)
    entity = ((IP, address if own else None),)
    used = rate.per_second(now_ms)
    return Seen(CONNECTION_CREATION_RATE, 1 if own else 2, entity, {IP: address}, limit, used, wait_ms, wait_ms, 0)


def described(seen: Seen) -> QuotaUsage:
    names = seen.names
    return QuotaUsage(
        key=seen.key,
        level=seen.level,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in seen.entity],
        user=names.get(USER),
        client_id=names.get(CLIENT_ID),
        address=names.get(IP),
        limit=seen.limit,
        used=seen.used,
        throttled_for_ms=seen.throttled_for_ms,
        held_back_ms=seen.held_back_ms,
        throttle_time_total_ms=seen.throttle_time_total_ms,
    )


HANDLERS = (Handler(ApiKey.DESCRIBE_QUOTA_USAGE, describe),)
