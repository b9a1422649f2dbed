"""Who may do what: the table, and what of Guardian's knowledge each requester is asked and answered from.

A role is for all clusters, or for one. `viewer` sees a cluster and all that is about it; `operator` may also have
things done in it; `admin` may also forget it, and, for all clusters, register others and manage users; `auditor`,
which there is only for all clusters, reads who changed what, and nothing else. What has no line in the table is for
admins of all clusters.

Nothing asks "may she?" of a single cluster. A requester whose role is not for all clusters is answered from a knowledge
that has only the clusters where the role suffices, and what is about them. So no resource can forget to ask, lists and
suggestions name nothing that is hidden, and what is hidden is answered like what is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from penstock.guardian.core.accounts import ADMIN, AUDITOR, OPERATOR, VIEWER, Accounts, Role
from penstock.guardian.core.calls import FORBIDDEN, UNAUTHORIZED, Call, Known, Refused


class Need(NamedTuple):
    """Any of these roles; `everywhere`: for all clusters."""

    roles: tuple[str, ...]
    everywhere: bool = False

    def __str__(self) -> str:
        return " or ".join(self.roles) + (" for all clusters" if self.everywhere else "")


VIEW = Need((VIEWER, OPERATOR, ADMIN))
OPERATE = Need((OPERATOR, ADMIN))
MANAGE = Need((ADMIN,))
MANAGE_ALL = Need((ADMIN,), everywhere=True)
AUDIT = Need((AUDITOR, ADMIN), everywhere=True)

SEEN = {"GET": VIEW}
RULES: Mapping[str, Mapping[str, Need]] = {
    "/v1/clusters": {"GET": VIEW, "POST": MANAGE_ALL, "PATCH": OPERATE, "DELETE": MANAGE},
    "/v1/brokers": SEEN,
    "/v1/disks": SEEN,
    "/v1/model": SEEN,
    "/v1/topics": SEEN,
    "/v1/plans": {"GET": VIEW, "POST": OPERATE, "PATCH": OPERATE},
    "/v1/moves": SEEN,
    "/v1/limits": SEEN,
    "/v1/decisions": SEEN,
    "/v1/alarms": {"GET": VIEW, "PATCH": OPERATE},
    "/v1/audit": {"GET": AUDIT},
    "/v1/feature": SEEN,
    "/v1/users": {},
    "/v1/tokens": {},
}
"""What each method of a resource needs; what is not here needs MANAGE_ALL."""


def need_of(path: str, method: str) -> Need:
    """What a method of the resource at this path needs."""
    return RULES.get(path, {}).get(method, MANAGE_ALL)


def roles_of(known: Known, call: Call) -> tuple[Role, ...]:
    """The roles of a requester. Raises Refused for a token that does not count any more."""
    if call.is_super:
        return (Role(ADMIN),)
    accounts = known.state.accounts
    if call.token_id is None:
        user = accounts.of_principal(call.principal)
        return () if user is None else user.roles
    token = accounts.tokens.get(call.token_id)
    if token is None or known.wall_ms >= token.expires_ms or accounts.users[token.user].principal != call.principal:
        raise Refused(UNAUTHORIZED, "the token has expired or was revoked")
    return accounts.users[token.user].roles


def view(known: Known, call: Call, need: Need) -> Known:
    """What a requester is answered from, who needs this. Raises Refused where no role of hers suffices."""
    held = [each for each in roles_of(known, call) if each.name in need.roles]
    if any(each.cluster_id is None for each in held):
        return known
    if need.everywhere or not held:
        raise forbidden(call, need)
    return restricted(known, {each.cluster_id for each in held if each.cluster_id is not None}, call.principal)


def forbidden(call: Call, need: Need) -> Refused:
    return Refused(FORBIDDEN, f"{call.method} {call.place} needs the role {need}, which {call.principal} lacks")


def restricted(known: Known, cluster_ids: set[UUID], principal: str) -> Known:
    """What is known of these clusters, and which changes the principal has made; nothing else."""
    state, seen = known.state, known.sight.clusters
    of_clusters = replace(
        state,
        clusters={key: each for key, each in state.clusters.items() if key in cluster_ids},
        commands={key: each for key, each in state.commands.items() if each.principal == principal},
        accounts=Accounts(),
        alarms=state.alarms.of_clusters(cluster_ids),
        work=state.work.of_clusters(cluster_ids),
    )
    hidden = [each.name for key, each in state.clusters.items() if key not in cluster_ids]
    told = {key: each.without_names(hidden) for key, each in seen.items() if key in cluster_ids}
    sight = replace(known.sight, clusters=told)
    return replace(known, state=of_clusters, sight=sight)
