"""Principals, and the authorizer, which decides who may do what.

The rights that each API needs are in `penstock.security.rights`; `node/gate.py` asks for them. `AllowAll` is the
authorizer of a cluster that has none. `StandardAuthorizer` is Kafka's class of that name:

- super users may do everything, and so may the node that asks itself (`OwnPrincipal`);
- until the ACLs are loaded nobody else may do anything;
- an ACL that denies wins over any that allows; where none of either is found the answer is no, unless no ACL of anybody
  is about the resource and `allow.everyone.if.no.acl.found` is true.

It follows the published metadata: a request after an ACL's change is decided by the change. How ACLs are looked up is
in `penstock.security.acls`, and who a connection is in `penstock.security.principals` and `node/logins.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from penstock.protocol.acls import CLUSTER_NAME, Acl, AclOperation, ResourceType
from penstock.security.acls import AclIndex

__all__ = [
    "ALLOW_ALL",
    "ANONYMOUS",
    "CLUSTER_NAME",
    "AclOperation",
    "AllowAll",
    "Authorizer",
    "OwnPrincipal",
    "Principal",
    "ResourceType",
    "StandardAuthorizer",
]

SAMPLE_NAME = "hardcode"
"""The name that Kafka asks about first to learn whether a principal may do something with any resource of a type."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity at the other end of a connection, as in Kafka's `User:alice`.

    `token_authenticated`: it came by a delegation token. It is the same principal then, who may do the same, but with
    tokens.
    """

    type: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


class OwnPrincipal(Principal):
    """A node as the principal of its calls to itself. It may do everything by its class: a principal that comes from a
    socket, or in an Envelope, is never of it, whatever its type and name.
    """

    __slots__ = ()


ANONYMOUS = Principal("User", "ANONYMOUS")

AclChanges = Mapping[UUID, tuple[Acl | None, Acl | None]]
"""By the ACL's id: what it was, and what it is now; None where it is not."""


class Authorizer(Protocol):
    """Decides. Called on the loop for each name of each request, so it answers from memory."""

    has_acls: bool
    """Whether ACLs are what it goes by: without, their APIs answer SECURITY_DISABLED."""

    def authorize(
        self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> bool:
        """Whether a principal at a host (an address as Java writes it) may do something to a resource."""

    def authorize_any(self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType) -> bool:
        """Whether it may do it to some resource of a type: Kafka's authorizeByResourceType."""

    def reason(
        self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> str:
        """Why it may not do it, for the log."""

    @property
    def acl_count(self) -> int:
        """How many ACLs there are."""

    def is_super(self, principal: Principal) -> bool:
        """Whether the principal may do everything, so that none of the other questions need be asked."""

    def changed(self, changes: AclChanges) -> None:
        """Some ACLs of the published metadata have changed."""

    def loaded(self) -> None:
        """The metadata is up to date for the first time; from now on ACLs count."""


class AllowAll:
    """Everybody may do everything: what a cluster without an authorizer does."""

    has_acls = False
    acl_count = 0

    def authorize(
        self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> bool:
        return True

    def authorize_any(self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType) -> bool:
        return True

    def reason(
        self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> str:
        return ""

    def is_super(self, principal: Principal) -> bool:
        return True

    def changed(self, changes: AclChanges) -> None:
        """ACLs mean nothing here."""

    def loaded(self) -> None:
        """Nothing is waited for."""


ALLOW_ALL = AllowAll()


class StandardAuthorizer:
    """See the module's head."""

    has_acls = True

    def __init__(self, super_users: Collection[str] = (), *, allow_everyone: bool = False) -> None:
        """`super_users` as in `super.users`: `User:alice`; `allow_everyone` as allow.everyone.if.no.acl.found."""
        self.acls = AclIndex()
        self.is_loaded = False
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone

    def authorize(
        self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> bool:
        who = f"{principal.type}:{principal.name}"
        if who in self._super_users or type(principal) is OwnPrincipal:
            return True
        if not self.is_loaded:
            return False
        allowed, denied = self.acls.masks(who, host, resource, name)
        if (denied >> operation) & 1:
            return False
        if (allowed >> operation) & 1:
            return True
        return self._allow_everyone and not self.acls.names(resource, name)

    def authorize_any(self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType) -> bool:
        if self.authorize(principal, host, operation, resource, SAMPLE_NAME):
            return True
        return self.is_loaded and self.acls.allows_any(str(principal), host, resource, operation)

    def reason(
        self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> str:
        if not self.is_loaded:
            return "the ACLs are not loaded yet"
        _, denied = self.acls.masks(str(principal), host, resource, name)
        return "an ACL denies it" if (denied >> operation) & 1 else "no ACL allows it"

    @property
    def acl_count(self) -> int:
        return self.acls.count

    def is_super(self, principal: Principal) -> bool:
        return type(principal) is OwnPrincipal or str(principal) in self._super_users

    def changed(self, changes: AclChanges) -> None:
        for before, after in changes.values():
            if before is not None:
                self.acls.remove(before)
            if after is not None:
                self.acls.add(after)

    def loaded(self) -> None:
        self.is_loaded = True
