"""Principals, the operations and resources of Kafka's ACLs, and the authorizer, which decides who may do what.

The rights that each API needs are in `penstock.security.rights`; `node/gate.py` asks for them. `AllowAll` is the only
authorizer until there are ACLs. TLS is not here: the handshake goes into `server/transport.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class AclOperation(IntEnum):
    """Kafka's AclOperation codes (the wire values of DescribeAcls and of the authorized-operations bit fields)."""

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

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME = "kafka-cluster"


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity at the other end of a connection, as in Kafka's `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


class Authorizer(Protocol):
    """Decides. Called on the loop for each name of each request, so it answers from memory."""

    def authorize(self, principal: Principal, operation: AclOperation, resource: ResourceType, name: str) -> bool: ...


class AllowAll:
    """Everybody may do everything: what a cluster without an authorizer does."""

    def authorize(self, principal: Principal, operation: AclOperation, resource: ResourceType, name: str) -> bool:
        return True


ALLOW_ALL = AllowAll()
