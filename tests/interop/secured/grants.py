"""The table of a secured run: what an ordinary user needs for each module of tests, and what cannot run as one.

`GRANTS` are rights by module and resource: `topic:clicks` is that topic, `topic:clicks-*` all whose names begin so,
`topic:*` every one. They are what the tests need and no more, as far as the names go (the plugin looks).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.protocol.acls import CLUSTER_NAME, Acl, AclOperation, PatternType, PermissionType, ResourceType

Grants = Mapping[str, str]

OF_KAFKA = "kafka"
"""The parameter of tests that go to Apache Kafka instead: whether its brokers are secured is no matter of ours, and
security/test_our_client_on_kafka.py has our client at one that is."""

EVERYTHING: Grants = {
    "topic:*": "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    "group:*": "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    "transactional_id:*": "WRITE DESCRIBE",
    "cluster": "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
}

GRANTS: dict[str, Grants] = {
    "clients/test_matrix.py": {
        "topic:matrix-*": "READ WRITE",
        "topic:large-*": "READ WRITE",
        "topic:times-*": "READ WRITE",
        "group:unused": "DESCRIBE",
    },
    "clients/test_restart.py": {"topic:*": "DELETE DESCRIBE_CONFIGS"},
    "client/test_against_brokers.py": {
        "topic:*": "CREATE DELETE ALTER READ WRITE ALTER_CONFIGS",
        "cluster": "ALTER_CONFIGS DESCRIBE",
    },
    "client/test_groups.py": {
        "topic:topic-*": "CREATE READ WRITE",
        "topic:no-such-topic": "READ",
        "group:*": "READ DELETE ALTER_CONFIGS",
    },
    "client/test_transactions.py": {
        "topic:*": "CREATE READ WRITE",
        "transactional_id:*": "WRITE",
        "cluster": "ALTER ALTER_CONFIGS",
    },
    "groups/test_rebalances.py": {"topic:*": "CREATE READ WRITE ALTER", "group:*": "READ"},
    "groups/test_mixed.py": {"topic:*": "CREATE READ WRITE", "group:*": "READ"},
    "groups/test_kcat.py": {"topic:kcat-*": "CREATE READ WRITE", "group:kcat-*": "READ"},
    "groups/test_offsets_in_transactions.py": {
        "topic:*": "CREATE READ WRITE",
        "group:copying-*": "READ",
        "transactional_id:copier-*": "WRITE",
    },
    "transactions/test_clients.py": {"topic:*": "CREATE READ WRITE", "group:*": "READ", "transactional_id:*": "WRITE"},
    "transactions/test_crowds.py": {
        "topic:*": "CREATE READ WRITE",
        "transactional_id:*": "WRITE",
        "cluster": "ALTER ALTER_CONFIGS",
    },
    "transactions/test_hanging.py": {
        "topic:*": "READ WRITE",
        "group:*": "READ",
        "transactional_id:*": "WRITE",
        "cluster": "ALTER",
    },
    "coordinator/test_consumer_protocol_clients.py": {"topic:*": "READ WRITE", "group:*": "READ"},
    "node/test_transactions_of_clients.py": {
        "topic:orders": "READ WRITE",
        "transactional_id:rd": "WRITE",
        "transactional_id:py": "WRITE",
        "group:g": "READ",
    },
    "server/test_python_clients.py": {"topic:*": "CREATE READ WRITE"},
    "tools/test_kafka_tools.py": {
        "topic:*": "CREATE DELETE ALTER READ WRITE ALTER_CONFIGS",
        "cluster": "ALTER_CONFIGS DESCRIBE",
    },
    "tools/test_group_tools.py": {
        "topic:*": "CREATE READ WRITE DELETE",
        "group:*": "READ DELETE ALTER_CONFIGS",
        "cluster": "DESCRIBE DESCRIBE_CONFIGS",
    },
    "sql/test_topics.py": {"topic:*": "READ WRITE"},
    "bad_input/test_bombs.py": {"topic:*": "READ WRITE", "group:unused": "DESCRIBE"},
    "clients/test_every_version.py": {
        "topic:*": "READ WRITE DELETE ALTER ALTER_CONFIGS DESCRIBE_CONFIGS",
        "group:*": "READ DELETE ALTER_CONFIGS",
        "transactional_id:*": "WRITE",
        "cluster": "ALTER CLUSTER_ACTION CREATE DESCRIBE_CONFIGS",
    },
    "clients/test_other_languages.py": {
        "topic:*": "CREATE READ WRITE DELETE ALTER_CONFIGS",
        "group:unused": "DESCRIBE",
        "transactional_id:penstock": "WRITE",
    },
    "groups/test_moving_coordinators.py": {"topic:*": "CREATE READ", "group:*": "READ DELETE", "cluster": "ALTER"},
    "node/test_data_path_beside_kafka.py": {
        "topic:*": "CREATE READ WRITE DELETE",
        "transactional_id:*": "WRITE",
        "cluster": "CLUSTER_ACTION DESCRIBE",
    },
    "server/test_group_fsync.py": {"topic:*": "CREATE READ WRITE ALTER_CONFIGS", "group:*": "READ"},
    "transactions/test_followers.py": {
        "topic:*": "CREATE READ WRITE",
        "transactional_id:*": "WRITE",
        "group:*": "READ",
    },
    "transactions/test_streams.py": {"topic:*": "CREATE READ WRITE", "group:*": "READ", "transactional_id:*": "WRITE"},
    "transactions/test_tools.py": {
        "topic:*": "CREATE READ WRITE",
        "transactional_id:*": "WRITE",
        "cluster": "ALTER ALTER_CONFIGS",
    },
    "node/test_read_committed_beside_kafka.py": {
        "topic:*": "CREATE READ WRITE",
        "transactional_id:*": "WRITE",
        "cluster": "ALTER",
    },
    "server/test_clock_is_set.py": {"topic:*": "READ WRITE", "group:*": "READ"},
    "tools/test_cluster_tools.py": {
        "topic:*": "CREATE READ WRITE ALTER_CONFIGS",
        "cluster": "ALTER DESCRIBE ALTER_CONFIGS",
    },
    "tools/test_three_penstock_nodes.py": {
        "topic:*": "CREATE ALTER READ WRITE ALTER_CONFIGS",
        "cluster": "ALTER DESCRIBE",
    },
    "transactions/test_bad_requests.py": {
        "topic:*": "CREATE READ WRITE DELETE",
        "group:*": "READ DELETE",
        "transactional_id:*": "WRITE",
        "cluster": "ALTER CLUSTER_ACTION",
    },
}

UNTRIED = (
    "log/test_cleaned_while_used.py",
    "server/test_cleaned_on_a_small_disk.py",
    "server/test_full_disk.py",
    "tools/test_moving_replicas.py",
    "tools/test_three_kafka_nodes.py",
)
"""Modules with clients whose rows are still to be written."""
EXCUSED: dict[str, str] = {
    "bad_input/test_differential.py": "thousands of bad requests, byte by byte; the table of decisions is about rights",
    **dict.fromkeys(UNTRIED, "nobody has found out yet what rights it needs"),
    "clients/test_tls.py": "its listeners are secured ones of its own",
    "log/test_log_compaction_tester.py": "Kafka's LogCompactionTester takes no client properties",
    "transactions/test_copier.py": "Kafka's TransactionalMessageCopier takes no client properties",
    "client_metrics/": "the table of decisions has who may push, and change and see subscriptions",
    "node/test_telemetry.py": "its clients are counted as who they are",
    "quotas/": "its clients are counted as who they are: one of its tests has users with SASL",
    "metadata/test_client_quotas_beside_kafka.py": "the table of decisions has who may set quotas",
    "tools/test_quota_tools.py": "the table of decisions has who may set quotas",
    "security/": "its listeners are secured ones of its own",
    "server/test_first_answer.py": "about the port of a broker that is not there yet",
    "server/test_isolation_seen.py": "about the log and the metrics of a node, without a client",
    "server/test_local_broker.py": "about the harness itself",
    "spark/": "clients in processes of Spark, which take options: test_spark_on_a_secured_cluster.py has them",
    "guardian/": "Guardian logs in by its own settings, which unit and e2e tests are about",
    "tools/test_guardian_plan.py": "a plan is a file; what moves replicas is tools/test_moving_replicas.py",
    "tools/test_guardian_sees.py": "Guardian logs in by its own settings, which unit and e2e tests are about",
    "tools/test_guardian_warns.py": "Guardian logs in by its own settings, which unit and e2e tests are about",
    "tools/test_masks.py": "about the harness itself",
    "tools/test_voters.py": "about controllers, whose listener is theirs",
    "groups/test_without_the_topic.py": "byte by byte, without a client, and about brokers that nobody has asked yet",
}
"""Modules, or directories with / at the end, that cannot run so, and why."""

EXCUSED_TESTS: dict[tuple[str, str], str] = {
    ("clients/test_restart.py", "without_loss"): "its broker is penstock dev; e2e has its `--secure`",
    ("clients/test_every_version.py", "_ACLS-"): "expects what a broker without an authorizer answers",
}
"""Tests by module and part of their names, and why they cannot run so."""

SAMPLE = (
    "node/test_transactions_of_clients.py",
    "groups/test_kcat.py",
)
"""What a change is tried with; `make test-secured` runs all."""


def acls_of(principal: str, grants: Grants) -> list[Acl]:
    """Grants as ACLs of somebody."""
    found = []
    for resource, operations in grants.items():
        kind, _, name = resource.partition(":")
        pattern = PatternType.LITERAL
        if kind == "cluster":
            name = CLUSTER_NAME
        elif name.endswith("*") and name != "*":
            name, pattern = name.removesuffix("*"), PatternType.PREFIXED
        for operation in operations.split():
            right = AclOperation[operation], PermissionType.ALLOW
            found.append(Acl(ResourceType[kind.upper()], name, pattern, principal, "*", *right))
    return found


def grants_of(module: str) -> Grants:
    """What a module is granted in this run. In the environment, SECURED_EVERYTHING grants all there is, to learn what a
    module uses; SECURED_WITHOUT leaves an operation out, to see that it counts.
    """
    if os.environ.get("SECURED_EVERYTHING"):
        return EVERYTHING
    lacking = os.environ.get("SECURED_WITHOUT")
    return {
        resource: " ".join(each for each in operations.split() if each != lacking)
        for resource, operations in GRANTS.get(module, {}).items()
    }


def rights_in(grants: Grants) -> set[tuple[AclOperation, ResourceType]]:
    """The operations that are granted, by kind of resource."""
    return {(AclOperation(acl.operation), ResourceType(acl.resource_type)) for acl in acls_of("", grants)}


def excuse_of(module: str) -> str | None:
    """Why a module below tests/interop cannot run, or None."""
    directories = [f"{each.as_posix()}/" for each in Path(module).parents]
    return next((EXCUSED[each] for each in (module, *directories) if each in EXCUSED), None)
