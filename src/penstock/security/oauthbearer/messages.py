"""The messages of OAUTHBEARER (RFC 7628, KIP-342).

    client  n,a=AUTHORIZATION-ID,^Aauth=Bearer TOKEN^AKEY=VALUE^A^A      (^A: the byte 1; the id may be missing)
    server  nothing, if it takes the token; else {"status":"invalid_token"}
    client  ^A, and the server ends the login

Channel binding (`y`, `p=`) is refused, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.config.oauthbearer import EXTENSION_NAME, EXTENSION_VALUE
from penstock.security.limits import SASL_MESSAGE_MAX_CHARACTERS
from penstock.security.sasl import LoginFailed

SEPARATOR = "\x01"
GIVE_UP = b"\x01"
"""What a client says when its token was refused, so that the server can end the login with an error."""
AUTHORIZATION = "auth"
HEADER = re.compile(r"n,(?:a=((?:[^=,]|=2C|=3D)+))?,")
BEARER = re.compile(r"([A-Za-z0-9_]+) +([-_~+/.a-zA-Z0-9]+=*)")


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The client's message. `extensions`: what came beside the token, by name."""

    token: str = field(repr=False)
    authorization_id: str
    extensions: tuple[tuple[str, str], ...]


def parse_first(message: bytes) -> ClientFirst:
    """Reads the client's message. Raises LoginFailed, which shows nothing of the token."""
    if len(message) > SASL_MESSAGE_MAX_CHARACTERS:
        raise LoginFailed("the message is too long")
    try:
        header, *pairs = message.decode("ascii").split(SEPARATOR)
    except UnicodeDecodeError:
        raise LoginFailed("the message is not ASCII") from None
    found = HEADER.fullmatch(header)
    if found is None:
        raise LoginFailed("the message does not begin as one of OAUTHBEARER without channel binding")
    if len(pairs) < 2 or pairs[-1] or pairs[-2]:
        raise LoginFailed("the message does not end as one of OAUTHBEARER")
    values = parse_pairs(pairs[:-2])
    authorization = values.pop(AUTHORIZATION, None)
    if authorization is None:
        raise LoginFailed("the message has no token")
    bearer = BEARER.fullmatch(authorization)
    if bearer is None or bearer[1].lower() != "bearer":
        raise LoginFailed("the message has something else than a bearer token")
    authorization_id = (found[1] or "").replace("=2C", ",").replace("=3D", "=")
    return ClientFirst(bearer[2], authorization_id, tuple(values.items()))


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """The values by name. Raises LoginFailed for a name or value that is malformed, and for a name that comes twice."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not EXTENSION_NAME.fullmatch(name) or not EXTENSION_VALUE.fullmatch(value):
            raise LoginFailed("the message has a malformed pair of a name and a value")
        if name in values:
            raise LoginFailed("the message has a name twice")
        values[name] = value
    return values


def first_message(token: str, extensions: Iterable[tuple[str, str]] = ()) -> bytes:
    """The client's message."""
    pairs = [f"{AUTHORIZATION}=Bearer {token}", *(f"{name}={value}" for name, value in extensions)]
    return ("n,," + SEPARATOR + "".join(pair + SEPARATOR for pair in pairs) + SEPARATOR).encode("ascii")
