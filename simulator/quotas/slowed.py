"""What holds of clients that are slowed down, looked at on every broker, request by request.

A producer has a quota that it exceeds. `WatchedQuotas` counts beside the broker what it produces, in the plainest way,
and finds the quota that holds for each client by a walk over all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from penstock.node.client_quotas import ClientQuotas
from penstock.node.gate import Gate
from penstock.node.request import Request
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.protocol.api import ApiKey
from penstock.quota.levels import CLIENT_ID, PRODUCER_BYTE_RATE, USER, Entity, QuotaValues
from simulator.world.checks import check

MUTE = "nothing of a mute connection executes"
HELD = "a rate is held in every window"
ONCE = "what is produced counts once"
SPECIFIC = "the most specific quota holds"
SLOWED = "producer-0"
"""The client id of the producer that has a quota from the beginning on."""
LIMIT = 300.0
WINDOWS = 4
PLAIN_ORDER = (
    ("named", "named"),
    ("named", "default"),
    ("named", "none"),
    ("default", "named"),
    ("default", "default"),
    ("default", "none"),
    ("none", "named"),
    ("none", "default"),
)
"""User and client id of the eight levels, the most specific first (governance.md, Q5)."""


class WatchedQuotas(ClientQuotas):
    """The quotas of a broker, with an eye on them. `slowed`: how often a producer was made to wait."""

    def __init__(self, state: NodeState, scheduler: Scheduler, gate: Gate) -> None:
        super().__init__(state, scheduler, gate)
        self._passed: deque[tuple[int, int, int]] = deque()
        self._known: Any = {}
        self._largest = 0
        self.slowed = 0

    def configure(self, quotas: Any) -> None:
        super().configure(quotas)
        self._known = quotas

    def begins(self, request: Request[Any], now_ms: int) -> int:
        muted_ms = request.connection.muted_until_ms
        check(now_ms >= muted_ms, MUTE, f"connection {request.connection.id} is mute until {muted_ms}, it is {now_ms}")
        produces = request.handler.key is ApiKey.PRODUCE and request.body.acks != 0
        before = self._counted(request, now_ms)
        delay_ms = super().begins(request, now_ms)
        if produces and request.usages is not None:
            self._check_level(request)
            if request.client_id == SLOWED:
                self._check_count(request, before, now_ms)
                self._check_rate(request, delay_ms, now_ms)
        return delay_ms

    def throttle_time_ms(self, request: Request[Any], answer_bytes: int, now_ms: int) -> int:
        before = self._counted(request, now_ms)
        delay_ms = super().throttle_time_ms(request, answer_bytes, now_ms)
        check(self._counted(request, now_ms) == before, ONCE, "the answer is counted, too")
        return delay_ms

    def _check_level(self, request: Request[Any]) -> None:
        found = plain_limit(dict(self._known.items()), request.principal.name, request.client_id or "")
        usage = None if request.usages is None else request.usages.produce
        limit = None if usage is None else usage.limit
        check(limit == found, SPECIFIC, f"{limit} for {request.client_id}, and not {found}")

    def _counted(self, request: Request[Any], now_ms: int) -> float:
        """The bytes that are counted of the producer that has a quota, if it is of whom a request comes."""
        usage = self.of(request, now_ms).produce if request.client_id == SLOWED else None
        return 0.0 if usage is None else usage.rate.per_second(now_ms) * usage.rate.elapsed_ms(now_ms) / 1_000

    def _check_count(self, request: Request[Any], before: float, now_ms: int) -> None:
        counted = self._counted(request, now_ms) - before
        check(counted < request.frame_bytes + 1, ONCE, f"{counted:.0f} for {request.frame_bytes} bytes")

    def _check_rate(self, request: Request[Any], delay_ms: int, now_ms: int) -> None:
        """Each connection has a request executed before it is mute; one that broke may have been followed by others."""
        self.slowed += delay_ms > 0
        self._largest = max(self._largest, request.frame_bytes)
        self._passed.append((now_ms, request.frame_bytes, request.connection.id))
        window_ms = (WINDOWS - 1) * 1_000
        while now_ms - self._passed[0][0] >= window_ms:
            self._passed.popleft()
        passed = sum(size for _, size, _ in self._passed)
        bound = LIMIT * WINDOWS + (1 + len({number for _, _, number in self._passed})) * self._largest
        check(passed <= bound, HELD, f"{passed} bytes in {window_ms} ms, at most {bound:.0f} may be")


def plain_limit(quotas: Mapping[Entity, QuotaValues], user: str, client_id: str) -> float | None:
    """The limit on what a client produces, by looking for each level among all quotas."""
    for of_user, of_client in PLAIN_ORDER:
        for entity, values in quotas.items():
            parts = dict(entity)
            is_it = matches(parts, USER, of_user, user) and matches(parts, CLIENT_ID, of_client, client_id)
            if is_it and set(parts) <= {USER, CLIENT_ID} and PRODUCER_BYTE_RATE in values:
                return values[PRODUCER_BYTE_RATE]
    return None


def matches(parts: Mapping[str, str | None], kind: str, how: str, name: str) -> bool:
    """Whether an entity names a user or client id in this way."""
    if how == "none":
        return kind not in parts
    return kind in parts and parts[kind] == (name if how == "named" else None)
