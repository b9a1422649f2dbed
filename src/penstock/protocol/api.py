"""Kafka's APIs, and our own: their keys, names, versions, header versions and who serves them.

Our own have keys from OWN_APIS_FROM on, far from Kafka's and from those that other vendors use (from 10,000). Brokers
name them in ApiVersions only to clients that say there that their software is SOFTWARE_NAME, so Kafka's do not notice.

The table comes from the schema; what Kafka's definitions do not say is here: that Produce advertises versions 0 to 2,
which no broker serves (KAFKA-18659: librdkafka derives compression support from them), and which requests a broker
forwards to the active controller. Classes are imported when they are first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property

from penstock.errors import ProtocolError
from penstock.protocol import schema
from penstock.protocol.message import Message


class ApiKey(IntEnum):
    """Kafka's API keys, level 4.3, and our own. Keys 4 to 7 were retired with ZooKeeper."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92

    DESCRIBE_QUOTA_USAGE = 30_000
    DESCRIBE_TELEMETRY = 30_001
    GUARDIAN_CALL = 30_100


OWN_APIS_FROM = 30_000
"""The lowest key of an API of our own."""
SOFTWARE_NAME = "penstock"
"""What our clients and nodes call their software (`client_software_name`, KIP-511)."""

ADVERTISED_MIN_VERSIONS = {ApiKey.PRODUCE: 0}
"""Lowest advertised version where it is not the lowest served one."""

FORWARDED = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""Requests that a broker passes on to the active controller."""

NEVER = 1 << 15
"""A version that no message reaches."""


class Api:
    """One API: its key, versions and listeners.

    Attributes:
        key, name: `ApiKey.FETCH`, `"Fetch"`.
        min_version, max_version: the versions that exist as messages.
        stable_max_version: the highest version that is not a draft; what is advertised unless drafts are enabled.
        advertised_min_version: what ApiVersions says, which is 0 for Produce.
        flexible_from: first flexible version, or None.
        flexible_response_from: first version whose response has a flexible header; NEVER for ApiVersions, whose
            versions are not agreed yet.
        listeners: "broker", "controller" or both.
        forwarded: whether a broker passes it on to the active controller.
        own: whether it is ours, not Kafka's.
    """

    def __init__(self, request: schema.Heading) -> None:
        self.key = ApiKey(request.api_key)
        self.name = request.name.removesuffix("Request")
        self.min_version = request.versions.lowest
        self.max_version = request.versions.highest
        self.stable_max_version = self.max_version - 1 if request.unstable else self.max_version
        self.advertised_min_version = ADVERTISED_MIN_VERSIONS.get(self.key, self.min_version)
        self.flexible_from = request.flexible.lowest if request.flexible else None
        self.flexible_response_from = (
            NEVER if self.flexible_from is None or self.key is ApiKey.API_VERSIONS else self.flexible_from
        )
        self.listeners = frozenset(request.listeners)
        self.unstable = request.unstable
        self.forwarded = self.key in FORWARDED
        self.own = self.key >= OWN_APIS_FROM

    def __repr__(self) -> str:
        return f"Api({self.name}, key={int(self.key)}, versions={self.min_version}-{self.max_version})"

    @cached_property
    def request_class(self) -> type[Message]:
        return message_class(f"{self.name}Request")

    @cached_property
    def response_class(self) -> type[Message]:
        return message_class(f"{self.name}Response")

    def is_flexible(self, version: int) -> bool:
        """Whether a version has compact lengths and tagged fields."""
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        return 1 if version >= self.flexible_response_from else 0


def message_class(name: str) -> type[Message]:
    """Imports and returns the class of a message by Kafka's name (`FetchRequest`)."""
    heading = schema.headings()[name]
    found: type[Message] = getattr(importlib.import_module(heading.module), name)
    return found


APIS: Mapping[ApiKey, Api] = {
    api.key: api
    for api in sorted((Api(h) for h in schema.headings().values() if h.kind == "request"), key=lambda api: api.key)
}
"""Every API, by key, in the order of the keys."""

API_BY_NUMBER: Mapping[int, Api] = {int(key): api for key, api in APIS.items()}

FLEXIBLE_FROM: Mapping[int, int] = {
    number: NEVER if api.flexible_from is None else api.flexible_from for number, api in API_BY_NUMBER.items()
}
"""The first version of each API whose requests are flexible."""


def api_of(number: int) -> Api:
    """The API with this key as it came over the wire. Raises ProtocolError for a key that neither Kafka nor we have."""
    api = API_BY_NUMBER.get(number)
    if api is None:
        raise ProtocolError(f"there is no API with key {number}")
    return api


def request_header_version(key: ApiKey, version: int) -> int:
    return APIS[key].request_header_version(version)


def response_header_version(key: ApiKey, version: int) -> int:
    return APIS[key].response_header_version(version)
