"""Settings of logs and log directories, and the defaults that topics take from them."""

from __future__ import annotations

from typing import TypeVar

from penstock.config.checks import distinct, part_of_all, some_distinct
from penstock.config.setting import CLUSTER, PER_BROKER, Dynamic, Group, Setting
from penstock.config.topic import TopicConfig
from penstock.config.values import BOOLEAN, DOUBLE, INT, LIST, LONG, LONG_MAX, MINUTE_MS, SECOND_MS

T = TypeVar("T")


def default_of(topic: Setting[T], name: str, *, dynamic: Dynamic = CLUSTER) -> Setting[T]:
    """The broker setting `name` that is the default of a topic config, with the same type, bounds and default."""
    return Setting(
        name,
        topic.type,
        default=topic.default,
        at_least=topic.at_least,
        at_most=topic.at_most,
        also=topic.also,
        one_of=topic.one_of,
        check=topic.check,
        dynamic=dynamic,
        topic=topic.name,
        doc=f"For topics without their own {topic.name}. {topic.doc}",
    )


class LogSettings(Group):
    """Logs, segments, retention, flushing, recovery."""

    log_dir = Setting("log.dir", LIST, default=("/tmp/kafka-logs",), check=some_distinct).documented(
        "Directories for logs, when log.dirs is not given."
    )
    log_dirs = Setting[tuple[str, ...] | None]("log.dirs", LIST, default=None, check=some_distinct).documented(
        "Directories for logs, one a disk. Which of them gets a new partition: penstock.log.dir.placement."
    )
    cordoned_log_dirs = Setting("cordoned.log.dirs", LIST, default=(), check=distinct, dynamic=PER_BROKER).documented(
        "Log directories that get no new partitions; * for all of them."
    )
    log_segment_bytes = default_of(TopicConfig.segment_bytes, "log.segment.bytes")
    log_roll_ms = Setting[int | None](
        "log.roll.ms", LONG, default=None, dynamic=CLUSTER, topic="segment.ms"
    ).documented(
        "For topics without their own segment.ms: age at which the active segment closes. Unset: log.roll.hours."
    )
    log_roll_hours = Setting("log.roll.hours", INT, default=168, at_least=1).documented(
        "Age in hours at which the active segment is closed, when log.roll.ms is not set."
    )
    log_roll_jitter_ms = Setting[int | None](
        "log.roll.jitter.ms", LONG, default=None, dynamic=CLUSTER, topic="segment.jitter.ms"
    ).documented(
        "For topics without their own segment.jitter.ms: largest random time taken off the age at which segments "
        "are closed. Unset: log.roll.jitter.hours."
    )
    log_roll_jitter_hours = Setting("log.roll.jitter.hours", INT, default=0, at_least=0).documented(
        "Largest random time in hours taken off the age at which segments are closed, when log.roll.jitter.ms is "
        "not set."
    )
    log_retention_ms = Setting[int | None](
        "log.retention.ms", LONG, default=None, dynamic=CLUSTER, topic="retention.ms"
    ).documented(
        "For topics without their own retention.ms: age beyond which closed segments are deleted, -1 for no limit. "
        "Unset: log.retention.minutes."
    )
    log_retention_minutes = Setting[int | None]("log.retention.minutes", INT, default=None).documented(
        "Age in minutes beyond which closed segments are deleted, when log.retention.ms is not set. Unset: "
        "log.retention.hours."
    )
    log_retention_hours = Setting("log.retention.hours", INT, default=168).documented(
        "Age in hours beyond which closed segments are deleted, when neither log.retention.ms nor "
        "log.retention.minutes is set."
    )
    log_retention_bytes = default_of(TopicConfig.retention_bytes, "log.retention.bytes")
    log_retention_check_interval_ms = Setting(
        "log.retention.check.interval.ms", LONG, default=5 * MINUTE_MS, at_least=1
    ).documented("Time between two looks for segments that retention deletes.")
    log_cleanup_policy = default_of(TopicConfig.cleanup_policy, "log.cleanup.policy")
    log_index_size_max_bytes = default_of(TopicConfig.segment_index_bytes, "log.index.size.max.bytes")
    log_index_interval_bytes = default_of(TopicConfig.index_interval_bytes, "log.index.interval.bytes")
    log_flush_interval_messages = default_of(TopicConfig.flush_messages, "log.flush.interval.messages")
    log_segment_delete_delay_ms = default_of(TopicConfig.file_delete_delay_ms, "log.segment.delete.delay.ms")
    log_flush_scheduler_interval_ms = Setting("log.flush.scheduler.interval.ms", LONG, default=LONG_MAX).documented(
        "Time between two looks for logs that are due to be forced to disk by flush.ms."
    )
    log_flush_interval_ms = Setting[int | None](
        "log.flush.interval.ms", LONG, default=None, dynamic=CLUSTER, topic="flush.ms"
    ).documented(
        "For topics without their own flush.ms: longest time that an appended record waits before it is forced to "
        "disk. Unset: log.flush.scheduler.interval.ms."
    )
    log_flush_offset_checkpoint_interval_ms = Setting(
        "log.flush.offset.checkpoint.interval.ms", INT, default=MINUTE_MS, at_least=0
    ).documented("Time between two writes of the recovery points, from which a log is scanned after a crash.")
    log_flush_start_offset_checkpoint_interval_ms = Setting(
        "log.flush.start.offset.checkpoint.interval.ms", INT, default=MINUTE_MS, at_least=0
    ).documented("Time between two writes of the log start offsets.")
    log_preallocate = default_of(TopicConfig.preallocate, "log.preallocate")
    num_recovery_threads_per_data_dir = Setting(
        "num.recovery.threads.per.data.dir", INT, default=2, at_least=1, dynamic=CLUSTER
    ).documented("Logs of one directory that are recovered at the same time after an unclean stop.")
    log_initial_task_delay_ms = Setting(
        "log.initial.task.delay.ms", LONG, default=30 * SECOND_MS, at_least=0, internal=True
    ).documented("Time after start before the first retention, flush and checkpoint run.")
    message_max_bytes = default_of(TopicConfig.max_message_bytes, "message.max.bytes")
    min_insync_replicas = default_of(TopicConfig.min_insync_replicas, "min.insync.replicas")
    unclean_leader_election_enable = default_of(
        TopicConfig.unclean_leader_election_enable, "unclean.leader.election.enable"
    )
    compression_type = default_of(TopicConfig.compression_type, "compression.type")
    compression_gzip_level = default_of(TopicConfig.compression_gzip_level, "compression.gzip.level")
    compression_lz4_level = default_of(TopicConfig.compression_lz4_level, "compression.lz4.level")
    compression_zstd_level = default_of(TopicConfig.compression_zstd_level, "compression.zstd.level")
    log_message_timestamp_type = default_of(TopicConfig.message_timestamp_type, "log.message.timestamp.type")
    log_message_timestamp_before_max_ms = default_of(
        TopicConfig.message_timestamp_before_max_ms, "log.message.timestamp.before.max.ms"
    )
    log_message_timestamp_after_max_ms = default_of(
        TopicConfig.message_timestamp_after_max_ms, "log.message.timestamp.after.max.ms"
    )
    log_cleaner_delete_retention_ms = default_of(TopicConfig.delete_retention_ms, "log.cleaner.delete.retention.ms")
    log_cleaner_min_compaction_lag_ms = default_of(
        TopicConfig.min_compaction_lag_ms, "log.cleaner.min.compaction.lag.ms"
    )
    log_cleaner_max_compaction_lag_ms = default_of(
        TopicConfig.max_compaction_lag_ms, "log.cleaner.max.compaction.lag.ms"
    )
    log_cleaner_min_cleanable_ratio = default_of(
        TopicConfig.min_cleanable_dirty_ratio, "log.cleaner.min.cleanable.ratio"
    )
    log_cleaner_enable = Setting("log.cleaner.enable", BOOLEAN, default=True).documented(
        "Whether topics with cleanup.policy=compact are cleaned."
    )
    log_cleaner_threads = Setting("log.cleaner.threads", INT, default=1, at_least=0, dynamic=CLUSTER).documented(
        "Logs that are cleaned at the same time, in worker processes; 0 for none."
    )
    log_cleaner_dedupe_buffer_size = Setting(
        "log.cleaner.dedupe.buffer.size", LONG, default=134_217_728, dynamic=CLUSTER
    ).documented("Memory for the keys of all logs being cleaned, 24 bytes a key; log.cleaner.threads share it.")
    log_cleaner_io_buffer_load_factor = Setting(
        "log.cleaner.io.buffer.load.factor", DOUBLE, default=0.9, check=part_of_all, dynamic=CLUSTER
    ).documented(
        "Share of log.cleaner.dedupe.buffer.size that is used, more than 0 and at most 1; the fuller, the slower."
    )
    log_cleaner_io_buffer_size = Setting(
        "log.cleaner.io.buffer.size", INT, default=524_288, at_least=0, dynamic=CLUSTER
    ).documented("Memory in bytes for the files of all logs being cleaned: one half for reading, one for writing.")
    log_cleaner_io_max_bytes_per_second = Setting(
        "log.cleaner.io.max.bytes.per.second", DOUBLE, default=1.7976931348623157e308, dynamic=CLUSTER
    ).documented(
        "Bytes that all logs being cleaned together may read and write in a second, on average; no limit by default."
    )
    log_cleaner_backoff_ms = Setting(
        "log.cleaner.backoff.ms", LONG, default=15 * SECOND_MS, at_least=0, dynamic=CLUSTER
    ).documented("Time between two looks for logs to clean.")
    log_local_retention_ms = default_of(TopicConfig.local_retention_ms, "log.local.retention.ms")
    log_local_retention_bytes = default_of(TopicConfig.local_retention_bytes, "log.local.retention.bytes")
    producer_id_expiration_ms = Setting(
        "producer.id.expiration.ms", INT, default=86_400_000, at_least=1, dynamic=CLUSTER
    ).documented("How long a partition remembers an idempotent producer that has gone silent.")
    producer_id_expiration_check_interval_ms = Setting(
        "producer.id.expiration.check.interval.ms", INT, default=10 * MINUTE_MS, at_least=1, internal=True
    ).documented("How often open logs forget producers that have been idle for producer.id.expiration.ms.")
    transaction_partition_verification_enable = Setting(
        "transaction.partition.verification.enable", BOOLEAN, default=True, dynamic=CLUSTER
    ).documented(
        "Whether the first batch of a transaction in a partition waits until the coordinator has confirmed that the "
        "transaction is under way and the partition part of it (KIP-890)."
    )
    add_partitions_to_txn_retry_backoff_ms = Setting(
        "add.partitions.to.txn.retry.backoff.ms", INT, default=20, at_least=1
    ).documented(
        "Time between two tries to add a partition to a transaction, while the one before it is being completed."
    )
    add_partitions_to_txn_retry_backoff_max_ms = Setting(
        "add.partitions.to.txn.retry.backoff.max.ms", INT, default=100, at_least=0
    ).documented("How long that is tried; then the producer tries again.")
