"""What Kafka's rates and buckets say, in the plainest way: from all that has passed, each time from the beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.quota.levels import CLIENT_ID, USER, Entity, QuotaValues

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

Passed = tuple[int, float]
"""When something passed, in ms, and how much."""


def plain_limit(quotas: Mapping[Entity, QuotaValues], user: str, client_id: str, key: str) -> float | None:
    """The limit on `key` for a client, by looking for each level among all quotas."""
    for of_user, of_client in PLAIN_ORDER:
        for entity, values in quotas.items():
            parts = dict(entity)
            is_it = matches(parts, USER, of_user, user) and matches(parts, CLIENT_ID, of_client, client_id)
            if is_it and set(parts) <= {USER, CLIENT_ID} and key in values:
                return values[key]
    return None


def matches(parts: Mapping[str, str | None], kind: str, how: str, name: str) -> bool:
    """Whether an entity names a user or client id in this way."""
    if how == "none":
        return kind not in parts
    return kind in parts and parts[kind] == (name if how == "named" else None)


def plain_delay_ms(passed: Sequence[Passed], limit: float, windows: int, window_ms: int, now_ms: int) -> float:
    """How long nothing may pass for the rate to be at the limit: the windows are made of all that has passed."""
    kept: list[list[float]] = []
    for at_ms, amount in passed:
        if kept and at_ms < kept[-1][0] + window_ms:
            kept[-1] = [kept[-1][0], at_ms, kept[-1][2] + amount]
        else:
            kept.append([at_ms, at_ms, amount])
    kept = [window for window in kept if now_ms - window[1] < windows * window_ms]
    if not kept:
        return 0.0
    elapsed_ms = now_ms - kept[0][0]
    whole = int(elapsed_ms // window_ms)
    measured_ms = max(1, elapsed_ms + max(0, windows - 1 - whole) * window_ms)
    return max(0.0, sum(amount for _, _, amount in kept) * 1_000 / limit - measured_ms)


def plain_tokens(taken: Sequence[Passed], rate: float, burst: float, now_ms: int) -> float:
    """What is in a bucket that was full, after all that was taken."""
    tokens, before_ms = burst, 0
    for at_ms, count in taken:
        tokens = min(burst, tokens + rate * (at_ms - before_ms) / 1_000) - count
        before_ms = at_ms
    return min(burst, tokens + rate * (now_ms - before_ms) / 1_000)
