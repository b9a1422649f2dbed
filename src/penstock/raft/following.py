"""The follower and the observer: fetch, append, truncate, and install a snapshot (KIP-595 "Fetch", KIP-630).

One fetch at a time, and none beyond what is on this replica's disk: for the leader a fetch acknowledges that everything
before it is durable. What a leader sends is checked before it is appended: checksums, that it continues where the log
ends, and that epochs rise. Nothing below the high watermark is ever truncated, even if a leader asks for it.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import CorruptRecordError, ErrorCode, InvalidRecordError, ProtocolError
from penstock.protocol.message import Buffer, Message
from penstock.raft import messages
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.core import Core
from penstock.raft.effects import AppendFetched, Committed, InstallSnapshot, LoadSnapshot, Truncate, WriteSnapshot
from penstock.raft.states import Download, Follower
from penstock.raft.voters import Voter, VoterSet
from penstock.records.batch import check_crc, headers
from penstock.records.control import control_records


class Following:
    """The part of a replica that follows a leader."""

    def __init__(self, core: Core) -> None:
        self._core = core

    # Time

    def poll(self, role: Follower, now_ms: int) -> int | None:
        """Fetches, or stands when the leader has not answered for too long. Returns when to be called again."""
        core = self._core
        if now_ms >= role.fetch_deadline_ms and not core.held_up:
            if core.may_stand and not core.stopping:
                core.become_prospective(now_ms)
                return now_ms
            if not core.may_stand:
                core.become_unattached(role.epoch, now_ms)
                return now_ms
        busy = core.held_up or core.flushed_offset < max(core.log.end_offset, core.appending_to)
        busy = busy or (role.download is not None and role.download.writing)
        wait_ms = core.channels.wait_ms(role.target.node_id, now_ms)
        if now_ms >= role.update_voter_due_ms and wait_ms == 0:
            role.update_voter_due_ms = now_ms + core.config.fetch_timeout_ms
            request = self._news_of_itself(role)
            if request is not None:
                core.call(role.target, request)
                wait_ms = None
        deadlines = [] if core.held_up or (core.stopping and core.may_stand) else [role.fetch_deadline_ms]
        if wait_ms is not None and not busy:
            if wait_ms == 0:
                core.call(role.target, self._next_request(role))
            else:
                deadlines.append(now_ms + wait_ms)
        if role.suspected and not core.may_stand and not core.stopping:
            again_ms = core.discover_leader(now_ms, besides=role.leader_id)
            deadlines += [] if again_ms is None else [again_ms]
        return min(deadlines, default=None)

    def _own_voter(self) -> Voter:
        return Voter(self._core.local, self._core.identity.endpoints)

    def _news_of_itself(self, role: Follower) -> Message | None:
        """The request that tells the leader about this voter, or by which this replica becomes one; None: no need."""
        core = self._core
        cluster_id = core.identity.cluster_id
        if self._is_to_update(role):
            return messages.update_voter(cluster_id, core.epoch, self._own_voter())
        if core.is_voter or not (core.config.auto_join and core.identity.stands and core.history.kraft_version):
            return None
        before = core.voters.voters.get(core.local.id)
        if before is not None:  # this node with the disk that it has lost
            return messages.remove_voter(cluster_id, before.key)
        return messages.add_voter(cluster_id, self._own_voter(), timeout_ms=core.config.request_timeout_ms)

    def _is_to_update(self, role: Follower) -> bool:
        """Whether the leader must be told about this voter (KIP-853): its entry in the log is outdated. With
        kraft.version 0 there is none, and each leader is told once.
        """
        core = self._core
        if not core.is_voter or not core.identity.endpoints:
            return False
        if core.history.kraft_version == 0:
            return not role.has_updated
        return core.voters.voters[core.local.id] != self._own_voter()

    def update_answered(self, node_id: int, response: Any, *, current: bool, now_ms: int) -> None:
        """The leader has been told about this voter, or does not support that (UNSUPPORTED_VERSION before 4.2)."""
        core = self._core
        news = messages.news_of_update(response, core.identity.listener)
        role = core.role
        if current and isinstance(role, Follower) and news.error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
            role.has_updated = True
            role.fetch_deadline_ms = max(role.fetch_deadline_ms, now_ms + core.config.fetch_timeout_ms)
        core.hear_news(news, now_ms)

    def _next_request(self, role: Follower) -> Message:
        core = self._core
        if role.download is None:
            return core.fetch_request(0 if role.suspected else core.config.fetch_wait_max_ms)
        return messages.fetch_snapshot(
            core.identity.cluster_id,
            core.local,
            core.epoch,
            role.download.snapshot,
            position=role.download.position,
            max_bytes=core.config.fetch_snapshot_max_bytes,
            topic=core.identity.topic,
        )

    def suspect(self, now_ms: int) -> None:
        """The leader may be gone: asks it for a sign of life, for which it has a short time.

        Then a voter stands; it disturbs nobody as long as others have heard of the leader (KIP-996). An observer asks
        the voters meanwhile whether there is another leader.
        """
        core = self._core
        role = core.role
        if not isinstance(role, Follower) or role.suspected:
            return
        role.suspected = True
        if core.is_voter:
            grace_ms = core.config.leader_grace_ms + core.random.randrange(core.config.leader_grace_ms // 2 + 1)
            role.fetch_deadline_ms = min(role.fetch_deadline_ms, now_ms + grace_ms)

    def _end_lease(self) -> None:
        """The leader does nothing by itself any more."""
        role = self._core.role
        if isinstance(role, Follower):
            role.leased_until_ms = -1

    def leader_gone(self, now_ms: int) -> None:
        """The leader's process has ended: stands after a short random time, so that not all stand at once."""
        core = self._core
        self._end_lease()
        self.suspect(now_ms)
        role = core.role
        if isinstance(role, Follower) and role.suspected and core.is_voter:
            wait_ms = core.random.randrange(core.config.leader_gone_ms + 1)
            role.fetch_deadline_ms = min(role.fetch_deadline_ms, now_ms + wait_ms)

    # Fetch

    def fetch_answered(self, node_id: int, response: Any, *, current: bool, now_ms: int) -> None:
        """Handles an answer from the leader, or from the node asked for the leader."""
        core = self._core
        partition = core.partition_of(response) if response.error_code == ErrorCode.NONE else None
        if partition is None:
            core.back_off(node_id, now_ms, core.config.retry_backoff_ms)
            return
        news = messages.news_of(response, partition, core.identity.listener)
        if core.hear_news(news, now_ms):
            if news.error != ErrorCode.NONE:
                core.back_off(node_id, now_ms, core.config.retry_backoff_ms)
            if current and news.error == ErrorCode.NOT_LEADER_OR_FOLLOWER and self._follows(node_id):
                self._end_lease()
                self.suspect(now_ms)  # it has resigned, or has started anew
            return
        role = core.role
        if not current or not isinstance(role, Follower) or node_id != role.target.node_id:
            return
        if news.error != ErrorCode.NONE or not self._take(role, partition):
            core.back_off(node_id, now_ms, core.config.retry_backoff_ms)
            return
        role.has_fetched = True
        role.suspected = False
        role.leased_until_ms = now_ms + core.config.lease_ms
        role.fetch_deadline_ms = now_ms + core.config.fetch_timeout_ms

    def _follows(self, node_id: int) -> bool:
        role = self._core.role
        return isinstance(role, Follower) and role.target.node_id == node_id

    def fetch_failed(self, node_id: int, *, current: bool, now_ms: int) -> None:
        """Handles a fetch that got no answer: the leader no longer listens, or the connection broke."""
        if current and self._follows(node_id):
            self.suspect(now_ms)

    def _take(self, role: Follower, partition: Any) -> bool:
        """Acts on the leader's answer. False if it makes no sense."""
        diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
        if diverging.epoch >= 0:
            return self._truncate(diverging.epoch, diverging.end_offset)
        if snapshot.epoch >= 0 or snapshot.end_offset >= 0:
            return self._begin_download(role, CheckpointId(snapshot.end_offset, snapshot.epoch))
        records = partition.records
        if records is not None and len(records) and not self._append(role, records):
            return False
        role.leader_high_watermark = max(role.leader_high_watermark, partition.high_watermark)
        self.advance(role)
        return True

    def _append(self, role: Follower, records: Buffer) -> bool:
        """Checks batches and has them appended. False if they do not belong here."""
        core = self._core
        view = memoryview(records)
        next_offset, last_epoch, end = core.log.end_offset, core.log.last_epoch, 0
        notes: list[tuple[int, Message]] = []
        try:
            for position, header in headers(view):
                check_crc(view, position, header)
                rises = last_epoch <= header.leader_epoch <= core.epoch
                if header.base_offset != next_offset or header.last_offset_delta < 0 or not rises:
                    return False
                if header.is_control:
                    for record in control_records(view, header, position):
                        if isinstance(record.message, Message):
                            notes.append((record.offset, record.message))
                next_offset, last_epoch = header.next_offset, header.leader_epoch
                end = position + header.size_bytes
        except (CorruptRecordError, InvalidRecordError, ProtocolError):
            return False
        if not end:
            return False
        for offset, message in notes:
            core.history.note(offset, message)
        core.appending_to = next_offset
        core.effects.append(AppendFetched(view[:end], next_offset))
        return True

    def advance(self, role: Follower) -> None:
        """Takes over the leader's high watermark, as far as this replica's disk has the log."""
        core = self._core
        reached = min(role.leader_high_watermark, core.flushed_offset)
        if reached > (core.high_watermark or 0):
            core.high_watermark = reached
            core.effects.append(Committed(reached, first=False))

    # Divergence

    def _truncate(self, epoch: int, end_offset: int) -> bool:
        """The logs diverge: truncates this one to the end of what they may share (KIP-595, as KIP-101 and KIP-279)."""
        core = self._core
        own = core.log.end_of_epoch(epoch)
        offset = -1
        if own is not None:
            offset = min(own.end_offset, end_offset) if own.epoch == epoch else own.end_offset
        committed_offset = max(core.committed_offset, core.log.start_offset)
        if offset < committed_offset:
            core.fail(
                f"the leader of epoch {core.epoch} wants the log cut to offset {offset}, "
                f"and everything below {committed_offset} is committed"
            )
            return False
        if offset >= core.log.end_offset:
            return False
        core.cutting = True
        core.appending_to = 0
        core.history.truncate(offset)
        core.effects.append(Truncate(offset))
        return True

    def truncated(self, log_end_offset: int) -> None:
        """The log has been truncated."""
        core = self._core
        core.cutting = False
        core.history.truncate(log_end_offset)
        core.flushed_offset = min(core.flushed_offset, log_end_offset)

    # Snapshots

    def _begin_download(self, role: Follower, snapshot: CheckpointId) -> bool:
        core = self._core
        if snapshot.epoch < 0 or snapshot.end_offset <= core.committed_offset:
            return False
        role.download = Download(snapshot)
        return True

    def snapshot_answered(self, node_id: int, response: Any, *, current: bool, now_ms: int) -> None:
        """A piece of the snapshot has arrived, or the leader no longer has it: then the next fetch names another."""
        core = self._core
        partition = core.partition_of(response) if response.error_code == ErrorCode.NONE else None
        if partition is None:
            core.back_off(node_id, now_ms, core.config.retry_backoff_ms)
            return
        news = messages.news_of(response, partition, core.identity.listener)
        if core.hear_news(news, now_ms):
            core.back_off(node_id, now_ms, core.config.retry_backoff_ms)
            return
        role = core.role
        if not current or not isinstance(role, Follower):
            return
        download = role.download
        assert download is not None, "a snapshot is asked for while one is fetched"
        data = partition.unaligned_records
        fits = partition.position == download.position and 0 < len(data) <= partition.size - partition.position
        same = (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == (
            download.snapshot.end_offset,
            download.snapshot.epoch,
        )
        if news.error != ErrorCode.NONE or not same or not fits:
            role.download = None
            core.back_off(node_id, now_ms, core.config.retry_backoff_ms)
        else:
            role.suspected = False
            download.writing, download.size_bytes = True, partition.size
            core.effects.append(WriteSnapshot(download.snapshot, download.position, data))
        role.fetch_deadline_ms = now_ms + core.config.fetch_timeout_ms

    def snapshot_written(self, snapshot: CheckpointId, size_bytes: int) -> None:
        """Notes how much of the snapshot is in its partial file."""
        core, role = self._core, self._core.role
        if not isinstance(role, Follower) or role.download is None or role.download.snapshot != snapshot:
            return
        role.download.position, role.download.writing = size_bytes, False
        if size_bytes == role.download.size_bytes:
            core.cutting = True
            core.appending_to = 0
            core.effects.append(InstallSnapshot(snapshot))

    def snapshot_installed(self, snapshot: CheckpointId, voters: VoterSet | None, kraft_version: int) -> None:
        """The snapshot is in its place, and the log begins, empty, at its end."""
        core = self._core
        core.cutting = False
        core.history.start_at(snapshot.end_offset, voters, kraft_version)
        core.flushed_offset = snapshot.end_offset
        if isinstance(core.role, Follower):
            core.role.download = None
        core.high_watermark = max(core.high_watermark or 0, snapshot.end_offset)
        core.effects.append(LoadSnapshot(snapshot))
        core.effects.append(Committed(core.high_watermark, first=False))

    def snapshot_refused(self, now_ms: int) -> None:
        """Fetches a snapshot again that arrived damaged or was not a snapshot."""
        core = self._core
        core.cutting = False
        if isinstance(core.role, Follower):
            core.role.download = None
            core.back_off(core.role.target.node_id, now_ms, core.config.retry_backoff_ms)
