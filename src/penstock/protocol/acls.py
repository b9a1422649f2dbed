"""ACLs as Kafka's messages and records speak of them: the codes, one access control entry, and filters of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class AclOperation(IntEnum):
    """Kafka's AclOperation codes (the wire values of DescribeAcls and of the authorized-operations bit fields)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """Kafka's ResourceType codes."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Kafka's PatternType codes (KIP-290). ANY and MATCH stand in filters only; MATCH finds what applies to a name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Kafka's AclPermissionType codes."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The one resource of type CLUSTER."""
WILDCARD = "*"
"""As the name of a literal pattern: every resource. As a host: every host."""
EVERYBODY = "User:*"
"""The principal of an ACL that is meant for all."""


class Acl(NamedTuple):
    """One access control entry. In the order of its fields, those of one resource stand together.

    Attributes:
        resource_type, pattern_type, operation, permission: the codes above, none of them UNKNOWN, ANY or MATCH.
        name: of the resource, or its first characters, by the pattern type.
        principal: `User:alice`, or EVERYBODY. host: an address as Java writes it, or WILDCARD.
    """

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


def unknown_code(acl: Acl) -> str | None:
    """Which field of an ACL has a code that no ACL can have, as a word for people; None if all are in order."""
    if not ResourceType.TOPIC <= acl.resource_type <= ResourceType.USER:
        return "resource type"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return "pattern type"
    if not AclOperation.ALL <= acl.operation <= AclOperation.TWO_PHASE_COMMIT:
        return "operation"
    return None if acl.permission in (PermissionType.DENY, PermissionType.ALLOW) else "permission type"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which ACLs are meant. A `name`, `principal` or `host` of None, and the code ANY, stand for all.

    With the pattern type MATCH, `name` is that of a resource, and all ACLs that apply to it match.
    """

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = PermissionType.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (PermissionType.ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.pattern_type in (PatternType.ANY, PatternType.MATCH, acl.pattern_type)
            and (self.name is None or self._is_named(acl, self.name))
        )

    def _is_named(self, acl: Acl, name: str) -> bool:
        if self.pattern_type != PatternType.MATCH:
            return acl.name == name
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.name)
        return acl.name in (name, WILDCARD)
