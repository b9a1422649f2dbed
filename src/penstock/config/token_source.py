"""Where a client's token for OAUTHBEARER comes from, by Kafka's client properties.

    source = token_source({"sasl.oauthbearer.token.endpoint.url": ...}, jaas.parse(...))

From a token endpoint by client credentials (RFC 6749 section 4.4, KIP-768), or from a file (`file:///PATH`). Other ways
that Kafka has, such as jwt-bearer (KIP-1139), are refused by name. Which URLs may be asked is said elsewhere, by who
runs the process (`client.bearer_tokens`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from penstock.config.broker.oauthbearer import PACKAGE
from penstock.config.jaas import LoginModule
from penstock.config.oauthbearer import (
    EXTENSION,
    OF_CLIENTS,
    OF_TLS,
    Texts,
    check_options,
    check_url,
    claim_name,
    of_tls,
)
from penstock.config.setting import Setting
from penstock.config.values import BOOLEAN, DOUBLE, INT, LONG, SHORT, Password, shown
from penstock.errors import ConfigError

RETRIEVERS = tuple(
    f"{PACKAGE}{name}" for name in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
)
CLIENT_VALIDATORS = tuple(f"{PACKAGE}{name}" for name in ("DefaultJwtValidator", "ClientJwtValidator"))
LOGIN_HANDLERS = tuple(f"{PACKAGE}{name}OAuthBearerLoginCallbackHandler" for name in ("", "secured."))
URL = "sasl.oauthbearer.token.endpoint.url"
RETRIEVER, VALIDATOR, LOGIN_HANDLER = (
    "sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class", "sasl.login.callback.handler.class",
)  # fmt: skip
CLASSES = {RETRIEVER: RETRIEVERS, VALIDATOR: CLIENT_VALIDATORS, LOGIN_HANDLER: LOGIN_HANDLERS}
"""Settings of a client that name one of Kafka's classes, with those that have a counterpart here."""
CLIENT_ID, CLIENT_SECRET, SCOPE = (
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
)  # fmt: skip
URL_ENCODE, SUBJECT = "sasl.oauthbearer.header.urlencode", "sasl.oauthbearer.sub.claim.name"
SCOPE_CLAIM = "sasl.oauthbearer.scope.claim.name"
NUMBERS: dict[str, Setting[Any]] = {
    "connect_timeout_ms": Setting("sasl.login.connect.timeout.ms", INT, default=10_000, at_least=1),
    "read_timeout_ms": Setting("sasl.login.read.timeout.ms", INT, default=10_000, at_least=1),
    "retry_ms": Setting("sasl.login.retry.backoff.ms", LONG, default=100, at_least=1),
    "retry_max_ms": Setting("sasl.login.retry.backoff.max.ms", LONG, default=10_000, at_least=1),
    "window_factor": Setting("sasl.login.refresh.window.factor", DOUBLE, default=0.8, at_least=0.5, at_most=1.0),
    "window_jitter": Setting("sasl.login.refresh.window.jitter", DOUBLE, default=0.05, at_least=0.0, at_most=0.25),
    "min_period_s": Setting("sasl.login.refresh.min.period.seconds", SHORT, default=60, at_least=0, at_most=900),
    "buffer_s": Setting("sasl.login.refresh.buffer.seconds", SHORT, default=300, at_least=0, at_most=3600),
}
"""Settings of a client by attribute of `TokenSource`, with Kafka's bounds."""
CLIENT_NAMES = (
    URL, RETRIEVER, VALIDATOR, CLIENT_ID, CLIENT_SECRET, SCOPE, URL_ENCODE, SUBJECT, SCOPE_CLAIM,
    *(setting.name for setting in NUMBERS.values()),
)  # fmt: skip
"""What a client can be told about OAUTHBEARER, beside the class of its login handler."""
OF_BROKERS = ("sasl.oauthbearer.jwks.", "sasl.oauthbearer.expected.", "sasl.oauthbearer.clock.")
"""Beginnings of settings that Kafka's clients take too and that do nothing there."""


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where a client's token comes from.

    Attributes:
        url: of the token endpoint, or of a file that has a token.
        url_encoded: whether id and secret are URL-encoded in the header (RFC 6749 section 2.3.1).
        extensions: what is sent to the broker beside the token (KIP-342). tls: options for the connection to `url`.
        retry_ms, retry_max_ms: first pause after a failure, and for how long it is tried again.
        window_factor, window_jitter: when in the life of a token a new one is asked for.
        min_period_s, buffer_s: not sooner than that after the last one, not later than that before its end.
    """

    url: str
    client_id: str = ""
    client_secret: Password = field(default=Password(""), repr=False)
    scope: str = ""
    url_encoded: bool = False
    extensions: tuple[tuple[str, str], ...] = ()
    tls: Texts = field(default=(), repr=False)
    subject_claim: str = "sub"
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000
    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300

    @property
    def is_file(self) -> bool:
        return urlsplit(self.url).scheme.lower() == "file"


def token_source(given: Mapping[str, str], module: LoginModule, prefix: str = "") -> TokenSource:
    """Where a client's token comes from, by its properties. Raises ConfigError naming the property."""
    jaas = f"{prefix}sasl.jaas.config"
    check_options(module.options, (*OF_CLIENTS, *OF_TLS), jaas)
    check_classes(given, prefix)
    text = given.get(URL, "").strip()
    if not text:
        raise ConfigError(
            f"{prefix}{URL} is missing: it says where the token comes from: a token endpoint, or file:///PATH of a "
            "file that has one"
        )
    is_file = urlsplit(check_url(text, f"{prefix}{URL}")).scheme.lower() == "file"
    check_kind(given.get(RETRIEVER, "").strip(), prefix, is_file=is_file)
    values = {
        attribute: setting.parse(given[setting.name]) if setting.name in given else setting.default
        for attribute, setting in NUMBERS.items()
    }
    if is_file:
        client_id, secret = "", Password("")
    else:
        client_id, secret = credentials(given, module, jaas, prefix)
    encode = Setting(URL_ENCODE, BOOLEAN, default=False)
    return TokenSource(
        url=text,
        client_id=client_id,
        client_secret=secret,
        scope=given.get(SCOPE, module.options.get("scope", "")).strip(),
        url_encoded=encode.parse(given[URL_ENCODE]) if URL_ENCODE in given else False,
        extensions=tuple(
            sorted(
                (name[len(EXTENSION) :], value) for name, value in module.options.items() if name.startswith(EXTENSION)
            )
        ),
        tls=of_tls(module.options),
        subject_claim=claim_name(given.get(SUBJECT, "sub"), f"{prefix}{SUBJECT}"),
        **values,
    )


def credentials(given: Mapping[str, str], module: LoginModule, jaas: str, prefix: str) -> tuple[str, Password]:
    """Id and secret of a client: its properties go before the login module. Raises ConfigError."""
    found = []
    for name, option in ((CLIENT_ID, "clientId"), (CLIENT_SECRET, "clientSecret")):
        text = given.get(name, module.options.get(option, "")).strip()
        if not text:
            raise ConfigError(
                f"{prefix}{name} is missing, and so is {option} in {jaas}: the token endpoint asks for it"
            )
        found.append(text)
    return found[0], Password(found[1])


def check_classes(given: Mapping[str, str], prefix: str) -> None:
    """Raises ConfigError for a class that has no counterpart here, and for what goes with those."""
    for name, known in CLASSES.items():
        class_name = given.get(name, "").strip()
        if class_name and class_name not in known:
            raise ConfigError(
                f"{prefix}{name} = {shown(class_name)} is not supported: it must be one of {', '.join(known)}"
            )
    for name in given:
        if name.startswith("sasl.oauthbearer.assertion."):
            raise ConfigError(f"{prefix}{name} is not supported: tokens for assertions (jwt-bearer) do not exist here")


def check_kind(retriever: str, prefix: str, *, is_file: bool) -> None:
    """Raises ConfigError for a class that reads files where the URL is of none, and the other way round."""
    wants_file = {RETRIEVERS[1]: False, RETRIEVERS[2]: True}.get(retriever)
    if wants_file is not None and wants_file != is_file:
        wanted = "file:///PATH" if wants_file else "the URL of a token endpoint"
        raise ConfigError(f"{prefix}{RETRIEVER} = {retriever}, so {prefix}{URL} must be {wanted}")
