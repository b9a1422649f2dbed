"""Who a connection is, by its certificate: Kafka's DefaultKafkaPrincipalBuilder and SslPrincipalMapper (KIP-371).

    rules = MappingRules.of("RULE:^CN=([^,]+),.*$/$1/L,DEFAULT")
    principal_of(subject, rules)        # User:alice

A rule applies when its pattern (Java's regular expressions, as far as Python has the same) matches the whole subject;
the first that applies wins, and a subject that none applies to fails the connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.config.java_patterns import JavaPattern
from penstock.errors import ConfigError
from penstock.security.authorizer import ANONYMOUS, Principal

RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
SPLITTER = re.compile(rf"\s*({RULE})\s*(?:,\s*|$)")
PARSER = re.compile(RULE)
SETTING = "ssl.principal.mapping.rules"


class NoMatchingRule(Exception):
    """No rule applies to a subject: the connection has no principal and is closed."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `pattern` None is DEFAULT: the subject as it is. `case` is L, U or empty."""

    pattern: JavaPattern | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """The name for a subject; None if the rule does not apply."""
        if self.pattern is None:
            return subject
        if not self.pattern.matches(subject):
            return None
        name = self.pattern.replace(subject, self.replacement)  # every match, as Java's replaceAll
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


@dataclass(frozen=True, slots=True)
class MappingRules:
    """The rules of `ssl.principal.mapping.rules`."""

    rules: tuple[Rule, ...]

    @classmethod
    def of(cls, text: str) -> MappingRules:
        """Raises ConfigError for rules that are malformed, or that Python cannot match as Java does."""
        parts = [found[1] for found in SPLITTER.finditer(text.strip())]
        return cls(tuple(rule for part in parts if (rule := parse_rule(part)) is not None))

    def name_of(self, subject: str) -> str:
        """The name for a subject. Raises NoMatchingRule."""
        for rule in self.rules:
            name = rule.apply(subject)
            if name is not None:
                return name
        raise NoMatchingRule(f"{SETTING}: no rule applies to {subject}")


def parse_rule(text: str) -> Rule | None:
    """One rule; None for an empty one, which means nothing. Raises ConfigError."""
    found = PARSER.match(text)
    if found is None or found.end() != len(text):
        raise ConfigError(f'{SETTING}: "{text}" is no rule: it must be like RULE:^CN=([^,]+).*$/$1/ or DEFAULT')
    default, pattern, replacement, case, _ = found.groups()
    if default is not None:
        return Rule()
    if pattern is None:
        return None
    compiled = JavaPattern.of(pattern, SETTING)
    compiled.check_replacement(replacement, SETTING)
    return Rule(compiled, replacement, case)


def principal_of(subject: str | None, rules: MappingRules) -> Principal:
    """The principal of a connection by the subject of its certificate, None if it showed none.

    Raises NoMatchingRule.
    """
    return ANONYMOUS if subject is None else Principal("User", rules.name_of(subject))
