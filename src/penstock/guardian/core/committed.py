"""The committed part of Guardian's log as one node follows it: replayed into the state, and snapshotted.

`commit` says up to which offset the log is committed. A follower reads what is new from its log, in steps. The leader
has replayed its records when it appended them (`guardian.core.leader`) and hands over the states it made. Each node
writes its own snapshots, as records that make the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.errors import StorageError
from penstock.guardian.core.limits import GUARDIAN_RECORDS_PER_STEP
from penstock.guardian.core.records import FEATURE_LEVEL, decode_records, encode_records
from penstock.guardian.core.state import EMPTY, GuardianState, replay, snapshot_records
from penstock.raft.checkpoint import Checkpoint, CheckpointId, LogBatch, checkpoint_batches
from penstock.raft.storage import Storage
from penstock.records.wall import WallTime

SNAPSHOT_RETRY_MS = 60_000
"""When a snapshot that found no room is tried again."""


class Committed:
    """See the module's head.

    Attributes:
        state: after everything that is committed and applied.
        applied_offset: the offset below which that is all of the log. epoch: of the last record there.
        high_watermark: how far the log is committed, as far as this node knows.
        following: whether the log is read for it; else the leader hands over what it has made.
    """

    def __init__(self, snapshot_bytes: int, wall: WallTime, *, knows: int = FEATURE_LEVEL) -> None:
        self._knows = knows
        self.state: GuardianState = EMPTY
        self.applied_offset = 0
        self.epoch = 0
        self.high_watermark = 0
        self.following = True
        self._wall = wall
        self._snapshot_bytes = snapshot_bytes
        self._bytes_since_snapshot = 0
        self._writing = False
        self._retry_ms: int | None = None
        self._storage: Storage

    def open(self, storage: Storage, found: tuple[CheckpointId, Checkpoint] | None) -> None:
        """Begins with the newest snapshot, if there is one. Raises StorageError for one that cannot be followed."""
        self._storage = storage
        if found is not None:
            self._restore(*found)

    def _restore(self, snapshot: CheckpointId, content: Checkpoint) -> None:
        self.state = replay(EMPTY, decode_records(content.values, snapshot.file), knows=self._knows)
        self.applied_offset, self.epoch = snapshot.end_offset, snapshot.epoch
        self.high_watermark = max(self.high_watermark, snapshot.end_offset)
        self._bytes_since_snapshot = 0

    def load_snapshot(self, snapshot: CheckpointId) -> None:
        """A fetched snapshot takes the place of everything before its end."""
        found = self._storage.newest_checkpoint()
        assert found is not None, "a snapshot was installed"
        assert found[0] == snapshot, "the installed snapshot is the newest"
        self._restore(*found)

    @property
    def behind(self) -> bool:
        """Whether committed records are still to be applied by `step`."""
        return self.following and self.applied_offset < self.high_watermark

    def commit(self, high_watermark: int) -> None:
        """Everything below the offset is committed."""
        assert high_watermark >= self.high_watermark, "the high watermark never goes back"
        self.high_watermark = high_watermark

    def step(self, now_ms: int) -> None:
        """Applies some of what is committed, as much as one step allows. Raises StorageError."""
        applied = 0
        for batch in self._new_batches():
            records = decode_records(batch.values)
            self.apply(
                replay(self.state, records, knows=self._knows), batch.header.last_offset, batch.header.leader_epoch
            )
            self._bytes_since_snapshot += batch.header.size_bytes
            applied += len(records)
            if applied >= GUARDIAN_RECORDS_PER_STEP:
                break
        self.consider_snapshot(now_ms)

    def _new_batches(self) -> Iterator[LogBatch]:
        if self.behind:
            for batch in self._storage.batches(self.applied_offset):
                if batch.header.last_offset >= self.high_watermark:
                    return
                if batch.header.base_offset != self.applied_offset:
                    raise StorageError(
                        f"{self._storage.name}: offset {self.applied_offset} is followed by a batch at "
                        f"{batch.header.base_offset}"
                    )
                yield batch

    def apply(self, state: GuardianState, last_offset: int, epoch: int) -> None:
        """The state after a batch that is committed."""
        assert last_offset >= self.applied_offset, "batches are applied in their order"
        self.state, self.applied_offset, self.epoch = state, last_offset + 1, epoch

    def appended(self, size_bytes: int) -> None:
        """The leader has appended so much."""
        self._bytes_since_snapshot += size_bytes

    # Snapshots

    def consider_snapshot(self, now_ms: int) -> None:
        """Writes a snapshot if enough has changed since the last one."""
        waits = self._retry_ms is not None and now_ms < self._retry_ms
        if self._writing or waits or self.behind or self._bytes_since_snapshot < self._snapshot_bytes:
            return
        if not self.state.feature_level:
            return
        self._writing, self._retry_ms, self._bytes_since_snapshot = True, None, 0
        snapshot, state = CheckpointId(self.applied_offset, self.epoch), self.state
        self._storage.write_checkpoint(snapshot, self._content(snapshot, state, self._wall.at(now_ms)))

    def _content(self, snapshot: CheckpointId, state: GuardianState, wall_ms: int) -> Callable[[], Iterator[bytearray]]:
        return lambda: checkpoint_batches(
            encode_records(snapshot_records(state)),
            epoch=snapshot.epoch,
            last_contained_timestamp_ms=wall_ms,
            wall_ms=wall_ms,
        )

    def snapshot_written(self, now_ms: int) -> None:
        """The snapshot is durable: older ones and the log before it may be deleted."""
        self._writing = False
        self._storage.retire(min(self.applied_offset, self._storage.log.log_end_offset), now_ms)

    def snapshot_found_no_room(self, now_ms: int) -> None:
        """A snapshot is written later; the log is kept as it is until then."""
        self._writing = False
        self._retry_ms, self._bytes_since_snapshot = now_ms + SNAPSHOT_RETRY_MS, self._snapshot_bytes

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `step` must be called."""
        return now_ms if self.behind else self._retry_ms
