"""Keys that tokens are signed with, from a JWKS (RFC 7517), and whether a token is signed with one of them.

Asymmetric algorithms only (RFC 7518 section 3.1): RS, PS and ES with 256, 384 and 512. Which one a token names must fit
the kind of the key, its curve and the key's own `alg`: so `none`, HMAC with a public key as the secret, and a weaker
algorithm than the key is for are refused. Keys that a token brings along (`jwk`, `jku`, `x5c`, `x5u`) are never used.

A token names its key by `kid`: those that have this id count, else those that have none; without a `kid` all do. Keys
of other kinds in a set, or for encryption, are passed over. Cryptography is joserfc's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.security.limits import JWKS_KEYS_MAX, KEY_ID_MAX_CHARACTERS, KEYS_TRIED_MAX, RSA_KEY_MAX_BITS
from penstock.security.oauthbearer.tokens import Token, TokenRefused, decoded, json_object

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, RSAKey

RSA, EC = "RSA", "EC"
RSA_KEY_MIN_BITS = 2048
RSA_EXPONENT_MAX = 1 << 33
CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS = (*OF_RSA, *CURVES)
PUBLIC_PARTS = {RSA: ("kty", "n", "e"), EC: ("kty", "crv", "x", "y")}


class BadKeys(Exception):
    """What came is no JWKS, or has no key that tokens can be signed with."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key. `curve`: of EC. `algorithm`: the only one that it is for; None for all of its kind."""

    id: str | None
    kind: str
    curve: str | None
    algorithm: str | None
    key: RSAKey | ECKey = field(repr=False)

    def fits(self, algorithm: str) -> bool:
        """Whether tokens of an algorithm may be signed with it."""
        if self.algorithm is not None and self.algorithm != algorithm:
            return False
        return algorithm in OF_RSA if self.kind == RSA else CURVES.get(algorithm) == self.curve


Keys = tuple[VerificationKey, ...]


def no_one() -> None:
    """Nobody fetches keys."""


@dataclass(slots=True, eq=False)
class KeyRing:
    """The keys of one source: `keys` is None as long as there are none that may be used.

    `wanted` is called when a token names a key that is not among them; whoever fetches keys sets it, and decides
    whether it is time to.
    """

    keys: Keys | None = None
    wanted: Callable[[], None] = no_one


def read_keys(data: bytes) -> Keys:
    """The keys of a JWKS that tokens can be signed with. Raises BadKeys; ConfigError without joserfc."""
    try:
        found = json_object(data, "contents").get("keys")
    except TokenRefused:
        raise BadKeys("it is no JSON object") from None
    if not isinstance(found, list):
        raise BadKeys("it has no list `keys`")
    if len(found) > JWKS_KEYS_MAX:
        raise BadKeys(f"it has {len(found)} keys, more than {JWKS_KEYS_MAX}")
    keys = tuple(key for each in found if (key := read_key(each)) is not None)
    if not keys:
        raise BadKeys(f"none of its {len(found)} keys is an RSA or EC key that tokens can be signed with")
    return keys


def read_key(found: Any) -> VerificationKey | None:
    """One key of a set; None for one that is not for signatures, or that is of another kind, weak or malformed."""
    if not isinstance(found, dict) or found.get("kty") not in PUBLIC_PARTS or found.get("use", "sig") != "sig":
        return None
    operations = found.get("key_ops", ["verify"])
    kind, key_id, algorithm = found["kty"], found.get("kid"), found.get("alg")
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    if not isinstance(key_id, str | None) or not isinstance(algorithm, str | None):
        return None
    if key_id is not None and len(key_id) > KEY_ID_MAX_CHARACTERS:
        return None
    key = public_key(kind, {name: found.get(name) for name in PUBLIC_PARTS[kind]})
    return (
        None if key is None else VerificationKey(key_id, kind, found.get("crv") if kind == EC else None, algorithm, key)
    )


def public_key(kind: str, parts: dict[str, Any]) -> RSAKey | ECKey | None:
    """The key of its public parts; None if they make none that is strong enough, and not too strong to compute with."""
    ec_key, rsa_key, jose_error = joserfc_keys()
    if not all(isinstance(text, str) for text in parts.values()):
        return None
    if not (is_fit_for_rsa(parts["n"], parts["e"]) if kind == RSA else parts["crv"] in CURVES.values()):
        return None
    try:
        key: RSAKey | ECKey = (rsa_key if kind == RSA else ec_key).import_key(parts)
    except (jose_error, ValueError, TypeError, KeyError):
        return None
    return key


def is_fit_for_rsa(modulus: str, exponent: str) -> bool:
    """Whether a modulus and an exponent are of sizes that are safe, and that can be computed with."""
    try:
        bits = int.from_bytes(decoded(modulus), "big").bit_length()
        return (
            RSA_KEY_MIN_BITS <= bits <= RSA_KEY_MAX_BITS and int.from_bytes(decoded(exponent), "big") < RSA_EXPONENT_MAX
        )
    except TokenRefused:
        return False


def verify(token: Token, ring: KeyRing) -> None:
    """Whether a token is signed with one of the keys. Raises TokenRefused."""
    algorithm, key_id = token.header.get("alg"), token.header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenRefused("it is signed by an algorithm that is not allowed (alg)")
    if "crit" in token.header or "b64" in token.header:
        raise TokenRefused("its header asks for what is not known here (crit)")
    if key_id is not None and (not isinstance(key_id, str) or len(key_id) > KEY_ID_MAX_CHARACTERS):
        raise TokenRefused("its key has no proper id (kid)")
    if ring.keys is None:
        ring.wanted()
        raise TokenRefused("there are no keys to check it with: see what the log says about the JWKS")
    fitting = candidates(ring.keys, algorithm, key_id)
    if not fitting:
        ring.wanted()
        raise TokenRefused("no key that is known can have signed it (kid)")
    if not any(signed_with(token, algorithm, each) for each in fitting):
        raise TokenRefused("its signature is wrong")


def candidates(keys: Keys, algorithm: str, key_id: str | None) -> Sequence[VerificationKey]:
    """The keys that may have signed a token, few enough to try them all."""
    fitting = [key for key in keys if key.fits(algorithm)]
    if key_id is not None:
        fitting = [key for key in fitting if key.id == key_id] or [key for key in fitting if key.id is None]
    return fitting[:KEYS_TRIED_MAX]


def signed_with(token: Token, algorithm: str, key: VerificationKey) -> bool:
    """Whether a token is signed with a key."""
    from joserfc import jws
    from joserfc.errors import JoseError

    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.max_header_length = registry.max_payload_length = registry.max_signature_length = len(token.text)
    try:
        jws.deserialize_compact(token.text, key.key, algorithms=[algorithm], registry=registry)
    except (JoseError, ValueError, TypeError):
        return False
    return True


def joserfc_keys() -> tuple[Any, Any, type[Exception]]:
    """The classes of keys, and of errors. Raises ConfigError without the package."""
    try:
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey, RSAKey
    except ImportError:
        raise ConfigError("OAUTHBEARER needs joserfc: install penstock[security]") from None
    return ECKey, RSAKey, JoseError
