"""Logins by delegation token: SCRAM with the token's id as user name and its HMAC, in base 64, as password (KIP-48).

Nobody stores a credential of a token: it is derived of the HMAC when somebody first logs in with the token by a
mechanism, which takes milliseconds, and is kept. So the look-up raises `KeyUnderived`, whoever runs the exchange has
the key derived where that may take long, and looks again.

A token that is past its time is refused from then on, whether or not the controller has removed it yet. (Kafka lets it
in, to a session that is over at once.) So is one whose owner is no user. (Kafka lets the bearer of a token of
Group:admin in as User:admin.)
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from penstock.errors import NotResident
from penstock.metadata.delegation_tokens import USER_PREFIX, DelegationTokens, hmac_of
from penstock.metadata.limits import SCRAM_ITERATIONS_MIN
from penstock.metadata.scram import ScramCredential, ScramMechanism, credential_of
from penstock.security.limits import TOKEN_CREDENTIALS_MAX
from penstock.security.sasl import Derivation
from penstock.security.scram import SALT_BITS, TokenCredential, salt_of


@dataclass(frozen=True, slots=True)
class DelegationTokenSource:
    """What a node knows of tokens.

    Attributes:
        secret: delegation.token.secret.key; empty: there are no tokens. tokens: the present ones. wall_ms: the time.
        directory: the index of the log directory whose lane derives keys.
    """

    secret: str
    tokens: Callable[[], DelegationTokens]
    wall_ms: Callable[[], int]
    directory: int


class KeyUnderived(NotResident):
    """The key of a token has to be derived first."""

    def __init__(self, directory: int, derivation: Derivation, keep: Callable[[bytes], None]) -> None:
        super().__init__(directory, "the key of a delegation token", 0, 0)
        self._derivation = derivation
        self._keep = keep

    def read(self, disk: Any) -> Any:
        return self._derivation.derive()

    def was_read(self, result: Any) -> None:
        self._keep(result)


class TokenLogins:
    """See the module's head. `nonces`: randomness for salts that nobody outside may guess."""

    def __init__(self, source: DelegationTokenSource, nonces: Random) -> None:
        self._source = source
        self._nonces = nonces
        self._credentials: dict[tuple[ScramMechanism, str], ScramCredential] = {}

    def look_up(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """What a client that names this token must prove to know; None if it cannot be let in. Raises KeyUnderived."""
        source = self._source
        token = source.tokens().get(token_id) if source.secret else None
        now_ms = source.wall_ms()
        if token is None or min(token.expires_ms, token.max_ms) <= now_ms or not token.owner.startswith(USER_PREFIX):
            return None
        credential = self._credentials.get((mechanism, token_id))
        if credential is None:
            raise self._underived(mechanism, token_id)
        return TokenCredential(credential, token.owner_name, min(token.expires_ms, token.max_ms))

    def _underived(self, mechanism: ScramMechanism, token_id: str) -> KeyUnderived:
        salt = salt_of(self._nonces.getrandbits(SALT_BITS))
        password = b64encode(hmac_of(self._source.secret, token_id))

        def keep(key: bytes) -> None:
            if len(self._credentials) >= TOKEN_CREDENTIALS_MAX:
                del self._credentials[next(iter(self._credentials))]
            kept = credential_of(mechanism, salt, key, SCRAM_ITERATIONS_MIN)
            self._credentials.setdefault((mechanism, token_id), kept)

        derivation = Derivation(mechanism.hash_name, password, salt, SCRAM_ITERATIONS_MIN)
        return KeyUnderived(self._source.directory, derivation, keep)
