"""What a certificate (X.509, RFC 5280) says of its subject: by our own reader, so that names are Java's to the letter.

`distinguished_name` is what `X500Principal.getName()` prints (RFC 2253): the last part first, keywords for nine kinds
of attributes and numbers for others; the value of a number, or of no string type, as `#` and its bytes in hexadecimal.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from penstock.security.stores.der import (
    OBJECT_IDENTIFIER,
    SEQUENCE,
    SET,
    DerError,
    Value,
    object_identifier,
    only,
)

KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attributes that RFC 2253 has words for."""
STRINGS = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: what Java prints as text."""
ESCAPED = frozenset(',=+<>#;"\\')
BLANK = " \r"
VERSION_TAG, EXTENSIONS_TAG = 0xA0, 0xA3
FIELDS_MIN = 5
"""The fields of a certificate up to its subject."""
UTC_TIME = 0x17
ALTERNATIVE_NAMES = "2.5.29.17"


class Shown(NamedTuple):
    """The certificate that a peer has shown. `subject`: as Java prints it; `der`: all of it."""

    subject: str
    der: bytes


def fields_of(certificate: bytes) -> list[Value]:
    """The fields of a certificate without its version: serial number, algorithm, issuer, validity, subject, and more.

    Raises DerError.
    """
    parts = only(certificate, SEQUENCE).children()
    fields = parts[0].expect(SEQUENCE).children() if parts else []
    if fields and fields[0].tag == VERSION_TAG:
        del fields[0]
    if len(fields) < FIELDS_MIN:
        raise DerError("a certificate that lacks fields")
    return fields


def issuer_and_subject(certificate: bytes) -> tuple[bytes, bytes]:
    """The encoded names of a certificate. Raises DerError."""
    _, _, issuer, _, subject = fields_of(certificate)[:FIELDS_MIN]
    return bytes(issuer.expect(SEQUENCE).whole), bytes(subject.expect(SEQUENCE).whole)


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate as Java prints it. Raises DerError."""
    return distinguished_name(issuer_and_subject(certificate)[1])


def distinguished_name(name: bytes) -> str:
    """A subject or issuer as Java prints it, see the module's head. Raises DerError."""
    parts = [relative_name(each) for each in only(name, SEQUENCE).children()]
    return ",".join(reversed(parts))


def relative_name(part: Value) -> str:
    """One part of a name: mostly one attribute, or several with a plus between."""
    return "+".join(attribute(each) for each in part.expect(SET).children())


def attribute(pair: Value) -> str:
    """An attribute: its keyword or number, and its value."""
    fields = pair.expect(SEQUENCE).children()
    if len(fields) != 2:
        raise DerError("an attribute that is no pair")
    kind, value = fields
    number = object_identifier(kind.expect(OBJECT_IDENTIFIER).content)
    keyword = KEYWORDS.get(number)
    if keyword is None or value.tag not in STRINGS:
        return f"{keyword or number}=#{value.whole.hex()}"
    return f"{keyword}={escaped(str(bytes(value.content), 'utf-8', 'replace'))}"


def escaped(text: str) -> str:
    """A value with backslashes before special characters, and before blanks at both ends."""
    marked = "".join("\\" + each if each in ESCAPED else "\\00" if each == "\0" else each for each in text)
    core = marked.lstrip(BLANK)
    lead = len(marked) - len(core)
    trail = len(core) - len(core.rstrip(BLANK))
    before = "".join("\\" + each for each in marked[:lead])
    after = "".join("\\" + each for each in core[len(core) - trail :])
    return before + core[: len(core) - trail] + after


class Facts(NamedTuple):
    """What is compared when a certificate takes another one's place. Times in seconds of the epoch."""

    subject: str
    not_before_s: float
    not_after_s: float
    alternative_names: frozenset[bytes]


def facts_of(certificate: bytes) -> Facts:
    """The facts of a certificate. Raises DerError."""
    _, _, _, validity, subject, *more = fields_of(certificate)
    times = [moment(each) for each in validity.expect(SEQUENCE).children()]
    if len(times) != 2:
        raise DerError("a validity that is no pair")
    names: frozenset[bytes] = frozenset()
    for each in more:
        if each.tag == EXTENSIONS_TAG:
            names = alternative_names(only(each.content, SEQUENCE))
    return Facts(distinguished_name(bytes(subject.whole)), times[0], times[1], names)


def alternative_names(extensions: Value) -> frozenset[bytes]:
    """The encoded subject alternative names. Raises DerError."""
    for extension in extensions.children():
        parts = extension.expect(SEQUENCE).children()
        if len(parts) >= 2 and object_identifier(parts[0].content) == ALTERNATIVE_NAMES:
            return frozenset(bytes(each.whole) for each in only(parts[-1].content, SEQUENCE).children())
    return frozenset()


def moment(value: Value) -> float:
    """A UTCTime or GeneralizedTime in seconds of the epoch. Raises DerError."""
    text = str(bytes(value.content), "ascii", "replace")
    if value.tag == UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        raise DerError("a time that is none") from None
