"""The gate: may this principal do that? The dispatcher asks before a handler runs, for the API's right on the cluster;
the handler asks for its rights on each resource (the table is `penstock.security.rights`).

Other admission is elsewhere: bytes and requests in flight in `Connection.pause_if_full`, turns in
`penstock.node.turns`, client quotas at the exit (`ClientQuotas` in `penstock.node.exit`, over the rates of
`penstock.quota`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.config.checks import principals_in
from penstock.config.server import Settings
from penstock.errors import RequestError
from penstock.node.audit import Audit
from penstock.node.denials import Denials
from penstock.node.request import Request
from penstock.security.authorizer import (
    ALLOW_ALL,
    CLUSTER_NAME,
    AclOperation,
    Authorizer,
    ResourceType,
    StandardAuthorizer,
)
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


def authorizer_of(settings: Settings) -> Authorizer:
    """The authorizer that the settings name; without one everybody may do everything."""
    if not settings.authorizer_class_name:
        return ALLOW_ALL
    return StandardAuthorizer(
        principals_in(settings.super_users), allow_everyone=settings.allow_everyone_if_no_acl_found
    )


class Gate:
    """Asks the authorizer on behalf of requests. Attributes: `denials`, which hears of what it denies."""

    __slots__ = ("_authorize", "authorizer", "denials")

    def __init__(self, authorizer: Authorizer, denials: Denials) -> None:
        self.authorizer = authorizer
        self.denials = denials
        self._authorize = authorizer.authorize

    def allows(self, request: Request[Any], right: Right, name: str = CLUSTER_NAME) -> bool:
        """Whether the requester has a right on the resource of this name, or one that does as well."""
        if self.would_allow(request, right, name):
            return True
        self.denials.denied(request, right, name)
        return False

    def would_allow(self, request: Request[Any], right: Right, name: str = CLUSTER_NAME) -> bool:
        """`allows`, of which neither the audit nor the log hears anything: for who may still leave the request to
        somebody who asks again."""
        connection, authorize = request.connection, self._authorize
        principal, address = connection.principal, connection.address
        instead = right.or_on_cluster
        if instead is not None and authorize(principal, address, instead, ResourceType.CLUSTER, CLUSTER_NAME):
            return True
        if authorize(principal, address, right.operation, right.resource, name):
            return True
        on_any = right.or_on_any
        return on_any is not None and self.authorizer.authorize_any(principal, address, *on_any)

    def sees_all(self, request: Request[Any]) -> bool:
        """Whether the requester may do everything, so that an answer need not look at what it may see."""
        return self.authorizer.is_super(request.connection.principal)

    def allowed(self, request: Request[Any], right: Right, name: str) -> None:
        """Says that a request is served because of what `would_allow` has said."""

    def check(self, request: Request[Any], right: Right, name: str) -> None:
        """Raises RequestError unless `allows` says yes."""
        if not self.allows(request, right, name):
            what = f"{right.operation.name} the {right.resource.name.lower()} {name}"
            raise RequestError(right.refusal, f"{request.principal} may not {what}")

    def allowing(self, request: Request[Any], right: Right) -> Callable[[str], bool]:
        """A function of the name that says what is to be left out of a list: who is not allowed is not denied anything.
        A right on the cluster that would do instead is checked now."""
        if right.or_on_cluster is None:
            return partial(self.shows, request, right)
        if self.shows(request, Right(right.or_on_cluster, ResourceType.CLUSTER)):
            return lambda name: True
        return partial(self.shows, request, Right(right.operation, right.resource))

    def shows(self, request: Request[Any], right: Right, name: str = CLUSTER_NAME) -> bool:
        """`allows` for one of a list, from which others are left out without a word in the log."""
        return self.would_allow(request, right, name)

    def operations(self, request: Request[Any], resource: ResourceType, name: str) -> int:
        """What the requester may do with a resource, as a bit field: bit n is the operation with code n."""
        connection, authorize = request.connection, self._authorize
        principal, address = connection.principal, connection.address
        return sum(
            1 << operation
            for operation in OPERATIONS[resource]
            if authorize(principal, address, operation, resource, name)
        )

    def operations_on_cluster(self, request: Request[Any]) -> int:
        """Like `operations`, for the cluster; 0 for a requester that may not describe the cluster."""
        may = self.shows(request, DESCRIBE_CLUSTER)
        return self.operations(request, ResourceType.CLUSTER, CLUSTER_NAME) if may else 0


class AuditedGate(Gate):
    """A gate whose decisions are audited."""

    __slots__ = ("_audit",)

    def __init__(self, authorizer: Authorizer, denials: Denials, audit: Audit) -> None:
        super().__init__(authorizer, denials)
        self._audit = audit

    def allows(self, request: Request[Any], right: Right, name: str = CLUSTER_NAME) -> bool:
        allowed = super().allows(request, right, name)
        self._audit.decided(request, right, name, allowed=allowed)
        return allowed

    def shows(self, request: Request[Any], right: Right, name: str = CLUSTER_NAME) -> bool:
        allowed = super().shows(request, right, name)
        self._audit.decided(request, right, name, allowed=allowed)
        return allowed

    def allowed(self, request: Request[Any], right: Right, name: str) -> None:
        self._audit.decided(request, right, name, allowed=True)
