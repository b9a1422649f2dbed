"""SCRAM credentials as the metadata log keeps them: which mechanisms there are, and what is stored of a password.

The log holds no password: `stored_key` checks the proof of one, `server_key` proves to the client that the server knew
it. Who reads them can impersonate the server, and, having heard a login, the client: the log is for nodes only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class ScramMechanism(IntEnum):
    """Kafka's ScramMechanism codes, in records and in requests (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name in a SASL handshake."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The hash as hashlib names it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @classmethod
    def named(cls, sasl_name: str) -> ScramMechanism | None:
        """The mechanism of this name in a handshake; None if it is no SCRAM mechanism."""
        return next((each for each in cls if each.sasl_name == sasl_name), None)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is kept of one user's password for one mechanism (RFC 5802, section 3)."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int
