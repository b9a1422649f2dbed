"""What the settings of OAUTHBEARER mean on a listener: whose tokens are taken, and what signs them.

A listener takes tokens of one issuer for certain audiences, signed with keys from a JWKS (`TokenRules`, `KeySource`).
Without all of these there is no start: Kafka takes unsigned tokens by default, and those of anybody if no issuer is
named. Unsigned tokens are taken only where Kafka's class that does so is named, and with a warning.

Which URLs may be asked is not for the properties alone to say, which may come from others (CVE-2025-27817): see
`allowed`. Where a client's token comes from is `config.token_source`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.config.broker.oauthbearer import UNSECURED_HANDLER, VALIDATING_HANDLERS, VALIDATORS
from penstock.config.broker.tls import TlsSettings
from penstock.config.jaas import LoginModule
from penstock.config.nearest import did_you_mean
from penstock.config.values import Password, shown
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config.broker.settings import BrokerSettings

OAUTHBEARER = "OAUTHBEARER"
ALLOWED_URLS = "penstock.sasl.oauthbearer.allowed.urls"
SCHEMES = ("https", "http", "file")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
EXTENSION = "extension_"
EXTENSION_NAME = re.compile(r"[A-Za-z]+")
EXTENSION_VALUE = re.compile(r"[\x20-\x7e\t\r\n]+")
OF_TLS = tuple(
    name
    for name in TlsSettings.by_name()
    if name.startswith("ssl.") and name not in ("ssl.client.auth", "ssl.principal.mapping.rules")
)
"""Options of a login module for the connection to who issues tokens, as in Kafka."""
UNSECURED_OPTIONS = (
    "unsecuredValidatorPrincipalClaimName", "unsecuredValidatorScopeClaimName", "unsecuredValidatorRequiredScope",
    "unsecuredValidatorAllowableClockSkewMs",
)  # fmt: skip
OF_CLIENTS = ("clientId", "clientSecret", "scope")

Texts = tuple[tuple[str, Password], ...]


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must say. With `unsigned` nobody must have signed it, and issuer and audience are not looked at."""

    issuer: str = ""
    audiences: tuple[str, ...] = ()
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_ms: int = 30_000
    unsigned: bool = False
    required_scope: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where keys come from and how often. `tls`: options by name for the connection there."""

    url: str
    refresh_ms: int
    retry_ms: int
    retry_max_ms: int
    tls: Texts = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class BearerListener:
    """Whose tokens a listener takes; `keys` is None for unsigned ones."""

    rules: TokenRules
    keys: KeySource | None


def listener_of(
    values: BrokerSettings, module: LoginModule | None, name: str, given: Mapping[str, str]
) -> BearerListener:
    """What a listener takes. `values`: the settings as they are for the mechanism there; `name`: of the listener;
    `given`: the properties file. Raises ConfigError.
    """
    prefix = f"listener.name.{name.lower()}.oauthbearer."
    options = {} if module is None else module.options
    handler = values.sasl_server_callback_handler_class or VALIDATING_HANDLERS[0]
    told = f"{prefix}sasl.server.callback.handler.class"
    if handler not in (*VALIDATING_HANDLERS, UNSECURED_HANDLER):
        raise ConfigError(
            f"{told} = {shown(handler)}: Java classes cannot be loaded here; it must be {VALIDATING_HANDLERS[0]}, or "
            f"{UNSECURED_HANDLER} for tokens that nobody has signed"
        )
    if values.sasl_oauthbearer_jwt_validator_class not in VALIDATORS:
        raise ConfigError(
            f"sasl.oauthbearer.jwt.validator.class = {shown(values.sasl_oauthbearer_jwt_validator_class)}: Java "
            f"classes cannot be loaded here; it must be one of {', '.join(VALIDATORS)}"
        )
    if handler == UNSECURED_HANDLER:
        if given.get(told, "").strip() != handler:
            raise ConfigError(
                f"{told} = {UNSECURED_HANDLER} lets anybody be anyone: it must stand in the properties file"
            )
        return BearerListener(unsigned_rules(options, f"{prefix}sasl.jaas.config"), None)
    check_options(options, (*OF_TLS, *OF_CLIENTS), f"{prefix}sasl.jaas.config")
    return BearerListener(*signed(values, options, name))


def signed(values: BrokerSettings, options: Mapping[str, str], name: str) -> tuple[TokenRules, KeySource]:
    """The rules and the keys of a listener that takes signed tokens. Raises ConfigError for what is missing."""
    needed = {
        "sasl.oauthbearer.jwks.endpoint.url": (values.sasl_oauthbearer_jwks_endpoint_url or "").strip(),
        "sasl.oauthbearer.expected.issuer": (values.sasl_oauthbearer_expected_issuer or "").strip(),
        "sasl.oauthbearer.expected.audience": values.sasl_oauthbearer_expected_audience,
    }
    for missing in (setting for setting, value in needed.items() if not value):
        raise ConfigError(
            f"{missing} is missing: OAUTHBEARER on listener {name} must know whose tokens it takes, for whom they are "
            "and which keys sign them"
        )
    url = check_url(values.sasl_oauthbearer_jwks_endpoint_url or "", "sasl.oauthbearer.jwks.endpoint.url")
    allowed(url, values.penstock_sasl_oauthbearer_allowed_urls, ALLOWED_URLS)
    rules = TokenRules(
        issuer=(values.sasl_oauthbearer_expected_issuer or "").strip(),
        audiences=values.sasl_oauthbearer_expected_audience,
        subject_claim=claim_name(values.sasl_oauthbearer_sub_claim_name, "sasl.oauthbearer.sub.claim.name"),
        scope_claim=claim_name(values.sasl_oauthbearer_scope_claim_name, "sasl.oauthbearer.scope.claim.name"),
        clock_skew_ms=values.sasl_oauthbearer_clock_skew_seconds * 1000,
    )
    keys = KeySource(
        url,
        values.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        values.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        values.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
        of_tls(options),
    )
    return rules, keys


def unsigned_rules(options: Mapping[str, str], where: str) -> TokenRules:
    """The rules for unsigned tokens, from the options of the login module. Raises ConfigError."""
    check_options(options, (*UNSECURED_OPTIONS, *OF_TLS, *OF_CLIENTS), where)
    skew = options.get("unsecuredValidatorAllowableClockSkewMs", "").strip() or "0"
    if not (skew.isascii() and skew.isdigit()):
        raise ConfigError(
            f"{where}: unsecuredValidatorAllowableClockSkewMs must be a number of milliseconds, at least 0"
        )
    return TokenRules(
        subject_claim=options.get("unsecuredValidatorPrincipalClaimName", "").strip() or "sub",
        scope_claim=options.get("unsecuredValidatorScopeClaimName", "").strip() or "scope",
        clock_skew_ms=int(skew),
        unsigned=True,
        required_scope=tuple(options.get("unsecuredValidatorRequiredScope", "").split()),
    )


def warnings_of(listener: str, bearer: BearerListener) -> Iterable[str]:
    """Sentences for the log about what is allowed and is not safe."""
    if bearer.keys is None:
        yield (
            f"listener {listener} takes unsigned tokens by OAUTHBEARER: whoever reaches it can log in as anyone "
            "(sasl.server.callback.handler.class); use it for tests only"
        )
    elif is_in_clear(bearer.keys.url):
        yield (
            f"listener {listener}: sasl.oauthbearer.jwks.endpoint.url = {bearer.keys.url} is not encrypted: whoever is "
            "in between can give this node other keys"
        )


def is_in_clear(url: str) -> bool:
    """Whether a URL is asked over a network without TLS."""
    parts = urlsplit(url)
    return parts.scheme.lower() == "http" and parts.hostname not in LOOPBACK


def claim_name(text: str, setting: str) -> str:
    """The name of a claim. Raises ConfigError for none."""
    if not text.strip():
        raise ConfigError(f"{setting} is empty: it must be the name of a claim")
    return text.strip()


def check_url(text: str, setting: str) -> str:
    """A URL that can be asked. Raises ConfigError."""
    url = text.strip()
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as wrong:
        raise ConfigError(f"{setting} = {shown(url)} is no URL: {wrong}") from None
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES:
        raise ConfigError(
            f"{setting} = {shown(url)} is no URL that can be asked: it must begin with https, http or file"
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{setting} has a name or a password in its URL: leave it out")
    if not url.isascii() or not url.isprintable() or " " in url or port == 0:
        raise ConfigError(f"{setting} = {shown(url)} is no URL: what has no place in one must be written as %XX")
    if scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path.startswith("/")):
        raise ConfigError(
            f"{setting} = {shown(url)} names no file here: it must be like file:///etc/penstock/jwks.json"
        )
    if scheme != "file" and not parts.hostname:
        raise ConfigError(f"{setting} = {shown(url)} has no host: it must be like https://login.example.com/keys")
    return url


def allowed(url: str, urls: Collection[str], where: str) -> None:
    """Raises ConfigError unless a URL is one of those that may be asked, in the same characters."""
    if url not in urls:
        raise ConfigError(f"{url} is not allowed: {where} must have it, as it stands here")


def of_tls(options: Mapping[str, str]) -> Texts:
    """The options of a login module that are about TLS. Raises ConfigError for one that is malformed."""
    declared = TlsSettings.by_name()
    found = {name: text for name, text in options.items() if name in OF_TLS}
    for name, text in found.items():
        declared[name].parse(text)
    return tuple((name, Password(found[name])) for name in sorted(found))


def check_options(options: Mapping[str, str], known: Collection[str], where: str) -> None:
    """Raises ConfigError for an option of a login module that would do nothing."""
    for name in options:
        if name in known:
            continue
        if name.startswith(EXTENSION):
            if not EXTENSION_NAME.fullmatch(name[len(EXTENSION) :]) or name == f"{EXTENSION}auth":
                raise ConfigError(f"{where}: {name} is no name of an extension: letters only, and not auth")
            if not EXTENSION_VALUE.fullmatch(options[name]):
                raise ConfigError(f"{where}: {name} has characters that no extension may have")
        elif name.startswith("unsecured"):
            raise ConfigError(f"{where}: {name} is for tokens that nobody has signed, which are not used here")
        else:
            raise ConfigError(
                f"{where} has the option {name}, which OAUTHBEARER does not have{did_you_mean(name, known)}"
            )
