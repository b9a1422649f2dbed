"""Settings of one listener, and of one mechanism of a listener: `listener.name.NAME.` before a setting's name.

    listener.name.internal.ssl.keystore.location = /etc/penstock/internal.p12
    listener.name.internal.scram-sha-256.sasl.jaas.config = ...

As in Kafka (AbstractConfig.valuesWithPrefixOverride): names of listeners and mechanisms stand there in small letters,
and what is prefixed wins over what is not. A listener is one of listener.security.protocol.map, so a node may also say
how it reaches listeners of others, such as the controllers'. A name that would do nothing is warned about with the
nearest one that does something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.config.known import KNOWN
from penstock.config.nearest import did_you_mean
from penstock.config.setting import Setting
from penstock.config.without_meaning import check_ignored
from penstock.errors import ConfigError

PREFIX = "listener.name."
FOR_LISTENERS = ("ssl.", "sasl.", "principal.builder.class", "connections.max.reauth.ms")
"""Beginnings of the settings that a listener may have of its own."""
LIMITS = ("max.connections", "max.connection.creation.rate")
"""Names of settings that a listener, but no mechanism of it, may have of its own."""
FOR_MECHANISMS = ("sasl.", "connections.max.reauth.ms")
"""Beginnings of the settings that a mechanism of a listener may have of its own."""
WITHOUT_MEANING = ("num.network.threads",)
"""What Kafka has for listeners too, and what means nothing here."""


@dataclass(slots=True)
class Prefixed:
    """What the prefixed settings of a node say.

    Attributes:
        values: parsed values by attribute, by listener in small letters and mechanism in small letters ("" for all).
        warnings: sentences about those that do nothing. ignored: those known to Kafka that mean nothing here.
        problems: what is wrong, by name.
    """

    values: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    problems: dict[str, ConfigError] = field(default_factory=dict)

    def of(self, listener: str, mechanism: str | None = None) -> dict[str, Any]:
        """The values of a listener by attribute, those of the mechanism over those of the listener."""
        name = listener.lower()
        found = dict(self.values.get((name, ""), {}))
        if mechanism is not None:
            found.update(self.values.get((name, mechanism.lower()), {}))
        return found


def read_prefixed(
    layers: Iterable[Mapping[str, str]], listeners: Iterable[str], declared: Mapping[str, Setting[Any]], *, strict: bool
) -> Prefixed:
    """The prefixed settings among the entries of all layers, of which the later win; the first is the properties file.

    `listeners` are the names that have a security protocol, `declared` the settings that mean something here. With
    `strict` a name in the properties file that does nothing is a problem. What is malformed in a dynamic layer is left
    out with a warning, since it comes from the metadata log.
    """
    result = Prefixed()
    known = [name.lower() for name in listeners]
    for number, layer in enumerate(layers):
        for name, text in prefixed_entries(layer):
            try:
                _add(result, name, text, known, declared, remote=number > 0)
            except UnknownName as unknown:
                if strict and number == 0:
                    result.problems[name] = ConfigError(str(unknown))
                elif number == 0:
                    result.warnings.append(str(unknown))
            except ConfigError as wrong:
                if number == 0:
                    result.problems[name] = wrong
                else:
                    result.warnings.append(f"dynamic config left out: {wrong}")
    return result


class UnknownName(Exception):
    """A prefixed name that does nothing; the sentence says so."""


def prefixed_entries(layer: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The entries of a layer that are about one listener."""
    return ((name, text) for name, text in layer.items() if name.startswith(PREFIX))


def _add(
    result: Prefixed,
    name: str,
    text: str,
    listeners: list[str],
    declared: Mapping[str, Setting[Any]],
    *,
    remote: bool,
) -> None:
    listener, rest = listener_and_rest(name, listeners)
    mechanism, base = mechanism_and_setting(rest, declared)
    setting = declared.get(base) or KNOWN.get(base)
    possible = base.startswith(FOR_MECHANISMS if mechanism else FOR_LISTENERS) or (base in LIMITS and not mechanism)
    if base not in WITHOUT_MEANING and (setting is None or not possible):
        candidates = [*LIMITS, *(each for each in (*declared, *KNOWN) if each.startswith(FOR_LISTENERS))]
        near = did_you_mean(base, candidates)
        what = f"{base} cannot be set for one listener" if setting is not None else f"unknown setting {base}"
        raise UnknownName(f"{name}: {what}{near}")
    assert setting is not None
    if base in declared:
        named = replace(setting, name=name)
        value = named.parse_remote(text) if remote else named.parse(text)
        result.values.setdefault((listener, mechanism), {})[setting.attribute] = value
    else:
        check_ignored(setting, text, name)
        result.ignored.append(name)


def listener_and_rest(name: str, listeners: Iterable[str]) -> tuple[str, str]:
    """The listener of a prefixed name, and what follows. Raises UnknownName if there is no such listener."""
    following = name.removeprefix(PREFIX)
    for listener in sorted(listeners, key=len, reverse=True):  # a name may have a point
        if following.startswith(f"{listener}."):
            return listener, following[len(listener) + 1 :]
    listener = following.partition(".")[0]
    near = did_you_mean(listener.lower(), listeners)
    raise UnknownName(f"{name}: there is no listener {listener} (names stand here in small letters){near}")


def mechanism_and_setting(rest: str, declared: Mapping[str, Setting[Any]]) -> tuple[str, str]:
    """The mechanism, "" if there is none, and the setting of what follows the listener's name."""
    if rest in declared or rest in KNOWN:
        return "", rest
    mechanism, _, base = rest.partition(".")
    return (mechanism, base) if base in declared or base in KNOWN else ("", rest)
