"""Kerberos names made short, as Kafka's KerberosShortNamer does: `kafka/host@REALM` becomes `kafka`.

The first rule that applies wins. One whose result still has a `/` or `@` fails the login, and does not give way to the
next; so does a name that no rule applies to.
"""

from __future__ import annotations

import re

from penstock.config.kerberos import KerberosName, LocalRule

PARAMETER = re.compile(r"([^$]*)(\$(\d*))?", re.ASCII)
SEPARATORS = frozenset("/@")


class NoShortName(Exception):
    """No rule has a short name for a Kerberos name."""


def short_name(text: str, rules: tuple[LocalRule, ...], default_realm: str) -> str:
    """The short name of `text` as it stands in a ticket. Raises NoShortName."""
    try:
        name = KerberosName.parse(text)
    except ValueError as wrong:
        raise NoShortName(str(wrong)) from None
    if name.realm is None:
        return name.service
    parts = [name.realm, name.service] if name.host is None else [name.realm, name.service, name.host]
    for rule in rules:
        found = applied(rule, parts, default_realm)
        if found is not None:
            return found
    raise NoShortName(f"no rule of sasl.kerberos.principal.to.local.rules applies to {text}")


def applied(rule: LocalRule, parts: list[str], default_realm: str) -> str | None:
    """What a rule makes of a name, whose first part is the realm; None if it does not apply. Raises NoShortName."""
    found: str | None = None
    if not rule.is_default:
        found = edited(rule, parts)
    elif parts[0] == default_realm:
        found = parts[1]
    if found is None:
        return None
    if not SEPARATORS.isdisjoint(found):
        raise NoShortName(f"the rule {rule.text} makes {found}, which is not short")
    return found.lower() if rule.case == "L" else found.upper() if rule.case == "U" else found


def edited(rule: LocalRule, parts: list[str]) -> str | None:
    """What a rule that is not DEFAULT makes of a name, before its case is changed. Raises NoShortName."""
    if len(parts) - 1 != rule.components:
        return None
    base = laid_out(rule, parts)
    if rule.match is not None and not rule.match.matches(base):
        return None
    if rule.edited is None:
        return base
    return rule.edited.replace(base, rule.by, first_only=not rule.everywhere)


def laid_out(rule: LocalRule, parts: list[str]) -> str:
    """The parts in the rule's layout. Raises NoShortName where it names a part that is not there."""

    def part(found: re.Match[str]) -> str:
        text, reference, digits = found.groups()
        if reference is None:
            return str(text)
        if not digits or int(digits) >= len(parts):
            raise NoShortName(f"the rule {rule.text} names a part of the name that is not there: {reference}")
        return str(text) + parts[int(digits)]

    return PARAMETER.sub(part, rule.layout)
