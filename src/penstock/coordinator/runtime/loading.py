"""Reads the log of a shard and replays it, a bounded number of records in each step, between which the loop is free.

Reads go to the lane of the log's directory. Records above the high watermark are replayed too: they are this leader's,
and commit or are lost with it. The timeline keeps a snapshot where the committed ones end.

A key of an unknown type is skipped, as in Kafka: a newer release wrote it. A batch with a wrong checksum or structure
ends the loading: the shard has failed, and answers NOT_COORDINATOR until it is led anew. A failed read is repeated,
some times, after longer and longer waits, and clients are told to wait meanwhile. (Kafka's coordinator fails then. But
the disk may only have been slow, and no other broker comes to lead.)

Most of such a log is the same keys again and again, such as an offset that a group commits every few seconds. Of
records of the types that the machine names in `last_wins` only the last one of each key is replayed, as long as no
other record is between them. They are first given to the machine as bytes, whose usual form it can read. Source:
CoordinatorLoaderImpl of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any

from penstock.coordinator.limits import (
    COORDINATOR_LATEST_RECORDS_MAX,
    COORDINATOR_LOAD_ATTEMPTS,
    COORDINATOR_LOAD_RETRY_MAX_MS,
    COORDINATOR_LOAD_RETRY_MS,
    COORDINATOR_RECORDS_PER_STEP,
)
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.coordinator.runtime.shard import NO_PRODUCER, Shard, Stored
from penstock.errors import CorruptRecordError, UnsupportedVersionError
from penstock.protocol.record_frames import TWO_BYTES, decode_coordinator_key, decode_coordinator_value
from penstock.records.batch import BatchHeader, check_crc, read_entry
from penstock.records.control import ControlType, control_type
from penstock.records.reader import keys_and_values

logger = logging.getLogger(__name__)


class Loader:
    """Loads one shard. `replay` is given what was read, and steps through it.

    Attributes:
        next_offset: where to read next. loaded_records, loaded_bytes: what has been replayed so far.
        committed_offset: where the committed state ends and a snapshot was taken; None while all is committed.
        failed_reads: how many reads have failed since the last success.
    """

    def __init__(self, shard: Shard[Any], package: str) -> None:
        self.shard = shard
        self.next_offset = shard.log.log_start_offset
        self.committed_offset: int | None = None
        self.loaded_records = 0
        self.loaded_bytes = 0
        self._since_step = 0
        self.failed_reads = 0
        self._last_wins = frozenset(TWO_BYTES.pack(kind) for kind in shard.machine.last_wins)
        self._latest: dict[bytes, tuple[int, bytes]] = {}
        self._package = package
        self._unknown: dict[int, None] = {}

    @property
    def finished(self) -> bool:
        """Whether everything in the log is replayed."""
        return self.next_offset >= self.shard.log.end_offset

    def read_failed(self) -> int | None:
        """How long to wait before the next read, in ms; None if too many have failed."""
        self.failed_reads += 1
        if self.failed_reads >= COORDINATOR_LOAD_ATTEMPTS:
            return None
        return min(COORDINATOR_LOAD_RETRY_MAX_MS, COORDINATOR_LOAD_RETRY_MS << self.failed_reads - 1)

    def replay(self, data: bytes) -> Iterator[None]:
        """Replays whole batches, some records in each step. Raises PenstockError if they cannot be trusted."""
        position = 0
        while position < len(data):
            header = read_entry(data, position)
            check_crc(data, position, header)
            if header.base_offset >= self.shard.log.high_watermark and self.committed_offset is None:
                yield from self._replay_latest()
                self.committed_offset = header.base_offset
                self.shard.machine.timeline.snapshot(header.base_offset)
            if header.next_offset > self.next_offset:
                yield from self._replay_batch(data, position, header)
                self.next_offset = header.next_offset
            position += header.size_bytes
        if self.finished:
            yield from self._replay_latest()
        self.loaded_bytes += len(data)

    def _replay_batch(self, data: bytes, position: int, header: BatchHeader) -> Iterator[None]:
        producer = (header.producer_id, header.producer_epoch) if header.is_transactional else NO_PRODUCER
        last_wins = () if header.is_transactional else self._last_wins
        first = self.next_offset
        records = keys_and_values(data, header, position)
        while some := list(islice(records, COORDINATOR_RECORDS_PER_STEP)):
            for offset, key, value in some if some[0][0] >= first else [each for each in some if each[0] >= first]:
                if key is not None and value is not None and key[:2] in last_wins:  # a tombstone may end more
                    self._latest[key] = offset, value
                else:
                    yield from self._replay_latest()
                    if header.is_control:
                        self._replay_marker(key, offset, producer)
                    else:
                        self._replay_record(key, value, offset, producer)
            if len(self._latest) >= COORDINATOR_LATEST_RECORDS_MAX:
                yield from self._replay_latest()
            self.loaded_records += len(some)
            yield from self._count(len(some))

    def _count(self, records: int) -> Iterator[None]:
        """Counts records that were put off or replayed; a step ends after so many."""
        self._since_step += records
        if self._since_step >= COORDINATOR_RECORDS_PER_STEP:
            self._since_step = 0
            yield

    def _replay_latest(self) -> Iterator[None]:
        """Replays the records that were put off."""
        latest, self._latest = self._latest, {}
        records = iter(latest.items())
        while some := list(islice(records, COORDINATOR_RECORDS_PER_STEP)):
            self._replay_stored(some)
            yield from self._count(len(some))

    def _replay_stored(self, records: list[Stored]) -> None:
        """Replays records as bytes, and those that do not have the usual form by the codecs."""
        done = 0
        while (done := done + self.shard.machine.replay_stored(records[done:])) < len(records):
            key, (offset, value) = records[done]
            self._replay_record(key, value, offset, NO_PRODUCER)
            done += 1

    def _replay_marker(self, key: bytes | None, offset: int, producer: tuple[int, int]) -> None:
        kind = control_type(key)
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            self.shard.machine.replay_end_marker(producer, kind is ControlType.COMMIT, offset)

    def _replay_record(self, key: bytes | None, value: bytes | None, offset: int, producer: tuple[int, int]) -> None:
        if key is None:
            raise CorruptRecordError(f"the record at offset {offset} has no key")
        try:
            decoded = decode_coordinator_key(self._package, key)
        except UnsupportedVersionError as error:
            kind = int.from_bytes(key[:2], "big")
            if kind not in self._unknown:
                self._unknown[kind] = None
                logger.warning("%r passes over records that it does not know: %s", self.shard, error)
            return
        if value is None:
            replayed = CoordinatorRecord(decoded)
        else:
            replayed = CoordinatorRecord(decoded, *decode_coordinator_value(self._package, decoded.KEY, value))
        self.shard.machine.replay(replayed, offset, producer)
