"""The samples of a node, collected on demand.

With very many partitions that is long work, so it is done in steps: None is yielded between samples to end a step. The
node may change from one `next` to the next, so anything that may change is copied before it is iterated over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from penstock.metadata.image import NO_LEADER
from penstock.node.limits import (
    METRICS_GROUP_OFFSETS_MAX,
    METRICS_PARTITIONS_MAX,
    METRICS_PARTITIONS_PER_STEP,
    METRICS_REASON_CHARACTERS_MAX,
    METRICS_UNCLEANABLE_LOGS_MAX,
)
from penstock.node.metrics import COUNTER, GAUGE, Sample

if TYPE_CHECKING:
    from penstock.coordinator.group.machine import GroupMachine
    from penstock.coordinator.runtime.runtime import Runtime
    from penstock.log.log import Log
    from penstock.log.manager import LogManager
    from penstock.log.replica import Replica
    from penstock.metadata.image import MetadataImage, PartitionRegistration
    from penstock.node.outgoing import Outgoing
    from penstock.node.quorum import Quorum
    from penstock.node.replication import Replication
    from penstock.node.state import NodeState
    from penstock.replication.fetch_session import SessionCache
    from penstock.replication.replicas import Replicas

Steps = Iterator[Sample | None]


def partitions_in_steps(image: MetadataImage) -> Iterator[tuple[str, Sequence[PartitionRegistration], bool]]:
    """The partitions of an image, a topic or a part of a large one at a time, and whether a step ends there."""
    size, looked_at = METRICS_PARTITIONS_PER_STEP, 0
    for topic in image.topics_by_name.values():
        for start in range(0, len(topic.partitions), size):
            partitions = topic.partitions[start : start + size]
            looked_at += len(partitions)
            yield topic.name, partitions, looked_at >= size
            if looked_at >= size:
                looked_at = 0


def metadata_samples(state: NodeState, *, is_controller: bool, unclean_elections: int) -> Steps:
    """The cluster according to the metadata; partition leadership only on controllers."""
    image = state.image
    name = "kafka_controller_kafkacontroller"
    active = 1 if is_controller else 0
    yield Sample(f"{name}_activecontrollercount", GAUGE, "1 on the active controller.", active)
    yield Sample(f"{name}_globaltopiccount", GAUGE, "Topics of the cluster.", len(image.topics_by_name))
    yield Sample(f"{name}_globalpartitioncount", GAUGE, "Partitions of the cluster.", image.partition_count)
    fenced = sum(broker.fenced for broker in image.brokers.values())
    yield Sample(f"{name}_fencedbrokercount", GAUGE, "Brokers that are registered and fenced.", fenced)
    text = "Brokers that are registered and not fenced."
    yield Sample(f"{name}_activebrokercount", GAUGE, text, len(image.brokers) - fenced)
    if state.settings.is_controller:
        offline = imbalanced = 0
        for _, partitions, step_ends in partitions_in_steps(image):
            for partition in partitions:
                offline += partition.leader == NO_LEADER
                imbalanced += partition.leader != partition.replicas[0]
            if step_ends:
                yield None
        yield Sample(f"{name}_offlinepartitionscount", GAUGE, "Partitions without a leader.", offline)
        text = "Partitions that another than their first replica leads."
        yield Sample(f"{name}_preferredreplicaimbalancecount", GAUGE, text, imbalanced)
        name = "kafka_controller_controllerstats_uncleanleaderelections_total"
        text = "Leaders that were elected without being in sync, seen as the active controller."
        yield Sample(name, COUNTER, text, unclean_elections)


def replica_samples(state: NodeState, replication: Replication) -> Steps:
    """Gauges of the replicas of this broker."""
    name = "kafka_server_replicamanager_partitioncount"
    count = sum(len(replicas) for replicas in replication.logs.describe().values())
    yield Sample(name, GAUGE, "Replicas on this broker.", count)
    text = "Led partitions that something has used since the start."
    yield Sample("penstock_replication_partitions_in_use", GAUGE, text, len(replication.replicas))
    name = "kafka_log_logmanager_offlinelogdirectorycount"
    offline = sum(1 for directory in replication.logs.table.directories if directory.error is not None)
    yield Sample(name, GAUGE, "Log directories that have failed.", offline)
    directories = replication.logs.table.directories
    for each in directories:
        labels = {"logDirectory": each.path}
        name = "kafka_log_logmanager_logdirectoryoffline"
        yield Sample(name, GAUGE, "1: the log directory is offline.", int(each.error is not None), labels)
    text = "Logs that are still to be recovered after an unclean stop."
    for each in directories:
        labels = {"dir": each.path}
        yield Sample("kafka_log_logmanager_remaininglogstorecover", GAUGE, text, each.recovery.logs_left, labels)
    text = "Segments that are still to be scanned, of the logs that are being recovered now."
    for each in directories:
        name, labels = "kafka_log_logmanager_remainingsegmentstorecover", {"dir": each.path}
        yield Sample(name, GAUGE, text, each.recovery.segments_left, labels)
    yield from space_samples(replication.logs)
    yield from in_sync_samples(state, replication)
    broker_state = 3 if state.ready else 2 if state.own_registration is not None else 1
    yield Sample("kafka_server_kafkaserver_brokerstate", GAUGE, "1 starting, 2 recovering, 3 running.", broker_state)


def space_samples(logs: LogManager) -> Steps:
    """The room in the log directories when somebody looked last; asks for a new look."""
    online = [
        ({"directory": str(directory.index), "path": directory.path}, directory.space)
        for directory in logs.table.online
    ]
    text = "Free bytes of a log directory's file system at the last look."
    for labels, space in online:
        yield Sample("penstock_log_directory_free_bytes", GAUGE, text, space.free_bytes, labels)
    text = "Bytes that are kept free of records there."
    for labels, space in online:
        yield Sample("penstock_log_directory_reserve_bytes", GAUGE, text, space.reserve_bytes, labels)
    for labels, space in online:
        yield Sample("penstock_log_directory_full", GAUGE, "1: takes no records.", int(space.full), labels)
    text = "Bytes of records written to a log directory a second, lately."
    for labels, space in online:
        yield Sample("penstock_log_directory_write_rate_bytes", GAUGE, text, round(space.write_rate), labels)
    logs.spaces.look_soon()


def in_sync_samples(state: NodeState, replication: Replication) -> Steps:
    """In-sync replicas of the partitions that this broker leads, and ISR changes."""
    leaders = under_replicated = under_min_isr = at_min_isr = 0
    for topic, partitions, step_ends in partitions_in_steps(state.image):
        min_insync_replicas: int | None = None
        for partition in partitions:
            if partition.leader != state.node_id:
                continue
            if min_insync_replicas is None:
                min_insync_replicas = state.topic_config(topic).min_insync_replicas
            leaders += 1
            least = min(min_insync_replicas, len(partition.replicas))
            under_replicated += len(partition.isr) < len(partition.replicas) - len(partition.adding_replicas)
            under_min_isr += len(partition.isr) < least
            at_min_isr += len(partition.isr) == least
        if step_ends:
            yield None
    name = "kafka_server_replicamanager"
    yield Sample(f"{name}_leadercount", GAUGE, "Partitions that this broker leads.", leaders)
    text = "Led partitions with replicas that are not in sync."
    yield Sample(f"{name}_underreplicatedpartitions", GAUGE, text, under_replicated)
    text = "Led partitions with fewer in-sync replicas than min.insync.replicas."
    yield Sample(f"{name}_underminisrpartitioncount", GAUGE, text, under_min_isr)
    text = "Led partitions with exactly min.insync.replicas in-sync replicas."
    yield Sample(f"{name}_atminisrpartitioncount", GAUGE, text, at_min_isr)
    changes = replication.isr_changes
    text = "Changes by which replicas left the in-sync replicas."
    yield Sample(f"{name}_isrshrinks_total", COUNTER, text, changes.shrinks)
    text = "Changes by which replicas joined the in-sync replicas."
    yield Sample(f"{name}_isrexpands_total", COUNTER, text, changes.expands)
    text = "Changes of in-sync replicas that the controller did not make."
    yield Sample(f"{name}_failedisrupdates_total", COUNTER, text, changes.failures)
    bytes_in = replication.followers.bytes_in
    text = "Bytes that followers here have fetched from their leaders."
    yield Sample("kafka_server_brokertopicmetrics_replicationbytesin_total", COUNTER, text, bytes_in)
    lag = 0
    for number, follower in enumerate(list(replication.replicas.following()), start=1):
        lag = max(lag, follower.lag or 0)
        if not number % METRICS_PARTITIONS_PER_STEP:
            yield None
    yield Sample("kafka_server_replicafetchermanager_maxlag", GAUGE, "Greatest lag of a follower, in records.", lag)


def partition_samples(logs_here: LogManager) -> Steps:
    """Size and offsets of single replicas here. An unused log is not opened for this: it has a size, if that is known,
    and no offsets.
    """
    found = logs_here.describe()
    chosen = list(islice(chain.from_iterable(found.values()), METRICS_PARTITIONS_MAX))
    left_out = sum(map(len, found.values())) - len(chosen)
    sizes: list[tuple[dict[str, str], int]] = []
    logs: list[tuple[dict[str, str], Log]] = []
    for number, (topic, index) in enumerate(chosen, start=1):
        if not number % METRICS_PARTITIONS_PER_STEP:
            yield None
        replica = logs_here.table.find(topic, index)
        if replica is None:
            continue
        labels = {"topic": topic, "partition": str(index)}
        if replica.log is not None:
            logs.append((labels, replica.log))
            sizes.append((labels, replica.log.size_bytes))
        elif replica.size_bytes is not None:
            sizes.append((labels, replica.size_bytes))
    for labels, size_bytes in sizes:
        yield Sample("kafka_log_log_size", GAUGE, "Bytes of a replica's log here.", size_bytes, labels)
    for labels, log in logs:
        yield Sample("kafka_log_log_logstartoffset", GAUGE, "First offset of a log.", log.log_start_offset, labels)
    for labels, log in logs:
        yield Sample("kafka_log_log_logendoffset", GAUGE, "Offset after a log's last.", log.log_end_offset, labels)
    for labels, log in logs:
        yield Sample("kafka_log_log_numlogsegments", GAUGE, "Segments of a log.", len(log.segments.all), labels)
    yield from cleaner_samples(logs_here)
    yield from fsync_samples(logs_here)
    text = "Replicas here without metrics of their own: there are too many."
    yield Sample("penstock_metrics_partitions_left_out", GAUGE, text, left_out)


def cleaner_samples(logs_here: LogManager) -> Steps:
    """What the log cleaner does, with Kafka's names where it has them; figures of a pass are the last one's."""
    cleaner, name, dirty_ratio, delay_ms = logs_here.cleaner, "kafka_log_logcleanermanager", 0.0, 0
    for number, replica in enumerate(list(logs_here.table.replicas()), start=1):
        dirty_ratio, delay_ms = max(dirty_ratio, replica.dirty_ratio), max(delay_ms, replica.overdue_ms)
        if not number % METRICS_PARTITIONS_PER_STEP:
            yield None
    yield from uncleanable_samples(logs_here)
    text = "Share of the dirtiest log that was not cleaned when the cleaner looked at it last, in percent."
    yield Sample(f"{name}_max_dirty_percent", GAUGE, text, round(100 * dirty_ratio))
    text = "Time since the cleaner looked at logs last; it does when some may be due."
    yield Sample(f"{name}_time_since_last_run_ms", GAUGE, text, max(logs_here.deadlines.now_ms - cleaner.looked_ms, 0))
    name, last = "kafka_log_logcleaner", cleaner.last_pass
    text = "How far beyond max.compaction.lag.ms a log was, at most, when the cleaner looked at it last."
    yield Sample(f"{name}_max_compaction_delay_secs", GAUGE, text, delay_ms // 1000)
    yield Sample(f"{name}_max_clean_time_secs", GAUGE, "Time that a pass took.", last.took_ms // 1000)
    text = "Share of a log that was left by a pass, in percent."
    yield Sample(f"{name}_cleaner_recopy_percent", GAUGE, text, round(100 * last.recopied_ratio))
    text = "Share of its buffer that a pass has filled with keys, in percent."
    yield Sample(f"{name}_max_buffer_utilization_percent", GAUGE, text, round(100 * last.buffer_used_ratio))
    text = "Of log.cleaner.threads, those held up for ten minutes or more by a log directory that does not answer."
    yield Sample(f"{name}_deadthreadcount", GAUGE, text, cleaner.dead_threads)
    yield Sample("penstock_log_cleaner_passes_total", COUNTER, "Passes over logs in use now.", cleaner.cleaned_logs)
    text = "Bytes by which the cleaner has made logs smaller."
    yield Sample("penstock_log_cleaner_removed_bytes_total", COUNTER, text, cleaner.removed_bytes)


def uncleanable_samples(logs_here: LogManager) -> Iterator[Sample]:
    """The logs that the cleaner could not clean: how many, and the first of them with the reason."""
    name, table = "kafka_log_logcleanermanager_uncleanable", logs_here.table
    found = [each for each in logs_here.cleaner.uncleanable.items() if table.find(*each[0].key) is each[0]]
    of_directory: dict[str, list[Replica]] = {each.path: [] for each in table.directories}
    for replica, _ in found:
        of_directory[replica.directory.path].append(replica)
    text = "Logs of a directory that the cleaner could not clean, or not all of."
    for path, replicas in of_directory.items():
        yield Sample(f"{name}_partitions_count", GAUGE, text, len(replicas), {"logDirectory": path})
    for path, replicas in of_directory.items():
        size_bytes = sum(replica.known_bytes for replica in replicas)
        yield Sample(f"{name}_bytes", GAUGE, "Bytes of these logs.", size_bytes, {"logDirectory": path})
    text = "Bytes of a log that the cleaner could not clean, or not all of, and why."
    for replica, reason in found[:METRICS_UNCLEANABLE_LOGS_MAX]:
        labels = {
            "directory": str(replica.directory.index),
            "path": replica.directory.path,
            "topic": replica.topic,
            "partition": str(replica.partition),
            "reason": reason[:METRICS_REASON_CHARACTERS_MAX],
        }
        yield Sample("penstock_log_cleaner_uncleanable_bytes", GAUGE, text, replica.known_bytes, labels)


def fsync_samples(logs_here: LogManager) -> Iterator[Sample]:
    """Rounds of fsyncs by log directory, of those that had any (`penstock.log.fsync=group`)."""
    name = "penstock_log_group_fsync"
    directories = zip(logs_here.table.directories, logs_here.fsyncs, strict=True)
    used = [
        ({"directory": str(each.index), "path": each.path}, fsyncs)
        for each, fsyncs in directories
        if fsyncs.counts.rounds
    ]
    for labels, fsyncs in used:
        yield Sample(f"{name}_rounds_total", COUNTER, "Rounds of fsyncs.", fsyncs.counts.rounds, labels)
    for labels, fsyncs in used:
        yield Sample(f"{name}_files_total", COUNTER, "Files fsynced in rounds.", fsyncs.counts.files, labels)
    for labels, fsyncs in used:
        yield Sample(f"{name}_files_max", GAUGE, "Files of the largest round.", fsyncs.counts.files_max, labels)
    for labels, fsyncs in used:
        seconds = fsyncs.counts.elapsed_ms / 1000
        yield Sample(f"{name}_seconds_total", COUNTER, "Time that rounds took, with their lane.", seconds, labels)
    for labels, fsyncs in used:
        text = "Logs that wait for the round after the one under way."
        yield Sample(f"{name}_waiting_logs", GAUGE, text, fsyncs.waiting_logs, labels)


def quorum_samples(quorum: Quorum, image: MetadataImage) -> Steps:
    """The controllers' quorum as this node sees it, named like Kafka's raft-metrics."""
    name = "kafka_server_raft_metrics"
    leader = -1 if quorum.leader_id is None else quorum.leader_id
    yield Sample(f"{name}_current_leader", GAUGE, "Node id of the quorum's leader; -1: unknown.", leader)
    yield Sample(f"{name}_current_epoch", GAUGE, "Epoch of the quorum.", quorum.epoch)
    high_watermark = -1 if quorum.high_watermark is None else quorum.high_watermark
    yield Sample(f"{name}_high_watermark", GAUGE, "End of the committed metadata; -1: unknown.", high_watermark)
    yield Sample(f"{name}_log_end_offset", GAUGE, "End of the metadata log here.", quorum.next_offset)
    text = "1: there is no room for the metadata log, and nothing is added to it here."
    yield Sample("penstock_metadata_log_full", GAUGE, text, int(quorum.waits_for_room))
    name = "kafka_server_broker_metadata_metrics_last_applied_record_offset"
    yield Sample(name, GAUGE, "Offset of the last metadata record that this node acts upon.", image.offset)


def group_samples(runtime: Runtime[GroupMachine], replicas: Replicas, logs: LogManager) -> Steps:
    """Groups that this broker coordinates, with offsets and lag, named as by the usual consumer group exporter.

    Lag is given for partitions that have a replica here.
    """
    shards = list(runtime.each_active())
    count = sum(len(shard.machine.state.groups) for shard in shards)
    text = "Groups that this broker coordinates."
    yield Sample("kafka_coordinator_group_groupmetadatamanager_numgroups", GAUGE, text, count)
    offsets: list[tuple[dict[str, str], int]] = []
    lags: list[tuple[dict[str, str], int]] = []
    left_out = looked_at = 0
    for shard in shards:
        committed = shard.machine.state.offsets.committed
        for group_id in committed.groups():
            room = METRICS_GROUP_OFFSETS_MAX - len(offsets)
            each = list(islice(committed.each(group_id), room + 1))
            left_out += len(each) > room
            for topic, index, at in each[:room]:
                labels = {"consumergroup": group_id, "topic": topic, "partition": str(index)}
                offsets.append((labels, at.offset))
                if (end_offset := high_watermark_here(replicas, logs, topic, index)) is not None:
                    lags.append((labels, max(0, end_offset - at.offset)))
            looked_at += len(each) + 1
            if looked_at >= METRICS_PARTITIONS_PER_STEP:
                looked_at = 0
                yield None
    for labels, offset in offsets:
        yield Sample("kafka_consumergroup_current_offset", GAUGE, "Offset that a group has committed.", offset, labels)
    for labels, lag in lags:
        yield Sample("kafka_consumergroup_lag", GAUGE, "Records that a group has not committed yet.", lag, labels)
    text = "Groups with offsets that have no metrics of their own: there are too many."
    yield Sample("penstock_metrics_groups_left_out", GAUGE, text, left_out)


def high_watermark_here(replicas: Replicas, logs: LogManager, topic: str, index: int) -> int | None:
    """The high watermark that the replica here knows, from the checkpoint if it is unused; None without a replica."""
    replica = replicas.in_use(topic, index) or replicas.follower(topic, index)
    if replica is not None:
        return replica.high_watermark
    return logs.high_watermark(topic, index) if logs.exists(topic, index) else None


def own_samples(sessions: SessionCache, outgoing: Outgoing, *, parked: int, cold_reads: int) -> Steps:
    """Fetch sessions, and metrics without a counterpart in Kafka."""
    name = "kafka_server_fetchsessioncache"
    yield Sample(f"{name}_numincrementalfetchsessions", GAUGE, "Incremental fetch sessions.", len(sessions))
    text = "Partitions of all incremental fetch sessions."
    yield Sample(f"{name}_numincrementalfetchpartitionscached", GAUGE, text, sessions.partition_count)
    text = "Fetch sessions that made room for others."
    yield Sample(f"{name}_incrementalfetchsessionevictions_total", COUNTER, text, sessions.evictions)
    yield Sample("penstock_node_calls_total", COUNTER, "Requests to nodes, this one included.", outgoing.calls)
    yield Sample("penstock_node_calls_failed_total", COUNTER, "Those that had no answer.", outgoing.failed)
    text = "Requests that wait for an event."
    yield Sample("penstock_node_parked_requests", GAUGE, text, parked)
    text = "Reads that were not in memory and went to a lane."
    yield Sample("penstock_node_cold_reads_total", COUNTER, text, cold_reads)
