"""The samples of a node, gathered when somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.node.metrics import COUNTER, GAUGE, Sample, request_samples

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def samples_of(node: Broker) -> Iterator[Sample]:
    """All samples of a node; those of one name follow each other."""
    yield from node.topic_metrics.samples()
    yield from request_samples(node.request_counters.values())
    yield from replica_samples(node)
    sessions = node.fetch_sessions
    name = "kafka_server_fetchsessioncache"
    yield Sample(f"{name}_numincrementalfetchsessions", GAUGE, "Incremental fetch sessions.", len(sessions))
    text = "Partitions of all incremental fetch sessions."
    yield Sample(f"{name}_numincrementalfetchpartitionscached", GAUGE, text, sessions.partition_count)
    text = "Fetch sessions that made room for others."
    yield Sample(f"{name}_incrementalfetchsessionevictions_total", COUNTER, text, sessions.evictions)
    count = sum(1 for number in node.connections if number > 0)
    yield Sample("kafka_server_socketservermetrics_connection_count", GAUGE, "Connections.", count)
    text = "Requests that wait for an event."
    yield Sample("penstock_node_parked_requests", GAUGE, text, len(node.purgatory) + len(node.parked_fetches))
    text = "Reads that were not in memory and went to a lane."
    yield Sample("penstock_node_cold_reads_total", COUNTER, text, node.cold_reads)
    yield Sample("penstock_node_bugs_total", COUNTER, "Errors that should never happen; see the log.", node.bugs)


def replica_samples(node: Broker) -> Iterator[Sample]:
    """Gauges of the metadata and of the replicas."""
    image = node.image
    active = 1 if node.controller.active else 0
    yield Sample("kafka_controller_kafkacontroller_activecontrollercount", GAUGE, "1 on the active controller.", active)
    name = "kafka_controller_kafkacontroller_globaltopiccount"
    yield Sample(name, GAUGE, "Topics of the cluster.", len(image.topics_by_name))
    name = "kafka_controller_kafkacontroller_globalpartitioncount"
    yield Sample(name, GAUGE, "Partitions of the cluster.", image.partition_count)
    name = "kafka_server_replicamanager_partitioncount"
    count = sum(len(replicas) for replicas in node.logs.describe().values())
    yield Sample(name, GAUGE, "Replicas on this broker.", count)
    text = "Led partitions that something has used since the start."
    yield Sample("penstock_replication_partitions_in_use", GAUGE, text, len(node.replicas))
    name = "kafka_log_logmanager_offlinelogdirectorycount"
    offline = sum(1 for directory in node.directories if directory.error is not None)
    yield Sample(name, GAUGE, "Log directories that have failed.", offline)
    own = image.brokers.get(node.node_id)
    state = 3 if node.ready else 2 if own is not None else 1
    yield Sample("kafka_server_kafkaserver_brokerstate", GAUGE, "1 starting, 2 recovering, 3 running.", state)
