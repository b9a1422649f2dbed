"""The counters of one client."""

from __future__ import annotations

Key = tuple[str, str, str]
"""Principal, client id and address."""
LENGTH_BYTES = 4


class ClientCounters:
    """One client. `key`: None while a connection has not said whose it is. `frame_bytes`: without length prefixes.

    `software`: name and version, as its latest connection has said.
    """

    __slots__ = ("bytes_out", "connections", "frame_bytes", "key", "requests", "software")

    def __init__(self, key: Key | None = None) -> None:
        self.key = key
        self.software = ("", "")
        self.connections = 0
        self.requests = 0
        self.frame_bytes = 0
        self.bytes_out = 0

    @property
    def bytes_in(self) -> int:
        return self.frame_bytes + LENGTH_BYTES * self.requests

    @property
    def values(self) -> tuple[int, int, int, int]:
        """The counters in the order of the columns."""
        return self.connections, self.requests, self.bytes_in, self.bytes_out

    def came(self, frame_bytes: int) -> None:
        """Counts a request."""
        self.requests += 1
        self.frame_bytes += frame_bytes

    def add(self, other: ClientCounters) -> None:
        """Takes over what somebody else has done."""
        self.requests += other.requests
        self.frame_bytes += other.frame_bytes
        self.bytes_out += other.bytes_out
