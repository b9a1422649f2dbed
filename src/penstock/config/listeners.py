"""Listeners and quorum voters as they are written in settings, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.errors import ConfigError

ADDRESS = re.compile(r"\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]+)")
LISTENER = re.compile(r"(?P<name>[^:/]*)://(?P<address>.*)")
VOTER = re.compile(r"(?P<id>[0-9]+)@(?P<address>.*)")
PORT_MAX = 65535


class Endpoint(NamedTuple):
    """A named address. `security_protocol` is what the listener speaks; an empty `host` is every interface."""

    listener: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{bracketed(self.host)}:{self.port}"


class Voter(NamedTuple):
    """A controller of a static quorum."""

    id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.id}@{bracketed(self.host)}:{self.port}"


def bracketed(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def split_address(text: str, setting: str, example: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`. Raises ConfigError with an example of what would be right."""
    found = ADDRESS.fullmatch(text)
    balanced = text.startswith("[") == ("]:" in text)
    if found is None or not balanced or not 0 <= int(found["port"]) <= PORT_MAX:
        raise ConfigError(f'{setting}: "{text}" is not an address: it must be like {example}')
    return found["host"], int(found["port"])


def protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map` as listener name to security protocol."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not colon or not name or not protocol:
            raise ConfigError(
                f'listener.security.protocol.map: "{entry}" is not an entry: it must be like INTERNAL:PLAINTEXT'
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def endpoints(entries: Iterable[str], protocols: Mapping[str, str], setting: str) -> tuple[Endpoint, ...]:
    """The addresses of `listeners` or `advertised.listeners`. Raises ConfigError for one that is malformed."""
    parsed = []
    for entry in entries:
        found = LISTENER.fullmatch(entry)
        if found is None:
            raise ConfigError(f'{setting}: "{entry}" is not a listener: it must be like PLAINTEXT://127.0.0.1:9092')
        name = found["name"].upper()
        host, port = split_address(found["address"], setting, "PLAINTEXT://127.0.0.1:9092")
        if name not in protocols:
            raise ConfigError(
                f"{setting}: listener {name} has no security protocol: add {name}:PLAINTEXT (or another protocol) to "
                "listener.security.protocol.map"
            )
        parsed.append(Endpoint(name, protocols[name], host, port))
    return tuple(parsed)


def voters(entries: Iterable[str]) -> tuple[Voter, ...]:
    """The controllers of `controller.quorum.voters`. Raises ConfigError for a malformed one or an id given twice."""
    parsed: dict[int, Voter] = {}
    for entry in entries:
        found = VOTER.fullmatch(entry)
        if found is None:
            raise ConfigError(f'controller.quorum.voters: "{entry}" is not a voter: it must be like 1@127.0.0.1:9093')
        host, port = split_address(found["address"], "controller.quorum.voters", "1@127.0.0.1:9093")
        voter = Voter(int(found["id"]), host, port)
        if voter.id in parsed:
            raise ConfigError(f"controller.quorum.voters names node {voter.id} twice")
        parsed[voter.id] = voter
    return tuple(parsed.values())
