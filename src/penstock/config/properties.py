"""Java's properties format, as java.util.Properties.load reads it, with the line of each entry kept for errors.

An entry is `key=value`, `key:value` or `key value`; blanks around the separator do not count. A line that begins with
`#` or `!` is a comment. A backslash at the end joins the next line; elsewhere it escapes: \\t \\n \\r \\f \\uXXXX,
and any other character stands for itself. A key that comes twice has its last value. Bytes are ISO 8859-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.errors import ConfigError

BLANKS = " \t\f"
BOM_UTF8 = b"\xef\xbb\xbf"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Properties(Mapping[str, str]):
    """The entries of a properties file. `source` is its name, `line_of(name)` where an entry stands. `beside` is where
    entries without a line come from: options of a command, or the environment.
    """

    __slots__ = ("_entries", "_lines", "beside", "source")

    def __init__(self, entries: Mapping[str, str], lines: Mapping[str, int], source: str, beside: str = "") -> None:
        self._entries = dict(entries)
        self._lines = dict(lines)
        self.source = source
        self.beside = beside or source

    def __getitem__(self, name: str) -> str:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def line_of(self, name: str) -> int | None:
        """The line, counted from 1, on which the entry begins; None when there is no such entry."""
        return self._lines.get(name)


def parse(data: bytes | str, source: str = "") -> Properties:
    """Reads a properties file; a byte order mark of UTF-8, as some editors write it, is no part of the first name.

    Raises ConfigError with file and line for a malformed \\u escape.
    """
    text = data if isinstance(data, str) else data.removeprefix(BOM_UTF8).decode("latin-1")
    entries: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in logical_lines(text):
        try:
            name, value = split_entry(line)
        except ValueError as wrong:
            raise ConfigError(f"{wrong}{where(source, number)}") from None
        entries[name] = value
        lines[name] = number
    return Properties(entries, lines, source)


def where(source: str, *lines: int | None) -> str:
    """The second line of an error message: `  in FILE, line N`, or `lines M and N`."""
    known = [str(line) for line in lines if line is not None]
    if not known:
        return f"\n  in {source}" if source else ""
    text = f"line {known[0]}" if len(known) == 1 else f"lines {', '.join(known[:-1])} and {known[-1]}"
    return f"\n  in {source}, {text}" if source else f"\n  in {text}"


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined, without blanks and comments; each with the number of its first line."""
    pending = ""
    first = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        line = raw.lstrip(BLANKS)
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            if not pending:
                pending = " "  # a lone backslash: an entry has begun, and blanks in front of it do not count
            continue
        yield first, (pending + line).lstrip(BLANKS)
        pending = ""
    if pending.strip(BLANKS):
        yield first, pending.lstrip(BLANKS)


def split_entry(line: str) -> tuple[str, str]:
    """Key and value of one logical line, unescaped. Raises ValueError for a malformed \\u escape."""
    end = 0
    while end < len(line) and line[end] not in "=:" and line[end] not in BLANKS:
        end += 2 if line[end] == "\\" else 1
    start = end
    while start < len(line) and line[start] in BLANKS:
        start += 1
    if start < len(line) and line[start] in "=:":
        start += 1
    while start < len(line) and line[start] in BLANKS:
        start += 1
    return unescape(line[:end]), unescape(line[start:])


def unescape(text: str) -> str:
    """Resolves backslash escapes. Two \\u escapes may make one character, as Java writes those beyond 16 bits.

    Raises ValueError, which shows nothing of the text, for a malformed \\u escape.
    """
    if "\\" not in text:
        return text
    parts = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                    raise ValueError("malformed escape: after \\u there must be four hexadecimal digits")
                character = chr(int(digits, 16))
                position += 4
            else:
                character = ESCAPES.get(character, character)
        elif character == "\\":
            continue
        parts.append(character)
    return whole("".join(parts))


def whole(text: str) -> str:
    """The text with surrogate pairs, which two escapes may be, as characters. Raises ValueError for half of a pair."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("an escape \\u has half of a surrogate pair, which is no character") from None


def escape(value: str) -> str:
    """A value as it is written in a properties file, so that it is read as it was, by Java too: in ASCII."""
    units = value.encode("utf-16-be", "surrogatepass")
    characters = [int.from_bytes(units[start : start + 2], "big") for start in range(0, len(units), 2)]
    return "".join(
        f"\\u{unit:04x}" if not 0x20 < unit < 0x7F else "\\\\" if unit == 0x5C else chr(unit) for unit in characters
    )
