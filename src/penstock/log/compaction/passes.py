"""What a pass is to do, worked out from a log's files: plain data, so that it can go to another process.

A pass may touch closed segments only, none that holds the last stable offset or lies beyond it, none that is younger
than min.compaction.lag.ms. It looks for keys from the first dirty offset on, where the last pass ended, and cleans all
from the start of the log. Segments that became small are put together: as many as fit segment.bytes, the size of an
index, and the 2^31 offsets that an index can tell apart. Source: `LogCleanerManager`, `LogToClean` and
`Cleaner.groupSegmentsBySize` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.config.topic import TopicConfig
from penstock.log.compaction.transactions import AbortedTransaction, TransactionState
from penstock.log.damaged_index import aborted_in
from penstock.log.disk import Disk
from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.log.limits import CLEANING_BATCH_MEMORY_BYTES, CLEANING_BATCH_MEMORY_RATIO, CLEANING_CHUNK_BYTES
from penstock.log.loading import Loaded
from penstock.log.names import ABORTED_INDEX, file_name
from penstock.log.producer_state import NO_OFFSET, ProducerState
from penstock.log.segment import Segment


class SealedSegment(NamedTuple):
    """A closed segment: the offsets [`base_offset`, `end_offset`) and the sizes of its files.

    By `growth_bytes` it grows at most where its messages of the formats 0 and 1 become batches; 0 until it was read.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    growth_bytes: int = 0


class LastRecord(NamedTuple):
    """What must stay of a producer: the batch that ends with `last_data_offset`, or if that is -1, the markers of its
    epoch; with `all_stay`, every batch."""

    last_data_offset: int
    epoch: int
    all_stay: bool = False


class Rest(NamedTuple):
    """Where the next part of a pass goes on.

    Attributes:
        from_offset: base offset of its first segment.
        end_offset: of the pass: the map of no part goes further.
        first_uncleanable_offset: of the pass, when it began.
        transactions: at `from_offset`.
    """

    from_offset: int
    end_offset: int
    first_uncleanable_offset: int
    transactions: TransactionState


@dataclass(frozen=True, slots=True)
class Pass:
    """The arguments of one pass, or of a part of it.

    Attributes:
        name: of the log, which is its directory.
        segments: those that the pass may touch, by rising offsets.
        first_dirty_offset: where the last pass ended.
        first_uncleanable_offset: where the segments end.
        aborted: the log's aborted transactions that begin before that.
        last_records: by producer id, of the producers that are still remembered.
        now_ms: decides which delete horizons have passed.
        delete_retention_ms, segment_bytes, segment_index_bytes, index_interval_bytes: from the topic's configuration.
        batch_memory_bytes: what a single batch may take.
        chunk_bytes: what is read or written at once; a larger batch is read whole.
        rest: what is left of the pass by its earlier parts; None for the first.
        bases: the base offsets of all segments of the log.
        log_start_offset: where the log begins.
    """

    name: str
    segments: tuple[SealedSegment, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    aborted: tuple[AbortedTransaction, ...]
    last_records: dict[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    batch_memory_bytes: int = CLEANING_BATCH_MEMORY_BYTES
    chunk_bytes: int = CLEANING_CHUNK_BYTES
    rest: Rest | None = None
    bases: tuple[int, ...] = ()
    log_start_offset: int = 0

    @property
    def from_offset(self) -> int:
        """Earlier parts have gone so far."""
        return self.rest.from_offset if self.rest is not None else 0

    @property
    def map_start_offset(self) -> int:
        """From here on it looks for keys: no record that is still to be cleaned is superseded by one before."""
        return max(self.first_dirty_offset, self.from_offset)

    @property
    def end_offset(self) -> int:
        """Up to where it looks for keys, unless the map is full before."""
        return self.rest.end_offset if self.rest is not None else self.first_uncleanable_offset

    @property
    def dirty(self) -> list[SealedSegment]:
        """The segments in which it looks for keys, all of them among those to clean."""
        start, end = self.map_start_offset, self.end_offset
        return [segment for segment in self.segments if segment.end_offset > start and segment.base_offset < end]

    @property
    def to_clean(self) -> list[SealedSegment]:
        """The segments that it may replace, if it gets so far."""
        start, end = self.from_offset, self.end_offset
        return [segment for segment in self.segments if start <= segment.base_offset < end]

    def aborted_index_path(self, offset: int) -> str:
        """The index of aborted transactions of the segment that holds an offset."""
        base_offset = max((base for base in self.bases if base <= offset), default=offset)
        return f"{self.name}/{file_name(base_offset, ABORTED_INDEX)}"


class LogState(NamedTuple):
    """What a pass is planned from: a log's segments, the last one active, its end, and its producers."""

    segments: Sequence[Segment]
    log_end_offset: int
    producers: ProducerState


def plan_pass(
    disk: Disk,
    name: str,
    loaded: Loaded | LogState,
    config: TopicConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    clean_offset: int | None,
    now_ms: int,
    chunk_bytes: int = CLEANING_CHUNK_BYTES,
) -> Pass:
    """The pass that is possible over a log now. It has no segments when there is nothing to clean.

    `clean_offset` is where the last pass ended, None if there was none; one that the log does not have means that it
    all counts as dirty, as in Kafka.

    Raises DamagedIndexError for an index of aborted transactions that cannot be right.
    """
    first_dirty = log_start_offset
    if clean_offset is not None and log_start_offset <= clean_offset <= loaded.log_end_offset:
        first_dirty = clean_offset
    stable = loaded.producers.last_stable_offset(high_watermark)
    sealed = loaded.segments[:-1]
    first_uncleanable = loaded.segments[-1].base_offset if loaded.segments else log_start_offset
    for segment, following in zip(sealed, loaded.segments[1:], strict=True):
        if not segment.flushed:
            first_uncleanable = segment.base_offset
            break
        too_young = (
            config.min_compaction_lag_ms > 0
            and following.base_offset > first_dirty
            and segment.retention_time_ms(disk) > now_ms - config.min_compaction_lag_ms
        )
        if too_young or following.base_offset > stable:
            first_uncleanable = segment.base_offset
            break
    sealed = [segment for segment in sealed if segment.base_offset < first_uncleanable]
    return Pass(
        name,
        tuple(sealed_segments(sealed, first_uncleanable)),
        min(first_dirty, first_uncleanable),
        first_uncleanable,
        tuple(aborted_transactions(disk, loaded.segments, first_uncleanable)),
        dict(last_records(loaded.producers, high_watermark)),
        now_ms,
        config.delete_retention_ms,
        config.max_segment_bytes,
        config.segment_index_bytes,
        config.index_interval_bytes,
        max(CLEANING_BATCH_MEMORY_BYTES, CLEANING_BATCH_MEMORY_RATIO * config.max_message_bytes),
        chunk_bytes,
        bases=tuple(segment.base_offset for segment in loaded.segments),
        log_start_offset=log_start_offset,
    )


def sealed_segments(segments: Sequence[Segment], end_offset: int) -> Iterable[SealedSegment]:
    for number, segment in enumerate(segments, 1):
        end = segments[number].base_offset if number < len(segments) else end_offset
        offset_index, time_index = segment.offset_index, segment.time_index
        yield SealedSegment(
            segment.base_offset,
            end,
            segment.size_bytes,
            offset_index.entries * offset_index.ENTRY.size,
            time_index.entries * time_index.ENTRY.size,
        )


def aborted_transactions(disk: Disk, segments: Sequence[Segment], end_offset: int) -> Iterable[AbortedTransaction]:
    """The aborted transactions with data below `end_offset`, also those whose markers are beyond it."""
    ends = [*(segment.base_offset for segment in segments[1:]), None]
    for segment, segment_end in zip(segments, ends, strict=False):
        for entry in aborted_in(disk, segment, segment_end):
            aborted = AbortedTransaction(*entry)
            if aborted.first_offset < end_offset:
                yield aborted


def last_records(producers: ProducerState, high_watermark: int) -> Iterable[tuple[int, LastRecord]]:
    """What must stay of each producer. Batches beyond the high watermark may be truncated yet, and then the one before
    them is the last; Kafka does not look at that. Which one that is may not be known, for a snapshot has only the last.
    """
    for producer_id, producer in producers.producers.items():
        last_offset = producer.batches[-1].last_offset if producer.batches else NO_OFFSET
        below = [batch.last_offset for batch in producer.batches if batch.last_offset < high_watermark]
        all_stay = last_offset != NO_OFFSET and not below
        yield producer_id, LastRecord(below[-1] if below else last_offset, producer.epoch, all_stay)


def groups_of(
    work: Pass, segments: Iterable[SealedSegment], bytes_max: int | None = None
) -> Iterator[list[SealedSegment]]:
    """The segments, in order, put together so that each group fits into one segment, and, unless it is a single one,
    into `bytes_max`. One segment more is taken than the groups have that were asked for.
    """
    segment_bytes = work.segment_bytes if bytes_max is None else min(work.segment_bytes, bytes_max)
    group: list[SealedSegment] = []
    for segment in segments:
        if group and not fits(work, group, segment, segment_bytes):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def fits(work: Pass, group: Sequence[SealedSegment], segment: SealedSegment, segment_bytes: int) -> bool:
    together = [*group, segment]
    return (
        group[-1].end_offset == segment.base_offset
        and sum(each.size_bytes + each.growth_bytes for each in together) <= segment_bytes
        and sum(each.index_bytes for each in together) <= work.segment_index_bytes
        and sum(each.time_index_bytes for each in together) <= work.segment_index_bytes
        and (segment.size_bytes == 0 or segment.end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX)
    )
