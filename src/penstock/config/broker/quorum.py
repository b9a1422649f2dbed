"""Settings of the metadata quorum: elections, and how followers of the metadata log fetch it."""

from __future__ import annotations

from penstock.config.setting import Group, Setting
from penstock.config.values import BOOLEAN, INT, MINUTE_MS, SECOND_MS, MiB


class QuorumSettings(Group):
    """Timeouts of the quorum, and of joining it."""

    controller_quorum_election_timeout_ms = Setting(
        "controller.quorum.election.timeout.ms", INT, default=SECOND_MS, at_least=0
    ).documented("How long a voter waits for votes, or for a leader, before it becomes a candidate (again).")
    controller_quorum_fetch_timeout_ms = Setting(
        "controller.quorum.fetch.timeout.ms", INT, default=2 * SECOND_MS, at_least=0
    ).documented(
        "How long a follower waits for the leader's answers before it becomes a candidate; a leader that a "
        "majority has not fetched from for one and a half times as long resigns."
    )
    controller_quorum_election_backoff_max_ms = Setting(
        "controller.quorum.election.backoff.max.ms", INT, default=SECOND_MS, at_least=0
    ).documented("Longest pause after an election that was lost.")
    controller_quorum_request_timeout_ms = Setting(
        "controller.quorum.request.timeout.ms", INT, default=2 * SECOND_MS, at_least=0
    ).documented("How long a node of the quorum waits for the answer to one request.")
    controller_quorum_retry_backoff_ms = Setting(
        "controller.quorum.retry.backoff.ms", INT, default=20, at_least=0
    ).documented("Pause before a node of the quorum is asked again after a request failed.")
    controller_quorum_fetch_max_bytes = Setting(
        "controller.quorum.fetch.max.bytes", INT, default=MiB, at_least=1
    ).documented("Most bytes of the metadata log in one answer, beyond the first batch.")
    controller_quorum_fetch_snapshot_max_bytes = Setting(
        "controller.quorum.fetch.snapshot.max.bytes", INT, default=MiB, at_least=1
    ).documented("Most bytes of a checkpoint of the metadata log in one answer.")
    controller_quorum_auto_join_enable = Setting(
        "controller.quorum.auto.join.enable", BOOLEAN, default=False
    ).documented(
        "Whether a controller that is not among the voters of a dynamic quorum asks the leader to make it one. A "
        "voter with its id and another directory, which is the disk that it has lost, is removed first."
    )
    metadata_max_idle_interval_ms = Setting("metadata.max.idle.interval.ms", INT, default=500, at_least=0).documented(
        "How long the active controller appends nothing to the metadata log before it appends a record that says "
        "nothing, by which others see that it lives and how far they are behind; 0: never. A quorum of one voter has "
        "nobody to show it to, and writes none."
    )
    initial_broker_registration_timeout_ms = Setting(
        "initial.broker.registration.timeout.ms", INT, default=MINUTE_MS
    ).documented("How long a broker tries to register when it starts; then it ends.")
    broker_heartbeat_interval_ms = Setting("broker.heartbeat.interval.ms", INT, default=2 * SECOND_MS).documented(
        "Time between two heartbeats of a broker to a controller in another process."
    )
