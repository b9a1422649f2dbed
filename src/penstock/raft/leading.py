"""The leader: serves fetches, tracks how far the others are, and commits (KIP-595 "Fetch", KIP-630, KIP-1166).

A voter that asks for an offset has everything before it on disk; that is its acknowledgement. What a majority has is
committed, once it reaches into the leader's own epoch. A fetch that finds nothing waits for more records, or for a new
high watermark if its replica asks for that.
"""

from __future__ import annotations

from penstock.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages import fetch_response, fetch_snapshot_response
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from penstock.protocol.messages.kraft_version_record import KRaftVersionRecord
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage
from penstock.protocol.messages.leader_change_message import Voter as LeaderChangeVoter
from penstock.raft import messages
from penstock.raft.checkpoint import BOOTSTRAP, CheckpointId
from penstock.raft.core import Core
from penstock.raft.effects import AppendControl, Committed
from penstock.raft.history import BOOTSTRAP_OFFSET
from penstock.raft.limits import RAFT_OBSERVERS_MAX
from penstock.raft.replica_log import EpochEnd
from penstock.raft.states import Arrival, Leader, Parked, Progress
from penstock.raft.voters import ReplicaKey, Voter

OBSERVER_SESSION_MS = 300_000
"""An observer that has not fetched for so long is forgotten, as Kafka does."""
HIGHEST_OFFSET = 2**63 - 1


class Leading:
    """The part of a replica that leads, and that answers nodes which believe it is the leader."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def _leader(self) -> Leader:
        role = self._core.role
        assert isinstance(role, Leader), "only the leader does this"
        return role

    # Beginning

    def begin(self, now_ms: int) -> None:
        """This candidate has been elected: its epoch begins with a record of its own.

        The first leader of a formatted quorum writes the voters into the log, which formatting could not; one that has
        moved since writes its new address (KIP-853), which other voters tell the leader (UpdateRaftVoter).
        """
        core = self._core
        leader = core.become_leader(now_ms)
        change = LeaderChangeMessage(
            leader_id=core.local.id,
            voters=[LeaderChangeVoter(voter_id=voter_id) for voter_id in core.voters.voters],
            granting_voters=[LeaderChangeVoter(voter_id=voter_id) for voter_id in leader.granted],
        )
        records: list[Message] = [change]
        if core.history.kraft_version > 0:
            voters = core.voters
            endpoints = core.identity.endpoints
            if core.is_voter and endpoints and all(each.port for each in endpoints):
                voters = voters.with_voter(Voter(core.local, endpoints))
            if core.history.voters_offset == BOOTSTRAP_OFFSET or voters != core.voters:
                records += [KRaftVersionRecord(kraft_version=core.history.kraft_version), voters.to_record()]
        self.append_control(records)

    def append_control(self, records: list[Message]) -> int:
        """Appends control records as one batch; returns their last offset. Changes of the quorum count at once."""
        core = self._core
        base_offset = core.log.end_offset
        core.effects.append(AppendControl(core.epoch, tuple(records)))
        for number, record in enumerate(records):
            core.history.note(base_offset + number, record)
        self._leader.set_voters(core.voters)
        return base_offset + len(records) - 1

    # The disk

    def written(self, now_ms: int) -> None:
        """More of the log can be read: answers fetches that wait for it."""
        self._serve_parked(now_ms)

    def flushed(self, now_ms: int) -> bool:
        """The leader's own log is on disk up to the offset. Returns whether the high watermark moved."""
        core, leader = self._core, self._leader
        own = leader.voters.get(core.local.id)
        if own is not None:
            own.key = core.local
            own.end_offset = max(own.end_offset, core.flushed_offset)
            own.last_fetch_ms = own.last_caught_up_ms = now_ms
        return self._advance(now_ms)

    def _advance(self, now_ms: int) -> bool:
        core, leader = self._core, self._leader
        first = leader.high_watermark is None
        if not leader.advance(core.voters):
            return False
        assert leader.high_watermark is not None
        assert core.high_watermark is None or leader.high_watermark > core.high_watermark, "it never goes back"
        core.high_watermark = leader.high_watermark
        core.effects.append(Committed(leader.high_watermark, first))
        self._serve_parked(now_ms)
        return True

    # Fetch

    def leader_error(self, epoch: int) -> ErrorCode:
        """Whether a request to the leader of `epoch` is for this replica."""
        core = self._core
        if epoch < core.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > core.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if isinstance(core.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def on_fetch(self, request: FetchRequest, arrival: Arrival, now_ms: int, token: object) -> bool:
        """Fetch of the metadata log, versions 12-18; others are refused. Returns whether the high watermark moved."""
        core = self._core
        asked = core.partition_of(request) if arrival.version >= messages.FETCHES_FROM else None
        if asked is None:
            core.answer(token, messages.refusal(request, ErrorCode.INVALID_REQUEST))
            return False
        negative = min(request.max_wait_ms, asked.fetch_offset, asked.last_fetched_epoch) < 0
        error = self.leader_error(asked.current_leader_epoch)
        if negative or asked.last_fetched_epoch > asked.current_leader_epoch:
            error = ErrorCode.INVALID_REQUEST
        if error != ErrorCode.NONE:
            core.refuse_fetch(error, arrival, token)
            return False
        replica_id = request.replica_state.replica_id if request.replica_state.replica_id >= 0 else request.replica_id
        wait_ms = min(request.max_wait_ms, core.config.fetch_wait_max_ms)
        fetch = Parked(
            token,
            arrival,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            ReplicaKey(replica_id, asked.replica_directory_id),
            asked.high_watermark,
            now_ms + wait_ms,
        )
        moved = False
        if self._position(fetch.offset, fetch.last_epoch) is None:
            moved = self._fetched(fetch, now_ms)
        if not self._serve(fetch, now_ms, wait=wait_ms > 0):
            self._park(fetch, now_ms)
        return moved

    def _position(self, offset: int, last_epoch: int) -> EpochEnd | CheckpointId | None:
        """None if a log that ends so is a prefix of this one; else where they diverge, or the snapshot to fetch."""
        log = self._core.log
        snapshot = log.newest_snapshot
        if snapshot is not None and (offset == 0 or offset < log.start_offset):
            return snapshot
        end = log.end_of_epoch(last_epoch)
        if end is None:
            assert snapshot is not None, "a log that does not begin at 0 begins after a snapshot"
            return snapshot
        return None if end.epoch == last_epoch and offset <= end.end_offset else end

    def _fetched(self, fetch: Parked, now_ms: int) -> bool:
        """A replica has everything before its offset on disk. Returns whether the high watermark moved."""
        core, leader = self._core, self._leader
        end_offset = core.log.end_offset
        voter = leader.voters.get(fetch.key.id)
        if voter is None or fetch.key not in core.voters or fetch.key.id == core.local.id:
            self._observed(fetch, now_ms)
            return False
        voter.key = fetch.key
        voter.fetched(fetch.offset, end_offset, fetch.arrival.link, now_ms)
        self.heard(fetch.key, now_ms)
        return self._advance(now_ms)

    def _observed(self, fetch: Parked, now_ms: int) -> None:
        core, leader = self._core, self._leader
        if fetch.key.id < 0 or fetch.key == core.local:
            return
        progress = leader.observers.pop(fetch.key, None) or Progress(fetch.key)
        leader.observers[fetch.key] = progress  # in the order of their last fetches
        progress.fetched(fetch.offset, core.log.end_offset, fetch.arrival.link, now_ms)
        while len(leader.observers) > RAFT_OBSERVERS_MAX:
            del leader.observers[next(iter(leader.observers))]

    def heard(self, key: ReplicaKey, now_ms: int) -> None:
        """Check-quorum: as long as a majority fetches, including this replica if it votes, it stays the leader."""
        core, leader = self._core, self._leader
        if key not in core.voters or key.id == core.local.id:
            return
        leader.heard.add(key.id)
        needed = core.voters.majority - (1 if core.is_voter else 0)
        if len(leader.heard) >= needed:
            leader.heard.clear()
            leader.quorum_deadline_ms = now_ms + core.config.check_quorum_timeout_ms

    def _serve(self, fetch: Parked, now_ms: int, *, wait: bool) -> bool:
        """Answers a fetch if there is anything to send, or if it does not wait."""
        core, leader = self._core, self._leader
        high_watermark = messages.UNKNOWN if leader.high_watermark is None else leader.high_watermark
        partition = fetch_response.PartitionData(
            high_watermark=high_watermark, last_stable_offset=-1, log_start_offset=core.log.start_offset
        )
        where = self._position(fetch.offset, fetch.last_epoch)
        if isinstance(where, CheckpointId):
            partition.snapshot_id = fetch_response.SnapshotId(end_offset=where.end_offset, epoch=where.epoch)
        elif where is not None:
            partition.diverging_epoch = fetch_response.EpochEndOffset(epoch=where.epoch, end_offset=where.end_offset)
        else:
            partition.records = core.log.read(fetch.offset, core.config.fetch_max_bytes)
            news = fetch.high_watermark < high_watermark and fetch.high_watermark != HIGHEST_OFFSET
            if wait and not len(partition.records) and not news:
                return False
        view = core.view_for(FetchRequest, fetch.arrival)
        core.answer(fetch.token, messages.fetch_answer(view, partition))
        voter = leader.voters.get(fetch.key.id)
        if voter is not None:
            voter.answered(fetch.arrival.link, now_ms)
        return True

    def _park(self, fetch: Parked, now_ms: int) -> None:
        """Has a fetch wait. Each replica has at most one; an earlier one, whose connection is gone, is answered."""
        leader = self._leader
        for earlier in [each for each in leader.parked if each.key == fetch.key]:
            leader.parked.remove(earlier)
            self._serve(earlier, now_ms, wait=False)
        leader.parked.append(fetch)

    def _serve_parked(self, now_ms: int) -> None:
        leader = self._leader
        waiting, leader.parked = leader.parked, []
        leader.parked = [each for each in waiting if not self._serve(each, now_ms, wait=now_ms < each.deadline_ms)]

    # FetchSnapshot

    def on_fetch_snapshot(self, request: FetchSnapshotRequest, arrival: Arrival, now_ms: int, token: object) -> None:
        """FetchSnapshot, versions 0-1: a piece of a checkpoint of this replica."""
        core = self._core
        asked = core.partition_of(request)
        partition = fetch_snapshot_response.PartitionSnapshot()
        if asked is None:
            core.answer(token, messages.refusal(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        snapshot = CheckpointId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        size_bytes = None if snapshot == BOOTSTRAP else core.log.snapshot_size(snapshot)
        partition.error_code = self.leader_error(asked.current_leader_epoch)
        if partition.error_code == ErrorCode.NONE:
            if size_bytes is None:
                partition.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
            elif not 0 <= asked.position < size_bytes:
                partition.error_code = ErrorCode.POSITION_OUT_OF_RANGE
            else:
                self.heard(ReplicaKey(request.replica_id, asked.replica_directory_id), now_ms)
                limit_bytes = min(max(1, request.max_bytes), core.config.fetch_snapshot_max_bytes)
                partition.snapshot_id = fetch_snapshot_response.SnapshotId(
                    end_offset=snapshot.end_offset, epoch=snapshot.epoch
                )
                partition.size, partition.position = size_bytes, asked.position
                partition.unaligned_records = core.log.read_snapshot(snapshot, asked.position, limit_bytes)
        core.answer(token, messages.fetch_snapshot_answer(core.view_for(FetchSnapshotRequest, arrival), partition))

    # Time

    def poll(self, now_ms: int) -> int | None:
        """Does what is due; returns when to be called again."""
        core, leader = self._core, self._leader
        if any(now_ms >= each.deadline_ms for each in leader.parked):
            self._serve_parked(now_ms)
        deadlines = [each.deadline_ms for each in leader.parked]
        while leader.observers:
            oldest = next(iter(leader.observers.values()))
            if now_ms - oldest.last_fetch_ms < OBSERVER_SESSION_MS:
                break
            del leader.observers[oldest.key]
        if any(voter_id != core.local.id for voter_id in core.voters.voters):
            if now_ms >= leader.quorum_deadline_ms:
                core.become_resigned(now_ms)
                return now_ms
            if now_ms >= leader.begin_due_ms:
                self._make_known(now_ms)
            deadlines += [leader.quorum_deadline_ms, leader.begin_due_ms]
        return min(deadlines, default=None)

    def _make_known(self, now_ms: int) -> None:
        """Announces the leader to voters that have not fetched lately and may not know it."""
        core, leader = self._core, self._leader
        interval_ms = core.config.begin_epoch_interval_ms
        leader.begin_due_ms = now_ms + interval_ms
        for voter_id, progress in leader.voters.items():
            target = core.target_of(voter_id)
            if voter_id == core.local.id or target is None or core.channels.wait_ms(voter_id, now_ms) != 0:
                continue
            if progress.last_fetch_ms < 0 or now_ms - progress.last_fetch_ms >= interval_ms:
                key = core.voters.voters[voter_id].key
                endpoints = core.identity.endpoints
                request = messages.begin_quorum_epoch(
                    core.identity.cluster_id, core.local.id, core.epoch, key, endpoints, topic=core.identity.topic
                )
                core.call(target, request)

    def begin_answered(self, voter_id: int, response: object, *, current: bool, now_ms: int) -> None:
        """A voter has heard of this leader, or knows of a later epoch."""
        core = self._core
        partition = core.partition_of(response)
        if partition is not None:
            core.hear_news(messages.news_of(response, partition, core.identity.listener), now_ms)
