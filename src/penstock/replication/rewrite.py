"""Work on a batch before it is appended, if its header alone is not enough: deep validation, or another codec.

If a topic's `compression.type` is not `producer`, its batches are recompressed: the records' bytes are the same in
every codec, so no record is touched. Deep validation walks all records, and puts their largest timestamp into the
header, as Kafka does.

Batches with few records that are small, even unpacked, are rewritten on the loop, others by a `RewriteOperation`, which
uses no disk and no state of the loop: in the lane, or by a worker when many records are to be validated. A few
compressed bytes can be millions of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar

from penstock.config.topic import TopicConfig
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.log.disk import Disk, OperationOwner
from penstock.log.tasks import Task, TaskOperation
from penstock.records.batch import (
    ATTRIBUTES,
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CRC,
    CRC_POSITION,
    HEADER_BYTES,
    LENGTH_POSITION,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    TimestampType,
    WritableBuffer,
    computed_crc,
    read_header,
    set_max_timestamp,
)
from penstock.records.compression import Codec, Contexts, DecompressionLimitError, compress
from penstock.records.reader import bounded, record_bytes
from penstock.records.validation import BatchRejectedError, RecordError, Rules, validate_deep
from penstock.replication.limits import (
    DEEP_VALIDATION_INLINE_MAX_BYTES,
    DEEP_VALIDATION_INLINE_MAX_RECORDS,
    DEEP_VALIDATION_MAX_RECORDS,
    DEEP_VALIDATION_TASK_MAX_MS,
    DEEP_VALIDATION_WORKER_MIN_RECORDS,
    PRODUCED_BATCH_UNPACKED_MAX_BYTES,
)

LENGTH = Struct(">i")
PRODUCER = "producer"
UNCOMPRESSED = "uncompressed"


def rules_of(config: TopicConfig) -> Rules:
    """A topic's rules for its batches."""
    append_time = config.message_timestamp_type == "LogAppendTime"
    return Rules(
        max_message_bytes=config.max_message_bytes,
        timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compacted="compact" in config.cleanup_policy,
    )


def target_codec(config: TopicConfig) -> Codec | None:
    """The codec that a topic keeps its batches in; None for the producer's choice."""
    name = config.compression_type
    if name == PRODUCER:
        return None
    return Codec.NONE if name == UNCOMPRESSED else Codec[name.upper()]


def level_of(config: TopicConfig, codec: Codec) -> int | None:
    """The level at which a topic has its batches compressed."""
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)


class Rewrite:
    """A batch that is being rewritten in another form."""

    __slots__ = ("codec", "deep", "header", "level", "records", "rules")

    def __init__(
        self,
        records: WritableBuffer,
        header: BatchHeader,
        rules: Rules,
        *,
        codec: Codec,
        level: int | None,
        deep: bool,
    ) -> None:
        self.records = records
        self.header = header
        self.rules = rules
        self.codec = codec
        self.level = level
        self.deep = deep

    def rewritten(
        self, wall_ms: int, contexts: Contexts, *, unpacked_max_bytes: int = PRODUCED_BATCH_UNPACKED_MAX_BYTES
    ) -> WritableBuffer | PenstockError:
        """The batch to append: the same buffer, or a new one if the codec changed. Or the error that refuses it."""
        try:
            return self._rewrite(wall_ms, contexts, unpacked_max_bytes)
        except PenstockError as error:
            return error.with_traceback(None)  # whose frames hold what was unpacked

    def rewritten_inline(self, wall_ms: int) -> WritableBuffer | PenstockError | None:
        """Like `rewritten`, on the loop; None if that would take too long, by its records or unpacked bytes."""
        header = self.header
        if (
            header.size_bytes > DEEP_VALIDATION_INLINE_MAX_BYTES
            or header.record_count > DEEP_VALIDATION_INLINE_MAX_RECORDS
        ):
            return None
        outcome = self.rewritten(wall_ms, Contexts(), unpacked_max_bytes=DEEP_VALIDATION_INLINE_MAX_BYTES)
        return None if isinstance(outcome, DecompressionLimitError) else outcome

    def _rewrite(self, wall_ms: int, contexts: Contexts, unpacked_max_bytes: int) -> WritableBuffer:
        header = self.header
        decompress = bounded(contexts, unpacked_max_bytes)
        if self.deep:
            if header.record_count > DEEP_VALIDATION_MAX_RECORDS:
                message = f"{header.record_count} records in one batch, {DEEP_VALIDATION_MAX_RECORDS} can be validated"
                raise BatchRejectedError(ErrorCode.INVALID_RECORD, message)
            max_timestamp_ms = validate_deep(self.records, 0, header, self.rules, wall_ms, decompress=decompress)
            if self.rules.timestamp_type is TimestampType.CREATE_TIME:
                set_max_timestamp(self.records, 0, TimestampType.CREATE_TIME, max_timestamp_ms)
        if self.codec is header.compression:
            return self.records
        body = compress(self.codec, record_bytes(self.records, 0, header, decompress), contexts, self.level)
        batch = bytearray(self.records[:HEADER_BYTES])
        batch += body
        if len(batch) > self.rules.max_message_bytes:
            message = f"recompressed, the batch has {len(batch)} bytes, the topic allows {self.rules.max_message_bytes}"
            raise BatchRejectedError(ErrorCode.MESSAGE_TOO_LARGE, message)
        LENGTH.pack_into(batch, LENGTH_POSITION, len(batch) - LOG_OVERHEAD_BYTES)
        ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, (header.attributes & ~CODEC_MASK) | self.codec)
        CRC.pack_into(batch, CRC_POSITION, computed_crc(batch, 0, len(batch)))
        return batch


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A worker's result: another batch, the same one with another header, or the error that refuses it."""

    batch: bytearray | None = None
    head: bytes = b""
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    record_errors: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RewriteBatch(Task):
    """A rewrite as a task for a worker."""

    report_type: ClassVar[type] = Rewritten
    urgent: ClassVar[bool] = True
    records: WritableBuffer
    rules: Rules
    codec: Codec
    level: int | None
    deep: bool
    wall_ms: int

    @property
    def what(self) -> str:
        return "the validation of a batch"

    @property
    def deadline_ms(self) -> int:
        return DEEP_VALIDATION_TASK_MAX_MS

    def run(self, disk: Disk) -> Rewritten:
        records = memoryview(self.records)
        header = read_header(records)
        rewrite = Rewrite(records, header, self.rules, codec=self.codec, level=self.level, deep=self.deep)
        outcome = rewrite.rewritten(self.wall_ms, Contexts())
        if isinstance(outcome, BatchRejectedError):
            record_errors = tuple((each.index, each.message) for each in outcome.record_errors)
            return Rewritten(error=outcome.code, message=str(outcome), record_errors=record_errors)
        if isinstance(outcome, PenstockError):
            return Rewritten(error=outcome.code, message=str(outcome))
        return Rewritten(head=bytes(records[:HEADER_BYTES])) if outcome is records else Rewritten(bytearray(outcome))


class RewriteOperation(TaskOperation):
    """A rewrite in the lane, or by a worker when there are many records to walk: recompression alone needs no Python a
    record, and the libraries that do it let the loop run. Its result is a batch or a PenstockError.
    """

    __slots__ = ("rewrite", "wall_ms")

    def __init__(self, rewrite: Rewrite, directory: int, order: str, owner: OperationOwner, wall_ms: int) -> None:
        super().__init__(directory, order, owner)
        self.rewrite = rewrite
        self.wall_ms = wall_ms

    def run(self, disk: Disk) -> WritableBuffer | PenstockError:
        return self.rewrite.rewritten(self.wall_ms, Contexts())

    def task(self, disk: Disk) -> RewriteBatch | None:
        rewrite = self.rewrite
        if not rewrite.deep or rewrite.header.record_count < DEEP_VALIDATION_WORKER_MIN_RECORDS:
            return None
        return RewriteBatch(rewrite.records, rewrite.rules, rewrite.codec, rewrite.level, rewrite.deep, self.wall_ms)

    def finish(self, disk: Disk, report: Rewritten) -> WritableBuffer | PenstockError:
        if report.error is not ErrorCode.NONE:
            record_errors = [RecordError(index, message) for index, message in report.record_errors]
            return BatchRejectedError(report.error, report.message, record_errors)
        if report.batch is not None:
            return report.batch
        self.rewrite.records[:HEADER_BYTES] = report.head
        return self.rewrite.records

    def without_report(self, disk: Disk, reason: str) -> PenstockError:
        """Refuses a batch that has ended two workers, with an error after which the client may send it again."""
        return RequestError(ErrorCode.REQUEST_TIMED_OUT, reason)
