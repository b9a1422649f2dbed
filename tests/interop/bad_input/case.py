"""One bad request, and what the corpus shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from interop.clients.valid_requests import (
    World,
)
from interop.clients.wire import request_frame

from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.message import Message

Make = Callable[[World, int], "Message | bytes"]

MISSING = "missing-topic"
MISSING_ID = UUID(int=0x1234)
BAD_NAMES = {
    "empty": "",
    "a dot": ".",
    "a slash": "a/b",
    "a space": "a b",
    "not ASCII": "th\u00e9",
    "250 characters": "x" * 250,
    "a NUL": "a\0b",
}
WIDE_RECORD_BYTES = 2_000_000
"""More than max.message.bytes allows by default, less than a request may have."""


@dataclass(frozen=True)
class Case:
    """One bad request. `make` gives a message, or a whole frame when no message says it."""

    name: str
    key: ApiKey
    versions: Sequence[int]
    make: Make

    def frame(self, world: World, version: int) -> bytes:
        made = self.make(world, version)
        return made if isinstance(made, bytes) else request_frame(made, version)


def all_versions(key: ApiKey) -> range:
    api = APIS[key]
    return range(api.min_version, api.stable_max_version + 1)


def of(key: ApiKey, versions: Sequence[int] | None = None) -> Callable[[str, Make], Case]:
    """Makes cases of one API, in all its versions unless told which."""
    return lambda name, make: Case(f"{APIS[key].name}: {name}", key, versions or all_versions(key), make)
