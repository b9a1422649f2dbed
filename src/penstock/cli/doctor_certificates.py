"""The part of `penstock doctor` and `penstock config check` that looks at the keys, certificates and trust of a node's
listeners.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.cli.finding import Finding, State
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.server.tls import ListenerTls


def check_certificates(settings: Settings) -> Iterator[Finding]:
    """One finding a listener: that its keys cannot be used, or how long its certificate lasts."""
    listeners, problems = found_in_stores(settings)
    for wrong in problems:
        yield Finding(State.WRONG, "certificates", str(wrong), "make the node's own keys and trust usable")
    for tls in listeners:
        days = tls.days_left()
        if days is None:
            continue
        state = State.ODD if tls.expires_soon else State.FINE
        remedy = "" if state is State.FINE else "write a renewed key store in its place: the node takes it over"
        yield Finding(state, "certificates", f"listener {tls.name}: valid for {days:.0f} more days", remedy)


def found_in_stores(settings: Settings) -> tuple[list[ListenerTls], list[ConfigError]]:
    """The listeners with TLS whose keys and trust can be used, and what is wrong with those of the others. Blocks."""
    from penstock.server.tls import names_with_tls, tls_of

    listeners: list[ListenerTls] = []
    problems: list[ConfigError] = []
    for name in names_with_tls(settings):
        try:
            listeners.append(tls_of(name, settings))
        except ConfigError as wrong:
            problems.append(wrong)
    return listeners, problems
