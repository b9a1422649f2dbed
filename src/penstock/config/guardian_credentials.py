"""How a Guardian node logs in to registered clusters: by the names under which they are registered, from its own file.

    penstock.guardian.credentials.web.security.protocol=SASL_SSL
    penstock.guardian.credentials.web.sasl.mechanism=SCRAM-SHA-512
    penstock.guardian.credentials.web.sasl.jaas.config=...ScramLoginModule required username="guardian" password="...";
    penstock.guardian.credentials.web.ssl.truststore.location=/etc/penstock/web.pem

What follows the name is as in the properties of Kafka's clients. The log of Guardian has the name alone.

To the code that dials, a cluster's brokers are a listener of others: CLUSTER-WEB here, with what is set for it over
what is set for all (`config.prefixed`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.config.broker.network import SECURITY_PROTOCOLS, WITH_SASL
from penstock.config.jaas import parse
from penstock.config.nearest import did_you_mean
from penstock.config.sasl import PLAIN, SaslLogin
from penstock.config.server import SETTINGS
from penstock.errors import ConfigError

CREDENTIALS = "penstock.guardian.credentials."
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
PROTOCOL, MECHANISM, JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
OWN = (PROTOCOL, MECHANISM, JAAS)
MECHANISMS = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Mechanisms by which Guardian logs in to clusters."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """One of them. Attributes: `listener`, under which brokers are dialled; `login`, None where none is needed; `tls`,
    settings of `ssl.*` as text.
    """

    listener: str
    protocol: str
    login: SaslLogin | None
    tls: Mapping[str, str] = field(repr=False)

    def properties(self) -> dict[str, str]:
        """The settings of the listener that say the same."""
        return {f"listener.name.{self.listener.lower()}.{name}": text for name, text in self.tls.items()}


def entries_of(properties: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The entries about credentials, by their name and what follows it. Raises ConfigError."""
    found: dict[str, dict[str, str]] = {}
    for full, text in properties.items():
        if not full.startswith(CREDENTIALS):
            continue
        name, _, setting = full.removeprefix(CREDENTIALS).partition(".")
        if not NAME.fullmatch(name):
            raise ConfigError(f"{full}: {name!r} must be small letters, digits, dashes and underscores")
        declared = SETTINGS.get(setting)
        if setting not in OWN and (declared is None or not setting.startswith("ssl.")):
            names = [*OWN, *(each for each in SETTINGS if each.startswith("ssl."))]
            raise ConfigError(f"{full}: unknown setting {setting}{did_you_mean(setting, names)}")
        if setting not in OWN and declared is not None:
            replace(declared, name=full).parse(text)
        found.setdefault(name, {})[setting] = text.strip() if setting in (PROTOCOL, MECHANISM) else text
    return found


def read_credentials(properties: Mapping[str, str]) -> dict[str, Credentials]:
    """All credentials of a file, by name. Raises ConfigError for what cannot be."""
    return {name: credentials_of(name, entries) for name, entries in entries_of(properties).items()}


def credentials_of(name: str, entries: Mapping[str, str]) -> Credentials:
    """Credentials, from what follows their name in the file. Raises ConfigError."""
    prefix = f"{CREDENTIALS}{name}."
    protocol = entries.get(PROTOCOL, "PLAINTEXT").upper()
    if protocol not in SECURITY_PROTOCOLS:
        near = did_you_mean(protocol, SECURITY_PROTOCOLS)
        raise ConfigError(f"{prefix}{PROTOCOL} = {protocol} must be one of {', '.join(SECURITY_PROTOCOLS)}{near}")
    login = login_of(prefix, entries) if protocol in WITH_SASL else None
    if login is None:
        useless = next((each for each in (MECHANISM, JAAS) if each in entries), None)
        if useless is not None:
            raise ConfigError(f"{prefix}{useless} does nothing: {prefix}{PROTOCOL} is {protocol}")
    tls = {each: text for each, text in entries.items() if each.startswith("ssl.")}
    return Credentials(f"CLUSTER-{name.upper()}", protocol, login, tls)


def login_of(prefix: str, entries: Mapping[str, str]) -> SaslLogin:
    """The login that credentials describe. Raises ConfigError."""
    mechanism = entries.get(MECHANISM, "").upper()
    if mechanism not in MECHANISMS:
        what = f"{prefix}{MECHANISM} = {mechanism}" if mechanism else f"{prefix}{MECHANISM} is missing"
        raise ConfigError(f"{what}: it must be one of {', '.join(MECHANISMS)}{did_you_mean(mechanism, MECHANISMS)}")
    if JAAS not in entries:
        raise ConfigError(f"{prefix}{JAAS} is missing: it says as whom Guardian logs in")
    module = parse(entries[JAAS], f"{prefix}{JAAS}")
    if not module.serves(mechanism):
        raise ConfigError(f"{prefix}{JAAS} has the login module of {module.kind}, not of {mechanism}")
    if not module.username or not module.password:
        raise ConfigError(f"{prefix}{JAAS} needs username and password")
    return SaslLogin(mechanism, module.username, module.password)
