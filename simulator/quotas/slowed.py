"""What holds of clients that are slowed down, looked at on every broker, request by request.

`WatchedQuotas` stands where the node's own quotas are, and sees when a request executes. What the request costs it
takes from what was overheard, and what must follow from that it finds in the plainest way (`simulator.quotas.plain`).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from penstock.errors import RequestError
from penstock.node.client_quotas import ClientQuotas, MutationQuota
from penstock.node.gate import Gate
from penstock.node.request import Request
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.turns import CountedWork
from penstock.protocol.api import ApiKey
from penstock.quota.levels import CLIENT_KEYS
from penstock.quota.token_bucket import NO_DEBT_TOKENS
from penstock.quota.usages import ClientUsages, Usage
from simulator.quotas.overheard import Overheard
from simulator.quotas.plain import Passed, plain_delay_ms, plain_limit, plain_tokens
from simulator.quotas.rules import (
    AT_ONCE,
    BUSY,
    BUSY_MS,
    BUSY_PERCENT,
    FLOOD,
    LET_IN,
    MUTATION_RATE,
    MUTATION_WINDOWS,
    MUTE,
    ONCE,
    PERMISSIVE,
    PRODUCE_LIMIT,
    SLOWED,
    SPECIFIC,
    STRICT,
    TOKENS,
    WAITS,
    WINDOW_MS,
    WINDOWS,
    Spread,
)
from simulator.world.checks import check

SLACK_MS = 1.0
"""Delays are whole milliseconds."""
PRODUCERS = (SLOWED, FLOOD)


class ScriptedWork(CountedWork):
    """The clock of a node's work, to which a script adds what requests take."""

    def takes(self, work_ms: float) -> None:
        """A request executes for so long."""
        self.spent_ms += work_ms


class Ears(NamedTuple):
    """What a machine's quotas are watched with, whatever process runs on it."""

    overheard: Overheard
    work: ScriptedWork


class WatchedQuotas(ClientQuotas):
    """The quotas of a broker, with an eye on them.

    Attributes: `refused`, `older`: how often mutations had to wait, and how often those of an older client passed.
    """

    def __init__(self, state: NodeState, scheduler: Scheduler, gate: Gate, *, ears: Ears) -> None:
        super().__init__(state, scheduler, gate)
        self._state = state
        self._ears = ears
        self._in_force: Any = {}
        self._found: dict[tuple[str, str, str], float | None] = {}
        self._passed: dict[str, list[Passed]] = {name: [] for name in PRODUCERS}
        self._spread = {name: Spread(f"bytes of {name}", PRODUCE_LIMIT) for name in PRODUCERS}
        self._busy = Spread("ms of the loop", BUSY_PERCENT * 10, before=2)
        self._buckets = {name: Bucket() for name in (STRICT, PERMISSIVE)}
        self.refused = 0
        self.older = 0

    def configure(self, quotas: Any) -> None:
        super().configure(quotas)
        self._in_force = quotas
        self._found.clear()

    def begins(self, request: Request[Any], now_ms: int) -> int:
        connection = request.connection
        check(now_ms >= connection.muted_until_ms, MUTE, f"connection {connection.id}, {connection.muted_until_ms}")
        self._ears.overheard.check_mute(connection.id, now_ms)
        check(self._in_force == self._state.image.client_quotas, AT_ONCE, f"{self._state.node_id} goes by others")
        delay_ms = super().begins(request, now_ms)
        if request.usages is not None:
            self._check_levels(request, request.usages)
            name = request.client_id or ""
            if name in PRODUCERS and request.handler.key is ApiKey.PRODUCE:
                self._check_bytes(name, request, delay_ms, now_ms)
            elif name == BUSY:
                self._ears.work.takes(BUSY_MS)
                self._busy.passes(now_ms, BUSY_MS, connection.id)
        return delay_ms

    def mutations(self, request: Request[Any], *, strict: bool, now_ms: int) -> MutationQuota:
        bucket = self._buckets.get(request.client_id or "")
        usage = self.of(request, now_ms).mutations if self.active and bucket is not None else None
        if usage is None or bucket is None:
            return super().mutations(request, strict=strict, now_ms=now_ms)
        return WatchedMutations(self, bucket, usage, strict=strict, now_ms=now_ms)

    def _check_levels(self, request: Request[Any], usages: ClientUsages) -> None:
        user, client_id = request.principal.name, request.client_id or ""
        unanswered = request.handler.key is ApiKey.PRODUCE and request.body.acks == 0
        for key, usage in zip(CLIENT_KEYS, usages, strict=True):
            if unanswered and key == CLIENT_KEYS[2]:
                continue  # its time is exempt
            asked = (user, client_id, key)
            if asked not in self._found:
                self._found[asked] = plain_limit(dict(self._in_force.items()), user, client_id, key)
            limit = None if usage is None else usage.limit
            check(limit == self._found[asked], SPECIFIC, f"{limit} for {asked}, and not {self._found[asked]}")

    def _check_bytes(self, name: str, request: Request[Any], delay_ms: int, now_ms: int) -> None:
        size_bytes = self._ears.overheard.size_bytes(request.connection.id, request.correlation_id)
        assert size_bytes is not None, "what is executed was heard"
        passed = self._passed[name]
        passed.append((now_ms, size_bytes))
        self._spread[name].passes(now_ms, size_bytes, request.connection.id)
        follows_ms = plain_delay_ms(passed, PRODUCE_LIMIT, WINDOWS, WINDOW_MS, now_ms)
        rule = ONCE if delay_ms > follows_ms else WAITS
        check(abs(delay_ms - follows_ms) <= SLACK_MS, rule, f"{name} for {delay_ms} ms, and not {follows_ms:.1f}")


class Bucket:
    """What was taken of one client's tokens on a controller, and until when it was told to wait."""

    def __init__(self) -> None:
        self.taken: list[Passed] = []
        self.told_until_ms: int | None = None

    def tokens(self, now_ms: int) -> float:
        """What must be in it."""
        burst = MUTATION_RATE * MUTATION_WINDOWS * WINDOW_MS / 1_000
        return plain_tokens(self.taken, MUTATION_RATE, burst, now_ms)


class WatchedMutations(MutationQuota):
    """The quota of one request for mutations, with an eye on it."""

    __slots__ = ("_bucket", "_quotas")

    def __init__(self, quotas: WatchedQuotas, bucket: Bucket, usage: Usage, *, strict: bool, now_ms: int) -> None:
        super().__init__(usage, strict=strict, now_ms=now_ms)
        self._quotas = quotas
        self._bucket = bucket

    def take(self, partitions: int) -> None:
        bucket, now_ms = self._bucket, self._now_ms
        tokens = bucket.tokens(now_ms)
        told = partial(check, rule=TOKENS, detail=f"{partitions} partitions, and there are {tokens:.3f} tokens")
        try:
            super().take(partitions)
        except RequestError:
            until_ms = bucket.told_until_ms
            detail = f"told to wait until {until_ms}, and refused at {now_ms}"
            check(until_ms is None or now_ms < until_ms, LET_IN, detail)
            told(tokens < 0)
            bucket.told_until_ms = now_ms + self.delay_ms
            self._quotas.refused += 1
            raise
        told(not self._strict or tokens >= NO_DEBT_TOKENS)
        bucket.taken.append((now_ms, partitions))
        bucket.told_until_ms = None
        self._quotas.older += not self._strict
