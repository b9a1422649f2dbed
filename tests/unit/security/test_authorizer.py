"""The rules of StandardAuthorizer, one by one."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest

from penstock.protocol.acls import CLUSTER_NAME, Acl, PatternType, PermissionType
from penstock.security.authorizer import AclOperation, OwnPrincipal, Principal, ResourceType, StandardAuthorizer

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HERE, THERE = "10.0.0.1", "10.0.0.2"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
IDS = count(1)


def acl(
    operation: AclOperation,
    name: str = "t",
    *,
    pattern: PatternType = LITERAL,
    who: str = "User:alice",
    host: str = "*",
    permission: PermissionType = ALLOW,
    resource: ResourceType = TOPIC,
) -> Acl:
    return Acl(resource, name, pattern, who, host, operation, permission)


def authorizer(*acls: Acl, super_users: tuple[str, ...] = (), allow_everyone: bool = False) -> StandardAuthorizer:
    made = StandardAuthorizer(super_users, allow_everyone=allow_everyone)
    made.changed({UUID(int=next(IDS)): (None, each) for each in acls})
    made.loaded()
    return made


def may(
    of: StandardAuthorizer,
    operation: AclOperation,
    name: str = "t",
    *,
    who: Principal = ALICE,
    host: str = HERE,
    resource: ResourceType = TOPIC,
) -> bool:
    return of.authorize(who, host, operation, resource, name)


def test_what_nothing_allows_is_denied() -> None:
    assert not may(authorizer(), READ)


def test_a_literal_acl_is_for_its_name_and_type_alone() -> None:
    by = authorizer(acl(READ))
    assert may(by, READ)
    assert not may(by, READ, "tt")
    assert not may(by, READ, "")
    assert not may(by, READ, resource=GROUP)
    assert not may(by, WRITE)
    assert not may(by, READ, who=BOB)


def test_the_literal_star_is_for_every_name() -> None:
    by = authorizer(acl(READ, "*"))
    assert may(by, READ, "anything")
    assert not may(by, READ, resource=GROUP)


def test_a_prefixed_acl_is_for_all_names_that_begin_so() -> None:
    by = authorizer(acl(READ, "ab", pattern=PREFIXED))
    assert may(by, READ, "ab")
    assert may(by, READ, "abc")
    assert not may(by, READ, "a")
    assert not may(by, READ, "ba")


def test_a_prefixed_star_is_no_wildcard() -> None:
    by = authorizer(acl(READ, "*", pattern=PREFIXED))
    assert not may(by, READ, "t")
    assert may(by, READ, "*x")


@pytest.mark.parametrize("denied", [("t", LITERAL), ("*", LITERAL), ("t", PREFIXED)])
@pytest.mark.parametrize("allowed", [("t", LITERAL), ("*", LITERAL), ("t", PREFIXED)])
def test_deny_wins(denied: tuple[str, PatternType], allowed: tuple[str, PatternType]) -> None:
    allows = acl(READ, allowed[0], pattern=allowed[1])
    denies = acl(READ, denied[0], pattern=denied[1], permission=DENY)
    assert may(authorizer(allows), READ)
    assert not may(authorizer(allows, denies), READ)
    assert not may(authorizer(denies, allows), READ)


def test_all_allows_everything() -> None:
    by = authorizer(acl(ALL))
    assert all(may(by, operation) for operation in AclOperation if operation > ALL)


def test_all_denies_everything() -> None:
    by = authorizer(*(acl(operation) for operation in AclOperation if operation >= ALL), acl(ALL, permission=DENY))
    assert not any(may(by, operation) for operation in AclOperation if operation > ALL)


@pytest.mark.parametrize("operation", [each for each in AclOperation if each > ALL])
def test_reading_writing_deleting_and_altering_imply_describing(operation: AclOperation) -> None:
    implies = operation in (READ, WRITE, AclOperation.DELETE, AclOperation.ALTER, DESCRIBE)
    assert may(authorizer(acl(operation)), DESCRIBE) is implies


@pytest.mark.parametrize("operation", [each for each in AclOperation if each > ALL])
def test_altering_configs_implies_describing_them(operation: AclOperation) -> None:
    implies = operation in (AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS)
    assert may(authorizer(acl(operation)), AclOperation.DESCRIBE_CONFIGS) is implies


def test_a_denial_implies_nothing() -> None:
    by = authorizer(acl(DESCRIBE), acl(READ, permission=DENY))
    assert may(by, DESCRIBE)
    by = authorizer(
        acl(AclOperation.DESCRIBE_CONFIGS), acl(AclOperation.ALTER_CONFIGS, permission=DENY), acl(READ, "other")
    )
    assert may(by, AclOperation.DESCRIBE_CONFIGS)


def test_an_acl_for_a_host_is_for_that_host_alone() -> None:
    by = authorizer(acl(READ, host=HERE), acl(WRITE), acl(WRITE, host=THERE, permission=DENY))
    assert may(by, READ, host=HERE)
    assert not may(by, READ, host=THERE)
    assert may(by, WRITE, host=HERE)
    assert not may(by, WRITE, host=THERE)


def test_user_star_is_everybody() -> None:
    by = authorizer(acl(READ, who="User:*"), acl(READ, who="User:bob", permission=DENY))
    assert may(by, READ)
    assert may(by, READ, who=Principal("Group", "admins")), "whatever the type, as in Kafka"
    assert not may(by, READ, who=BOB)
    assert not may(authorizer(acl(READ), acl(READ, who="User:*", permission=DENY)), READ)


def test_no_other_star_is_a_wildcard_of_principals() -> None:
    assert not may(authorizer(acl(READ, who="Group:*")), READ, who=Principal("Group", "admins"))


def test_super_users_may_do_everything_whatever_is_denied() -> None:
    by = authorizer(acl(ALL, who="User:*", permission=DENY), super_users=("User:alice",))
    assert may(by, AclOperation.ALTER, CLUSTER_NAME, resource=ResourceType.CLUSTER)
    assert not may(by, READ, who=BOB)
    assert not may(by, READ, who=Principal("Group", "alice"))
    assert by.is_super(ALICE)
    assert not by.is_super(BOB)


def test_the_node_itself_may_do_everything_by_the_class_of_its_principal() -> None:
    by = authorizer(acl(ALL, who="User:*", permission=DENY))
    assert may(by, READ, who=OwnPrincipal("Node", "1"))
    assert not may(by, READ, who=Principal("Node", "1")), "a client may call itself so"
    assert not by.is_super(Principal("Node", "1"))


def test_a_resource_that_no_acl_names_is_open_where_that_is_wanted() -> None:
    by = authorizer(acl(WRITE, "named", who="User:bob"), acl(READ, "pre", pattern=PREFIXED), allow_everyone=True)
    assert may(by, READ, "unnamed")
    assert not may(by, READ, "named"), "an ACL of somebody else, for another operation, names it"
    assert not may(by, WRITE, "prefix")
    assert may(by, READ, "prefix")
    assert may(by, READ, "named", resource=GROUP)
    by = authorizer(acl(WRITE, "*", who="User:bob", host=THERE, permission=DENY), allow_everyone=True)
    assert not may(by, READ, "unnamed")


def test_until_the_acls_are_loaded_super_users_pass_and_nobody_else() -> None:
    by = StandardAuthorizer(("User:bob",), allow_everyone=True)
    by.changed({UUID(int=1): (None, acl(ALL, "*"))})
    assert not may(by, READ)
    assert not by.authorize_any(ALICE, HERE, WRITE, TOPIC)
    assert may(by, READ, who=BOB)
    by.loaded()
    assert may(by, READ)


def test_removing_one_acl_touches_no_other() -> None:
    acls = [acl(READ), acl(WRITE), acl(READ, host=HERE), acl(READ, "t", pattern=PREFIXED), acl(READ, who="User:bob")]
    for removed in acls:
        by = authorizer(*acls)
        by.changed({UUID(int=1): (removed, None)})
        assert may(by, READ)
        assert may(by, WRITE) is (removed != acls[1])
        assert may(by, READ, host=THERE)
        assert may(by, READ, "tt") is (removed != acls[3])
        assert may(by, READ, who=BOB) is (removed != acls[4])


def test_of_two_records_of_one_acl_the_removal_of_one_leaves_the_other() -> None:
    by = authorizer(acl(READ), acl(READ))
    by.changed({UUID(int=1): (acl(READ), None)})
    assert may(by, READ)
    by.changed({UUID(int=2): (acl(READ), None)})
    assert not may(by, READ)
    assert by.acls.count == 0


def test_an_acl_that_is_replaced_under_its_id_counts_as_the_new_one() -> None:
    by = authorizer(acl(READ))
    by.changed({UUID(int=1): (acl(READ), acl(WRITE))})
    assert not may(by, READ)
    assert may(by, WRITE)


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ((), False),
        ((acl(WRITE, "x"),), True),
        ((acl(WRITE, "x", pattern=PREFIXED),), True),
        ((acl(WRITE, "*"),), True),
        ((acl(ALL, "x"),), True),
        ((acl(WRITE, "x", who="User:*"),), True),
        ((acl(WRITE, "x", who="User:bob"),), False),
        ((acl(WRITE, "x", host=THERE),), False),
        ((acl(READ, "x"),), False),
        ((acl(WRITE, "x", resource=GROUP),), False),
        ((acl(WRITE, "x"), acl(WRITE, "x", permission=DENY)), False),
        ((acl(WRITE, "x"), acl(ALL, "*", permission=DENY, who="User:*")), False),
        ((acl(WRITE, "x"), acl(WRITE, "y", permission=DENY)), True),
        ((acl(WRITE, "xyz"), acl(WRITE, "xy", pattern=PREFIXED, permission=DENY)), False),
        ((acl(WRITE, "xyz", pattern=PREFIXED), acl(WRITE, "xyz", pattern=PREFIXED, permission=DENY)), False),
        ((acl(WRITE, "x", pattern=PREFIXED), acl(WRITE, "xy", pattern=PREFIXED, permission=DENY)), True),
        ((acl(WRITE, "x", pattern=PREFIXED), acl(WRITE, "x", permission=DENY)), True),
        ((acl(WRITE, "*"), acl(WRITE, "h", pattern=PREFIXED, permission=DENY)), True),
        ((acl(WRITE, "x"), acl(WRITE, "x", permission=DENY, host=THERE)), True),
    ],
)
def test_a_right_on_any_resource_of_a_type(acls: tuple[Acl, ...], allowed: bool) -> None:
    assert authorizer(*acls).authorize_any(ALICE, HERE, WRITE, TOPIC) is allowed


def test_a_super_user_has_rights_on_any_resource() -> None:
    by = authorizer(acl(ALL, "*", who="User:*", permission=DENY), super_users=("User:alice",))
    assert by.authorize_any(ALICE, HERE, WRITE, TOPIC)


def test_where_what_nothing_names_is_open_there_is_a_right_on_any_resource() -> None:
    assert authorizer(acl(READ, "x"), allow_everyone=True).authorize_any(ALICE, HERE, WRITE, TOPIC)


def test_a_decision_looks_at_no_more_entries_than_the_name_is_long() -> None:
    """Counted, not timed: prefixes of lengths that nobody uses are not looked up, nor other principals' ACLs."""
    by = authorizer(*(acl(READ, f"{number:06}", pattern=PREFIXED, who=f"User:{number}") for number in range(5_000)))
    by.changed({UUID(int=1): (None, acl(READ, "a" * 10, pattern=PREFIXED))})
    patterns = by.acls._principals["User:alice"][TOPIC]
    assert patterns.lengths == [10]
    assert may(by, READ, "a" * 11)
    by.changed({UUID(int=1): (acl(READ, "a" * 10, pattern=PREFIXED), None)})
    assert "User:alice" not in by.acls._principals
