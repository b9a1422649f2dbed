"""ACLs of any Kafka cluster: list, create and delete them (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.client.admin import refused
from penstock.protocol.acls import Acl, AclFilter, AclOperation, PatternType, ResourceType

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.protocol.messages.create_acls_request import AclCreation
    from penstock.protocol.messages.delete_acls_request import DeleteAclsFilter


def acl_words(acl: Acl) -> str:
    """An ACL in a few words, for a sentence."""
    return f"ACL of {acl.principal} on {ResourceType(acl.resource_type).name}:{acl.name}"


async def list_acls(client: Client, wanted: AclFilter) -> list[Acl]:
    """The ACLs that a filter means, in order. Raises RequestError: SECURITY_DISABLED where there is no authorizer."""
    from penstock.protocol.messages.describe_acls_request import DescribeAclsRequest

    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer = await client.send(request)
    refused(answer.error_code, answer.error_message, "ACLs")
    return sorted(
        Acl(of.resource_type, of.resource_name, of.pattern_type, *entry)
        for of in answer.resources
        for entry in ((acl.principal, acl.host, acl.operation, acl.permission_type) for acl in of.acls)
    )


def creation_of(acl: Acl) -> AclCreation:
    """An ACL as CreateAcls has it."""
    from penstock.protocol.messages.create_acls_request import AclCreation

    return AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def filter_of(wanted: AclFilter) -> DeleteAclsFilter:
    """A filter as DeleteAcls has it."""
    from penstock.protocol.messages.delete_acls_request import DeleteAclsFilter

    return DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


async def create_acls(client: Client, acls: Sequence[Acl]) -> None:
    """Creates ACLs; those that exist stay as they are. Raises RequestError for the first that cannot be created; the
    others are.
    """
    from penstock.protocol.messages.create_acls_request import CreateAclsRequest

    answer = await client.send(CreateAclsRequest(creations=[creation_of(acl) for acl in acls]))
    for acl, result in zip(acls, answer.results, strict=True):
        refused(result.error_code, result.error_message, acl_words(acl))


async def delete_acls(client: Client, filters: Sequence[AclFilter]) -> list[Acl]:
    """Deletes the ACLs that filters mean; returns them, each once. Raises RequestError."""
    from penstock.protocol.messages.delete_acls_request import DeleteAclsRequest

    answer = await client.send(DeleteAclsRequest(filters=[filter_of(each) for each in filters]))
    gone: dict[Acl, None] = {}
    for result in answer.filter_results:
        refused(result.error_code, result.error_message, "ACLs")
        for each in result.matching_acls:
            refused(each.error_code, each.error_message, "ACLs")
            entry = (each.principal, each.host, each.operation, each.permission_type)
            gone[Acl(each.resource_type, each.resource_name, each.pattern_type, *entry)] = None
    return sorted(gone)


def producer_rights(*, transactional: bool = False) -> dict[ResourceType, tuple[AclOperation, ...]]:
    """What a producer needs, by type of resource, as kafka-acls --producer grants it."""
    rights: dict[ResourceType, tuple[AclOperation, ...]] = {}
    rights[ResourceType.TOPIC] = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
    if transactional:
        rights[ResourceType.TRANSACTIONAL_ID] = (AclOperation.WRITE, AclOperation.DESCRIBE)
    return rights


CONSUMER_RIGHTS = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    ResourceType.GROUP: (AclOperation.READ,),
}
"""What a consumer in a group needs, as kafka-acls --consumer grants it."""
IDEMPOTENT_RIGHTS = {ResourceType.CLUSTER: (AclOperation.IDEMPOTENT_WRITE,)}
"""What kafka-acls --idempotent grants besides. Since Kafka 2.8 WRITE on any topic does as well."""
PATTERNS = {"literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED}
FILTER_PATTERNS = {**PATTERNS, "any": PatternType.ANY, "match": PatternType.MATCH}
