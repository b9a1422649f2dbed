"""IP addresses as people write them in settings and quotas, each in one form: the one that connections have.

An address has many spellings (`::1` and `0:0::1`, `10.0.0.7` and `::ffff:10.0.0.7`), which must be one and the same
where a limit is looked up. Nobody is asked for the address of a host name: that may take seconds, and have another
answer on each node, and a day later.
"""

from __future__ import annotations

import ipaddress
import re

COUNT = re.compile(r"[0-9]{1,10}")


def canonical_address(name: str) -> str | None:
    """The address that a name means, as connections have it; None if it means none.

    Takes what Java takes for an address without asking anybody: IPv4 in one to four decimal parts, IPv6 with or without
    brackets and zone; an IPv4 address in IPv6's form is IPv4.
    """
    if name == "localhost":
        return "127.0.0.1"
    text = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    if ":" not in text:
        return None if text != name else short_ipv4(text)
    try:
        address = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return None
    return str(address.ipv4_mapped or address)


def short_ipv4(text: str) -> str | None:
    """An IPv4 address in one to four decimal parts, of which the last fills the rest (RFC 6943, section 3.1.1)."""
    parts = text.split(".")
    if len(parts) > 4 or not all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts):
        return None
    numbers = [int(part) for part in parts]
    rest_bits = 8 * (5 - len(parts))
    if any(number > 255 for number in numbers[:-1]) or numbers[-1] >= 1 << rest_bits:
        return None
    value = numbers[-1]
    for place, number in enumerate(numbers[:-1]):
        value |= number << (24 - 8 * place)
    return str(ipaddress.IPv4Address(value))


def address_overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`, as `127.0.0.1:200,::1:5`: how many connections an address may have. Of an
    address that stands there twice the last number counts, as in Kafka. Raises ValueError, with the end of a sentence.
    """
    overrides = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = (part.strip() for part in entry.rpartition(":"))
        if not colon or not host or COUNT.fullmatch(count) is None:
            raise ValueError(f'has "{entry}", which is not an entry: it must be like 10.0.0.7:100')
        address = canonical_address(host)
        if address is None:
            raise ValueError(
                f'has "{host}", which is not an address: names of hosts are not looked up here (localhost is known), '
                "it must be like 10.0.0.7:100 or [2001:db8::7]:100"
            )
        overrides[address] = int(count)
    return overrides


def overrides_problem(text: str) -> str | None:
    """The fault of such a setting, as the end of a sentence; None if it is valid."""
    try:
        address_overrides(text)
    except ValueError as wrong:
        return str(wrong)
    return None
