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
    outgoing = node.outgoing
    yield Sample("penstock_node_calls_total", COUNTER, "Requests to nodes, this one included.", outgoing.calls)
    yield Sample("penstock_node_calls_failed_total", COUNTER, "Those that had no answer.", outgoing.failed)
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
    yield from replication_samples(node)
    own = image.brokers.get(node.node_id)
    state = 3 if node.ready else 2 if own is not None else 1
    yield Sample("kafka_server_kafkaserver_brokerstate", GAUGE, "1 starting, 2 recovering, 3 running.", state)


def replication_samples(node: Broker) -> Iterator[Sample]:
    """What operators watch of the in-sync replicas of the partitions that this broker leads."""
    leaders = under_replicated = under_min_isr = at_min_isr = 0
    for topic in node.image.topics_by_name.values():
        min_insync_replicas: int | None = None
        for partition in topic.partitions:
            if partition.leader != node.node_id:
                continue
            if min_insync_replicas is None:
                min_insync_replicas = node.topic_config(topic.name).min_insync_replicas
            leaders += 1
            least = min(min_insync_replicas, len(partition.replicas))
            under_replicated += len(partition.isr) < len(partition.replicas) - len(partition.adding_replicas)
            under_min_isr += len(partition.isr) < least
            at_min_isr += len(partition.isr) == least
    name = "kafka_server_replicamanager"
    yield Sample(f"{name}_leadercount", GAUGE, "Partitions that this broker leads.", leaders)
    text = "Led partitions with replicas that are not in sync."
    yield Sample(f"{name}_underreplicatedpartitions", GAUGE, text, under_replicated)
    text = "Led partitions with fewer in-sync replicas than min.insync.replicas."
    yield Sample(f"{name}_underminisrpartitioncount", GAUGE, text, under_min_isr)
    text = "Led partitions with exactly min.insync.replicas in-sync replicas."
    yield Sample(f"{name}_atminisrpartitioncount", GAUGE, text, at_min_isr)
    replicas = node.replicas
    text = "Changes by which replicas left the in-sync replicas."
    yield Sample(f"{name}_isrshrinks_total", COUNTER, text, replicas.isr_shrinks)
    text = "Changes by which replicas joined the in-sync replicas."
    yield Sample(f"{name}_isrexpands_total", COUNTER, text, replicas.isr_expands)
    text = "Changes of in-sync replicas that the controller did not make."
    yield Sample(f"{name}_failedisrupdates_total", COUNTER, text, node.isr_changes.failures)
    text = "Bytes that followers here have fetched from their leaders."
    yield Sample("kafka_server_brokertopicmetrics_replicationbytesin_total", COUNTER, text, node.followers.bytes_in)
    lag = max((follower.lag or 0 for follower in replicas.following()), default=0)
    yield Sample("kafka_server_replicafetchermanager_maxlag", GAUGE, "Greatest lag of a follower, in records.", lag)
