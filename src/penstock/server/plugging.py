"""What the settings have a node given from outside: functions that name principals, and Kerberos."""

from __future__ import annotations

from penstock.client.kerberos import LibraryKerberos, library
from penstock.config.server import Settings
from penstock.node.plugged import Plugged
from penstock.server.principal_builders import load_builders


def plugged_of(settings: Settings) -> Plugged:
    """Loads and checks it. Blocks. Raises ConfigError for what is missing, or cannot be used."""
    kerberos = LibraryKerberos()
    for listener in settings.sasl.listeners.values():
        for mechanism in listener.mechanisms.values():
            if mechanism.kerberos is not None:
                kerberos.check(mechanism.kerberos)
    if any(login.kerberos is not None for login in settings.sasl.logins.values()):
        library()
    return Plugged(load_builders(settings), kerberos)
