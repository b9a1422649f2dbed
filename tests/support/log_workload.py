"""Random work on one log beside a naive model of it: a list of batches."""

from __future__ import annotations

from random import Random
from typing import Any

from penstock.log import dump
from penstock.log.loading import OpenArguments, marker_of
from penstock.log.producer_state import Marker
from penstock.log.recovery import recover_log
from penstock.log.recovery_task import PlanRecovery
from penstock.log.results import Appended
from penstock.records.batch import headers, read_header
from penstock.records.compression import Codec
from simulator.world.disk import SimulatedDisk
from support.logs import NAME, OneLog, batch, marker, topic_config

CODECS = list(Codec)


class Workload:
    """A log, and `batches`: (base offset, last offset, bytes) of what must be in it, all of it acknowledged.

    Attributes: `start`, `end` of the log; `begun`: transactions (producer -> first offset) from before `batches`.
    """

    def __init__(self, random: Random, **config: Any) -> None:
        self.random = random
        disk = SimulatedDisk(random=Random(random.random()))
        small = {"segment_bytes": random.choice([1500, 6000]), "index_interval_bytes": random.choice([0, 200, 1000])}
        self.one = OneLog(topic_config(segment_index_bytes=random.choice([120, 4096]), **small, **config), disk)
        disk.fsync_directory("")
        self.batches: list[tuple[int, int, bytes]] = []
        self.start = self.end = 0
        self.epoch = 0
        self.sequences = {1: 0, 2: 0, 3: 0}
        self.open: set[int] = set()
        self.begun: dict[int, int] = {}

    # Work

    def append(self) -> None:
        """A few appends in one turn, as leader; some by idempotent or transactional producers."""
        prepared = []
        for _ in range(self.random.randint(1, 4)):
            data = self.some_batch()
            appended = self.one.log.append_as_leader(data, self.epoch, self.one.now_ms)
            assert isinstance(appended, Appended), appended
            assert appended.base_offset == self.end
            self.end = appended.last_offset + 1
            prepared.append((appended.base_offset, appended.last_offset, data))
            self.one.now_ms += self.random.randint(0, 20)
        self.one.run()
        self.batches += [(first, last, bytes(data)) for first, last, data in prepared]

    def some_batch(self) -> bytearray:
        random = self.random
        values = [random.randbytes(random.randint(0, 120)) for _ in range(random.randint(1, 5))]
        codec = random.choice(CODECS)
        at_ms = self.one.now_ms + random.randint(-50, 50)
        producer_id = random.randint(-3, 3)
        if producer_id < 1:
            return batch(*values, timestamp_ms=at_ms, step_ms=random.randint(0, 3), codec=codec)
        if producer_id in self.open and random.random() < 0.3:
            self.open.remove(producer_id)
            return marker(producer_id, 0, commit=random.random() < 0.5)
        sequence = self.sequences[producer_id]
        self.sequences[producer_id] += len(values)
        if producer_id == 3:
            self.open.add(producer_id)
        return batch(
            *values,
            timestamp_ms=at_ms,
            codec=codec,
            producer=(producer_id, 0, sequence),
            transactional=producer_id == 3,
        )

    def append_as_follower(self) -> None:
        """Batches that carry their offsets, with gaps as in a compacted log."""
        run = bytearray()
        for _ in range(self.random.randint(1, 4)):
            self.end += self.random.choice([0, 0, 3])
            data = batch(b"f" * 40, b"g", base_offset=self.end, leader_epoch=self.epoch, timestamp_ms=self.one.now_ms)
            self.batches.append((self.end, self.end + 1, bytes(data)))
            self.end += 2
            run += data
        self.one.log.append_as_follower(run, self.one.now_ms)
        self.one.run()

    def new_epoch(self) -> None:
        self.epoch += 1
        self.one.log.start_epoch(self.epoch)
        self.one.run()

    def roll(self) -> None:
        self.one.log.roll(self.one.now_ms)
        self.one.run()

    def flush(self) -> None:
        self.one.log.flush(self.one.now_ms)
        self.one.run()
        assert self.one.log.recovery_point == self.one.log.log_end_offset

    def truncate(self) -> None:
        target = self.random.randint(self.start, self.end)
        if self.one.log.truncate_to(target, self.one.now_ms):
            self.one.run()
            self.batches = [entry for entry in self.batches if entry[1] < target]
            self.end = self.one.log.log_end_offset
            assert self.end <= target or self.end == self.one.log.log_start_offset
            self.settle_end()
        self.forget_producers()

    def delete_records(self) -> None:
        self.start = max(self.start, self.random.randint(self.start, self.end))
        self.one.log.advance_log_start(self.start, self.end)
        self.retention()

    def retention(self) -> None:
        self.one.delete_old_segments(self.end)
        self.one.run()
        self.start = self.one.log.log_start_offset

    def reopen(self) -> None:
        self.one.reopen()
        self.end = self.one.log.log_end_offset
        self.settle_end()

    def kill(self) -> None:
        """kill -9: the page cache stays."""
        self.recover(power_failed=False)
        assert self.one.log.log_end_offset >= max((last + 1 for _, last, _ in self.batches), default=0)

    def lose_power(self) -> None:
        self.recover(power_failed=True)

    def recover(self, *, power_failed: bool) -> None:
        log, disk = self.one.log, self.one.disk
        recovery_point = log.recovery_point
        disk.restart(power_failed=power_failed)
        arguments = OpenArguments(NAME, self.one.config, recovery_point, self.start, self.one.now_ms)
        planned = PlanRecovery(arguments, 0).run(disk)
        report = recover_log(disk, arguments) if power_failed else planned.carry_out(disk)
        assert report == planned.recovery, "a worker finds what the lane does"
        self.one.open(recovery_point=report.recovery_point, log_start_offset=self.start)
        self.end = self.one.log.log_end_offset
        kept = [entry for entry in self.batches if entry[1] < self.end]
        assert all(entry[1] >= recovery_point for entry in self.batches[len(kept) :]), "flushed batches were lost"
        self.batches = kept
        self.settle_end()
        self.forget_producers()

    def settle_end(self) -> None:
        """A log that starts between segments begins, once it is opened again, with the next one."""
        start, self.start = self.start, self.one.log.log_start_offset
        assert start <= self.start
        assert not [entry for entry in self.batches if start <= entry[1] < self.start]
        assert self.end >= max((last + 1 for _, last, _ in self.batches), default=self.start)
        if self.start == self.end:  # a log without records may have begun anew, and then it remembers nobody
            self.batches.clear()
            self.begun = {producer_id: first for first, producer_id in self.one.log.producers.ongoing.items()}

    def forget_producers(self) -> None:
        """After records are lost, producers begin where the log says."""
        producers = self.one.log.producers.producers
        for producer_id in self.sequences:
            known = producers.get(producer_id)
            self.sequences[producer_id] = known.last_sequence + 1 if known else 0
        self.open = set(self.one.log.producers.ongoing.values())

    STEPS = (
        (append, 40),
        (append_as_follower, 8),
        (new_epoch, 3),
        (roll, 4),
        (flush, 6),
        (truncate, 5),
        (delete_records, 4),
        (reopen, 6),
        (kill, 4),
        (lose_power, 4),
    )

    def run(self, steps: int, *, faults: bool = True, check: bool = True) -> None:
        choices = [
            (step, weight) for step, weight in self.STEPS if faults or step not in (Workload.kill, Workload.lose_power)
        ]
        for _ in range(steps):
            [step] = self.random.choices([step for step, _ in choices], [weight for _, weight in choices])
            step(self)
            if check:
                self.check()

    # Checks

    def check(self) -> None:
        """The log has what the model has, however it is read."""
        log = self.one.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        wanted = [entry for entry in self.batches if entry[1] >= self.start]
        assert self.one.content(max_bytes=self.random.choice([1, 500, 1 << 20])) == b"".join(
            data for _, _, data in wanted
        )
        if wanted:
            first, last, data = self.random.choice(wanted)
            at = self.random.randint(max(first, self.start), last)
            assert self.one.content(at, last + 1) == data
            self.check_time(wanted)
        for segment in log.segments.all[:-1]:
            assert [*dump.verify_offset_index(self.one.disk, segment.offset_index.path)] == []
            assert [*dump.verify_time_index(self.one.disk, segment.time_index.path)] == []
        epochs = log.leader_epochs.entries()
        assert all(start <= self.end for _, start in epochs)
        producers = {read_header(data).producer_id for _, _, data in wanted} - {-1}
        assert producers <= log.producers.producers.keys()
        self.check_transactions()

    def check_transactions(self) -> None:
        """What a reader of committed records is told of, and how far it may read."""
        log = self.one.log
        open_since = dict(self.begun)
        aborted = []
        for _, _, data in self.batches:
            header = read_header(data)
            if header.is_control:
                first = open_since.pop(header.producer_id, None)
                if first is not None and marker_of(data, header) == Marker(commit=False, coordinator_epoch=0):
                    aborted.append((header.producer_id, first, header.base_offset))
            elif header.is_transactional:
                open_since.setdefault(header.producer_id, header.base_offset)
        assert log.producers.last_stable_offset(self.end) == min(open_since.values(), default=self.end)
        told = [tuple(each[:3]) for each in log.segments.aborted_transactions(self.start, self.end)]
        assert told == [each for each in aborted if each[2] >= self.start]

    def check_time(self, wanted: list[tuple[int, int, bytes]]) -> None:
        from penstock.records.reader import records

        every = [record for _, _, data in wanted for _, header in headers(data) for record in records(data, header)]
        at_ms = self.random.choice(every).timestamp_ms
        found = self.one.log.offset_for_timestamp(at_ms)
        assert found is not None
        assert found.offset == next(
            each.offset for each in every if each.timestamp_ms >= at_ms and each.offset >= self.start
        )
