"""Who a connection is, by its certificate: Kafka's DefaultKafkaPrincipalBuilder and SslPrincipalMapper (KIP-371).

    rules = MappingRules.of("RULE:^CN=([^,]+),.*$/$1/L,DEFAULT")
    principal_of(subject, rules)        # User:alice

A rule applies when its pattern (Java's regular expressions, as far as Python has the same) matches the whole subject;
the first that applies wins, and a subject that none applies to fails the connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.security.authorizer import ANONYMOUS, Principal

RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
SPLITTER = re.compile(rf"\s*({RULE})\s*(?:,\s*|$)")
PARSER = re.compile(RULE)
SETTING = "ssl.principal.mapping.rules"
NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z])")
TOKEN = re.compile(r"\\.|\[\^?\]?|.|\\$", re.DOTALL)
NO_LINE_END = r"[^\n\r\x85\u2028\u2029]"
REFERENCE = re.compile(r"\\(.)|\$(?:(\d+)|\{(\w+)\})", re.DOTALL)


class NoMatchingRule(Exception):
    """No rule applies to a subject: the connection has no principal and is closed."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `pattern` None is DEFAULT: the subject as it is. `case` is L, U or empty."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """The name for a subject; None if the rule does not apply."""
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(self._replace, subject)  # every match, as Java's replaceAll
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _replace(self, match: re.Match[str]) -> str:
        def part(reference: re.Match[str]) -> str:
            literal, number, name = reference.groups()
            if literal is not None:
                return str(literal)
            if name is not None:
                return match[name] or ""
            group, rest = self._group(number)
            return f"${number}" if group is None else (match[group] or "") + rest

        return REFERENCE.sub(part, self.replacement)

    def _group(self, digits: str) -> tuple[int | None, str]:
        """The group that `$digits` means: as many digits as there are groups for; the others are text."""
        assert self.pattern is not None
        for end in range(len(digits), 0, -1):
            if int(digits[:end]) <= self.pattern.groups:
                return int(digits[:end]), digits[end:]
        return None, ""


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
    try:
        compiled = re.compile(as_in_java(NAMED_GROUP.sub("(?P<", pattern)), re.ASCII)
    except (re.error, OverflowError, RecursionError) as wrong:
        raise ConfigError(f'{SETTING}: "{pattern}" is no regular expression here: {wrong}') from None
    check_references(compiled, replacement)
    return Rule(compiled, replacement, case)


def as_in_java(pattern: str) -> str:
    """A pattern whose points match what they match in Java: no end of a line of any kind, where Python knows one."""
    parts, in_class = [], False
    for token in TOKEN.findall(pattern):
        if token == "." and not in_class:
            parts.append(NO_LINE_END)
            continue
        if token[0] == "[" or token == "]":
            in_class = token[0] == "["
        parts.append(token)
    return "".join(parts)


def check_references(pattern: re.Pattern[str], replacement: str) -> None:
    """Raises ConfigError for a replacement that would fail at every match."""
    bare = REFERENCE.sub("", replacement)
    unknown = [name for _, _, name in REFERENCE.findall(replacement) if name and name not in pattern.groupindex]
    if "$" in bare or bare.endswith("\\") or unknown:
        raise ConfigError(f'{SETTING}: "{replacement}" is no replacement: a group is $1 or ${{name}}, a dollar is \\$')
    if pattern.groups == 0 and any(int(number) for _, number, _ in REFERENCE.findall(replacement) if number):
        raise ConfigError(f'{SETTING}: "{replacement}" names a group, and "{pattern.pattern}" has none')


def principal_of(subject: str | None, rules: MappingRules) -> Principal:
    """The principal of a connection by the subject of its certificate, None if it showed none.

    Raises NoMatchingRule.
    """
    return ANONYMOUS if subject is None else Principal("User", rules.name_of(subject))
