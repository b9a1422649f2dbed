"""How a client reaches a secured listener, from Kafka's client properties: TLS or not, whom to trust, how to log in.

    security = client_security({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", ...})
    async with Client("broker:9093", security=security) as client: ...

`client_security` looks at nothing but the texts, so that it can be asked anywhere; files are read when a connection is
opened (`ClientSecurity.context`), on the machine that opens it, so that a certificate that was renewed counts from the
next connection on. The result is immutable, is pickled into Spark's tasks, and shows no secret: whoever prints it, a
task with it or an error about it sees `[hidden]`.

As with Kafka's clients, `ssl.*` means something with SSL and SASL_SSL only, and `sasl.*` with SASL_PLAINTEXT and
SASL_SSL; what is given and means nothing is in `unused`, for who can tell the user. What Kafka has and is not here is
refused, not ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.config import jaas
from penstock.config.broker.network import SECURITY_PROTOCOLS, WITH_SASL, WITH_TLS
from penstock.config.broker.sasl import GSSAPI
from penstock.config.broker.tls import TlsSettings
from penstock.config.kerberos import SERVICE_NAME, KerberosLogin, kerberos_login
from penstock.config.kerberos import example as kerberos_example
from penstock.config.known import KNOWN
from penstock.config.oauthbearer import OAUTHBEARER
from penstock.config.sasl import PLAIN, SASL_MECHANISMS
from penstock.config.token_source import CLIENT_NAMES, LOGIN_HANDLER, OF_BROKERS, TokenSource, token_source
from penstock.config.values import Password, shown
from penstock.config.without_meaning import OF_JAVA, check_ignored
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from ssl import SSLContext

DEFAULT_PROTOCOL = "PLAINTEXT"
SECURITY_PROTOCOL, SASL_MECHANISM, SASL_JAAS_CONFIG = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
PREFIXES = ("ssl.", "sasl.", "security.")
"""How the names begin of what may concern security."""
NOT_OF_CLIENTS = ("ssl.client.auth", "ssl.allow.dn.changes", "ssl.allow.san.changes", "ssl.principal.mapping.rules")
TLS = {
    name: setting
    for name, setting in TlsSettings.by_name().items()
    if name.startswith("ssl.") and name not in NOT_OF_CLIENTS
}
"""What a client can be told about TLS, by name."""
OF_OTHERS = ("sasl.kerberos.", "sasl.oauthbearer.assertion.", *OF_BROKERS)
"""Settings of GSSAPI, of ways to get a token that do not exist here, and of brokers: Kafka's clients take them too, and
they have no effect there on other mechanisms either; nor has what tells Java how to get tickets an effect on GSSAPI
here."""
OF_LOGINS = "sasl.login."
"""Settings of OAUTHBEARER that are written beside other mechanisms, too, where nobody is told that they do nothing."""
JAVA_CLASSES = (
    "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class", "security.providers",
)  # fmt: skip
"""What names a class to load; there is no Java here to load it."""
NAMES = (SECURITY_PROTOCOL, SASL_MECHANISM, SASL_JAAS_CONFIG, *TLS, *CLIENT_NAMES)
"""Every property that has an effect."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in and how.

    Attributes: `is_token`, username and password are those of a delegation token. `kerberos`, with GSSAPI: where its
    tickets come from. `source`, with OAUTHBEARER: where its token comes from, which then says who it is. With these
    there is no password.
    """

    mechanism: str
    username: str
    password: Password
    is_token: bool = False
    kerberos: KerberosLogin | None = None
    source: TokenSource | None = None


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How to reach a listener; by default one without security.

    Attributes:
        protocol: of the listener, one of `SECURITY_PROTOCOLS`.
        tls: what is set of TLS: values by attribute of `TlsSettings`, sorted.
        login: how to log in; None where there is no SASL.
        texts: the properties that all this was read from, sorted.
        unused: properties that were given and mean nothing with this protocol. unknown: those that no client has.
    """

    protocol: str = DEFAULT_PROTOCOL
    tls: tuple[tuple[str, Any], ...] = ()
    login: Login | None = None
    texts: tuple[tuple[str, Password], ...] = ()
    unused: tuple[str, ...] = field(default=(), compare=False)
    unknown: tuple[str, ...] = field(default=(), compare=False)

    @property
    def properties(self) -> dict[str, str]:
        """What `client_security` makes the same of. It has secrets."""
        return dict(self.texts)

    @property
    def has_tls(self) -> bool:
        return self.protocol in WITH_TLS

    def settings(self) -> TlsSettings:
        """The settings of TLS: what is set, and Kafka's defaults."""
        return TlsSettings({**vars(TlsSettings.defaults()), **dict(self.tls)})

    def context(self) -> SSLContext | None:
        """What handshakes are made with; None without TLS. Reads files, and takes milliseconds. Raises ConfigError."""
        if not self.has_tls:
            return None
        from penstock.client.tls import client_context, read_material

        settings = self.settings()
        return client_context(settings, read_material(settings))


UNSECURED = ClientSecurity()
"""A listener that is PLAINTEXT."""


def client_security(properties: Mapping[str, str], prefix: str = "") -> ClientSecurity:
    """What properties say about security; others are left alone. Raises ConfigError naming the property.

    `prefix` goes before names in errors: `kafka.` for options of Spark.
    """
    given = {name: text for name, text in properties.items() if name.startswith(PREFIXES)}
    protocol = _protocol(given, prefix)
    by_token = protocol in WITH_SASL and given.get(SASL_MECHANISM, "").strip().upper() == OAUTHBEARER
    for name, text in given.items():
        if name in JAVA_CLASSES and text.strip() and not (by_token and name == LOGIN_HANDLER):
            raise ConfigError(f"{prefix}{name} names a Java class, which cannot be used here: leave it out")
        if name in OF_JAVA:
            check_ignored(KNOWN[name], text, f"{prefix}{name}")
    used = [SECURITY_PROTOCOL] if SECURITY_PROTOCOL in given else []
    if has_tls := protocol in WITH_TLS:
        used += [name for name in given if name in TLS]
    login = _login(given, prefix) if protocol in WITH_SASL else None
    if login is not None:
        names = (SASL_MECHANISM, SASL_JAAS_CONFIG, *((SERVICE_NAME,) if login.kerberos is not None else ()))
        used += [name for name in names if name in given]
    if by_token:
        used += [name for name in given if name in (*CLIENT_NAMES, LOGIN_HANDLER)]
    of_clients = (*NAMES, *JAVA_CLASSES, *OF_JAVA)
    unknown = [name for name in given if name not in of_clients and not name.startswith(OF_OTHERS)]
    told = [name for name in given if name in NAMES and not name.startswith(OF_LOGINS)]
    return ClientSecurity(
        protocol,
        tuple(sorted(_tls(given, prefix).items())) if has_tls else (),
        login,
        tuple((name, Password(given[name])) for name in sorted(used)),
        unused=tuple(sorted(name for name in told if name not in used)),
        unknown=tuple(sorted(unknown)),
    )


def _protocol(given: Mapping[str, str], prefix: str) -> str:
    text = given.get(SECURITY_PROTOCOL, DEFAULT_PROTOCOL)
    protocol = text.strip().upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ConfigError(
            f"{prefix}{SECURITY_PROTOCOL} = {shown(text)} is not known: it must be one of "
            f"{', '.join(SECURITY_PROTOCOLS)}, as the listener's is"
        )
    return protocol


def _tls(given: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Values of TLS by attribute. Raises ConfigError."""
    return {
        setting.attribute: replace(setting, name=f"{prefix}{name}").parse(given[name])
        for name, setting in TLS.items()
        if name in given
    }


def _login(given: Mapping[str, str], prefix: str) -> Login:
    """Who logs in. Raises ConfigError."""
    mechanism = given.get(SASL_MECHANISM, GSSAPI).strip().upper()
    if mechanism not in SASL_MECHANISMS:
        raise ConfigError(
            f"{prefix}{SASL_MECHANISM} = {shown(given[SASL_MECHANISM])} is not supported: it must be one of "
            f"{', '.join(SASL_MECHANISMS)}"
        )
    text = given.get(SASL_JAAS_CONFIG)
    example = f'{module_of(mechanism)} required username="NAME" password="PASSWORD";'
    if mechanism == GSSAPI:
        example = kerberos_example()
    elif mechanism == OAUTHBEARER:
        example = f"{module_of(mechanism)} required;"
    if text is None:
        default = "" if SASL_MECHANISM in given else f", Kafka's default where {prefix}{SASL_MECHANISM} says no other"
        raise ConfigError(
            f"{prefix}{SASL_JAAS_CONFIG} is missing: it says who logs in by {mechanism}{default}: {example}"
        )
    module = jaas.parse(text, f"{prefix}{SASL_JAAS_CONFIG}")
    if not module.serves(mechanism):
        raise ConfigError(
            f"{prefix}{SASL_JAAS_CONFIG} has the login module of {module.kind}, and {prefix}{SASL_MECHANISM} is "
            f"{mechanism}: it must begin with {module_of(mechanism)}"
        )
    if mechanism == GSSAPI:
        service = given.get(SERVICE_NAME)
        kerberos = kerberos_login(module, service, f"{prefix}{SASL_JAAS_CONFIG}", serves=False, prefix=prefix)
        return Login(mechanism, kerberos.principal, Password(""), kerberos=kerberos)
    if mechanism == OAUTHBEARER:
        return Login(mechanism, "", Password(""), source=token_source(given, module, prefix))
    if not module.username or not module.password:
        lacks = "username" if not module.username else "password"
        raise ConfigError(f"{prefix}{SASL_JAAS_CONFIG} has no {lacks}: it must be like {example}")
    return Login(mechanism, module.username, Password(module.password), module.token)


def module_of(mechanism: str) -> str:
    """Kafka's login module for a mechanism."""
    if mechanism == GSSAPI:
        return jaas.KERBEROS_MODULE
    if mechanism == OAUTHBEARER:
        return jaas.OAUTHBEARER_MODULE
    return jaas.PLAIN_MODULE if mechanism == PLAIN else jaas.SCRAM_MODULE
