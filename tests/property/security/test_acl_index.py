"""The index of ACLs decides as a walk over all of them does, whatever was added and removed before."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.acls import Acl, AclOperation, PatternType, PermissionType, ResourceType
from penstock.security.acls import AclIndex
from penstock.security.authorizer import Principal, StandardAuthorizer

NAMES = st.text(alphabet="ab*", min_size=1, max_size=4)
HOSTS = ("10.0.0.1", "10.0.0.2")
USERS = ("User:a", "User:b", "Group:a")
ACLS = st.builds(
    Acl,
    st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
    NAMES,
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from((*USERS, "User:*")),
    st.sampled_from((*HOSTS, "*")),
    st.sampled_from([each for each in AclOperation if each >= AclOperation.ALL]),
    st.sampled_from((PermissionType.ALLOW, PermissionType.DENY)),
)
DESCRIBES = {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}


def applies(acl: Acl, resource: int, name: str) -> bool:
    """Whether an ACL is about a resource."""
    if acl.resource_type != resource:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in (name, "*")


def says(acl: Acl, operation: AclOperation) -> bool:
    """Whether an ACL allows, or denies, an operation."""
    if acl.operation in (AclOperation.ALL, operation):
        return True
    if acl.permission == PermissionType.DENY:
        return False
    if operation is AclOperation.DESCRIBE:
        return acl.operation in DESCRIBES
    return operation is AclOperation.DESCRIBE_CONFIGS and acl.operation == AclOperation.ALTER_CONFIGS


def walked(about: list[Acl], who: str, host: str, operation: AclOperation, *, allow_everyone: bool) -> bool:
    """The decision, by looking at each ACL that is about the resource."""
    found = {
        acl.permission
        for acl in about
        if acl.principal in (who, "User:*") and acl.host in (host, "*") and says(acl, operation)
    }
    if PermissionType.DENY in found:
        return False
    return PermissionType.ALLOW in found or (allow_everyone and not about)


@given(
    st.lists(ACLS, max_size=12),
    st.lists(st.integers(0, 11), max_size=8),
    NAMES,
    st.sampled_from([each for each in AclOperation if each > AclOperation.ALL]),
    st.booleans(),
)
def test_decisions_are_those_of_a_walk(
    acls: list[Acl], removals: list[int], name: str, operation: AclOperation, allow_everyone: bool
) -> None:
    authorizer = StandardAuthorizer(allow_everyone=allow_everyone)
    authorizer.loaded()
    authorizer.changed({UUID(int=number): (None, acl) for number, acl in enumerate(acls)})
    left = dict(enumerate(acls))
    for number in removals:
        if number in left:
            authorizer.changed({UUID(int=number): (left.pop(number), None)})
    remaining = list(left.values())
    assert authorizer.acls.count == len(remaining)
    for who in USERS:
        for host in HOSTS:
            for resource in (ResourceType.TOPIC, ResourceType.GROUP):
                decided = authorizer.authorize(Principal(*who.split(":")), host, operation, resource, name)
                about = [acl for acl in remaining if applies(acl, resource, name)]
                expected = walked(about, who, host, operation, allow_everyone=allow_everyone)
                assert decided is expected, (who, host, resource, name, remaining)


def walked_any(acls: list[Acl], who: str, host: str, operation: AclOperation) -> bool:
    """KIP-679's decision about any topic, by looking at each ACL: what Kafka's Authorizer does by default."""

    def names(permission: PermissionType, pattern: PatternType) -> set[str]:
        return {
            acl.name
            for acl in acls
            if (acl.resource_type, acl.permission, acl.pattern_type) == (ResourceType.TOPIC, permission, pattern)
            and acl.principal in (who, "User:*")
            and acl.host in (host, "*")
            and acl.operation in (operation, AclOperation.ALL)
        }

    denied, denied_prefixes = (names(PermissionType.DENY, each) for each in (PatternType.LITERAL, PatternType.PREFIXED))
    allowed, allowed_prefixes = (
        names(PermissionType.ALLOW, each) for each in (PatternType.LITERAL, PatternType.PREFIXED)
    )
    if "*" in denied or "*" in allowed:
        return "*" not in denied
    return any(
        not any(name.startswith(prefix) for prefix in denied_prefixes) for name in (allowed - denied) | allowed_prefixes
    )


@given(st.lists(ACLS, max_size=12), st.lists(st.integers(0, 11), max_size=8))
def test_a_right_on_any_topic_is_found_as_by_a_walk(acls: list[Acl], removals: list[int]) -> None:
    index, operation = AclIndex(), AclOperation.WRITE
    left = dict(enumerate(acl._replace(operation=operation) for acl in acls))
    for acl in left.values():
        index.add(acl)
    for number in removals:
        if number in left:
            index.remove(left.pop(number))
    for who in USERS:
        for host in HOSTS:
            expected = walked_any(list(left.values()), who, host, operation)
            assert index.allows_any(who, host, ResourceType.TOPIC, operation) is expected, (who, host, left)
