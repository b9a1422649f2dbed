"""Settings of life in a cluster: sessions of brokers with the controller, and who leads."""

from __future__ import annotations

from penstock.config.setting import Group, Setting
from penstock.config.values import BOOLEAN, INT, LONG, MINUTE_MS, SECOND_MS


class ClusterSettings(Group):
    """Sessions, leadership."""

    broker_session_timeout_ms = Setting("broker.session.timeout.ms", INT, default=9 * SECOND_MS).documented(
        "How long the controller waits for a heartbeat before it takes a broker's leaderships away."
    )
    auto_leader_rebalance_enable = Setting("auto.leader.rebalance.enable", BOOLEAN, default=True).documented(
        "Whether the controller gives partitions back to their preferred leaders by itself."
    )
    leader_imbalance_check_interval_seconds = Setting(
        "leader.imbalance.check.interval.seconds", LONG, default=300, at_least=1
    ).documented("Seconds between two looks for partitions that are not led by their preferred leader.")
    unclean_leader_election_interval_ms = Setting(
        "unclean.leader.election.interval.ms", LONG, default=5 * MINUTE_MS, at_least=1, internal=True
    ).documented("Time between two looks for partitions without a leader that may have one which is not in sync.")
