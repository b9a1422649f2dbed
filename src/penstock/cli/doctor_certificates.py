"""The part of `penstock doctor` that looks at the keys, certificates and trust of a node's listeners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.cli.finding import Finding, State
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config.server import Settings


def check_certificates(settings: Settings) -> Iterator[Finding]:
    """One finding for all listeners whose keys cannot be used, or one a listener: how long its certificate lasts."""
    from penstock.server.tls import EXPIRY_WARNING_DAYS, listeners_with_tls

    try:
        listeners = dict(listeners_with_tls(settings))
    except ConfigError as wrong:
        yield Finding(State.WRONG, "certificates", str(wrong), "make the node's own keys and trust usable")
        return
    for name, tls in listeners.items():
        days = tls.days_left()
        if days is None:
            continue
        state = State.ODD if days < EXPIRY_WARNING_DAYS else State.FINE
        remedy = "" if state is State.FINE else "write a renewed key store in its place: the node takes it over"
        yield Finding(state, "certificates", f"listener {name}: valid for {days:.0f} more days", remedy)
