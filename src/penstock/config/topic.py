"""The configuration of a topic: Kafka's topic configs with their bounds, resolved over the broker's settings.

A topic config that is not given takes the value of the broker settings named under `broker` (the first that is set
wins), as Kafka's ServerTopicConfigSynonyms; without such a setting it has the declared default. `resolve` validates the
given ones; the controller calls it in `metadata/configs.py` and `metadata/topics.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.config.checks import distinct, throttled_replicas
from penstock.config.nearest import did_you_mean
from penstock.config.setting import Group, Setting
from penstock.config.values import (
    BOOLEAN,
    DAY_MS,
    DOUBLE,
    HOUR_MS,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    MINUTE_MS,
    STRING,
    GiB,
    KiB,
    MiB,
)
from penstock.errors import ConfigError


class HasTopicDefaults(Protocol):
    """The settings of a broker that give the configs of a topic without overrides."""

    @property
    def topic_defaults(self) -> TopicConfig: ...


COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
FSYNCS = ("none", "group")
CLEANUP_POLICIES = ("compact", "delete")
BATCH_OVERHEAD_BYTES = 12
"""Offset and length in front of a batch, which Kafka counts into the default of max.message.bytes."""


class TopicConfig(Group):
    """The resolved configuration of one topic. Make it with `resolve`; topics without overrides share one.

    Attributes, besides the settings and worked out once, since every append asks:
        max_segment_bytes: size at which a segment rolls: segment.bytes, or the smaller one that tests set.
        max_segment_ms: age at which a segment rolls: a compacted topic rolls in time for its max.compaction.lag.ms.
        log_append_time: whether records carry the time of the append.
        group_fsync: whether records count only once they are on disk.
        flush_after_messages: flush.messages; with `group_fsync` none are ever due.
    """

    max_segment_bytes: int
    max_segment_ms: int
    log_append_time: bool
    group_fsync: bool
    flush_after_messages: int

    segment_bytes = Setting(
        "segment.bytes", INT, default=GiB, at_least=MiB, broker=(("log.segment.bytes", 1),)
    ).documented(
        "Size at which the active segment is closed and the next begun. Retention and cleaning work on closed "
        "segments only."
    )
    segment_ms = Setting(
        "segment.ms", LONG, default=7 * DAY_MS, at_least=1, broker=(("log.roll.ms", 1), ("log.roll.hours", HOUR_MS))
    ).documented(
        "Age at which the active segment is closed even when it is not full, so that retention and cleaning can "
        "reach its records."
    )
    segment_jitter_ms = Setting(
        "segment.jitter.ms",
        LONG,
        default=0,
        at_least=0,
        broker=(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    ).documented("Largest random time taken off segment.ms, so that segments of many partitions do not roll together.")
    segment_index_bytes = Setting(
        "segment.index.bytes", INT, default=10 * MiB, at_least=4, broker=(("log.index.size.max.bytes", 1),)
    ).documented("Largest size of a segment's offset index; a full index rolls the segment.")
    flush_messages = Setting(
        "flush.messages", LONG, default=LONG_MAX, at_least=1, broker=(("log.flush.interval.messages", 1),)
    ).documented(
        "Records appended to a partition before it is forced to disk. The default leaves that to the operating "
        "system and relies on replication."
    )
    flush_ms = Setting(
        "flush.ms",
        LONG,
        default=LONG_MAX,
        at_least=0,
        broker=(("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    ).documented("Longest time that an appended record waits before it is forced to disk.")
    penstock_log_fsync = Setting(
        "penstock.log.fsync", STRING, default="none", one_of=FSYNCS, broker=(("penstock.log.fsync", 1),)
    ).documented(
        "What a record waits for on each replica before it counts. none: the operating system has it, as in Kafka; "
        "flush.messages and flush.ms may force it to disk. group: it is on disk. Until then it is not acknowledged, "
        "not replicated, not in the high watermark and not read; one round of fsyncs serves all that was appended to "
        "the log directory while the last one ran."
    )
    retention_bytes = Setting("retention.bytes", LONG, default=-1, broker=(("log.retention.bytes", 1),)).documented(
        "Size beyond which the oldest closed segments of a partition are deleted; -1 for no limit. Applies with "
        "cleanup.policy delete."
    )
    retention_ms = Setting(
        "retention.ms",
        LONG,
        default=7 * DAY_MS,
        at_least=-1,
        broker=(("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
    ).documented(
        "Age beyond which closed segments are deleted, by the largest timestamp of their records; -1 for no "
        "limit. Applies with cleanup.policy delete."
    )
    max_message_bytes = Setting(
        "max.message.bytes", INT, default=MiB + BATCH_OVERHEAD_BYTES, at_least=0, broker=(("message.max.bytes", 1),)
    ).documented("Largest record batch that a producer may append, as compressed as it is.")
    index_interval_bytes = Setting(
        "index.interval.bytes", INT, default=4 * KiB, at_least=0, broker=(("log.index.interval.bytes", 1),)
    ).documented("Bytes of records between two entries of a segment's indexes.")
    delete_retention_ms = Setting(
        "delete.retention.ms", LONG, default=DAY_MS, at_least=0, broker=(("log.cleaner.delete.retention.ms", 1),)
    ).documented(
        "How long a compacted topic keeps delete markers, which bounds the time that a reader has to see them."
    )
    min_compaction_lag_ms = Setting(
        "min.compaction.lag.ms", LONG, default=0, at_least=0, broker=(("log.cleaner.min.compaction.lag.ms", 1),)
    ).documented("How long a record of a compacted topic stays as it was written.")
    max_compaction_lag_ms = Setting(
        "max.compaction.lag.ms", LONG, default=LONG_MAX, at_least=1, broker=(("log.cleaner.max.compaction.lag.ms", 1),)
    ).documented(
        "Age at which a record of a compacted topic becomes due for compaction, however little there is to clean."
    )
    file_delete_delay_ms = Setting(
        "file.delete.delay.ms", LONG, default=MINUTE_MS, at_least=0, broker=(("log.segment.delete.delay.ms", 1),)
    ).documented("How long the files of a deleted segment stay on disk, for reads that are under way.")
    min_cleanable_dirty_ratio = Setting(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        default=0.5,
        at_least=0,
        at_most=1,
        broker=(("log.cleaner.min.cleanable.ratio", 1),),
    ).documented("Share of a log that must be uncleaned before the cleaner takes it up.")
    cleanup_policy = Setting(
        "cleanup.policy",
        LIST,
        default=("delete",),
        one_of=CLEANUP_POLICIES,
        check=distinct,
        broker=(("log.cleanup.policy", 1),),
    ).documented(
        "What happens to old records: delete by age and size, compact to the last record of each key, both, or "
        "neither when empty."
    )
    unclean_leader_election_enable = Setting(
        "unclean.leader.election.enable", BOOLEAN, default=False, broker=(("unclean.leader.election.enable", 1),)
    ).documented(
        "Whether a replica that is not in sync may become leader when no other is left, at the price of "
        "acknowledged records."
    )
    min_insync_replicas = Setting(
        "min.insync.replicas", INT, default=1, at_least=1, broker=(("min.insync.replicas", 1),)
    ).documented("Replicas, the leader included, that must be in sync for a write with acks=all to be accepted.")
    compression_type = Setting(
        "compression.type", STRING, default="producer", one_of=COMPRESSION_TYPES, broker=(("compression.type", 1),)
    ).documented("Codec in which batches are stored; producer keeps them as they came.")
    compression_gzip_level = Setting(
        "compression.gzip.level",
        INT,
        default=-1,
        at_least=1,
        at_most=9,
        also=(-1,),
        broker=(("compression.gzip.level", 1),),
    ).documented("Level used when compression.type is gzip; -1 is the codec's own default.")
    compression_lz4_level = Setting(
        "compression.lz4.level", INT, default=9, at_least=1, at_most=17, broker=(("compression.lz4.level", 1),)
    ).documented("Level used when compression.type is lz4.")
    compression_zstd_level = Setting(
        "compression.zstd.level", INT, default=3, at_least=-131072, at_most=22, broker=(("compression.zstd.level", 1),)
    ).documented("Level used when compression.type is zstd.")
    preallocate = Setting("preallocate", BOOLEAN, default=False, broker=(("log.preallocate", 1),)).documented(
        "Whether a new segment's file gets its full size at once."
    )
    message_timestamp_type = Setting(
        "message.timestamp.type",
        STRING,
        default="CreateTime",
        one_of=TIMESTAMP_TYPES,
        broker=(("log.message.timestamp.type", 1),),
    ).documented("Whether records carry the time that the producer gave them or the time of the append.")
    message_timestamp_before_max_ms = Setting(
        "message.timestamp.before.max.ms",
        LONG,
        default=LONG_MAX,
        at_least=0,
        broker=(("log.message.timestamp.before.max.ms", 1),),
    ).documented(
        "How far a record's create time may lie before the broker's clock; a batch with an older one is refused."
    )
    message_timestamp_after_max_ms = Setting(
        "message.timestamp.after.max.ms",
        LONG,
        default=HOUR_MS,
        at_least=0,
        broker=(("log.message.timestamp.after.max.ms", 1),),
    ).documented(
        "How far a record's create time may lie after the broker's clock; a batch with a later one is refused."
    )
    leader_replication_throttled_replicas = Setting(
        "leader.replication.throttled.replicas", LIST, default=(), check=throttled_replicas
    ).documented("Replicas, as partition:broker, whose reads by followers are throttled on the leader; * for all.")
    follower_replication_throttled_replicas = Setting(
        "follower.replication.throttled.replicas", LIST, default=(), check=throttled_replicas
    ).documented("Replicas, as partition:broker, whose fetches are throttled on the follower; * for all.")
    remote_storage_enable = Setting("remote.storage.enable", BOOLEAN, default=False).documented(
        "Whether closed segments are copied to remote storage."
    )
    local_retention_ms = Setting(
        "local.retention.ms", LONG, default=-2, at_least=-2, broker=(("log.local.retention.ms", 1),)
    ).documented(
        "Age beyond which segments that are in remote storage are deleted locally; -2 for as long as retention.ms."
    )
    local_retention_bytes = Setting(
        "local.retention.bytes", LONG, default=-2, at_least=-2, broker=(("log.local.retention.bytes", 1),)
    ).documented("Size beyond which segments that are in remote storage are deleted locally; -2 for retention.bytes.")
    remote_log_copy_disable = Setting("remote.log.copy.disable", BOOLEAN, default=False).documented(
        "Whether no further segments are copied to remote storage, while those there stay readable."
    )
    remote_log_delete_on_disable = Setting("remote.log.delete.on.disable", BOOLEAN, default=False).documented(
        "Whether switching remote.storage.enable off deletes what is in remote storage."
    )
    internal_segment_bytes = Setting[int | None]("internal.segment.bytes", INT, default=None, internal=True).documented(
        "Segment size below the bound of segment.bytes, for tests."
    )

    @classmethod
    def resolve(cls, settings: HasTopicDefaults, overrides: Mapping[str, str]) -> TopicConfig:
        """The configuration of a topic with `overrides` (property name to text) on a broker with `settings`.

        Raises ConfigError for an unknown name, a value out of bounds, or values that contradict each other.
        """
        if not overrides:
            return settings.topic_defaults
        values = dict(vars(settings.topic_defaults))
        for name, text in overrides.items():
            setting = topic_setting(name)
            values[setting.attribute] = setting.parse(text)
        config = cls(values)
        config.cross_check()
        return config

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        internal_bytes = self.internal_segment_bytes
        self.__dict__.update(
            max_segment_bytes=self.segment_bytes if internal_bytes is None else internal_bytes,
            max_segment_ms=min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms,
            log_append_time=self.message_timestamp_type == "LogAppendTime",
            group_fsync=(group_fsync := self.penstock_log_fsync == "group"),
            flush_after_messages=LONG_MAX if group_fsync else self.flush_messages,
        )

    @classmethod
    def from_broker(cls, settings: object) -> TopicConfig:
        """The configuration of a topic without overrides: what the broker's settings say. Use `resolve`."""
        values: dict[str, Any] = {}
        for setting in cls.declared():
            values[setting.attribute] = setting.default
            for name, factor in setting.broker:
                value = getattr(settings, name.replace(".", "_"))
                if value is not None:
                    values[setting.attribute] = value * factor if factor != 1 else value
                    break
        values["retention_ms"] = max(values["retention_ms"], -1)
        return cls(values)

    def cross_check(self) -> None:
        """Raises ConfigError when two values contradict each other."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms = {self.min_compaction_lag_ms} is larger than "
                f"max.compaction.lag.ms = {self.max_compaction_lag_ms}: it must be at most that"
            )

    @property
    def compact(self) -> bool:
        """Whether the cleaner keeps only the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether retention by time and size applies."""
        return "delete" in self.cleanup_policy


TOPIC_SETTINGS = TopicConfig.by_name()
assert TopicConfig.max_message_bytes.default <= INT_MAX


def topic_setting(name: str) -> Setting[Any]:
    """The declaration of a topic config. Raises ConfigError with the nearest name when there is none."""
    setting = TOPIC_SETTINGS.get(name)
    if setting is None:
        of_broker = {broker: each.name for each in TOPIC_SETTINGS.values() for broker, _ in each.broker}
        near = f"; did you mean {of_broker[name]}?" if name in of_broker else did_you_mean(name, TOPIC_SETTINGS)
        raise ConfigError(f"unknown topic config {name}{near}")
    return setting
