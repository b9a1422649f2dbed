"""The times and sizes of the quorum, by the names of their settings: `controller.quorum.*`, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Settings of one replica.

    Attributes:
        election_timeout_ms: how long a voter waits for votes, or for a leader, before it becomes a candidate (again).
        fetch_timeout_ms: how long a follower waits for an answer to its fetches before it stands; a leader that
            a majority has not fetched from for one and a half times as long resigns.
        election_backoff_max_ms: longest pause after an election that was lost.
        request_timeout_ms: how long an answer to a request is awaited.
        retry_backoff_ms: pause before a node is asked again after a request failed.
        fetch_wait_max_ms: how long the leader may keep a fetch that has nothing to get.
        fetch_max_bytes: most bytes of records in one answer to a fetch, beyond the first batch.
        fetch_snapshot_max_bytes: most bytes of a snapshot in one answer.
        leader_grace_ms: how long a leader whose connection broke has for an answer on another one before a voter
            stands; half as long again by chance, so that not all stand at once.
        leader_gone_ms: the same for a leader whose process is known to be no more: within this time, by chance.
        start_election_ms: how long a voter that has just started waits before it asks for pre-votes; as long again by
            chance. They disturb nobody, and a quorum that starts as a whole need not wait for an election timeout.
        lease_ms: how long a voter that has an answer from its leader helps nobody else to lead, even if the connection
            breaks, unless the leader resigns or its process ends. So a leader that does things by itself only while a
            majority is known to have followed it for less than this does nothing beside its successor. 0 for the
            metadata quorum: its leader does nothing that is not in the log.
        auto_join: a controller that is no voter asks to become one, and has the voter removed that it was with the
            directory before.
    """

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_wait_max_ms: int = 500
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024
    leader_grace_ms: int = 300
    leader_gone_ms: int = 60
    start_election_ms: int = 100
    lease_ms: int = 0
    auto_join: bool = False

    @property
    def check_quorum_timeout_ms(self) -> int:
        """How long a leader goes on without hearing from a majority before it resigns: 1.5 fetch timeouts, to allow for
        the network.
        """
        return self.fetch_timeout_ms + self.fetch_timeout_ms // 2

    @property
    def begin_epoch_interval_ms(self) -> int:
        """How often a leader announces itself to voters that do not fetch."""
        return max(1, self.fetch_timeout_ms // 2)
