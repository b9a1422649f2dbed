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


def literal(resource: ResourceType, operation: str, permission: PermissionType = PermissionType.ALLOW) -> list[Acl]:
    """ACLs of each resource of a type; those of topics that are yet to be created are of their first characters."""
    return [
        acl(resource, name, AclOperation[operation], permission, prefixed=name == "auto")
        for name in RESOURCES[resource]
    ]


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
    found["READ TOPIC t..."] = [acl(topic, "t", AclOperation.READ, prefixed=True)]
    found["WRITE TOPIC *"] = [acl(topic, "*", AclOperation.WRITE)]
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
