"""Whose connection it is: the tenant in whose turn its requests execute (docs/adr/0049).

A tenant is a user; of clients that are anonymous, all with the same client id, however many connections they have. One
connection may name another client id with each request, and then moves. Until a connection has said who it is, and
while it logs in, it is one of its address's.

Client ids cost nothing, so an address has at most CLIENT_IDS_PER_ADDRESS_MAX of them at a time that are tenants; the
connections with further ones stay the address's. A tenant that comes into being as a connection moves there has what
was left of the share that the connection had before, so nobody gains by a new name.

The nodes of the cluster are one tenant, in a group of its own: clients never delay replication. A connection is a
node's if it is this node's own, came in on a controller listener, or has sent what only nodes may, and was allowed to.

A tenant without connections is forgotten.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from penstock.node.connection import Connection
from penstock.node.limits import CLIENT_IDS_PER_ADDRESS_MAX
from penstock.node.line import Group, Key, Tenant
from penstock.security.authorizer import ANONYMOUS, OwnPrincipal

USER, CLIENT_ID, ADDRESS, NODES = "user", "client id", "address", "nodes"
LEFT: Final = object()
"""The name of a connection that is gone."""


class Tenants:
    """See the module's head.

    Args:
        controller_listeners: the listeners of nodes alone.

    Attributes: `clients`, `nodes`: the groups. `kept`: all tenants that clients are. `client_ids`: of each address with
    anonymous clients, the ids that are tenants, with the number of connections.
    """

    def __init__(self, controller_listeners: Collection[str] = ()) -> None:
        self._controller_listeners = controller_listeners
        self.clients = Group()
        self.nodes = Group()
        self._node = Tenant((NODES, ""), self.nodes)
        self._node.connections = 1  # it is always there
        self.kept: dict[Key, Tenant] = {}
        self.client_ids: dict[str, dict[str, int]] = {}

    def arrived(self, connection: Connection) -> Tenant:
        """The tenant of a connection that has sent its first frame."""
        principal = connection.principal
        if isinstance(principal, OwnPrincipal) or connection.listener in self._controller_listeners:
            return self._move(connection, self._node)
        if connection.login is None and principal != ANONYMOUS:
            return self._move(connection, self._of((USER, str(principal))))
        return self._move(connection, self._of((ADDRESS, connection.address)))

    def named(self, connection: Connection, client_id: str | None) -> None:
        """A request has another client id than the one before, or is the first since the connection has logged in."""
        tenant = connection.tenant or self.arrived(connection)
        connection.named = client_id
        if tenant is self._node:
            return
        self._release_name(connection, tenant)
        key = self._key(connection, client_id or "")
        if key == tenant.key:
            return
        known = key in self.kept
        found = self._of(key)
        if not known:
            found.share_ms, found.round = tenant.share_ms, tenant.round
        self._move(connection, found)

    def forwarded(self, connection: Connection, client_id: str | None) -> None:
        """Another node asks on behalf of a client, for whom this connection stands."""
        self._move(connection, self._of((ADDRESS, connection.address)))
        self.named(connection, client_id)

    def of(self, connection: Connection) -> Key | None:
        """For whom what a connection asks for is read from a disk; None: for a node."""
        tenant = connection.tenant
        return None if tenant is None or tenant is self._node else tenant.key

    def knows_node(self, connection: Connection) -> bool:
        """Whether a connection is known to be a node's."""
        return connection.tenant is self._node

    def is_node(self, connection: Connection) -> None:
        """A connection has been allowed what only nodes may do."""
        tenant = connection.tenant
        if tenant is not self._node:
            if tenant is not None:
                self._release_name(connection, tenant)
            self._move(connection, self._node)

    def left(self, connection: Connection) -> None:
        """A connection is closed. It may be said again."""
        tenant = connection.tenant
        if tenant is not None and connection.named is not LEFT:
            self._release_name(connection, tenant)
            self._leave(tenant)
            connection.named = LEFT

    def _of(self, key: Key) -> Tenant:
        found = self.kept.get(key)
        if found is None:
            found = self.kept[key] = Tenant(key, self.clients)
        return found

    def _move(self, connection: Connection, tenant: Tenant) -> Tenant:
        """Has a connection, which does not stand in line, belong to a tenant. What it owes goes with it."""
        before, connection.tenant = connection.tenant, tenant
        tenant.connections += 1
        connection.round = tenant.rounds
        if before is not None:
            self._leave(before)
        return tenant

    def _leave(self, tenant: Tenant) -> None:
        tenant.connections -= 1
        if not tenant.connections:
            del self.kept[tenant.key]

    def _key(self, connection: Connection, client_id: str) -> Key:
        """Whose a connection is that is logged in. Counts the client id if that is a tenant."""
        if connection.principal != ANONYMOUS:
            return USER, str(connection.principal)
        ids = self.client_ids.setdefault(connection.address, {})
        if client_id not in ids and len(ids) >= CLIENT_IDS_PER_ADDRESS_MAX:
            return ADDRESS, connection.address
        ids[client_id] = ids.get(client_id, 0) + 1
        return CLIENT_ID, client_id

    def _release_name(self, connection: Connection, tenant: Tenant) -> None:
        kind, name = tenant.key
        if kind != CLIENT_ID:
            return
        ids = self.client_ids[connection.address]
        ids[name] -= 1
        if not ids[name]:
            del ids[name]
            if not ids:
                del self.client_ids[connection.address]
