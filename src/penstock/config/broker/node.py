"""Settings of the node itself: who it is, what it does, where the controllers are, and topics by default."""

from __future__ import annotations

from penstock.config.checks import distinct, quorum_voters, servers, some_distinct
from penstock.config.setting import CLUSTER, PER_BROKER, Group, Setting
from penstock.config.values import BOOLEAN, CLASS, INT, LIST, LONG, LONG_MAX, MINUTE_MS, SECOND_MS, STRING, MiB

ROLES = ("broker", "controller")


class NodeSettings(Group):
    """Identity, roles, controllers, registration, defaults of new topics."""

    process_roles = Setting(
        "process.roles",
        LIST,
        default=(),
        one_of=ROLES,
        check=some_distinct,
        required=True,
        doc="What this process is: broker, controller, or both (for one node, development and tests).",
    )
    node_id = Setting(
        "node.id",
        INT,
        default=-1,
        at_least=0,
        required=True,
        doc="Number of this node, unique in the cluster over brokers and controllers.",
    )
    broker_id = Setting("broker.id", INT, default=-1, doc="Older name of node.id; both must agree when both are given.")
    broker_rack = Setting[str | None](
        "broker.rack",
        STRING,
        default=None,
        doc="Rack or zone of this broker. Replicas of a partition are spread over racks.",
    )
    controller_listener_names = Setting(
        "controller.listener.names",
        LIST,
        default=(),
        check=some_distinct,
        required=True,
        doc="Listeners of the controllers; this node listens on those which stand in its listeners too.",
    )
    controller_quorum_voters = Setting(
        "controller.quorum.voters",
        LIST,
        default=(),
        check=quorum_voters,
        doc="The controllers of a static quorum, id@host:port with commas between.",
    )
    controller_quorum_bootstrap_servers = Setting(
        "controller.quorum.bootstrap.servers",
        LIST,
        default=(),
        check=servers,
        doc="Controllers to ask first in a dynamic quorum, host:port with commas between.",
    )
    controller_quorum_election_timeout_ms = Setting(
        "controller.quorum.election.timeout.ms",
        INT,
        default=1 * SECOND_MS,
        at_least=0,
        doc="How long a controller waits for the votes of an election before it starts another one.",
    )
    controller_quorum_fetch_timeout_ms = Setting(
        "controller.quorum.fetch.timeout.ms",
        INT,
        default=2 * SECOND_MS,
        at_least=0,
        doc="How long a voter goes without reaching the leader, or the leader without a majority, before it acts.",
    )
    controller_quorum_election_backoff_max_ms = Setting(
        "controller.quorum.election.backoff.max.ms",
        INT,
        default=1 * SECOND_MS,
        at_least=0,
        doc="Longest random pause between two elections.",
    )
    controller_quorum_append_linger_ms = Setting(
        "controller.quorum.append.linger.ms",
        INT,
        default=25,
        at_least=0,
        doc="How long the leader gathers metadata records before it writes them together.",
    )
    controller_quorum_request_timeout_ms = Setting(
        "controller.quorum.request.timeout.ms",
        INT,
        default=2 * SECOND_MS,
        at_least=0,
        doc="How long a controller waits for the answer of another one.",
    )
    controller_quorum_retry_backoff_ms = Setting(
        "controller.quorum.retry.backoff.ms",
        INT,
        default=20,
        at_least=0,
        doc="Pause before a failed request to a controller is repeated.",
    )
    controller_quorum_auto_join_enable = Setting(
        "controller.quorum.auto.join.enable",
        BOOLEAN,
        default=False,
        doc="Whether a new controller of a dynamic quorum asks to become a voter by itself.",
    )
    controller_quorum_fetch_snapshot_max_bytes = Setting(
        "controller.quorum.fetch.snapshot.max.bytes",
        INT,
        default=1 * MiB,
        at_least=1,
        doc="Most bytes of a metadata snapshot in one answer.",
    )
    controller_quorum_fetch_max_bytes = Setting(
        "controller.quorum.fetch.max.bytes",
        INT,
        default=1 * MiB,
        at_least=1,
        doc="Most bytes of metadata records in one answer; the first batch comes whole even when it is larger.",
    )
    initial_broker_registration_timeout_ms = Setting(
        "initial.broker.registration.timeout.ms",
        INT,
        default=60 * SECOND_MS,
        doc="How long a starting broker tries to register with the controllers before it gives up.",
    )
    broker_heartbeat_interval_ms = Setting(
        "broker.heartbeat.interval.ms",
        INT,
        default=2 * SECOND_MS,
        doc="Time between two heartbeats of a broker to the active controller.",
    )
    broker_session_timeout_ms = Setting(
        "broker.session.timeout.ms",
        INT,
        default=9 * SECOND_MS,
        doc="How long a broker may be silent before the controllers fence it.",
    )
    server_max_startup_time_ms = Setting(
        "server.max.startup.time.ms",
        LONG,
        default=LONG_MAX,
        at_least=0,
        internal=True,
        doc="How long a start may take before the process gives up.",
    )
    controlled_shutdown_enable = Setting(
        "controlled.shutdown.enable",
        BOOLEAN,
        default=True,
        doc="Whether a stopping broker hands its leaderships over first.",
    )
    unstable_api_versions_enable = Setting(
        "unstable.api.versions.enable",
        BOOLEAN,
        default=False,
        internal=True,
        doc="Whether API versions still in development are served.",
    )
    unstable_feature_versions_enable = Setting(
        "unstable.feature.versions.enable",
        BOOLEAN,
        default=False,
        internal=True,
        doc="Whether feature levels still in development may be finalized.",
    )
    auto_create_topics_enable = Setting(
        "auto.create.topics.enable",
        BOOLEAN,
        default=True,
        doc="Whether asking for the metadata of an unknown topic creates it.",
    )
    delete_topic_enable = Setting("delete.topic.enable", BOOLEAN, default=True, doc="Whether topics can be deleted.")
    num_partitions = Setting(
        "num.partitions",
        INT,
        default=1,
        at_least=1,
        doc="Partitions of a topic that is created without saying how many.",
    )
    default_replication_factor = Setting(
        "default.replication.factor",
        INT,
        default=1,
        doc="Replicas of a partition of a topic that is created without saying how many.",
    )
    authorizer_class_name = Setting(
        "authorizer.class.name",
        STRING,
        default="",
        doc="Who decides what a principal may do; empty allows everything.",
    )
    replica_selector_class = Setting[str | None](
        "replica.selector.class",
        STRING,
        default=None,
        doc="Who chooses the replica that a consumer reads from; unset is always the leader.",
    )
    principal_builder_class = Setting(
        "principal.builder.class",
        CLASS,
        default="org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        dynamic=PER_BROKER,
        doc="Who names the principal of a connection.",
    )
    metric_reporters = Setting(
        "metric.reporters",
        LIST,
        default=("org.apache.kafka.common.metrics.JmxReporter",),
        dynamic=CLUSTER,
        check=distinct,
        doc="Where metrics go besides /metrics. Kafka's JMX reporter is accepted: /metrics carries the same names.",
    )
    quota_window_num = Setting(
        "quota.window.num", INT, default=11, at_least=1, doc="Windows kept in memory to measure client quotas."
    )
    leader_imbalance_check_interval_seconds = Setting(
        "leader.imbalance.check.interval.seconds",
        LONG,
        default=300,
        at_least=1,
        doc="Time in seconds between two looks for partitions that are not led by their preferred replica.",
    )
    auto_leader_rebalance_enable = Setting(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        default=True,
        doc="Whether leadership goes back to the preferred replica by itself.",
    )


class MetadataSettings(Group):
    """The metadata log of the controllers."""

    metadata_log_dir = Setting[str | None](
        "metadata.log.dir", STRING, default=None, doc="Directory of the metadata log. Unset: the first of log.dirs."
    )
    metadata_log_segment_bytes = Setting(
        "metadata.log.segment.bytes",
        INT,
        default=1024 * MiB,
        at_least=8 * MiB,
        doc="Size at which a segment of the metadata log is closed.",
    )
    internal_metadata_log_segment_bytes = Setting[int | None](
        "internal.metadata.log.segment.bytes",
        INT,
        default=None,
        internal=True,
        doc="Segment size below the bound of metadata.log.segment.bytes, for tests.",
    )
    metadata_log_segment_ms = Setting(
        "metadata.log.segment.ms",
        LONG,
        default=7 * 24 * 60 * MINUTE_MS,
        doc="Age at which a segment of the metadata log is closed.",
    )
    metadata_log_max_record_bytes_between_snapshots = Setting(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        default=20 * MiB,
        at_least=1,
        doc="Bytes of new metadata records after which a snapshot is written.",
    )
    metadata_log_max_snapshot_interval_ms = Setting(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        default=60 * MINUTE_MS,
        at_least=0,
        doc="Time after which a snapshot is written when there are new metadata records; 0 for none by time.",
    )
    metadata_max_retention_bytes = Setting(
        "metadata.max.retention.bytes",
        LONG,
        default=100 * MiB,
        doc="Size of metadata log and snapshots beyond which the oldest are deleted.",
    )
    metadata_max_retention_ms = Setting(
        "metadata.max.retention.ms",
        LONG,
        default=7 * 24 * 60 * MINUTE_MS,
        doc="Age beyond which metadata segments and snapshots are deleted.",
    )
    metadata_max_idle_interval_ms = Setting(
        "metadata.max.idle.interval.ms",
        INT,
        default=500,
        at_least=0,
        doc="How long the active controller may be idle before it writes a record that does nothing; 0 for never. A "
        "node that is the only one writes none.",
    )
    internal_metadata_max_batch_size_in_bytes = Setting(
        "internal.metadata.max.batch.size.in.bytes",
        INT,
        default=8 * MiB,
        internal=True,
        doc="Largest batch of metadata records.",
    )
    internal_metadata_delete_delay_millis = Setting(
        "internal.metadata.delete.delay.millis",
        LONG,
        default=1 * MINUTE_MS,
        internal=True,
        doc="How long the files of deleted metadata segments stay on disk.",
    )
