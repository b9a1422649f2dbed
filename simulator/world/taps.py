"""What passes over the connections that a machine serves, for whoever wants to listen: its node cannot know of it.

What a node counts of its clients can so be compared with what they have sent and received.
"""

from __future__ import annotations

from typing import Protocol


class Tap(Protocol):
    """Listens at one machine. `link` is what the node calls a connection."""

    def connected(self, link: int, peer: str, now_ms: int) -> None:
        """The node serves a connection of the host `peer`."""

    def read(self, link: int, frame: bytearray, now_ms: int) -> None:
        """The node is about to be given a frame."""

    def unread(self, link: int, now_ms: int) -> None:
        """A frame has arrived that the node does not read for now."""

    def sent(self, link: int, frame: bytes, said_ms: int) -> None:
        """A frame leaves, which the node has made at `said_ms`."""

    def gone(self, link: int) -> None:
        """The other end has gone, or the node has done with the connection; perhaps both are said."""


class NoTap:
    """Nobody listens."""

    def connected(self, link: int, peer: str, now_ms: int) -> None:
        pass

    def read(self, link: int, frame: bytearray, now_ms: int) -> None:
        pass

    def unread(self, link: int, now_ms: int) -> None:
        pass

    def sent(self, link: int, frame: bytes, said_ms: int) -> None:
        pass

    def gone(self, link: int) -> None:
        pass


NO_TAP = NoTap()
