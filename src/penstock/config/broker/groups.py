"""Settings of the group coordinator: members, offsets, and the topic that it keeps them in."""

from __future__ import annotations

from penstock.config.checks import some_distinct
from penstock.config.setting import CLUSTER, Group, Setting
from penstock.config.values import INT, LIST, LONG, MINUTE_MS, SECOND_MS, SHORT, STRING, KiB, MiB

INT_MAX = 2**31 - 1


class GroupSettings(Group):
    """Classic groups, consumer groups (KIP-848), offsets."""

    group_min_session_timeout_ms = Setting("group.min.session.timeout.ms", INT, default=6 * SECOND_MS).documented(
        "Shortest session timeout that a member of a classic group may ask for."
    )
    group_max_session_timeout_ms = Setting("group.max.session.timeout.ms", INT, default=30 * MINUTE_MS).documented(
        "Longest session timeout that a member of a classic group may ask for."
    )
    group_initial_rebalance_delay_ms = Setting(
        "group.initial.rebalance.delay.ms", INT, default=3 * SECOND_MS
    ).documented("How long an empty classic group waits for more members after the first one has joined.")
    group_max_size = Setting("group.max.size", INT, default=INT_MAX, at_least=1).documented(
        "Most members of a classic group."
    )
    group_coordinator_rebalance_protocols = Setting(
        "group.coordinator.rebalance.protocols",
        LIST,
        default=("classic", "consumer", "streams"),
        one_of=("consumer", "classic", "share", "streams"),
    ).documented(
        "The kinds of groups that this broker coordinates. `share` and `streams` are accepted, and not served yet."
    )
    group_coordinator_append_linger_ms = Setting(
        "group.coordinator.append.linger.ms", INT, default=-1, at_least=-1
    ).documented(
        "How long the coordinator collects records before it appends them; -1: until it has nothing else to do."
    )
    group_consumer_session_timeout_ms = Setting(
        "group.consumer.session.timeout.ms", INT, default=45 * SECOND_MS, at_least=1
    ).documented("After this long without a heartbeat a member of a consumer group is taken for dead.")
    group_consumer_min_session_timeout_ms = Setting(
        "group.consumer.min.session.timeout.ms", INT, default=45 * SECOND_MS, at_least=1
    ).documented("Lower bound of consumer.session.timeout.ms of a group.")
    group_consumer_max_session_timeout_ms = Setting(
        "group.consumer.max.session.timeout.ms", INT, default=1 * MINUTE_MS, at_least=1
    ).documented("Upper bound of consumer.session.timeout.ms of a group.")
    group_consumer_heartbeat_interval_ms = Setting(
        "group.consumer.heartbeat.interval.ms", INT, default=5 * SECOND_MS, at_least=1
    ).documented("Time between two heartbeats of a member of a consumer group that is stable.")
    group_consumer_min_heartbeat_interval_ms = Setting(
        "group.consumer.min.heartbeat.interval.ms", INT, default=5 * SECOND_MS, at_least=1
    ).documented("Lower bound of consumer.heartbeat.interval.ms of a group.")
    group_consumer_max_heartbeat_interval_ms = Setting(
        "group.consumer.max.heartbeat.interval.ms", INT, default=15 * SECOND_MS, at_least=1
    ).documented("Upper bound of consumer.heartbeat.interval.ms of a group.")
    group_consumer_assignment_interval_ms = Setting(
        "group.consumer.assignment.interval.ms", INT, default=1 * SECOND_MS, at_least=0, dynamic=CLUSTER
    ).documented("Shortest time between two assignments of a consumer group; members that join meanwhile wait.")
    group_consumer_min_assignment_interval_ms = Setting(
        "group.consumer.min.assignment.interval.ms", INT, default=0, at_least=0
    ).documented("Lower bound of consumer.assignment.interval.ms of a group.")
    group_consumer_max_assignment_interval_ms = Setting(
        "group.consumer.max.assignment.interval.ms", INT, default=15 * SECOND_MS, at_least=0
    ).documented("Upper bound of consumer.assignment.interval.ms of a group.")
    penstock_group_consumer_reconcile_heartbeat_interval_ms = Setting(
        "penstock.group.consumer.reconcile.heartbeat.interval.ms", INT, default=300, at_least=10
    ).documented("Time between two heartbeats of a member while it or its group is changing its assignment.")
    penstock_group_consumer_stable_heartbeats_per_second = Setting(
        "penstock.group.consumer.stable.heartbeats.per.second", INT, default=200, at_least=0
    ).documented(
        "While a broker has few members, those of stable consumer groups come more often than their interval says, "
        "at most every half second and so many times a second in all; they hear sooner of changes. 0: never."
    )
    penstock_group_consumer_assignment_step = Setting(
        "penstock.group.consumer.assignment.step", INT, default=500, at_least=1, internal=True
    ).documented(
        "Members of a consumer group up to which its assignment is computed at once, within a heartbeat; 16 of its "
        "partitions count for one more. That of a larger group is computed in steps of so many, and told later."
    )
    group_consumer_max_size = Setting("group.consumer.max.size", INT, default=INT_MAX, at_least=1).documented(
        "Most members of a consumer group."
    )
    group_consumer_assignors = Setting(
        "group.consumer.assignors", LIST, default=("uniform", "range"), check=some_distinct
    ).documented("The assignors that members of consumer groups may choose; the first one is the default.")
    group_consumer_migration_policy = Setting(
        "group.consumer.migration.policy",
        STRING,
        default="bidirectional",
        one_of=("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        any_case=True,
    ).documented("Whether a classic group becomes a consumer group when a member of the new kind joins, and back.")
    group_consumer_regex_refresh_interval_ms = Setting(
        "group.consumer.regex.refresh.interval.ms", INT, default=10 * MINUTE_MS, at_least=10 * SECOND_MS, internal=True
    ).documented("Longest time between two evaluations of a regular expression that members subscribe to.")
    offset_metadata_max_bytes = Setting("offset.metadata.max.bytes", INT, default=4 * KiB).documented(
        "Largest text that a member may keep with an offset."
    )
    offsets_commit_timeout_ms = Setting("offsets.commit.timeout.ms", INT, default=5 * SECOND_MS, at_least=1).documented(
        "How long the coordinator waits until the replicas have what it has appended."
    )
    offsets_retention_minutes = Setting("offsets.retention.minutes", INT, default=7 * 24 * 60, at_least=1).documented(
        "How long offsets are kept that nobody uses: since the group is empty, or since the last commit."
    )
    offsets_retention_check_interval_ms = Setting(
        "offsets.retention.check.interval.ms", LONG, default=10 * MINUTE_MS, at_least=1
    ).documented("Time between two looks for offsets that have expired.")
    offsets_topic_num_partitions = Setting("offsets.topic.num.partitions", INT, default=50, at_least=1).documented(
        "Partitions of __consumer_offsets. Not to be changed once the topic is there."
    )
    offsets_topic_replication_factor = Setting(
        "offsets.topic.replication.factor", SHORT, default=3, at_least=1
    ).documented("Replicas of __consumer_offsets. With fewer brokers than that, groups are refused.")
    offsets_topic_segment_bytes = Setting("offsets.topic.segment.bytes", INT, default=100 * MiB, at_least=1).documented(
        "Size of a segment of __consumer_offsets."
    )
