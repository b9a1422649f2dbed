"""One file an API family; each handler is a plain function from a request to an outcome (`penstock.node.request`).

A family's module ends with `HANDLERS`, a tuple of `Handler` rows; `FAMILIES` names the modules. From these rows come
what ApiVersions advertises, the authorization table and the dispatch: an API that is not here does not exist to
clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from penstock.node.request import Handler
from penstock.protocol.api import ApiKey

FAMILIES = (
    "allocate_producer_ids",
    "alter_configs",
    "alter_partition",
    "alter_replica_log_dirs",
    "api_versions",
    "assign_replicas_to_dirs",
    "broker_heartbeat",
    "broker_registration",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "controller_registration",
    "create_partitions",
    "create_topics",
    "delete_groups",
    "delete_records",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_groups",
    "describe_log_dirs",
    "describe_topic_partitions",
    "elect_leaders",
    "envelope",
    "fetch",
    "find_coordinator",
    "heartbeat",
    "init_producer_id",
    "join_group",
    "leave_group",
    "list_config_resources",
    "list_groups",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "partition_reassignments",
    "produce",
    "quorum",
    "raft",
    "raft_voters",
    "sync_group",
    "unregister_broker",
    "update_features",
)


@cache
def registry() -> Mapping[ApiKey, Handler]:
    """Every API that this node serves, in the order of their keys."""
    rows: dict[ApiKey, Handler] = {}
    for family in FAMILIES:
        for handler in import_module(f"{__name__}.{family}").HANDLERS:
            assert handler.key not in rows, f"{handler.key.name} has two handlers"
            rows[handler.key] = handler
    return dict(sorted(rows.items()))
