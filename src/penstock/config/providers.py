"""Config providers: `${PROVIDER:PATH:KEY}` in a value of a local properties file stands for what a provider has there.

Kafka's names (KIP-297, KIP-421, KIP-887); the providers are the three that Kafka brings along:

    config.providers = file,env,dir
    config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths = /etc/penstock/secrets
    sasl.jaas.config = ... password="${file:/etc/penstock/secrets/client.properties:password}";

A file has properties, of which KEY is one (`FileConfigProvider`); a directory has one file a value
(`DirectoryConfigProvider`); the environment has variables, `${env:NAME}` (`EnvVarConfigProvider`). As in Kafka a
reference to a provider that is not declared stays as it is, and what a provider gives is not looked into again. Unlike
Kafka a declared provider that has no such value, or may not read it, is an error: a password that is the text
`${file:...}` helps nobody.

Only who reads a local file calls this. In AlterConfigs and in options of Spark a reference stays text: whoever may send
one could read the files of another machine by it (CVE-2024-31141).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.config.nearest import did_you_mean
from penstock.config.properties import Properties, parse, where
from penstock.config.values import Password
from penstock.errors import ConfigError

PROVIDERS = "config.providers"
PACKAGE = "org.apache.kafka.common.config.provider."
FILE, DIRECTORY, ENVIRONMENT = (f"{PACKAGE}{name}ConfigProvider" for name in ("File", "Directory", "EnvVar"))
PARAMETERS = {FILE: "allowed.paths", DIRECTORY: "allowed.paths", ENVIRONMENT: "allowlist.pattern"}
"""What each provider can be told, by its class."""
REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")


@dataclass(frozen=True, slots=True)
class World:
    """What providers read: a file's bytes (raises OSError), a path without links, and the environment."""

    read: Callable[[str], bytes]
    real_path: Callable[[str], str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Provider:
    """A declared provider: its class, and what it may give; None is no bound."""

    class_name: str
    allowed: str | None

    def value(self, path: str, key: str, world: World) -> str:
        """What it has under a key. Raises ValueError with the end of a sentence."""
        if self.class_name == ENVIRONMENT:
            return self._variable(path, key, world)
        if not path:
            form = "FILE:KEY" if self.class_name == FILE else "DIRECTORY:FILE"
            raise ValueError(f"has no path: it must be ${{PROVIDER:{form}}}")
        if self.class_name == DIRECTORY:
            if "/" in key or key in ("", ".", ".."):
                raise ValueError(f"names {key!r}, which is no file of a directory")
            try:
                return self._content(posixpath.join(path, key), world).decode()
            except UnicodeDecodeError:
                raise ValueError("names a file that is not UTF-8 text") from None
        entries = parse(self._content(path, world), path)
        if key not in entries:
            raise ValueError(f"names {key}, which {path} does not have{did_you_mean(key, entries)}")
        return entries[key]

    def _variable(self, path: str, key: str, world: World) -> str:
        if path:
            raise ValueError("has a path, and the environment has none: it must be ${PROVIDER:NAME}")
        if self.allowed is not None and re.fullmatch(self.allowed, key) is None:
            raise ValueError(f"names {key}, which allowlist.pattern = {self.allowed} does not match")
        if key not in world.environment:
            raise ValueError(f"names {key}, which the environment does not have")
        return world.environment[key]

    def _content(self, path: str, world: World) -> bytes:
        real = world.real_path(path)
        if self.allowed is not None and not any(
            _is_below(real, world.real_path(each)) for each in _paths(self.allowed)
        ):
            raise ValueError(f"names {path}, which is not below allowed.paths = {self.allowed}")
        try:
            return world.read(real)
        except OSError as error:
            raise ValueError(f"names {path}, which cannot be read: {(error.strerror or str(error)).lower()}") from None


def resolved(properties: Properties, world: World) -> Properties:
    """The properties with all references replaced, and without the entries that declare providers.

    Values that had a reference come as secrets. Raises ConfigError naming the property.
    """
    providers = declared(properties)
    if not providers:
        return properties
    entries = {}
    for name, text in properties.items():
        if name == PROVIDERS or name.startswith(f"{PROVIDERS}."):
            continue
        entries[name] = _replaced(text, providers, world, name, where(properties.source, properties.line_of(name)))
    lines = {name: line for name in entries if (line := properties.line_of(name)) is not None}
    return Properties(entries, lines, properties.source, properties.beside)


def declared(properties: Properties) -> dict[str, Provider]:
    """The providers that the properties declare, by name. Raises ConfigError."""
    names = [each.strip() for each in properties.get(PROVIDERS, "").split(",") if each.strip()]
    found = {}
    read = {PROVIDERS}
    for name in names:
        key = f"{PROVIDERS}.{name}.class"
        class_name = properties.get(key, "").strip()
        if class_name not in PARAMETERS:
            said = f"{key} = {class_name}" if class_name else f"{key} is missing"
            at = where(properties.source, properties.line_of(key if class_name else PROVIDERS))
            raise ConfigError(f"{said}: it must be one of {', '.join(sorted(PARAMETERS))}{at}")
        parameter = f"{PROVIDERS}.{name}.param.{PARAMETERS[class_name]}"
        allowed = properties.get(parameter)
        if class_name == ENVIRONMENT and allowed is not None:
            _check_pattern(properties, parameter, allowed)
        read |= {key, parameter}
        found[name] = Provider(class_name, allowed)
    for name in properties:
        if name.startswith(f"{PROVIDERS}.") and name not in read:
            at = where(properties.source, properties.line_of(name))
            raise ConfigError(f"{name} configures no provider of {PROVIDERS}{did_you_mean(name, read)}{at}")
    return found


def _check_pattern(properties: Properties, name: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        at = where(properties.source, properties.line_of(name))
        raise ConfigError(f"{name} = {pattern} is no regular expression: {error}{at}") from None


def _replaced(text: str, providers: Mapping[str, Provider], world: World, name: str, at: str) -> str:
    """A value with its references replaced. Raises ConfigError."""
    found = False

    def value(reference: re.Match[str]) -> str:
        nonlocal found
        provider = providers.get(reference[1])
        if provider is None:
            return reference[0]
        found = True
        try:
            return provider.value(reference[2] or "", reference[3], world)
        except (ValueError, ConfigError) as error:
            raise ConfigError(f"{name}: {reference[0]} {error}{at}") from None

    replaced = REFERENCE.sub(value, text)
    return Password(replaced) if found else replaced


def _paths(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
