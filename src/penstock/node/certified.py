"""Principals of clients that show a certificate, on listeners with TLS and without SASL."""

from __future__ import annotations

from penstock.config.server import Settings
from penstock.security.authorizer import ANONYMOUS, Principal
from penstock.security.principals import MappingRules, principal_of

SSL = "SSL"


class Certified:
    """The rules (`ssl.principal.mapping.rules`) of each listener that speaks SSL. Raises ConfigError for bad ones."""

    def __init__(self, settings: Settings) -> None:
        self._rules = {
            each.listener: MappingRules.of(settings.of_listener(each.listener).ssl_principal_mapping_rules)
            for each in settings.listener_endpoints
            if each.security_protocol == SSL
        }

    def principal(self, listener: str, subject: str | None) -> Principal:
        """Who a connection is, by the subject of its certificate; None if it showed none. Raises NoMatchingRule.

        With SASL that is said by the login, whatever certificate there is.
        """
        rules = self._rules.get(listener)
        return ANONYMOUS if rules is None else principal_of(subject, rules)
