"""What several handlers ask of the authorizer: names that may be seen, and the bit fields of allowed operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.node.request import Request
from penstock.security.authorizer import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

OPERATIONS = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that make sense on a resource: those that the bit fields of KIP-430 tell about."""


def allowed(
    node: Broker, request: Request[Any], operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME
) -> bool:
    """Whether who asks may do this."""
    return node.authorizer.authorize(request.principal, operation, resource, name)


def authorized_operations(node: Broker, request: Request[Any], resource: ResourceType, name: str = CLUSTER_NAME) -> int:
    """The bit field of what who asks may do with a resource: bit n stands for the operation with code n."""
    return sum(
        1 << operation for operation in OPERATIONS[resource] if allowed(node, request, operation, resource, name)
    )
