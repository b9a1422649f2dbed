"""A log on a simulated disk, its owner, and batches to put into it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

from penstock.config.topic import TopicConfig
from penstock.log.checked_times import TimesNotChecked
from penstock.log.disk import Disk, Operation
from penstock.log.loading import OpenArguments
from penstock.log.log import Log
from penstock.log.opening import open_log
from penstock.log.results import Appended
from penstock.log.undoing import cut_again, undo_appends
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from simulator.world.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
EXPIRATION_MS = 86_400_000
NAME = "clicks-0"


def topic_config(**overrides: Any) -> TopicConfig:
    """The defaults of a topic with some attributes changed; `segment_bytes` without its lower bound."""
    values = dict(vars(TopicConfig.defaults()))
    if "segment_bytes" in overrides:
        overrides["internal_segment_bytes"] = overrides.pop("segment_bytes")
    assert overrides.keys() <= values.keys(), overrides
    return TopicConfig(values | overrides)


def batch(
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    step_ms: int = 0,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A batch of records without keys, `step_ms` apart. `producer` is (id, epoch, base sequence)."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=transactional,
    )
    for number, value in enumerate(values):
        builder.append(timestamp_ms + number * step_ms, None, value)
    return builder.build()


def marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> bytearray:
    """The end of a transaction."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    end = EndTransactionMarker(kind, coordinator_epoch)
    return end_transaction_marker(end, producer_id=producer_id, producer_epoch=epoch, wall_ms=NOW_MS)


class OneLog:
    """A log and its owner: runs what the log wants done, in order, when told to, and notes what it is told.

    Attributes: `told` has (event, argument) in order; `now_ms` is the time of everything; `files_deleted` were renamed;
    `goes_on`: whether it survives a full disk.
    """

    def __init__(self, config: TopicConfig | None = None, disk: Disk | None = None, name: str = NAME) -> None:
        self.disk: Any = disk if disk is not None else SimulatedDisk()
        self.config = config or topic_config()
        self.name = name
        self.now_ms = NOW_MS
        self.told: list[tuple[str, Any]] = []
        self.files_deleted: list[str] = []
        self.goes_on = False
        self.taken: deque[Operation] = deque()
        self.calls_to_take = 0
        self.disk.make_directory(name)
        self.log = self.open()

    def open(self, *, recovery_point: int = 0, log_start_offset: int = 0) -> Log:
        """Opens the log anew, whatever became of the last one."""
        self.taken.clear()
        self.calls_to_take = 0
        arguments = OpenArguments(self.name, self.config, recovery_point, log_start_offset, self.now_ms)
        loop_disk = getattr(self.disk, "loop", None)
        self.log = open_log(self.disk, arguments, self, random=Random(0), loop_disk=loop_disk)
        return self.log

    def take(self) -> None:
        self.calls_to_take = 0
        self.taken += self.log.take_operations()

    def run(self) -> None:
        """Does everything that the log wants done, and what comes of it."""
        self.take()
        while self.taken:
            self.run_one()
            self.take()

    def run_one(self) -> Operation:
        """Does the next operation taken."""
        operation = self.taken.popleft()
        try:
            result = operation.run(self.disk)
        except OSError as error:
            operation.owner.operation_failed(operation, error, self.now_ms)
        else:
            operation.owner.operation_completed(operation, result, self.now_ms)
        return operation

    def append(self, records: bytearray, leader_epoch: int = 0, **more: Any) -> Appended:
        """Appends as the leader, and sees it written."""
        appended = self.log.append_as_leader(records, leader_epoch, self.now_ms, **more)
        assert isinstance(appended, Appended), appended
        self.run()
        return appended

    def close(self) -> None:
        self.log.close(self.now_ms)
        self.run()
        assert ("closed", self.log) in self.told

    def reopen(self) -> Log:
        """A clean stop and start."""
        self.close()
        return self.open(recovery_point=self.log.recovery_point, log_start_offset=self.log.log_start_offset)

    def delete_old_segments(self, high_watermark: int, now_ms: int | None = None) -> int:
        """Retention, with what the lane has to check for it."""
        at_ms = self.now_ms if now_ms is None else now_ms
        try:
            return self.log.delete_old_segments(at_ms, high_watermark)
        except TimesNotChecked as missing:
            missing.was_read(missing.read(self.disk))
        return self.delete_old_segments(high_watermark, at_ms)

    def content(self, offset: int | None = None, upper_offset: int | None = None, max_bytes: int = 1 << 20) -> bytes:
        """All that a reader gets from an offset (the log start) on."""
        log = self.log
        at = log.log_start_offset if offset is None else offset
        data = b""
        while True:
            found = log.read(at, max_bytes, upper_offset)
            if not found.size_bytes:
                return data
            for piece in found.slices:
                data += self.disk.read(piece.path, piece.position, piece.length)
            assert found.next_offset > at
            at = found.next_offset

    # LogOwner

    def log_has_operations(self, log: Log) -> None:
        self.calls_to_take += 1
        assert self.calls_to_take == 1, "asked once a turn"

    def log_wrote(self, log: Log, now_ms: int) -> None:
        self.told.append(("wrote", log.log_end_offset))

    def log_advanced(self, log: Log, now_ms: int) -> None:
        self.told.append(("advanced", log.log_end_offset))

    def log_start_moved(self, log: Log) -> None:
        self.told.append(("start moved", log.log_start_offset))

    def log_flushed(self, log: Log, now_ms: int) -> None:
        self.told.append(("flushed", log.recovery_point))

    def log_cut(self, log: Log, now_ms: int) -> None:
        log.end_truncation(now_ms)

    def log_truncated(self, log: Log, now_ms: int) -> None:
        self.told.append(("truncated", log.log_end_offset))

    def log_closed(self, log: Log, now_ms: int) -> None:
        self.told.append(("closed", log))

    def log_files_deleted(self, log: Log, paths: Sequence[str], now_ms: int) -> None:
        self.files_deleted += paths

    def log_has_no_room(self, log: Log, error: OSError, now_ms: int) -> bool:
        if self.goes_on:
            undo_appends(log, now_ms)
            self.told.append(("undone", log.log_end_offset))
        return self.goes_on

    def cut_again(self) -> None:
        """Does what its owner does some time after a truncation has found no room."""
        cut_again(self.log)

    def log_failed(self, log: Log, error: OSError, now_ms: int) -> None:
        self.told.append(("failed", error))

    def log_broke(self, log: Log, error: Exception, now_ms: int) -> None:
        self.told.append(("broke", error))
