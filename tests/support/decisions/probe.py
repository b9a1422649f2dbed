"""Who is answered what: requests of every kind, asked by a client with one set of ACLs after the other.

The table is made of probes and principals. A probe is one request of one version about the topics `t` (exists), `m`
(does not) and `d` (exists, and may be deleted), the group `g`, the transactional id `x`, or the cluster. A principal is
a set of ACLs. The outcome is what tells who may do what in an answer: its error codes, the names in it, and the fields
of authorized operations. The same code asks Apache Kafka and Penstock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.protocol.message import Message, Struct

TOPICS = ("t", "m", "d")
NAMES = ("name", "topic", "topic_name", "group_id", "group", "transactional_id", "resource_name", "key")
TOPIC, BROKER, CLIENT_METRICS, GROUP_CONFIG = 2, 4, 16, 32


class Asker(Protocol):
    """A connection."""

    def ask(self, message: Message, version: int) -> Any: ...


@dataclass(frozen=True)
class Probe:
    """A request of a version. `make` gets the ids of the topics by name. `controller`: on the controllers' listener."""

    name: str
    version: int
    make: Callable[[dict[str, UUID]], Message]
    controller: bool = False


def outcome(value: Any) -> Any:
    """What of an answer tells who may do what."""
    if isinstance(value, Struct):
        found = {}
        for field in value.KINDS:
            inner = getattr(value, field)
            if field == "configs" and inner:
                found[field] = "shown"
                continue
            if field.endswith("error_code"):
                if inner:
                    found[field] = ErrorCode(inner).name
            elif (field in NAMES and isinstance(inner, str) and inner) or (
                field.endswith("authorized_operations") and inner != -(2**31)
            ):
                found[field] = inner
            elif isinstance(inner, Struct) or (isinstance(inner, list) and inner and isinstance(inner[0], Struct)):
                deeper = outcome(inner)
                if deeper:
                    found[field] = deeper
        return found
    return sorted((each for each in map(outcome, value) if each), key=repr)
