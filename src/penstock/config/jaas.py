"""JAAS configurations, as Kafka takes them in `sasl.jaas.config`: one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

Read as Kafka reads it, which is with Java's StreamTokenizer: words, or strings in either kind of quotes with
C's escapes; `/` begins a comment; whatever else has meaning in a word must be quoted. A string must end on its line.
An error never shows a value: it may be a password.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.errors import ConfigError

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
MODULES = {
    PLAIN_MODULE: "PLAIN",
    SCRAM_MODULE: "SCRAM",
    OAUTHBEARER_MODULE: "OAUTHBEARER",
    KERBEROS_MODULE: "GSSAPI",
}
"""Kafka's login modules, and Java's for Kerberos, with what they log in with. No others exist here."""
CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")
USER_PREFIX = "user_"
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
QUOTES = "\"'"
END = ""
"""The token at the end of the text."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module. `kind`: PLAIN, SCRAM, OAUTHBEARER or GSSAPI."""

    kind: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str | None:
        """Who logs in, as a client."""
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        return self.options.get("password")

    @property
    def token(self) -> bool:
        """Whether username and password are those of a delegation token (KIP-48)."""
        return self.options.get("tokenauth", "").lower() == "true"

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user, for PLAIN as a server: the options `user_NAME`."""
        return {name[len(USER_PREFIX) :]: text for name, text in self.options.items() if name.startswith(USER_PREFIX)}

    def serves(self, mechanism: str) -> bool:
        """Whether the module is for this SASL mechanism."""
        return mechanism == self.kind or (self.kind == "SCRAM" and mechanism.startswith("SCRAM-"))


@dataclass(frozen=True, slots=True)
class Token:
    """A word or string, or one character that is neither (`text` is None)."""

    text: str | None
    sign: str


def parse(text: str, setting: str = "sasl.jaas.config") -> LoginModule:
    """Reads one login module. Raises ConfigError, which names `setting` and no value."""
    try:
        tokens = tokens_of(text)
        module = next(tokens).text
        if module is None:
            raise ValueError("it must begin with the name of a login module")
        flag = next(tokens).text
        if flag is None or flag.lower() not in CONTROL_FLAGS:
            raise ValueError(f"after the login module must come {', '.join(CONTROL_FLAGS[:-1])} or {CONTROL_FLAGS[-1]}")
        options = options_of(tokens)
        if next(tokens).sign != END:
            raise ValueError("it must have one login module and end after its semicolon")
    except ValueError as wrong:
        raise ConfigError(f"{setting} is not a JAAS configuration: {wrong}") from None
    if module not in MODULES:
        raise ConfigError(f"{setting}: there is no login module {module}: it must be one of {', '.join(MODULES)}")
    return LoginModule(MODULES[module], options)


def options_of(tokens: Iterator[Token]) -> dict[str, str]:
    """The options up to the semicolon, which is consumed. Raises ValueError."""
    options: dict[str, str] = {}
    while True:
        token = next(tokens)
        if token.sign == ";":
            return options
        if token.sign == END:
            raise ValueError("it must end with a semicolon")
        if token.text is None:
            raise ValueError(f"{token.sign!r} stands where an option or a semicolon must be; quote what is not a word")
        if next(tokens).sign != "=" or (value := next(tokens).text) is None:
            what = f"what follows the option {[*options][-1]}" if options else f"the option {token.text}"
            raise ValueError(f"{what} has no value; quote what is not a word")  # it may be the rest of a password
        options[token.text] = value


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of the text and then, for ever, its end. Raises ValueError for a string that does not end."""
    position, size = 0, len(text)
    while position < size:
        character = text[position]
        if character <= " ":
            position += 1
        elif character == "/":
            position = after_comment(text, position)
        elif character in QUOTES:
            value, position = quoted(text, position)
            yield Token(value, character)
        elif begins_word(character):
            start = position
            while position < size and (begins_word(text[position]) or text[position] in "0123456789.-"):
                position += 1
            yield Token(text[start:position], "a")
        elif character in "0123456789.-":
            while position < size and text[position] in "0123456789.-":
                position += 1
            yield Token(None, "a number")
        else:
            position += 1
            yield Token(None, character)
    while True:
        yield Token(None, END)


def begins_word(character: str) -> bool:
    """Whether a character may begin a word: letters, `_`, `$`, and everything from the no-break space on."""
    return (character.isascii() and character.isalpha()) or character in "_$" or character >= "\xa0"


def after_comment(text: str, position: int) -> int:
    """Where the comment that begins here has ended."""
    if text.startswith("/*", position):
        end = text.find("*/", position + 2)
        return len(text) if end < 0 else end + 2
    ends = [end for end in (text.find("\n", position), text.find("\r", position)) if end >= 0]
    return min(ends, default=len(text))


def quoted(text: str, position: int) -> tuple[str, int]:
    """The string that begins here, and where it has ended. Raises ValueError."""
    quote, position = text[position], position + 1
    parts: list[str] = []
    while position < len(text) and text[position] not in f"{quote}\r\n":
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character, position = escaped(text, position)
        parts.append(character)
    if position >= len(text) or text[position] != quote:
        raise ValueError(f"a string lacks its closing {quote}")
    return "".join(parts), position + 1


def escaped(text: str, position: int) -> tuple[str, int]:
    """The character that an escape means, whose part after the backslash begins here, and where it has ended."""
    first = text[position]
    if first not in "01234567":
        return ESCAPES.get(first, first), position + 1
    digits_max = 3 if first <= "3" else 2
    end = position + 1
    while end < len(text) and end - position < digits_max and text[end] in "01234567":
        end += 1
    return chr(int(text[position:end], 8)), end
