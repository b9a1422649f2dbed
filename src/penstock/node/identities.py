"""Who a connection is: by the certificate it showed, or by its login; as Kafka's builder says, or a function of the
operator's (`penstock.security.builder`).

A connection without SASL has its principal from the start, one with SASL after each login. Where nobody can be named
the connection is refused, by `penstock.node.logins`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.config.broker.network import WITH_SASL
from penstock.config.broker.sasl import GSSAPI
from penstock.config.kerberos import parse_rules
from penstock.config.server import Settings
from penstock.node.connection import Connection
from penstock.node.plugged import Plugged
from penstock.security.authorizer import ANONYMOUS, Principal
from penstock.security.builder import Session, build
from penstock.security.certificates import Shown
from penstock.security.kerberos import NoShortName, short_name
from penstock.security.principals import MappingRules, NoMatchingRule, principal_of
from penstock.security.sasl import LoginFailed, SaslServer

SSL = "SSL"
USER = "User"
"""The type of a principal, as Kafka's builder makes them."""


class Identities:
    """See the module's head.

    Args:
        settings: the present ones. plugged: the functions that they may name, and Kerberos.

    Raises ConfigError for bad rules of `ssl.principal.mapping.rules`.
    """

    def __init__(self, settings: Callable[[], Settings], plugged: Plugged) -> None:
        self._settings = settings
        self._plugged = plugged
        first = settings()
        self._rules = {
            each.listener: MappingRules.of(first.of_listener(each.listener).ssl_principal_mapping_rules)
            for each in first.listener_endpoints
            if each.security_protocol == SSL
        }

    def connected(self, connection: Connection, shown: Shown | None) -> None:
        """Names the principal of a new connection, by the certificate that it has shown. With SASL that is said by the
        login, whatever certificate there is. Raises LoginFailed if it cannot be named.
        """
        if self._protocol(connection) in WITH_SASL:
            has_function = self._settings().principal_builder(connection.listener) is not None
            connection.shown = shown if has_function else None
            return
        connection.unproven = shown is None
        rules, default, problem = self._rules.get(connection.listener), ANONYMOUS, ""
        try:
            if rules is not None:
                default = principal_of(None if shown is None else shown.subject, rules)
        except NoMatchingRule as error:
            problem = str(error)
        connection.principal = self._named(connection, None if problem else default, problem, shown=shown)

    def logged_in(self, connection: Connection, server: SaslServer) -> Principal:
        """Who has logged in. Raises LoginFailed if nobody can be named."""
        name, problem = server.user, ""
        if server.mechanism == GSSAPI:
            try:
                name = self._short(connection.listener, server.user)
            except NoShortName as error:
                problem = str(error)
        default = None if problem else Principal(USER, name)
        principal = self._named(connection, default, problem, shown=connection.shown, server=server)
        return replace(principal, token_authenticated=server.token_authenticated)

    def _short(self, listener: str, name: str) -> str:
        """The short name of a Kerberos one. Raises NoShortName."""
        settings, kerberos = self._settings(), self._plugged.kerberos
        rules = settings.prefixed.of(listener, GSSAPI).get(
            "sasl_kerberos_principal_to_local_rules", settings.sasl_kerberos_principal_to_local_rules
        )
        return short_name(name, parse_rules(rules), "" if kerberos is None else kerberos.default_realm)

    def _named(
        self,
        connection: Connection,
        default: Principal | None,
        problem: str,
        *,
        shown: Shown | None,
        server: SaslServer | None = None,
    ) -> Principal:
        """What the listener's function makes of the session, or without one Kafka's `default`, which `problem` keeps
        from being known.
        """
        name = self._settings().principal_builder(connection.listener)
        if name is None:
            if default is None:
                raise LoginFailed(problem)
            return default
        builder = self._plugged.builders.get(name)
        if builder is None:
            raise LoginFailed(f"the principal builder {name} is not loaded")
        session = Session(
            connection.listener,
            self._protocol(connection),
            connection.address,
            None if shown is None else shown.subject,
            None if shown is None else shown.der,
            "" if server is None else server.mechanism,
            "" if server is None else server.user,
            default,
        )
        return build(builder, session)

    def _protocol(self, connection: Connection) -> str:
        return self._settings().security_protocols.get(connection.listener, "")
