"""Logs with keys for the cleaner, what is in them, and what a pass should leave: a model with a dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.config.topic import TopicConfig
from penstock.log.compaction.cleaning import run_pass
from penstock.log.compaction.copying import copy_the_rest
from penstock.log.compaction.offset_map import ENTRY_BYTES, LatestOffsets, OffsetMap
from penstock.log.compaction.parts import Room, part_of
from penstock.log.compaction.passes import Pass, plan_pass
from penstock.log.compaction.report import PassReport
from penstock.log.compaction.target import Target
from penstock.log.disk import Disk
from penstock.log.loading import OpenArguments, load
from penstock.log.names import LOG, offset_of
from penstock.log.producer_state import Origin
from penstock.log.recovery import recover_log
from penstock.records.batch import BatchHeader, entries
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from penstock.records.reader import records
from support.logs import NAME, NOW_MS, OneLog, topic_config

DAY_MS = 86_400_000
HASH_KEY = bytes(range(16))
Pair = tuple[bytes | None, bytes | None]
OUT = "cleaned-0"


class Written(NamedTuple):
    """A record as it was appended."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int


@dataclass
class History:
    """A log that is being written, and the records that went into it."""

    one: OneLog
    written: list[Written] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    open: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def empty(cls, **config: Any) -> History:
        return cls(OneLog(topic_config(**{"index_interval_bytes": 100, **config})))

    def append(
        self,
        pairs: Sequence[Pair],
        *,
        codec: Codec = Codec.NONE,
        producer_id: int = -1,
        transactional: bool = False,
        timestamp_ms: int = NOW_MS,
    ) -> int:
        """One batch; every third record has a header. Returns its base offset."""
        is_idempotent = producer_id >= 0
        sequence = self.sequences.get(producer_id, 0) if is_idempotent else -1
        builder = BatchBuilder(
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if is_idempotent else -1,
            base_sequence=sequence,
            is_transactional=transactional,
        )
        base_offset = self.one.log.log_end_offset
        for number, (key, value) in enumerate(pairs):
            extra = (("trace", b"%d" % number),) if number % 3 == 2 else ()
            at_ms = timestamp_ms + number * 7 % 5
            builder.append(at_ms, key, value, extra)
            self.written.append(Written(base_offset + number, key, value, at_ms, extra, producer_id))
        if is_idempotent:
            self.sequences[producer_id] = sequence + len(pairs)
        if transactional:
            self.open.setdefault(producer_id, []).extend(range(base_offset, base_offset + len(pairs)))
        self.one.append(builder.build())
        return base_offset

    def end(self, producer_id: int, *, commit: bool, timestamp_ms: int = NOW_MS) -> None:
        """Ends a producer's transaction."""
        offsets = self.open.pop(producer_id, [])
        if not commit:
            self.aborted.update(offsets)
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        end = EndTransactionMarker(kind, coordinator_epoch=0)
        batch = end_transaction_marker(end, producer_id=producer_id, producer_epoch=0, wall_ms=timestamp_ms)
        self.one.append(batch, origin=Origin.COORDINATOR)

    def roll(self) -> None:
        self.one.log.roll(self.one.now_ms)
        self.one.run()


def survivors(history: History, latest_offset: int, touched_end: int) -> list[Written]:
    """What a first pass leaves: the model. No delete horizon has been set before, so delete markers stay.

    The map knows the keys up to `latest_offset`; the segments that were cleaned end at `touched_end`.
    """
    gone = {offset for offset in history.aborted if offset < touched_end}
    last = {
        each.key: each.offset for each in history.written if each.offset <= latest_offset and each.offset not in gone
    }
    return [
        each
        for each in history.written
        if each.offset not in gone
        and (each.offset > latest_offset or (each.key is not None and each.offset == last[each.key]))
    ]


def planned(
    disk: Disk,
    name: str = NAME,
    *,
    config: TopicConfig | None = None,
    now_ms: int = NOW_MS,
    clean_offset: int | None = None,
    log_start_offset: int = 0,
) -> Pass:
    loaded = load(disk, name, log_start_offset=log_start_offset, wall_ms=now_ms)
    return plan_pass(
        disk,
        name,
        loaded,
        config or topic_config(index_interval_bytes=100),
        log_start_offset=log_start_offset,
        high_watermark=loaded.log_end_offset,
        clean_offset=clean_offset,
        now_ms=now_ms,
    )


def compacted(
    disk: Disk,
    work: Pass,
    out: str = OUT,
    *,
    offsets: LatestOffsets | None = None,
    buffer_bytes: int = 1 << 16,
    room: Room | None = None,
) -> PassReport:
    """Runs a pass, or the part for which there is room, and leaves a whole log in the directory `out`."""
    disk.make_directory(out)
    target = Target(disk, out)
    report = run_pass(disk, work, offsets or OffsetMap(buffer_bytes, 0.9, HASH_KEY), target, room)
    copy_the_rest(disk, report, target)
    return report


def compacted_in_parts(
    disk: Disk,
    name: str = NAME,
    out: str = "parts",
    *,
    part_bytes: int = 0,
    buffer_bytes: int = 1 << 16,
    make_map: Callable[[int, float, bytes], LatestOffsets] = OffsetMap,
    **planning: Any,
) -> list[tuple[str, PassReport]]:
    """Runs a pass in parts whose new segments take so many bytes, one at least. Each leaves a whole log in a directory
    of its own, of which the name is returned, and the last one's is that of the pass.
    """
    parts: list[tuple[str, PassReport]] = []
    rest = None
    while rest is not None or not parts:
        work: Pass | None = planned(disk, name, **planning)
        assert work is not None
        if rest is not None:
            work = part_of(work, rest)
            assert work is not None, "the pass can go on"
        name = f"{out}.{len(parts)}-0"
        offsets = make_map(buffer_bytes, 0.9, HASH_KEY)
        report = compacted(disk, work, name, offsets=offsets, room=Room(part_bytes, 0, 0))
        parts.append((name, report))
        rest = report.rest
    return parts


def batches_in(disk: Disk, name: str) -> list[tuple[BatchHeader, bytes]]:
    """Every batch of a log, with its bytes."""
    found = []
    for info in disk.list(name):
        if offset_of(info.name, LOG) is not None:
            data = disk.read(f"{name}/{info.name}", 0, info.size_bytes)
            found += [(header, data[at : at + header.size_bytes]) for at, header in entries(data)]
    return found


def records_in(disk: Disk, name: str) -> list[Written]:
    """Every record of a log that is no marker."""
    return list(records_of(batches_in(disk, name)))


def records_of(batches: Iterable[tuple[BatchHeader, bytes]]) -> Iterable[Written]:
    for header, data in batches:
        if not header.is_control:
            for offset, timestamp_ms, key, value, pairs in records(data, header):
                yield Written(offset, key, value, timestamp_ms, pairs, header.producer_id)


def check_first_pass(history: History, *, segment_bytes: int = 1 << 20, keys_max: int = 1000) -> None:
    """Cleans a closed log for the first time; compares the result with the model and with what must not change."""
    disk = history.one.disk
    work = planned(disk, config=topic_config(index_interval_bytes=100, segment_bytes=segment_bytes))
    report = compacted(disk, work, buffer_bytes=(2 * keys_max + 3) * ENTRY_BYTES)
    touched = [segment.end_offset for segment in work.segments if segment.base_offset < report.end_offset]
    assert records_in(disk, OUT) == survivors(history, report.end_offset - 1, max(touched, default=0))
    assert not report.problems
    assert report.map_is_full or report.end_offset == work.first_uncleanable_offset

    before = {header.base_offset: (header, data) for header, data in batches_in(disk, history.one.name)}
    for header, data in batches_in(disk, OUT):
        old, old_data = before[header.base_offset]
        assert header.last_offset == old.last_offset
        assert header[9:12] == old[9:12], "the producer, its epoch and its sequence"
        assert header.leader_epoch == old.leader_epoch
        if header.record_count == old.record_count and header.delete_horizon_ms == old.delete_horizon_ms:
            assert data == old_data, "copied byte for byte"
        elif header.record_count:
            assert header.compression == old.compression
    assert producers(disk, OUT) == producers(disk, history.one.name)
    assert load(disk, OUT, log_start_offset=0, wall_ms=NOW_MS).log_end_offset == history.one.log.log_end_offset


def check_horizon(history: History, waited_ms: int) -> None:
    """Cleans a closed log twice, with some time between: delete markers go when their day is over, and nothing else."""
    disk = history.one.disk
    first = planned(disk)
    compacted(disk, first)
    after_first = records_in(disk, OUT)
    compacted(disk, planned(disk, OUT, now_ms=NOW_MS + waited_ms), "later-0")
    due = waited_ms >= DAY_MS
    assert records_in(disk, "later-0") == [
        each
        for each in after_first
        if each.value is not None or not due or each.offset >= first.first_uncleanable_offset
    ]


def producers(disk: Disk, name: str) -> dict[int, tuple[int, int, int]]:
    """Epoch, last sequence and last offset of each producer, as a recovery finds them that has no snapshots."""
    copy = f"{name}.copy-0"
    disk.make_directory(copy)
    for info in disk.list(name):
        if info.name.endswith((".log", "leader-epoch-checkpoint")):
            disk.write(f"{copy}/{info.name}", 0, [disk.read(f"{name}/{info.name}", 0, info.size_bytes)])
    recovered = recover_log(disk, OpenArguments(copy, topic_config(cleanup_policy=("compact",)), 0, 0, NOW_MS))
    assert not recovered.lost
    assert not recovered.cut_bytes
    known = load(disk, copy, log_start_offset=0, wall_ms=NOW_MS).producers.producers
    disk.remove_directory(copy)
    return {
        producer_id: (producer.epoch, producer.last_sequence, producer.batches[-1].last_offset)
        for producer_id, producer in known.items()
        if producer.batches
    }
