"""Regular expressions and replacements as Java has them, as far as Python has the same.

    pattern = JavaPattern.of("^CN=(?<name>[^,]+).*$")
    pattern.matches("CN=alice,O=Acme")                  # the whole text, as Matcher.matches
    pattern.replace("CN=alice,O=Acme", "${name}")       # every match, as Matcher.replaceAll

What Python reads otherwise is translated: named groups, and `.`, which in Java matches no end of a line of any kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import ConfigError

NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z])")
TOKEN = re.compile(r"\\.|\[\^?\]?|.|\\$", re.DOTALL)
NO_LINE_END = r"[^\n\r\x85\u2028\u2029]"
REFERENCE = re.compile(r"\\(.)|\$(?:(\d+)|\{(\w+)\})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """See the module's head."""

    regex: re.Pattern[str]

    @classmethod
    def of(cls, pattern: str, setting: str) -> JavaPattern:
        """Raises ConfigError, which names the setting, for what is no regular expression here."""
        try:
            return cls(re.compile(as_in_java(NAMED_GROUP.sub("(?P<", pattern)), re.ASCII))
        except (re.error, OverflowError, RecursionError) as wrong:
            raise ConfigError(f'{setting}: "{pattern}" is no regular expression here: {wrong}') from None

    def matches(self, text: str) -> bool:
        """Whether it matches all of a text."""
        return self.regex.fullmatch(text) is not None

    def replace(self, text: str, replacement: str, *, first_only: bool = False) -> str:
        """The text with each match replaced, or only the first. `replacement` has passed `check_replacement`."""

        def replaced(match: re.Match[str]) -> str:
            return REFERENCE.sub(lambda reference: self._part(match, reference), replacement)

        return self.regex.sub(replaced, text, count=1 if first_only else 0)

    def _part(self, match: re.Match[str], reference: re.Match[str]) -> str:
        literal, number, name = reference.groups()
        if literal is not None:
            return str(literal)
        if name is not None:
            return match[name] or ""
        group, rest = self._group(number)
        return f"${number}" if group is None else (match[group] or "") + rest

    def _group(self, digits: str) -> tuple[int | None, str]:
        """The group that `$digits` means: as many digits as there are groups for; the others are text."""
        for end in range(len(digits), 0, -1):
            if int(digits[:end]) <= self.regex.groups:
                return int(digits[:end]), digits[end:]
        return None, ""

    def check_replacement(self, replacement: str, setting: str) -> None:
        """Raises ConfigError for a replacement that would fail at every match."""
        bare = REFERENCE.sub("", replacement)
        references = REFERENCE.findall(replacement)
        unknown = [name for _, _, name in references if name and name not in self.regex.groupindex]
        if "$" in bare or bare.endswith("\\") or unknown:
            raise ConfigError(
                f'{setting}: "{replacement}" is no replacement: a group is $1 or ${{name}}, a dollar is \\$'
            )
        if self.regex.groups == 0 and any(int(number) for _, number, _ in references if number):
            raise ConfigError(f'{setting}: "{replacement}" names a group, and "{self.regex.pattern}" has none')


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
