"""What the settings of SASL mean: the mechanisms of each listener, and how this node logs in at others.

A JAAS configuration belongs to one mechanism of one listener, as in Kafka:
`listener.name.NAME.MECHANISM.sasl.jaas.config`. On a listener it holds the users of PLAIN; where nodes talk to each
other it also says as whom this node logs in. SCRAM needs none on a listener: its users are in the metadata. Nor does
OAUTHBEARER, whose users somebody else knows (`config.oauthbearer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.config.broker.network import WITH_SASL
from penstock.config.broker.sasl import GSSAPI
from penstock.config.jaas import LoginModule, parse
from penstock.config.kerberos import KerberosLogin, kerberos_login
from penstock.config.nearest import did_you_mean
from penstock.config.oauthbearer import OAUTHBEARER, BearerListener, listener_of, warnings_of
from penstock.config.prefixed import PREFIX, Prefixed
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config.broker.settings import BrokerSettings

PLAIN = "PLAIN"
SASL_MECHANISMS = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER, GSSAPI)
"""The mechanisms that exist here."""
JAAS = "sasl.jaas.config"
HANDLER = "sasl.server.callback.handler.class"


@dataclass(frozen=True, slots=True)
class SaslMechanism:
    """A mechanism of a listener. `users`: passwords of PLAIN. `max_reauth_ms`: how long a login lasts; 0: for ever.
    `kerberos`: whose key GSSAPI has here. `bearer`: whose tokens OAUTHBEARER takes.
    """

    name: str
    users: Mapping[str, str] = field(repr=False)
    max_reauth_ms: int
    kerberos: KerberosLogin | None = None
    bearer: BearerListener | None = None


@dataclass(frozen=True, slots=True)
class SaslListener:
    """A listener that clients must log in on: its mechanisms by name, in the order of the setting."""

    mechanisms: Mapping[str, SaslMechanism]
    receive_max_bytes: int


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """How this node logs in on a listener of another node. `kerberos`: with GSSAPI, where its tickets come from."""

    mechanism: str
    user: str
    password: str = field(repr=False)
    kerberos: KerberosLogin | None = None


@dataclass(frozen=True, slots=True)
class Sasl:
    """`listeners` of this node where clients log in; `logins` of this node at others; both by the listener's name."""

    listeners: Mapping[str, SaslListener]
    logins: Mapping[str, SaslLogin]

    @property
    def bearers(self) -> Iterable[tuple[str, BearerListener]]:
        """The listeners that take tokens by OAUTHBEARER, and whose."""
        for name, listener in self.listeners.items():
            for mechanism in listener.mechanisms.values():
                if mechanism.bearer is not None:
                    yield name, mechanism.bearer

    @property
    def warnings(self) -> Iterable[str]:
        """Sentences for the log about what is allowed and is not safe."""
        return (sentence for name, bearer in self.bearers for sentence in warnings_of(name, bearer))


class SaslReader:
    """Reads the settings. `derived`: those of `crosscheck.check_listeners`. `file`: the properties file."""

    def __init__(
        self, settings: BrokerSettings, prefixed: Prefixed, derived: Mapping[str, Any], file: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self._prefixed = prefixed
        self._file = file
        self._protocols: Mapping[str, str] = derived["security_protocols"]
        self._listening = [each.listener for each in derived["listener_endpoints"]]
        self._inter_broker: str | None = derived["inter_broker_listener"]
        self._controllers = [name.upper() for name in settings.controller_listener_names]

    def read(self, given: Iterable[str]) -> Sasl:
        """Raises ConfigError for a mechanism that does not exist, or a login that lacks its user."""
        self._check_names(given)
        if self._settings.sasl_server_callback_handler_class:
            raise ConfigError(
                f"{HANDLER} belongs to no mechanism of a listener: it must be like "
                f"listener.name.clients.oauthbearer.{HANDLER}"
            )
        listeners = {name: self._listener(name) for name in self._listening if self._is_sasl(name)}
        logins: dict[str, SaslLogin] = {}
        if self._inter_broker is not None and self._is_sasl(self._inter_broker):
            mechanism = self._settings.sasl_mechanism_inter_broker_protocol
            logins[self._inter_broker] = self._login(
                self._inter_broker, mechanism, "sasl.mechanism.inter.broker.protocol"
            )
            check_enabled(listeners, self._inter_broker, mechanism, "sasl.mechanism.inter.broker.protocol")
        for name in self._controllers:
            if self._is_sasl(name):
                mechanism = self._settings.sasl_mechanism_controller_protocol
                logins[name] = self._login(name, mechanism, "sasl.mechanism.controller.protocol")
                check_enabled(listeners, name, mechanism, "sasl.mechanism.controller.protocol")
        return Sasl(listeners, logins)

    def _is_sasl(self, listener: str) -> bool:
        return self._protocols.get(listener) in WITH_SASL

    def _check_names(self, given: Iterable[str]) -> None:
        """Refuses JAAS configurations without a mechanism, which Kafka ignores with a warning."""
        for name in given:
            listener = name.removeprefix(PREFIX).removesuffix(f".{JAAS}").upper()
            if name == JAAS or (name.startswith(PREFIX) and name.endswith(f".{JAAS}") and listener in self._protocols):
                raise ConfigError(
                    f"{name} belongs to no mechanism of a listener: it must be like listener.name.internal.plain.{JAAS}"
                )

    def _value(self, listener: str, mechanism: str | None, attribute: str) -> Any:
        return self._prefixed.of(listener, mechanism).get(attribute, getattr(self._settings, attribute))

    def _listener(self, name: str) -> SaslListener:
        mechanisms = self._value(name, None, "sasl_enabled_mechanisms")
        if not mechanisms:
            raise ConfigError(f"sasl.enabled.mechanisms is empty: listener {name} is {self._protocols[name]}")
        found = {}
        for mechanism in mechanisms:
            check_known(mechanism, f"sasl.enabled.mechanisms of listener {name}")
            users: Mapping[str, str] = {}
            kerberos = self._kerberos(name, serves=True) if mechanism == GSSAPI else None
            if mechanism == PLAIN:
                users = self._module(name, mechanism).users
            bearer = self._bearer(name) if mechanism == OAUTHBEARER else None
            if bearer is None and self._value(name, mechanism, "sasl_server_callback_handler_class"):
                told = f"{PREFIX}{name.lower()}.{mechanism.lower()}.{HANDLER}"
                raise ConfigError(f"{told}: Java classes cannot be loaded here; leave it out")
            max_reauth_ms = max(0, self._value(name, mechanism, "connections_max_reauth_ms"))
            found[mechanism] = SaslMechanism(mechanism, users, max_reauth_ms, kerberos, bearer)
        return SaslListener(found, self._value(name, None, "sasl_server_max_receive_size"))

    def _kerberos(self, listener: str, *, serves: bool) -> KerberosLogin:
        service = self._value(listener, GSSAPI, "sasl_kerberos_service_name")
        name = f"{PREFIX}{listener.lower()}.{GSSAPI.lower()}.{JAAS}"
        return kerberos_login(self._module(listener, GSSAPI), service, name, serves=serves)

    def _bearer(self, listener: str) -> BearerListener:
        given = self._prefixed.of(listener, OAUTHBEARER)
        values = type(self._settings)({**vars(self._settings), **given})
        module = self._module(listener, OAUTHBEARER) if given.get("sasl_jaas_config") is not None else None
        return listener_of(values, module, listener, self._file)

    def _module(self, listener: str, mechanism: str) -> LoginModule:
        name = f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"
        text = self._prefixed.of(listener, mechanism).get("sasl_jaas_config")
        if text is None:
            raise ConfigError(f"{name} is missing: {mechanism} on listener {listener} needs a login module")
        module = parse(str(text), name)
        if not module.serves(mechanism):
            raise ConfigError(f"{name} has the login module of {module.kind}, not of {mechanism}")
        return module

    def _login(self, listener: str, mechanism: str, setting: str) -> SaslLogin:
        check_known(mechanism, setting)
        if mechanism == GSSAPI:
            kerberos = self._kerberos(listener, serves=False)
            return SaslLogin(mechanism, kerberos.principal, "", kerberos)
        if mechanism == OAUTHBEARER:
            raise ConfigError(
                f"{setting} = {mechanism}: nodes cannot log in among themselves by OAUTHBEARER here: it must be one of "
                f"{', '.join(each for each in SASL_MECHANISMS if each != OAUTHBEARER)}"
            )
        module = self._module(listener, mechanism)
        if not module.username or not module.password:
            name = f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"
            raise ConfigError(f"{name} needs username and password: this node logs in on listener {listener} itself")
        return SaslLogin(mechanism, module.username, module.password)


def check_known(mechanism: str, what: str) -> None:
    """Raises ConfigError for a mechanism that does not exist here."""
    if mechanism not in SASL_MECHANISMS:
        near = did_you_mean(mechanism.upper(), SASL_MECHANISMS)
        raise ConfigError(f"{what}: {mechanism} is not supported: it must be one of {', '.join(SASL_MECHANISMS)}{near}")


def check_enabled(listeners: Mapping[str, SaslListener], name: str, mechanism: str, setting: str) -> None:
    """Raises ConfigError if this node could not log in on its own listener, as others with its settings."""
    if name in listeners and mechanism not in listeners[name].mechanisms:
        raise ConfigError(f"{setting} = {mechanism} is not among sasl.enabled.mechanisms of listener {name}")
