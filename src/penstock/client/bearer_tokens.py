"""Tokens that a client logs in with by OAUTHBEARER: got once, kept, and renewed before they end.

    token = await current(source)      # a `TokenSource`, as config.oauthbearer makes it of a client's properties
    refused(source)                    # the broker does not take it: the next one is a new one

A token endpoint is asked by client credentials (RFC 6749 section 4.4), again after a failure that may pass. All
connections of a process share the token of a source. A new one is asked for when a connection logs in and most of the
old one's life is over, as Kafka's clients do (`security.oauthbearer.refresh`); if none comes, the old one is used to
its end. Connections log in again (KIP-368), so that they have the new one in time.

Which URLs and files may be asked for is said by the environment of the process, not by the properties, which may come
from somebody else (CVE-2025-27817): PENSTOCK_SASL_OAUTHBEARER_ALLOWED_URLS.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import threading
import time
from base64 import b64encode
from collections import OrderedDict
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode

from penstock.client.bounded_fetch import FetchFailed, FetchLimits, fetch
from penstock.client.limits import (
    BEARER_TOKEN_MAX_CHARACTERS,
    ISSUER_MESSAGE_CHARACTERS,
    TOKEN_ANSWER_MAX_BYTES,
    TOKENS_KEPT_MAX,
)
from penstock.config.oauthbearer import allowed
from penstock.config.token_source import TokenSource
from penstock.errors import AuthenticationError, ConfigError, PenstockError, UnreachableError
from penstock.security.oauthbearer.refresh import renewed_at_ms
from penstock.security.oauthbearer.tokens import TokenRefused, parse, required_time, subject_of, time_of

ALLOWED_URLS_VARIABLE = "PENSTOCK_SASL_OAUTHBEARER_ALLOWED_URLS"
UNPRINTABLE = re.compile(r"[^\x20-\x7e]+")


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token, about whom it is, when it ends and when it is renewed (milliseconds since the epoch)."""

    text: str = field(repr=False)
    subject: str
    expires_at_ms: int
    renewed_at_ms: int


class Tokens:
    """The token of one source. `urls`: those that may be asked; None: those that the environment says."""

    def __init__(
        self, source: TokenSource, urls: tuple[str, ...] | None = None, where: str = ALLOWED_URLS_VARIABLE
    ) -> None:
        self.source = source
        self.kept: BearerToken | None = None
        self._urls = urls
        self._where = where
        self._asking = threading.Lock()

    def fresh(self) -> BearerToken | None:
        """The token that is kept, if it is not yet time to renew it."""
        kept = self.kept
        return kept if kept is not None and wall_ms() < min(kept.renewed_at_ms, kept.expires_at_ms) else None

    def get(self) -> BearerToken:
        """A token that is valid. Blocks. Raises AuthenticationError, UnreachableError."""
        with self._asking:
            if (found := self.fresh()) is not None:
                return found
            try:
                found = self._ask()
            except PenstockError:
                kept = self.kept
                if kept is None or wall_ms() >= kept.expires_at_ms:
                    raise
                return kept
            self.kept = found
            return found

    def _ask(self) -> BearerToken:
        try:
            allowed(self.source.url, allowed_urls() if self._urls is None else self._urls, self._where)
            text = from_file(self.source) if self.source.is_file else from_endpoint(self.source)
        except ConfigError as wrong:
            raise AuthenticationError(f"no token for OAUTHBEARER: {wrong}") from None
        except FetchFailed as failed:
            kind = UnreachableError if failed.again else AuthenticationError
            raise kind(f"no token for OAUTHBEARER: {failed}{said(failed.body)}") from None
        return read_token(text, self.source)


_tokens: OrderedDict[TokenSource, Tokens] = OrderedDict()
_of_tokens = threading.Lock()


def tokens_of(source: TokenSource) -> Tokens:
    """The token of a source in this process."""
    with _of_tokens:
        found = _tokens.pop(source, None) or Tokens(source)
        _tokens[source] = found
        while len(_tokens) > TOKENS_KEPT_MAX:
            _tokens.popitem(last=False)
        return found


async def current(source: TokenSource) -> BearerToken:
    """A token that is valid. Raises AuthenticationError, UnreachableError."""
    tokens = tokens_of(source)
    kept = tokens.fresh()
    return await asyncio.to_thread(tokens.get) if kept is None else kept


def refused(source: TokenSource) -> None:
    """The token of a source was refused: it is not used again."""
    tokens_of(source).kept = None


def allowed_urls() -> tuple[str, ...]:
    """The URLs that clients of this process may ask for tokens."""
    return tuple(each.strip() for each in os.environ.get(ALLOWED_URLS_VARIABLE, "").split(",") if each.strip())


def wall_ms() -> int:
    """The machine's clock, in milliseconds since the epoch."""
    return int(time.time() * 1000)


def from_file(source: TokenSource) -> str:
    """The token in a file. Raises FetchFailed."""
    data = fetch(source.url, FetchLimits(TOKEN_ANSWER_MAX_BYTES))
    try:
        return data.decode("ascii").strip()
    except UnicodeDecodeError:
        raise FetchFailed("the file has no token", again=False) from None


def from_endpoint(source: TokenSource) -> str:
    """A token from the endpoint, by client credentials; tries for `retry_max_ms`. Raises FetchFailed, ConfigError."""
    limits = FetchLimits(TOKEN_ANSWER_MAX_BYTES, source.connect_timeout_ms, source.read_timeout_ms)
    form = {"grant_type": "client_credentials", **({"scope": source.scope} if source.scope else {})}
    headers = {"Authorization": authorization(source), "Content-Type": "application/x-www-form-urlencoded"}
    until = time.monotonic() + source.retry_max_ms / 1000
    pause_s = source.retry_ms / 1000
    while True:
        try:
            data = fetch(source.url, limits, tls=source.tls, body=urlencode(form).encode(), headers=headers)
            return answered_token(data)
        except FetchFailed as failed:
            if not failed.again or time.monotonic() + pause_s >= until:
                raise
        time.sleep(pause_s)
        pause_s *= 2


def authorization(source: TokenSource) -> str:
    """The header with id and secret (RFC 7617)."""
    name, secret = source.client_id, str(source.client_secret)
    if source.url_encoded:
        name, secret = quote_plus(name), quote_plus(secret)
    return "Basic " + b64encode(f"{name}:{secret}".encode()).decode("ascii")


def answered_token(data: bytes) -> str:
    """The token in an endpoint's answer, which is never shown. Raises FetchFailed."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        answer = None
    token = (answer.get("access_token") or answer.get("id_token")) if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token.strip():
        raise FetchFailed("the token endpoint's answer has no access_token", again=False)
    return token.strip()


def said(body: bytes) -> str:
    """What a token endpoint says about its refusal (RFC 6749 section 5.2), as the end of a sentence."""
    try:
        answer = json.loads(body) if body else None
    except (ValueError, RecursionError):
        return ""
    if not isinstance(answer, dict):
        return ""
    words = [answer.get(name) for name in ("error", "error_description")]
    text = ": ".join(UNPRINTABLE.sub(" ", each) for each in words if isinstance(each, str) and each)
    return f" ({text[:ISSUER_MESSAGE_CHARACTERS]})" if text else ""


def read_token(text: str, source: TokenSource) -> BearerToken:
    """A token as a client sees it: well-formed, about somebody, not over. Raises AuthenticationError."""
    now_ms = wall_ms()
    try:
        if len(text) > BEARER_TOKEN_MAX_CHARACTERS:
            raise TokenRefused("it is too long")
        claims = parse(text).claims
        subject = subject_of(claims, source.subject_claim)
        expires_at_ms, issued_at_ms = required_time(claims, "exp"), time_of(claims, "iat")
        if expires_at_ms <= now_ms:
            raise TokenRefused("it has expired (exp)")
    except TokenRefused as wrong:
        raise AuthenticationError(
            f"the token for OAUTHBEARER cannot be used: {wrong}\n  it is from {source.url}"
        ) from None
    renewed_ms = renewed_at_ms(source, issued_at_ms, expires_at_ms, now_ms, random.random())
    return BearerToken(text, subject, expires_at_ms, renewed_ms)
