"""Counters of clients: a client is a principal with a client id at an address, on however many connections.

What a connection does before it has said who it is counts for who it then is. Clients without connections are
remembered until others need their place; when there are TELEMETRY_CLIENTS_MAX of them, the one that has gone first
makes room, and its sums go to `others`. While all have connections, new ones count there from the start.

The node's calls to itself are nobody's. Bytes are those of frames with their length prefixes, before encryption.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.node.limits import TELEMETRY_CLIENTS_MAX, TELEMETRY_NAME_CHARACTERS_MAX
from penstock.node.telemetry.client_counters import ClientCounters, Key
from penstock.security.authorizer import OwnPrincipal

if TYPE_CHECKING:
    from penstock.node.connection import Connection


class Clients:
    """See the module's head. `others`: the sum of those that have no counters of their own, or not any more."""

    __slots__ = ("_clients", "_idle", "others")

    def __init__(self) -> None:
        self._clients: dict[Key, ClientCounters] = {}
        self._idle: dict[Key, None] = {}
        self.others = ClientCounters(("", "", ""))

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[ClientCounters]:
        return iter(self._clients.values())

    def named(self, connection: Connection, client_id: str | None) -> None:
        """A connection has said who it is: with its first request, after its login, or with another client id."""
        principal = connection.principal
        if isinstance(principal, OwnPrincipal):
            return
        before = connection.traffic
        found = self._of((cut(str(principal)), cut(client_id or ""), connection.address))
        if before is found:
            return
        found.connections += 1
        connection.traffic = found
        if before.key is None:
            found.add(before)
        else:
            self._left(before)
        if connection.software_name:
            self.introduced(connection)

    def introduced(self, connection: Connection) -> None:
        """A connection has said what its software is."""
        if connection.traffic.key is not None and connection.traffic is not self.others:
            connection.traffic.software = cut(connection.software_name), cut(connection.software_version)

    def left(self, connection: Connection) -> None:
        """A connection is closed. It may be said again."""
        before, connection.traffic = connection.traffic, ClientCounters()
        if before.key is not None:
            self._left(before)
        elif not isinstance(connection.principal, OwnPrincipal):
            self.others.add(before)

    def _left(self, client: ClientCounters) -> None:
        client.connections -= 1
        if not client.connections and client is not self.others:
            assert client.key is not None
            self._idle[client.key] = None

    def _of(self, key: Key) -> ClientCounters:
        found = self._clients.get(key)
        if found is not None:
            self._idle.pop(key, None)
            return found
        if len(self._clients) >= TELEMETRY_CLIENTS_MAX:
            if not self._idle:
                return self.others
            first = next(iter(self._idle))
            del self._idle[first]
            self.others.add(self._clients.pop(first))
        found = self._clients[key] = ClientCounters(key)
        return found


def cut(name: str) -> str:
    """A name that a client has given itself, no longer than it is kept."""
    return name[:TELEMETRY_NAME_CHARACTERS_MAX]
