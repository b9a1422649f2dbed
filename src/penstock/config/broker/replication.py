"""Settings of replication between brokers."""

from __future__ import annotations

from penstock.config.setting import CLUSTER, Group, Setting
from penstock.config.values import INT, LONG, SECOND_MS, MiB


class ReplicationSettings(Group):
    """Followers and the in-sync replicas."""

    replica_lag_time_max_ms = Setting("replica.lag.time.max.ms", LONG, default=30 * SECOND_MS).documented(
        "How long a follower may be behind the leader's end before it leaves the in-sync replicas."
    )
    replica_socket_timeout_ms = Setting("replica.socket.timeout.ms", INT, default=30 * SECOND_MS).documented(
        "How long a follower waits for an answer of the leader; at least replica.fetch.wait.max.ms."
    )
    replica_fetch_wait_max_ms = Setting("replica.fetch.wait.max.ms", INT, default=500).documented(
        "How long the leader may hold a follower's fetch that finds too little."
    )
    replica_fetch_min_bytes = Setting("replica.fetch.min.bytes", INT, default=1).documented(
        "The leader holds a follower's fetch that finds less than this."
    )
    replica_fetch_max_bytes = Setting("replica.fetch.max.bytes", INT, default=1 * MiB, at_least=0).documented(
        "What a follower's fetch asks of one partition; a batch that is larger comes whole all the same."
    )
    replica_fetch_response_max_bytes = Setting(
        "replica.fetch.response.max.bytes", INT, default=10 * MiB, at_least=0
    ).documented("What a follower's fetch asks for in all.")
    replica_fetch_backoff_ms = Setting("replica.fetch.backoff.ms", INT, default=1 * SECOND_MS, at_least=0).documented(
        "Longest pause of a follower after errors of its leader; the first pause is much shorter."
    )
    num_replica_fetchers = Setting("num.replica.fetchers", INT, default=1, at_least=1, dynamic=CLUSTER).documented(
        "Connections over which this broker fetches from each leader."
    )
    replica_high_watermark_checkpoint_interval_ms = Setting(
        "replica.high.watermark.checkpoint.interval.ms", LONG, default=5 * SECOND_MS
    ).documented("Time between two writes of the high watermarks.")
    replication_quota_window_num = Setting("replication.quota.window.num", INT, default=11, at_least=1).documented(
        "Windows over which the rate of throttled replicas is measured."
    )
    replication_quota_window_size_seconds = Setting(
        "replication.quota.window.size.seconds", INT, default=1, at_least=1
    ).documented("Length of each of those windows.")
    alter_log_dirs_replication_quota_window_num = Setting(
        "alter.log.dirs.replication.quota.window.num", INT, default=11, at_least=1
    ).documented("Windows over which the rate of moves between log directories is measured.")
    alter_log_dirs_replication_quota_window_size_seconds = Setting(
        "alter.log.dirs.replication.quota.window.size.seconds", INT, default=1, at_least=1
    ).documented("Length of each of those windows.")
