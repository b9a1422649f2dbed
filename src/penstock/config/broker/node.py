"""Settings of the node itself: who it is, what it does, where the controllers are, and topics by default."""

from __future__ import annotations

from penstock.config.checks import distinct, quorum_voters, servers, some_distinct
from penstock.config.principal_builder import KAFKA_BUILDER, builder_name, remote_builder_name
from penstock.config.setting import CLUSTER, PER_BROKER, Group, Setting
from penstock.config.values import BOOLEAN, CLASS, INT, LIST, LONG, MINUTE_MS, STRING, MiB

ROLES = ("broker", "controller")


class NodeSettings(Group):
    """Identity, roles, controllers, registration, defaults of new topics."""

    process_roles = Setting(
        "process.roles", LIST, default=(), one_of=ROLES, check=some_distinct, required=True
    ).documented("What this process is: broker, controller, or both (for one node, development and tests).")
    node_id = Setting("node.id", INT, default=-1, at_least=0, required=True).documented(
        "Number of this node, unique in the cluster over brokers and controllers."
    )
    broker_id = Setting("broker.id", INT, default=-1).documented(
        "Older name of node.id; both must agree when both are given."
    )
    broker_rack = Setting[str | None]("broker.rack", STRING, default=None).documented(
        "Rack or zone of this broker. Replicas of a partition are spread over racks."
    )
    controller_listener_names = Setting(
        "controller.listener.names", LIST, default=(), check=some_distinct, required=True
    ).documented("Listeners of the controllers; this node listens on those which stand in its listeners too.")
    controller_quorum_voters = Setting("controller.quorum.voters", LIST, default=(), check=quorum_voters).documented(
        "The controllers of a static quorum, id@host:port with commas between."
    )
    controller_quorum_bootstrap_servers = Setting(
        "controller.quorum.bootstrap.servers", LIST, default=(), check=servers
    ).documented("Controllers to ask first in a dynamic quorum, host:port with commas between.")
    auto_create_topics_enable = Setting("auto.create.topics.enable", BOOLEAN, default=True).documented(
        "Whether asking for the metadata of an unknown topic creates it."
    )
    delete_topic_enable = Setting("delete.topic.enable", BOOLEAN, default=True).documented(
        "Whether topics can be deleted."
    )
    num_partitions = Setting("num.partitions", INT, default=1, at_least=1).documented(
        "Partitions of a topic that is created without saying how many."
    )
    default_replication_factor = Setting("default.replication.factor", INT, default=1).documented(
        "Replicas of a partition of a topic that is created without saying how many."
    )
    replica_selector_class = Setting[str | None]("replica.selector.class", STRING, default=None).documented(
        "Who chooses the replica that a consumer reads from; unset is always the leader."
    )
    principal_builder_class = Setting(
        "principal.builder.class",
        CLASS,
        default=KAFKA_BUILDER,
        dynamic=PER_BROKER,
        check=builder_name,
        remote=remote_builder_name,
    ).documented(
        "Who names the principal of a connection: Kafka's own builder, or MODULE:FUNCTION, a function in Python that "
        "is given the session and stands in the properties file only."
    )
    metric_reporters = Setting(
        "metric.reporters",
        LIST,
        default=("org.apache.kafka.common.metrics.JmxReporter",),
        dynamic=CLUSTER,
        check=distinct,
    ).documented(
        "Where metrics go besides /metrics. Kafka's JMX reporter is accepted: /metrics carries the same names."
    )


class MetadataSettings(Group):
    """The metadata log of the controllers."""

    metadata_log_dir = Setting[str | None]("metadata.log.dir", STRING, default=None).documented(
        "Directory of the metadata log. Unset: the first of log.dirs."
    )
    metadata_log_segment_bytes = Setting(
        "metadata.log.segment.bytes", INT, default=1024 * MiB, at_least=8 * MiB
    ).documented("Size at which a segment of the metadata log is closed.")
    internal_metadata_log_segment_bytes = Setting[int | None](
        "internal.metadata.log.segment.bytes", INT, default=None, internal=True
    ).documented("Segment size below the bound of metadata.log.segment.bytes, for tests.")
    metadata_log_segment_ms = Setting("metadata.log.segment.ms", LONG, default=7 * 24 * 60 * MINUTE_MS).documented(
        "Age at which a segment of the metadata log is closed."
    )
    metadata_log_max_record_bytes_between_snapshots = Setting(
        "metadata.log.max.record.bytes.between.snapshots", LONG, default=20 * MiB, at_least=1
    ).documented("Bytes of new metadata records after which a snapshot is written.")
    metadata_log_max_snapshot_interval_ms = Setting(
        "metadata.log.max.snapshot.interval.ms", LONG, default=60 * MINUTE_MS, at_least=0
    ).documented("Time after which a snapshot is written when there are new metadata records; 0 for none by time.")
    metadata_max_retention_bytes = Setting("metadata.max.retention.bytes", LONG, default=100 * MiB).documented(
        "Size of metadata log and snapshots beyond which the oldest are deleted."
    )
    metadata_max_retention_ms = Setting("metadata.max.retention.ms", LONG, default=7 * 24 * 60 * MINUTE_MS).documented(
        "Age beyond which metadata segments and snapshots are deleted."
    )
    internal_metadata_max_batch_size_in_bytes = Setting(
        "internal.metadata.max.batch.size.in.bytes", INT, default=8 * MiB, internal=True
    ).documented("Largest batch of metadata records.")
    internal_metadata_delete_delay_millis = Setting(
        "internal.metadata.delete.delay.millis", LONG, default=1 * MINUTE_MS, internal=True
    ).documented("How long the files of deleted metadata segments stay on disk.")
