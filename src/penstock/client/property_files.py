"""Properties files of this machine: server.properties, and the client properties of `--command-config`.

What config providers have for a file (`config.providers`) is filled in here, and only here.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from penstock.client.limits import SETTINGS_FILE_MAX_BYTES
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client.security import ClientSecurity
    from penstock.config.properties import Properties


def read_file(path: str) -> Properties:
    """A file as it is. Raises ConfigError in a sentence."""
    from penstock.config.properties import parse

    try:
        data = content_of(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    return parse(data, path)


def content_of(path: str) -> bytes:
    """The bytes of a file. Raises OSError, also for one that is larger than any of settings."""
    with open(path, "rb") as file:
        data = file.read(SETTINGS_FILE_MAX_BYTES + 1)
    if len(data) > SETTINGS_FILE_MAX_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {SETTINGS_FILE_MAX_BYTES >> 20} MiB: is it a file of settings?")
    return data


def provided(properties: Properties) -> Properties:
    """The properties of a local file with what its config providers have. Raises ConfigError."""
    from penstock.config.providers import World, resolved

    return resolved(properties, World(content_of, os.path.realpath, os.environ))


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
