"""Rules for who may do what, looked at in each decision of each node's gate.

A node is asked for rights in the name of a request. Who that is, the rules know by themselves: the client ids of guests
are the names of their users. What he may do they find by walking through all ACLs of the image that the node has
published. So a decision that is made for somebody else, by older ACLs or in another order than Kafka's breaks a rule,
whether or not anything comes of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import ErrorCode
from penstock.node.request import Request
from penstock.protocol.acls import CLUSTER_NAME, WILDCARD, Acl, AclOperation, PatternType, PermissionType, ResourceType
from penstock.security.authorizer import StandardAuthorizer
from penstock.security.rights import Right
from simulator.secured.guests import GUEST, Guest
from simulator.secured.tokens import BEARER, HOLDER, Holder
from simulator.world.checks import check
from simulator.world.machine import Machine

WHO = "a request is decided for whom it comes from"
BY_THE_IMAGE = "a right is decided by the ACLs of the published metadata"
EXPIRED = "an expired session serves nothing"
IMPLIED = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


def allowed(acls: Iterable[Acl], principal: str, operation: AclOperation, resource: ResourceType, name: str) -> bool:
    """What ACLs say, one after the other, of a principal at any host: a denial wins, an allowance may imply others."""
    found = [
        acl
        for acl in acls
        if acl.resource_type == resource
        and (name.startswith(acl.name) if acl.pattern_type == PatternType.PREFIXED else acl.name in (name, WILDCARD))
        and acl.principal in (principal, f"User:{WILDCARD}")
    ]
    if any(acl.permission == PermissionType.DENY and acl.operation in (operation, AclOperation.ALL) for acl in found):
        return False
    enough = (operation, AclOperation.ALL, *IMPLIED.get(operation, ()))
    return any(acl.permission == PermissionType.ALLOW and acl.operation in enough for acl in found)


class DecisionRules:
    """The audit of one machine's nodes (see `penstock.node.audit`).

    Attributes:
        judged: how many decisions were looked at; `judged_elsewhere` of requests that another node has forwarded.
    """

    def __init__(self, machine: Machine, guests: Iterable[Guest], holder: Holder) -> None:
        self.judged = self.judged_elsewhere = 0
        self._holder = holder
        self._broken: list[tuple[str, str]] = []
        self._machine = machine
        self._guests = {guest.user: guest for guest in guests}

    def decided(self, request: Request[Any], right: Right, name: str, *, allowed: bool) -> None:
        user = request.client_id
        if user is not None and user.startswith(BEARER):
            self._look_at_bearer(request, user)
        if user is None or not user.startswith(GUEST):
            return
        self.judged += 1
        forwarded = request.connection.id < 0 or not request.listener.startswith("GUESTS")
        self.judged_elsewhere += forwarded
        principal, where = f"User:{user}", f"{request.api.name} of {user} on {self._machine.host}"
        if str(request.principal) != principal:
            self._broken.append((WHO, f"{where}: decided for {request.principal}"))
        elif allowed != self._wanted(principal, right, name):
            self._broken.append((BY_THE_IMAGE, f"{where}: {right.operation.name} {name} is allowed: {allowed}"))
        elif not forwarded:
            age_ms = self._machine.now_ms - request.arrived_ms
            if not self._guests[user].may_have_been_logged_in(self._machine.address("GUESTS"), age_ms):
                self._broken.append((EXPIRED, where))

    def _look_at_bearer(self, request: Request[Any], name: str) -> None:
        """Who has a token is its owner, and has come by it, for as long as it told him."""
        where = f"{request.api.name} of {name} on {self._machine.host}"
        principal = request.principal
        if str(principal) != f"User:{HOLDER}" or not principal.token_authenticated:
            self._broken.append((WHO, f"{where}: decided for {principal}"))
        bearer = next(each for each in self._holder.bearers if each.name == name)
        at_ms = self._machine.simulation.now_ms - (self._machine.now_ms - request.arrived_ms)
        if not bearer.login.may_last(self._machine.address("GUESTS"), at_ms):
            self._broken.append((EXPIRED, where))

    def look(self) -> None:
        """Raises Violation if a decision of the last event broke a rule; it is not raised in the midst of a request,
        since a node goes on after one that breaks."""
        for rule, detail in self._broken:
            check(False, rule, detail)

    def _wanted(self, principal: str, right: Right, name: str) -> bool:
        """What the ACLs say; nothing before the node has them all, since one that denies may be missing."""
        authorizer = self._machine.broker.gate.authorizer
        if not (isinstance(authorizer, StandardAuthorizer) and authorizer.is_loaded):
            return False
        acls = [acl for _, acl in self._machine.broker.image.acls.by_id.items()]
        instead = right.or_on_cluster
        if instead is not None and allowed(acls, principal, instead, ResourceType.CLUSTER, CLUSTER_NAME):
            return True
        if allowed(acls, principal, right.operation, right.resource, name):
            return True
        return right.or_on_any is not None and self._wanted_of_any(acls, principal, *right.or_on_any)

    @staticmethod
    def _wanted_of_any(acls: list[Acl], principal: str, operation: AclOperation, resource: ResourceType) -> bool:
        """Whether it is allowed of any name that an ACL has; names that begin so are no different here."""
        names = {acl.name for acl in acls if acl.resource_type == resource}
        return any(allowed(acls, principal, operation, resource, name) for name in names)

    def refused(self, request: Request[Any], code: ErrorCode) -> None:
        """What comes of a decision does not matter here."""

    def ended(self, request: Request[Any], time_ms: int, *, answered: bool) -> None:
        """What comes of a decision does not matter here."""
