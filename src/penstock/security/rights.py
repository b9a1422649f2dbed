"""What each API asks of whoever calls it: one table, a row for every API that is served.

A row says what is asked before a handler runs, which is a right on the cluster, and on controllers' listeners perhaps
another one: without it the whole request is refused. And it says what the handler asks the gate for, resource by
resource as the request names them, since Kafka answers the allowed part of a request and refuses the rest: a right on
each topic, group or transactional id. A right may have an alternative that does as well: another one on the cluster, or
one on any resource of a type, whichever. An API without either is open to everybody who can connect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ErrorCode
from penstock.protocol.api import ApiKey
from penstock.security.authorizer import AclOperation, ResourceType

REFUSALS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on a resource of a kind.

    `or_on_cluster`: this operation on the cluster does as well. `or_on_any`: so does this one on any resource of this
    type, whatever its name.
    """

    operation: AclOperation
    resource: ResourceType
    or_on_cluster: AclOperation | None = None
    or_on_any: tuple[AclOperation, ResourceType] | None = None

    @property
    def refusal(self) -> ErrorCode:
        """The error of who lacks it."""
        return REFUSALS[self.resource]


@dataclass(frozen=True, slots=True)
class Row:
    """The rights that an API asks for.

    Attributes:
        first: on the cluster, asked before the handler runs; None: nothing is.
        named: asked by the handler of each resource that the request, or the answer, names.
        first_on_controllers: the same as `first` for requests on controllers' listeners.
    """

    first: Right | None
    named: tuple[Right, ...]
    first_on_controllers: Right | None


def cluster(first: Right) -> Row:
    """The cluster's right alone: who has it may do all."""
    return Row(first, (), first)


def each(*named: Right, on_controllers: Right | None = None) -> Row:
    """Rights on what the request names."""
    return Row(None, named, on_controllers)


OPEN = each()

READ_TOPIC = Right(AclOperation.READ, ResourceType.TOPIC)
WRITE_TOPIC = Right(AclOperation.WRITE, ResourceType.TOPIC)
DESCRIBE_TOPIC = Right(AclOperation.DESCRIBE, ResourceType.TOPIC)
LOOK_UP_EPOCHS = Right(AclOperation.DESCRIBE, ResourceType.TOPIC, or_on_cluster=AclOperation.CLUSTER_ACTION)
CREATE_TOPIC = Right(AclOperation.CREATE, ResourceType.TOPIC, or_on_cluster=AclOperation.CREATE)
ALTER_TOPIC = Right(AclOperation.ALTER, ResourceType.TOPIC)
DELETE_TOPIC = Right(AclOperation.DELETE, ResourceType.TOPIC, or_on_cluster=AclOperation.DELETE)
SEE_TOPIC_TO_DELETE = Right(AclOperation.DESCRIBE, ResourceType.TOPIC, or_on_cluster=AclOperation.DELETE)
DELETE_RECORDS = Right(AclOperation.DELETE, ResourceType.TOPIC)
READ_GROUP = Right(AclOperation.READ, ResourceType.GROUP)
DESCRIBE_GROUP = Right(AclOperation.DESCRIBE, ResourceType.GROUP)
LIST_GROUP = Right(AclOperation.DESCRIBE, ResourceType.GROUP, or_on_cluster=AclOperation.DESCRIBE)
DELETE_GROUP = Right(AclOperation.DELETE, ResourceType.GROUP)
WRITE_TRANSACTIONAL_ID = Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID = Right(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TOPIC_CONFIGS = Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
DESCRIBE_GROUP_CONFIGS = Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP)
DESCRIBE_CLUSTER_CONFIGS = Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
ALTER_TOPIC_CONFIGS = Right(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC)
ALTER_GROUP_CONFIGS = Right(AclOperation.ALTER_CONFIGS, ResourceType.GROUP)
ALTER_CLUSTER_CONFIGS = Right(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)
DESCRIBE_CLUSTER = Right(AclOperation.DESCRIBE, ResourceType.CLUSTER)
ALTER_CLUSTER = Right(AclOperation.ALTER, ResourceType.CLUSTER)
ACT_IN_CLUSTER = Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
END_TRANSACTIONS = Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, or_on_cluster=AclOperation.ALTER)
WRITE_IDEMPOTENTLY = Right(
    AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, or_on_any=(AclOperation.WRITE, ResourceType.TOPIC)
)
CREATE_TOKENS = Right(AclOperation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_TOKENS = Right(AclOperation.DESCRIBE_TOKENS, ResourceType.USER)
DESCRIBE_TOKEN = Right(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN)

CONFIGS_ALTERED = each(ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_CLUSTER_CONFIGS)

ROWS: Mapping[ApiKey, Row] = {
    ApiKey.PRODUCE: each(WRITE_TOPIC, WRITE_TRANSACTIONAL_ID),
    ApiKey.FETCH: each(READ_TOPIC, ACT_IN_CLUSTER, on_controllers=ACT_IN_CLUSTER),
    ApiKey.LIST_OFFSETS: each(DESCRIBE_TOPIC),
    ApiKey.METADATA: each(DESCRIBE_TOPIC, CREATE_TOPIC, DESCRIBE_CLUSTER),
    ApiKey.OFFSET_COMMIT: each(READ_GROUP, READ_TOPIC),
    ApiKey.TXN_OFFSET_COMMIT: each(WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC),
    ApiKey.OFFSET_FETCH: each(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ApiKey.FIND_COORDINATOR: each(DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID),
    ApiKey.JOIN_GROUP: each(READ_GROUP, DESCRIBE_TOPIC),
    ApiKey.HEARTBEAT: each(READ_GROUP),
    ApiKey.LEAVE_GROUP: each(READ_GROUP),
    ApiKey.SYNC_GROUP: each(READ_GROUP),
    ApiKey.DESCRIBE_GROUPS: each(DESCRIBE_GROUP),
    ApiKey.LIST_GROUPS: each(LIST_GROUP),
    ApiKey.SASL_HANDSHAKE: OPEN,
    ApiKey.SASL_AUTHENTICATE: OPEN,
    ApiKey.API_VERSIONS: OPEN,
    ApiKey.CREATE_TOPICS: each(CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS),
    ApiKey.DELETE_TOPICS: each(DELETE_TOPIC, SEE_TOPIC_TO_DELETE),
    ApiKey.DELETE_RECORDS: each(DELETE_RECORDS),
    ApiKey.INIT_PRODUCER_ID: each(WRITE_TRANSACTIONAL_ID, WRITE_IDEMPOTENTLY),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: each(LOOK_UP_EPOCHS),
    ApiKey.WRITE_TXN_MARKERS: cluster(END_TRANSACTIONS),
    ApiKey.ADD_PARTITIONS_TO_TXN: each(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, ACT_IN_CLUSTER),
    ApiKey.ADD_OFFSETS_TO_TXN: each(WRITE_TRANSACTIONAL_ID, READ_GROUP),
    ApiKey.END_TXN: each(WRITE_TRANSACTIONAL_ID),
    ApiKey.DESCRIBE_ACLS: cluster(DESCRIBE_CLUSTER),
    ApiKey.CREATE_ACLS: cluster(ALTER_CLUSTER),
    ApiKey.DELETE_ACLS: cluster(ALTER_CLUSTER),
    ApiKey.DESCRIBE_CONFIGS: each(DESCRIBE_TOPIC_CONFIGS, DESCRIBE_GROUP_CONFIGS, DESCRIBE_CLUSTER_CONFIGS),
    ApiKey.ALTER_CONFIGS: CONFIGS_ALTERED,
    ApiKey.ALTER_REPLICA_LOG_DIRS: cluster(ALTER_CLUSTER),
    ApiKey.DESCRIBE_LOG_DIRS: cluster(DESCRIBE_CLUSTER),
    ApiKey.CREATE_PARTITIONS: each(ALTER_TOPIC),
    ApiKey.CREATE_DELEGATION_TOKEN: each(CREATE_TOKENS),
    ApiKey.RENEW_DELEGATION_TOKEN: OPEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN: OPEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: each(DESCRIBE_TOKEN, DESCRIBE_TOKENS),
    ApiKey.DELETE_GROUPS: each(DELETE_GROUP),
    ApiKey.ELECT_LEADERS: cluster(ALTER_CLUSTER),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: CONFIGS_ALTERED,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster(ALTER_CLUSTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster(DESCRIBE_CLUSTER),
    ApiKey.OFFSET_DELETE: each(DELETE_GROUP, READ_TOPIC),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster(DESCRIBE_CLUSTER_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: cluster(ALTER_CLUSTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster(DESCRIBE_CLUSTER),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster(ALTER_CLUSTER),
    ApiKey.VOTE: cluster(ACT_IN_CLUSTER),
    ApiKey.BEGIN_QUORUM_EPOCH: cluster(ACT_IN_CLUSTER),
    ApiKey.END_QUORUM_EPOCH: cluster(ACT_IN_CLUSTER),
    ApiKey.DESCRIBE_QUORUM: cluster(DESCRIBE_CLUSTER),
    ApiKey.ALTER_PARTITION: cluster(ACT_IN_CLUSTER),
    ApiKey.UPDATE_FEATURES: cluster(ALTER_CLUSTER),
    ApiKey.ENVELOPE: cluster(ACT_IN_CLUSTER),
    ApiKey.FETCH_SNAPSHOT: cluster(ACT_IN_CLUSTER),
    ApiKey.DESCRIBE_CLUSTER: each(DESCRIBE_CLUSTER, on_controllers=ALTER_CLUSTER),
    ApiKey.DESCRIBE_PRODUCERS: each(READ_TOPIC),
    ApiKey.BROKER_REGISTRATION: cluster(ACT_IN_CLUSTER),
    ApiKey.BROKER_HEARTBEAT: cluster(ACT_IN_CLUSTER),
    ApiKey.UNREGISTER_BROKER: cluster(ALTER_CLUSTER),
    ApiKey.DESCRIBE_TRANSACTIONS: each(DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC),
    ApiKey.LIST_TRANSACTIONS: each(DESCRIBE_TRANSACTIONAL_ID),
    ApiKey.ALLOCATE_PRODUCER_IDS: cluster(ACT_IN_CLUSTER),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: each(READ_GROUP, DESCRIBE_TOPIC),
    ApiKey.CONSUMER_GROUP_DESCRIBE: each(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ApiKey.CONTROLLER_REGISTRATION: cluster(ACT_IN_CLUSTER),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: cluster(ACT_IN_CLUSTER),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: OPEN,
    ApiKey.PUSH_TELEMETRY: OPEN,
    ApiKey.LIST_CONFIG_RESOURCES: cluster(DESCRIBE_CLUSTER_CONFIGS),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: each(DESCRIBE_TOPIC),
    ApiKey.ADD_RAFT_VOTER: cluster(ALTER_CLUSTER),
    ApiKey.REMOVE_RAFT_VOTER: cluster(ALTER_CLUSTER),
    ApiKey.UPDATE_RAFT_VOTER: cluster(ACT_IN_CLUSTER),
    ApiKey.DESCRIBE_QUOTA_USAGE: cluster(DESCRIBE_CLUSTER_CONFIGS),
    ApiKey.DESCRIBE_TELEMETRY: cluster(DESCRIBE_CLUSTER_CONFIGS),
    ApiKey.GUARDIAN_CALL: each(DESCRIBE_CLUSTER, ALTER_CLUSTER, ACT_IN_CLUSTER),
}
