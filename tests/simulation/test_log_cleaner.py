"""The log cleaner under random work and faults, by seed: what readers see of each key is what was written last, and no
batch that a producer repeats is taken twice.

Segments are small, passes frequent, and power fails, processes die, disks fill and logs are cut at any moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from random import Random

import pytest
from support import compacted_mutations
from support.compacted import SECOND_MS, Compacted
from support.group_mutations import map_is_off_by_one

from penstock.config.server import Settings
from penstock.errors import CorruptRecordError, RequestError, StorageError
from penstock.log.compaction.log_cleaner import LogCleaner
from penstock.log.disk import FileSlice, read_slice
from penstock.log.events import LogCleaned
from penstock.log.log import Log
from penstock.log.names import CLEANED, SWAP
from penstock.log.results import Appended, Duplicate
from penstock.records.batch import headers
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.reader import records

SETTINGS = Settings.for_node(
    1,
    log_cleaner_backoff_ms=300,
    log_initial_task_delay_ms=100,
    log_flush_offset_checkpoint_interval_ms=300,
    log_flush_start_offset_checkpoint_interval_ms=300,
    replica_high_watermark_checkpoint_interval_ms=200,
    log_retention_check_interval_ms=400,
)
ACTIONS = 120
KEYS = 6
SEEDS, OVERRULED_SEEDS = 60, 10
BEHIND = 8
"""How many offsets the high watermark is behind the end of the log."""
Record = tuple[bytes, bytes | None]
IN_A_LOG = {
    "the map is off by one": map_is_off_by_one,
    "a slice is a path": compacted_mutations.slices_are_paths,
    "cleaned segments are not fsynced": compacted_mutations.cleaned_segments_are_not_fsynced,
}
"""Faults to plant into the cleaner which one log alone shows."""


class World:
    """One run. `history` is what the log took, by offset; what a power failure or a cut took away is not in it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        config = {
            "internal_segment_bytes": self.random.choice(["400", "1000", "3000"]),
            "min_cleanable_dirty_ratio": self.random.choice(["0", "0.3"]),
            "delete_retention_ms": self.random.choice(["0", "1000", "100000"]),
            "index_interval_bytes": "50",
            "file_delete_delay_ms": "200",
        }
        self.topic = Compacted(seed, settings=SETTINGS, power_fails=bool(self.random.randrange(2)), **config)
        self.topic.node.replicated = self.replicated
        self.history: dict[int, Record] = {}
        self.batch_ends: list[int] = []
        self.batches: dict[int, tuple[list[Record], Codec]] = {}
        self.producer_id = 0
        self.next_sequence = 0
        self.sent: list[bytes] = []
        self.end_offset = 0
        self.held: list[tuple[FileSlice, bytes]] = []
        self.incarnation = 1
        self.repeated = 0
        self.committed = 0
        self.sequence = 0
        self.topic.wait(SECOND_MS)
        self.append()
        self.flush()
        self.topic.wait(SECOND_MS)

    def run(self) -> int:
        """The number of passes that were taken into use."""
        actions = [self.append] * 8 + [self.wait] * 4
        actions += [self.repeat] * 2 + [self.hold] * 2
        actions += [
            self.flush,
            self.crash,
            self.kill,
            self.cut,
            self.delete_records,
            self.restart,
            self.fill,
        ]
        for _ in range(ACTIONS):
            self.random.choice(actions)()
        self.topic.disk.crash_at = None
        self.topic.disk.capacity_bytes = None
        self.check()
        self.topic.wait(5 * SECOND_MS)
        self.check()
        assert not self.topic.files(CLEANED) + self.topic.files(SWAP)
        return len(self.topic.events(LogCleaned))

    @property
    def high_watermark(self) -> int:
        return self.topic.node.manager.high_watermark("users", 0)

    def replicated(self, log: Log) -> int:
        """What the high watermark becomes. What was once below it is on other replicas, too, and is never cut off, also
        if a crash has taken what this one knew of it.
        """
        high_watermark = max(self.high_watermark, log.log_end_offset - BEHIND)
        self.committed = max(self.committed, high_watermark)
        return high_watermark

    # Actions

    def append(self) -> None:
        codec = self.random.choice([Codec.NONE, Codec.NONE, Codec.LZ4])
        is_idempotent = self.random.random() < 0.5
        batch: list[Record] = []
        for _ in range(self.random.randrange(1, 6)):
            self.sequence += 1
            value = b"%05d" % self.sequence if self.random.random() < 0.8 else None
            batch.append((b"key %d" % self.random.randrange(KEYS), value))
        self.append_batch(batch, codec, is_idempotent=is_idempotent)

    def append_batch(self, batch: list[Record], codec: Codec, *, is_idempotent: bool) -> None:
        def append(log: Log) -> None:
            self.look_for_losses(log)
            builder = BatchBuilder(codec=codec)
            if is_idempotent:
                builder = BatchBuilder(
                    codec=codec, producer_id=self.producer_id, producer_epoch=0, base_sequence=self.next_sequence
                )
            for record in batch:
                builder.append(self.topic.simulation.now_ms, *record)
            data = bytes(builder.build())
            appended = log.append_as_leader(bytearray(data), 0, self.topic.simulation.now_ms)
            assert isinstance(appended, Appended)
            for number, record in enumerate(batch):
                self.history[appended.base_offset + number] = record
            self.batch_ends.append(appended.base_offset + len(batch))
            self.batches[appended.base_offset] = batch, codec
            self.end_offset = log.reserved_end_offset
            if is_idempotent:
                self.sent.append(data)
                self.next_sequence += len(batch)

        self.topic.use(append)
        self.topic.wait(self.random.randrange(100))

    def look_for_losses(self, log: Log) -> None:
        """If a crash or a cut has taken what was written, a new producer goes on."""
        if log.reserved_end_offset < self.end_offset:
            self.producer_id, self.next_sequence = self.producer_id + 1, 0
            self.sent.clear()
        self.end_offset = log.reserved_end_offset

    def repeat(self) -> None:
        """A producer repeats one of its last batches, since it has not heard of its end. It is not taken twice."""

        def repeat(log: Log) -> None:
            self.look_for_losses(log)
            if self.sent:
                again = bytearray(self.random.choice(self.sent[-5:]))
                with suppress(RequestError):
                    assert isinstance(log.append_as_leader(again, 0, self.topic.simulation.now_ms), Duplicate)
                self.repeated += 1

        self.topic.use(repeat)

    def wait(self) -> None:
        self.topic.wait(self.random.randrange(1_500))
        self.read_held()

    def hold(self) -> None:
        """An answer is about to be sent: it has slices of files, and their bytes are read later."""

        def hold(log: Log) -> None:
            if log.log_start_offset < log.log_end_offset:
                offset = self.random.randrange(log.log_start_offset, log.log_end_offset)
                for piece in log.read(offset, 1 << 20).slices:
                    self.held.append((piece, read_slice(self.topic.disk, piece)))

        self.topic.use(hold)

    def read_held(self) -> None:
        """A slice has the bytes that it had, or its file is gone by now. A process that has died sends nothing."""
        if self.incarnation != self.topic.node.incarnation:
            self.held.clear()
            self.incarnation = self.topic.node.incarnation
        for piece, data in self.held if self.topic.node.running else ():
            with suppress(FileNotFoundError):
                assert read_slice(self.topic.disk, piece) == data, piece

    def flush(self) -> None:
        self.topic.use(lambda log: log.flush(self.topic.simulation.now_ms))

    def crash(self) -> None:
        """At some change of the disk that is to come."""
        self.topic.disk.crash_at = self.topic.disk.changes + self.random.randrange(1, 80)

    def kill(self) -> None:
        if self.topic.node.running:
            self.topic.node.kill(power_failed=False)
            self.come_back()

    def restart(self) -> None:
        if self.topic.node.running:
            self.topic.node.stop()
            self.topic.wait(3 * SECOND_MS)
            if not self.topic.node.running:
                self.topic.node.start()
            self.come_back()

    def cut(self) -> None:
        """As a follower does that has batches that its leader has not, none of which was ever committed."""

        def cut(log: Log) -> None:
            lowest = max(log.log_end_offset - self.random.randrange(BEHIND), self.committed)
            offset = min((end for end in self.batch_ends if end >= lowest), default=log.log_end_offset)
            log.truncate_to(offset, self.topic.simulation.now_ms)

        self.topic.wait(50)
        self.topic.use(cut)
        self.come_back()

    def delete_records(self) -> None:
        def delete(log: Log) -> None:
            high_watermark = min(self.high_watermark, log.log_end_offset)
            if log.log_start_offset < high_watermark:
                offset = self.random.randrange(log.log_start_offset, high_watermark)
                log.advance_log_start(offset, high_watermark)

        if self.random.random() < 0.3:
            self.topic.wait(50)
            self.topic.use(delete)

    def fill(self) -> None:
        """The disk has room for a little more than it holds."""
        used = sum(entry.size_bytes for entry in self.topic.disk.list("users-0"))
        self.topic.disk.capacity_bytes = self.random.choice([None, None, used + 100_000])

    # What is left

    def come_back(self) -> None:
        """Waits until the log can be used, and forgets what it has lost."""
        log = self.usable()
        self.history = {offset: record for offset, record in self.history.items() if offset < log.log_end_offset}
        self.batch_ends = [end for end in self.batch_ends if end <= log.log_end_offset]
        self.committed = min(self.committed, log.log_end_offset)
        self.look_for_losses(log)

    def usable(self) -> Log:
        while True:
            self.topic.wait(2 * SECOND_MS)
            if self.topic.node.running:
                log = self.topic.log()
                if self.topic.node.running and not (log.truncating or log.closed or log.failed):
                    return log

    def check(self) -> None:
        """What is read was written, and shows the last value of every key."""
        self.come_back()
        read = dict(self.read())
        log = self.usable()
        assert all(self.history[offset] == record for offset, record in read.items())
        written = latest((offset, record) for offset, record in self.history.items() if offset >= log.log_start_offset)
        found = latest(read.items())
        assert {key: value for key, value in found.items() if value} == {k: v for k, v in written.items() if v}
        assert all(written[key] is None for key, value in found.items() if value is None)

    def read(self) -> Iterable[tuple[int, Record]]:
        log = self.usable()
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            found = log.read(offset, 1 << 20)
            for piece in found.slices:
                data = self.topic.disk.read(piece.path, piece.position, piece.length)
                for position, header in headers(data):
                    for record in records(data[position : position + header.size_bytes], header):
                        assert record.key is not None
                        if record.offset >= log.log_start_offset:
                            yield (
                                record.offset,
                                (bytes(record.key), None if record.value is None else bytes(record.value)),
                            )
            assert found.next_offset > offset
            offset = found.next_offset


class Overruled(World):
    """One whose log is cut deep below what was committed, again and again, and written anew with batches of the same
    sizes: as after unclean elections, of leaders that had other records. Passes take up to some seconds meanwhile.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.topic.node.task_us_max = self.topic.node._lanes.task_us_max = 8_000_000

    def run(self) -> int:
        for _ in range(ACTIONS // 6):
            for _ in range(self.random.randrange(2, 12)):
                self.append()
            self.wait()
            self.overrule()
            self.check()
        return len(self.topic.events(LogCleaned))

    def overrule(self) -> None:
        log = self.usable()
        offset = self.random.choice([end for end in self.batch_ends if end <= log.log_end_offset][-20:])
        gone = [self.batches[base] for base in sorted(self.batches) if base >= offset]

        def cut(log: Log) -> None:
            log.truncate_to(offset, self.topic.simulation.now_ms)

        self.topic.use(cut)
        self.topic.wait(100)
        self.topic.node.manager.set_high_watermark("users", 0, offset)
        self.committed = offset
        self.batches = {base: each for base, each in self.batches.items() if base < offset}
        self.come_back()
        for batch, codec in gone:
            again: list[Record] = []
            for key, value in batch:
                self.sequence += 1
                again.append((key, None if value is None else b"%05d" % self.sequence))
            self.append_batch(again, codec, is_idempotent=False)

    def check(self) -> None:
        """What is read is what was written last at its offset; what superseded a record may have been cut away."""
        self.come_back()
        assert all(self.history[offset] == record for offset, record in self.read())


def latest(history: Iterable[tuple[int, Record]]) -> dict[bytes, bytes | None]:
    """The last value of each key."""
    return {key: value for _, (key, value) in sorted(history)}


def test_readers_see_the_last_value_of_every_key() -> None:
    passes = sum(World(seed).run() for seed in range(SEEDS))
    assert passes > SEEDS


@pytest.mark.long
def test_readers_see_the_last_value_of_every_key_for_long() -> None:
    for seed in range(60, 3_000):
        World(seed).run()


def test_what_a_pass_read_before_a_cut_never_comes_back() -> None:
    passes = sum(Overruled(seed).run() for seed in range(OVERRULED_SEEDS))
    assert passes > OVERRULED_SEEDS


@pytest.mark.slow
def test_a_generation_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogCleaner, "_is_stale", lambda cleaner, cleaning: False)
    assert found(Overruled, OVERRULED_SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_A_LOG)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    IN_A_LOG[name](monkeypatch)
    assert found(World, SEEDS)


def found(world: type[World], seeds: int) -> bool:
    """Whether one of so many seeds fails."""
    for seed in range(seeds):
        try:
            world(seed).run()
        except (AssertionError, StorageError, CorruptRecordError):
            return True
    return False
