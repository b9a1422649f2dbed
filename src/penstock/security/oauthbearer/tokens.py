"""JSON Web Tokens (RFC 7519) in compact form, and whether what one says lets its bearer in.

    token = parse("eyJhbGciOiJSUzI1NiIs...")        # nothing of it is believed yet
    verify(token, keys)                             # `security.oauthbearer.keys`: somebody we trust has signed it
    accepted = check(token, rules, wall_ms)         # its claims: by whom, for whom, about whom, from when till when

The rules are those of Kafka's BrokerJwtValidator, and of its OAuthBearerUnsecuredValidatorCallbackHandler where
unsigned tokens are allowed. Stricter on purpose: a name that comes twice, in the header or the claims, a time after the
year 9999, and a subject that is too long or cannot be printed are refused: JSON can write half a character
(`"\\ud800"`), which no message, record or page of metrics can hold.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.config.oauthbearer import TokenRules
from penstock.security.limits import PRINCIPAL_MAX_CHARACTERS

SECTION = re.compile(r"[A-Za-z0-9_-]*")
NUMERIC_DATE_MAX = 253_402_300_799
"""The last second of the year 9999."""
INVALID, INSUFFICIENT_SCOPE = "invalid_token", "insufficient_scope"


class TokenRefused(Exception):
    """A token that lets nobody in. The message is for our log, and shows nothing of the token but names of claims.

    `status` and `scope` are what the client is told (RFC 7628 section 3.2.2).
    """

    def __init__(self, message: str, status: str = INVALID, scope: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.scope = scope


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is written, with nothing believed. `text` is all of it, `signature` what the third part means."""

    text: str = field(repr=False)
    header: Mapping[str, Any]
    claims: Mapping[str, Any] = field(repr=False)
    signature: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a token says that was let in: about whom, for what, and until when (milliseconds since the epoch)."""

    subject: str
    scope: tuple[str, ...]
    expires_at_ms: int
    issued_at_ms: int | None = None


def parse(text: str) -> Token:
    """Takes a token apart. Raises TokenRefused."""
    sections = text.strip().split(".")
    if len(sections) != 3 or not sections[0] or not sections[1]:
        raise TokenRefused("it is no JSON Web Token of three parts")
    header, claims, signature = (decoded(section) for section in sections)
    return Token(text.strip(), json_object(header, "header"), json_object(claims, "claims"), signature)


def decoded(section: str) -> bytes:
    """The bytes of base64url without padding (RFC 7515 section 2). Raises TokenRefused."""
    if not SECTION.fullmatch(section):
        raise TokenRefused("a part of it is not base64url")
    try:
        return urlsafe_b64decode(section + "=" * (-len(section) % 4))
    except binascii.Error:
        raise TokenRefused("a part of it is not base64url") from None


def json_object(data: bytes, what: str) -> dict[str, Any]:
    """A JSON object in which no name comes twice. Raises TokenRefused."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name comes twice")
        return found

    def no_number(text: str) -> Any:
        raise ValueError(f"{text} is no number")

    try:
        value = json.loads(data.decode(), object_pairs_hook=once, parse_constant=no_number)
    except (ValueError, RecursionError):
        raise TokenRefused(f"its {what} are no JSON object") from None
    if not isinstance(value, dict):
        raise TokenRefused(f"its {what} are no JSON object")
    return value


def check(token: Token, rules: TokenRules, wall_ms: int) -> Accepted:
    """Whether the claims of a token let its bearer in at a time (milliseconds since the epoch). Raises TokenRefused.

    A signature is not looked at here.
    """
    claims = token.claims
    if rules.unsigned:
        return check_unsigned(token, rules, wall_ms)
    expires_at_ms = required_time(claims, "exp")
    issued_at_ms = required_time(claims, "iat")
    not_before_ms = time_of(claims, "nbf")
    if wall_ms - rules.clock_skew_ms >= expires_at_ms:
        raise TokenRefused("it has expired (exp)")
    if not_before_ms is not None and wall_ms + rules.clock_skew_ms < not_before_ms:
        raise TokenRefused("it is not valid yet (nbf)")
    if expires_at_ms < issued_at_ms or (not_before_ms is not None and expires_at_ms < not_before_ms):
        raise TokenRefused("it ends before it begins (exp)")
    if claims.get("iss") != rules.issuer:
        raise TokenRefused("it is not of the expected issuer (iss)")
    if not set(audiences(claims)).intersection(rules.audiences):
        raise TokenRefused("it is not for the expected audience (aud)")
    return Accepted(
        subject_of(claims, rules.subject_claim), scope_of(claims, rules.scope_claim), expires_at_ms, issued_at_ms
    )


def check_unsigned(token: Token, rules: TokenRules, wall_ms: int) -> Accepted:
    """As `check`, of a token that nobody has signed and that must not pretend anything else."""
    claims = token.claims
    if token.header.get("alg") != "none" or token.signature:
        raise TokenRefused("it is signed, and only unsigned tokens are taken here")
    subject = subject_of(claims, rules.subject_claim)
    expires_at_ms = required_time(claims, "exp")
    issued_at_ms = time_of(claims, "iat")
    if issued_at_ms is not None and issued_at_ms > wall_ms + rules.clock_skew_ms:
        raise TokenRefused("it is of the future (iat)")
    if wall_ms - rules.clock_skew_ms >= expires_at_ms:
        raise TokenRefused("it has expired (exp)")
    if issued_at_ms is not None and expires_at_ms <= issued_at_ms:
        raise TokenRefused("it ends before it begins (exp)")
    scope = scope_of(claims, rules.scope_claim)
    words = {word for each in scope for word in each.split()}
    if not words.issuperset(rules.required_scope):
        raise TokenRefused("it lacks a required scope", INSUFFICIENT_SCOPE, f"[{', '.join(rules.required_scope)}]")
    return Accepted(subject, scope, expires_at_ms, issued_at_ms)


def required_time(claims: Mapping[str, Any], name: str) -> int:
    """As `time_of`, of a claim that must be there."""
    found = time_of(claims, name)
    if found is None:
        raise TokenRefused(f"it lacks the claim {name}")
    return found


def time_of(claims: Mapping[str, Any], name: str) -> int | None:
    """A time among the claims (NumericDate: seconds), in milliseconds; None without it. Raises TokenRefused."""
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= NUMERIC_DATE_MAX:
        raise TokenRefused(f"its claim {name} is no time")
    return int(value) * 1000


def audiences(claims: Mapping[str, Any]) -> list[str]:
    """For whom a token is. Raises TokenRefused."""
    value = claims.get("aud")
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise TokenRefused("its claim aud names no audience")
    return found


def subject_of(claims: Mapping[str, Any], name: str) -> str:
    """About whom a token is. Raises TokenRefused."""
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise TokenRefused(f"its claim {name} names nobody")
    subject = value.strip()
    if len(subject) > PRINCIPAL_MAX_CHARACTERS or not subject.isprintable():
        raise TokenRefused(f"its claim {name} is too long, or cannot be printed")
    return subject


def scope_of(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The scopes of a token: one text, or several texts that differ; none if there is no such claim, or another kind
    of value. Raises TokenRefused.
    """
    value = claims.get(name)
    found = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if not all(isinstance(each, str) and each.strip() for each in found):
        raise TokenRefused(f"its claim {name} has an empty scope, or one that is no text")
    scope = tuple(each.strip() for each in found)
    if len(set(scope)) != len(scope):
        raise TokenRefused(f"its claim {name} has a scope twice")
    return scope
