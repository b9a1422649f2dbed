"""Properties files of this machine: server.properties, and the client properties of `--command-config`.

What config providers have for a file (`config.providers`) is filled in here, and only here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.security import ClientSecurity
    from penstock.config.properties import Properties


def read_file(path: str) -> Properties:
    """A file as it is. Raises ConfigError in a sentence."""
    from penstock.config.properties import parse

    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    return parse(data, path)


def provided(properties: Properties) -> Properties:
    """The properties of a local file with what its config providers have. Raises ConfigError."""
    from penstock.config.providers import World, resolved

    def read(path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    return resolved(properties, World(read, os.path.realpath, os.environ))


def client_properties(path: str) -> tuple[Properties, ClientSecurity]:
    """A file of client properties, and what it says about security. Raises ConfigError with the line."""
    from penstock.client.security import client_security
    from penstock.config.properties import where

    properties = provided(read_file(path))
    try:
        return properties, client_security(properties)
    except ConfigError as error:
        named = max((name for name in properties if str(error).startswith(name)), key=len, default="")
        raise ConfigError(f"{error}{where(path, properties.line_of(named))}") from None
