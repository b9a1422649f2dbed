"""What settings say of Kerberos: names and the rules that shorten them, and the options of Java's login module.

    rules = parse_rules(("RULE:[2:$1;$2](.*;admin)s/;admin//", "DEFAULT"))
    KerberosName.parse("kafka/host@REALM")

Rules are those of `sasl.kerberos.principal.to.local.rules`, which Kafka has from Hadoop (KerberosRule): `[n:format]` is
for names of n parts and joins them, `$0` being the realm; what the regular expression in parentheses matches is edited
by `s/pattern/replacement/`, with `g` everywhere, and written small with `/L`, large with `/U`. How they are applied is
`penstock.security.kerberos`.

Of the login module's options, those that choose where keys and tickets come from have an effect; those that only tell a
Java machine how to go about it have none; all others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from penstock.config.jaas import LoginModule
from penstock.config.java_patterns import JavaPattern
from penstock.errors import ConfigError

RULES = "sasl.kerberos.principal.to.local.rules"
SERVICE_NAME = "sasl.kerberos.service.name"
NAME = re.compile(r"([^/@]*)(/([^/@]*))?@([^/@]*)")
RULE = re.compile(r"((DEFAULT)|((RULE:\[(\d*):([^\]]*)](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?)))", re.ASCII)
COMPONENTS_MAX = 2**31 - 1
RULE_SETS_REMEMBERED = 16
"""Rule sets that are kept parsed; there is one a listener."""
OF_JAVA = ("storekey", "donotprompt", "debug", "refreshkrb5config", "renewtgt", "isinitiator")
"""Options that tell a Java machine how to go about it."""


@dataclass(frozen=True, slots=True)
class KerberosName:
    """A principal's name in Kerberos, of one or two parts, and its realm."""

    service: str
    host: str | None
    realm: str | None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        """As Kafka reads it. Raises ValueError for a name with an `@` that has more parts, and for one with a
        backslash: it has a separator within a part.
        """
        found = NAME.fullmatch(text)
        if "\\" in text or (found is None and "@" in text):
            raise ValueError(f"the Kerberos name {text!r} is malformed")
        return cls(text, None, None) if found is None else cls(found[1], found[3], found[4])


@dataclass(frozen=True, slots=True)
class LocalRule:
    """One rule; `text` is how it was written.

    Attributes:
        is_default: the rule DEFAULT; nothing else is set then.
        components: of a name that it is for. layout: how they are joined. match: what the result must be like.
        edited: what of it is replaced. by: what with. everywhere: not only once. case: L, U or empty.
    """

    text: str
    is_default: bool = False
    components: int = 0
    layout: str = ""
    match: JavaPattern | None = None
    edited: JavaPattern | None = None
    by: str = ""
    everywhere: bool = False
    case: str = ""


@lru_cache(RULE_SETS_REMEMBERED)
def parse_rules(texts: tuple[str, ...]) -> tuple[LocalRule, ...]:
    """Raises ConfigError for rules that are malformed, or that Python cannot match as Java does."""
    return tuple(parse_rule(text) for text in texts)


def parse_rule(text: str) -> LocalRule:
    """One rule. Raises ConfigError."""
    found = RULE.match(text)
    if found is None or found.end() != len(text):
        raise ConfigError(f'{RULES}: "{text}" is no rule: it must be like RULE:[1:$1@$0](.*@ACME)s/@.*//L or DEFAULT')
    if found[2] is not None:
        return LocalRule(text, is_default=True)
    components = int(found[5] or -1)
    if not 0 <= components <= COMPONENTS_MAX:
        raise ConfigError(f'{RULES}: "{text}" does not say for names of how many parts it is')
    match = None if found[8] is None else JavaPattern.of(found[8], RULES)
    edited = None if found[10] is None else JavaPattern.of(found[10], RULES)
    if edited is not None:
        edited.check_replacement(found[11], RULES)
    return LocalRule(
        text,
        components=components,
        layout=found[6],
        match=match,
        edited=edited,
        by=found[11] or "",
        everywhere=found[12] is not None,
        case=found[13] or "",
    )


def local_rules(texts: tuple[str, ...]) -> str | None:
    """Checks the setting: rules that can be applied."""
    try:
        parse_rules(texts)
    except ConfigError as wrong:
        return f"cannot be used: {str(wrong).removeprefix(f'{RULES}: ')}"
    return None


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """Where the keys and tickets of one side come from.

    Attributes:
        principal: whose. Empty: of the ticket cache's owner.
        service: the first part of a service's name, such as `kafka`.
        keytab: a file of keys. None: the ticket cache is used; empty: the machine's own keytab.
        ticket_cache: a file of tickets; empty: the one of the process.
    """

    principal: str
    service: str
    keytab: str | None = None
    ticket_cache: str = ""


def kerberos_login(
    module: LoginModule, service: str | None, name: str, *, serves: bool, prefix: str = ""
) -> KerberosLogin:
    """What a login module says. `name` is the setting that it stands in, `service` the value of
    sasl.kerberos.service.name; `serves`: the side that others log in at. Raises ConfigError.
    """
    options = {option.lower(): text for option, text in module.options.items()}
    known = ("usekeytab", "keytab", "principal", "useticketcache", "ticketcache", "servicename", *OF_JAVA)
    unknown = [option for option in module.options if option.lower() not in known]
    if unknown:
        raise ConfigError(f"{name}: the option {unknown[0]} of the login module means nothing here: leave it out")
    told = options.get("servicename")
    if told is not None and service is not None and told != service:
        raise ConfigError(f"{name} has serviceName {told}, and {prefix}{SERVICE_NAME} is {service}: they must agree")
    service = told or service
    if not service:
        raise ConfigError(
            f"{prefix}{SERVICE_NAME} is missing: it is the first part of the brokers' names, mostly kafka"
        )
    with_keytab, with_cache = flag(options, "usekeytab", name), flag(options, "useticketcache", name)
    principal = options.get("principal", "")
    if with_keytab == with_cache or (serves and not with_keytab):
        wanted = "useKeyTab=true" if serves else "either useKeyTab=true or useTicketCache=true"
        raise ConfigError(f"{name} must have {wanted}, to say where keys come from")
    if with_keytab and not principal:
        raise ConfigError(f"{name} has no principal, such as {service}/host@REALM: whose key of the keytab to use")
    try:
        KerberosName.parse(principal)
    except ValueError as wrong:
        raise ConfigError(f"{name}: {wrong}") from None
    keytab = options.get("keytab", "").removeprefix("FILE:") if with_keytab else None
    return KerberosLogin(principal, service, keytab, options.get("ticketcache", "").removeprefix("FILE:"))


def flag(options: Mapping[str, str], option: str, name: str) -> bool:
    """A yes or no among the options; no if it is not there. Raises ConfigError."""
    text = options.get(option, "false").lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name}: the option {option} must be true or false")
    return text == "true"


def example(principal: str = "alice@REALM") -> str:
    """A login module for errors and docs."""
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
        f'keyTab="/etc/security/alice.keytab" principal="{principal}";'
    )
