"""The sets of ACLs that the probes are asked with."""

from __future__ import annotations

from penstock.protocol.acls import CLUSTER_NAME, Acl, AclOperation, PatternType, PermissionType, ResourceType
from support.decisions.probe import TOPICS


def acl(
    resource: ResourceType,
    name: str,
    operation: AclOperation,
    permission: PermissionType = PermissionType.ALLOW,
    *,
    prefixed: bool = False,
) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(resource, name, pattern, "User:ANONYMOUS", "*", operation, permission)


GROUPS = ("g", "gone")
OPERATIONS = {
    ResourceType.TOPIC: (
        "READ",
        "WRITE",
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "ALL",
    ),
    ResourceType.GROUP: ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"),
    ResourceType.CLUSTER: (
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
        "ALL",
    ),
    ResourceType.TRANSACTIONAL_ID: ("DESCRIBE", "WRITE", "ALL"),
}
RESOURCES = {
    ResourceType.TOPIC: (*TOPICS, "auto"),
    ResourceType.GROUP: GROUPS,
    ResourceType.CLUSTER: (CLUSTER_NAME,),
    ResourceType.TRANSACTIONAL_ID: ("x",),
}


PREFIXED, ANY = ", prefixed", " *"
"""How sets are called whose ACLs are of prefixes, or of all resources of the type. A cluster has one name only."""
EVERY_PATTERN = " in every pattern"
"""How the record calls a literal set and these two, where all three are answered alike."""


def literal(resource: ResourceType, operation: str, permission: PermissionType = PermissionType.ALLOW) -> list[Acl]:
    """ACLs of each resource of a type; those of topics that are yet to be created are of their first characters."""
    return [
        acl(resource, name, AclOperation[operation], permission, prefixed=name == "auto")
        for name in RESOURCES[resource]
    ]


def prefixed(resource: ResourceType, operation: str) -> list[Acl]:
    """ACLs of all whose names begin as those of a type do."""
    starts = dict.fromkeys(name[:1] for name in RESOURCES[resource])
    return [acl(resource, start, AclOperation[operation], prefixed=True) for start in starts]


def everything() -> list[Acl]:
    return [
        acl(resource, CLUSTER_NAME if resource is ResourceType.CLUSTER else "*", AclOperation.ALL)
        for resource in RESOURCES
    ]


def principals() -> dict[str, list[Acl]]:
    """The sets of ACLs by their names."""
    topic, group, deny = ResourceType.TOPIC, ResourceType.GROUP, PermissionType.DENY
    found: dict[str, list[Acl]] = {"nothing": []}
    for resource, operations in OPERATIONS.items():
        for operation in operations:
            found[f"{operation} {resource.name}"] = literal(resource, operation)
            if resource is not ResourceType.CLUSTER:
                found[f"{operation} {resource.name}{PREFIXED}"] = prefixed(resource, operation)
                found[f"{operation} {resource.name}{ANY}"] = [acl(resource, "*", AclOperation[operation])]
    found["READ TOPIC t..."] = [acl(topic, "t", AclOperation.READ, prefixed=True)]
    found["a consumer"] = [*literal(topic, "READ"), *literal(group, "READ")]
    found["a consumer of t alone"] = [acl(topic, "t", AclOperation.READ), *literal(group, "READ")]
    found["a transactional producer"] = [
        *literal(topic, "WRITE"),
        *literal(ResourceType.TRANSACTIONAL_ID, "WRITE"),
        *literal(group, "READ"),
        *literal(topic, "READ"),
    ]
    found["DESCRIBE and CREATE TOPIC"] = [*literal(topic, "DESCRIBE"), *literal(topic, "CREATE")]
    found["DESCRIBE TOPIC, CREATE CLUSTER"] = [*literal(topic, "DESCRIBE"), *literal(ResourceType.CLUSTER, "CREATE")]
    found["everything"] = everything()
    found["everything, but READ of t denied"] = [*everything(), acl(topic, "t", AclOperation.READ, deny)]
    found["everything, but DESCRIBE of t denied"] = [*everything(), acl(topic, "t", AclOperation.DESCRIBE, deny)]
    found["everything, but ALL of t... denied"] = [
        *everything(),
        acl(topic, "t", AclOperation.ALL, deny, prefixed=True),
    ]
    found["everything, but ALL of * denied"] = [*everything(), acl(topic, "*", AclOperation.ALL, deny)]
    found["everything, but ALL of the cluster denied"] = [*everything(), *literal(ResourceType.CLUSTER, "ALL", deny)]
    return found


def folded(names: list[str]) -> list[str]:
    """Names of sets for the record: one for the three patterns where all are there."""
    whole = {name for name in names if {name + PREFIXED, name + ANY} <= set(names)}
    found = []
    for name in names:
        if name in whole:
            found.append(name + EVERY_PATTERN)
        elif not {name.removesuffix(PREFIXED), name.removesuffix(ANY)} & whole:
            found.append(name)
    return found


def unfolded(names: list[str]) -> list[str]:
    """What `folded` was made of."""
    found = []
    for name in names:
        literal_name = name.removesuffix(EVERY_PATTERN)
        found += [name] if literal_name == name else [literal_name, literal_name + PREFIXED, literal_name + ANY]
    return found
