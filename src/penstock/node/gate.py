"""The gate: what whoever asks may do. The dispatcher asks it before a handler runs, for the right that the API's row
names on the cluster; the handler for the rights of its row on each resource (`penstock.security.rights`).

How much a connection may have in flight is its own to say (`Connection.pause_if_full`), and whose turn it is
`penstock.node.turns`'. A client that is to slow down is told by the exit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.errors import RequestError
from penstock.node.audit import Audit
from penstock.node.request import Request
from penstock.security.authorizer import CLUSTER_NAME, AclOperation, AllowAll, Authorizer, ResourceType
from penstock.security.rights import DESCRIBE_CLUSTER, Right

OPERATIONS = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that make sense on a resource: those that the bit fields of KIP-430 tell about."""


class Gate:
    """Asks the authorizer on behalf of requests."""

    __slots__ = ("authorizer",)

    def __init__(self) -> None:
        self.authorizer: Authorizer = AllowAll()

    def allows(self, request: Request[Any], right: Right, name: str = CLUSTER_NAME) -> bool:
        """Whether who asks has a right on the resource of this name."""
        principal, authorize = request.connection.principal, self.authorizer.authorize
        instead = right.or_on_cluster
        if instead is not None and authorize(principal, instead, ResourceType.CLUSTER, CLUSTER_NAME):
            return True
        return authorize(principal, right.operation, right.resource, name)

    def check(self, request: Request[Any], right: Right, name: str) -> None:
        """Raises RequestError unless it has."""
        if not self.allows(request, right, name):
            what = f"{right.operation.name} the {right.resource.name.lower()} {name}"
            raise RequestError(right.refusal, f"{request.principal} may not {what}")

    def allowing(self, request: Request[Any], right: Right) -> Callable[[str], bool]:
        """Says of a name whether it has. What does as well on the cluster is asked once, now."""
        if right.or_on_cluster is None:
            return partial(self.allows, request, right)
        if self.allows(request, Right(right.or_on_cluster, ResourceType.CLUSTER)):
            return lambda name: True
        return partial(self.allows, request, Right(right.operation, right.resource))

    def operations(self, request: Request[Any], resource: ResourceType, name: str) -> int:
        """All that who asks may do with a resource, as a bit field: bit n stands for the operation with code n."""
        principal, authorize = request.principal, self.authorizer.authorize
        return sum(
            1 << operation for operation in OPERATIONS[resource] if authorize(principal, operation, resource, name)
        )

    def operations_on_cluster(self, request: Request[Any]) -> int:
        """The same for the cluster; nothing for who may not describe it."""
        may = self.allows(request, DESCRIBE_CLUSTER)
        return self.operations(request, ResourceType.CLUSTER, CLUSTER_NAME) if may else 0


class AuditedGate(Gate):
    """A gate whose decisions are audited."""

    __slots__ = ("_audit",)

    def __init__(self, audit: Audit) -> None:
        super().__init__()
        self._audit = audit

    def allows(self, request: Request[Any], right: Right, name: str = CLUSTER_NAME) -> bool:
        allowed = super().allows(request, right, name)
        self._audit.decided(request, right, name, allowed=allowed)
        return allowed
