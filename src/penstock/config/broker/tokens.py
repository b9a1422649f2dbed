"""Settings of delegation tokens (KIP-48)."""

from __future__ import annotations

from penstock.config.setting import Group, Setting
from penstock.config.values import DAY_MS, HOUR_MS, LONG, PASSWORD, Password


class TokenSettings(Group):
    """Delegation tokens: who has one logs in with it as its owner, for a time."""

    delegation_token_secret_key = Setting[Password | None](
        "delegation.token.secret.key", PASSWORD, default=None
    ).documented(
        "What the HMACs of delegation tokens are made with: the same on all brokers and controllers. Without it, or if "
        "it is empty, there are no delegation tokens. Another key makes all tokens worthless."
    )
    delegation_token_max_lifetime_ms = Setting(
        "delegation.token.max.lifetime.ms", LONG, default=7 * DAY_MS, at_least=1
    ).documented("How long after it was made a delegation token can be renewed, at most.")
    delegation_token_expiry_time_ms = Setting(
        "delegation.token.expiry.time.ms", LONG, default=DAY_MS, at_least=1
    ).documented("How long a delegation token is good before it must be renewed.")
    delegation_token_expiry_check_interval_ms = Setting(
        "delegation.token.expiry.check.interval.ms", LONG, default=HOUR_MS, at_least=1
    ).documented("How often the controller removes delegation tokens that are past their time.")
