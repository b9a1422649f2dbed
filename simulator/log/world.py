"""A world for the log directories: random load and random faults on a `LogNode`, held against timelines.

Producers append idempotent batches, consumers read, topics are deleted and made again, records deleted, logs flushed,
the node is stopped cleanly, killed, loses its power at any write (also while it recovers), has a failing fsync, a full
disk or a cold one. After every start each partition must be what its timeline allows. In every fourth seed records
count only once they are on disk (`penstock.log.fsync=group`): then everything that readers may have survives, and
appends come while a round of fsyncs is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from uuid import UUID

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.errors import ErrorCode, RequestError, StorageError
from penstock.log.events import LogBroken
from penstock.log.log import Log
from penstock.log.manager import ReplicaRequest
from penstock.log.results import Appended, Duplicate
from penstock.records.builder import BatchBuilder
from simulator.log.node import RESTART_DELAY_MS, LogNode
from simulator.log.timeline import Timeline, WrittenBatch
from simulator.world.checks import Violation, check, disk_failed, replayable
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation

ACTIONS = 260
ACTION_EVERY_MS = 15
CRASH_AFTER_CHANGES_MAX = 250
FINAL_MS = 60_000
READ_BYTES_MAX = 4_000
REMADE_WHILE_DOWN = 0.1
"""How likely a topic was deleted and made again while the node was down, so that it finds strays when it starts."""
GROUP_FSYNC_EVERY = 4
APPENDS_MEANWHILE = 2
"""How many more follow each append then, a millisecond apart."""
SPACE_FREED = 0.03
"""How likely somebody frees space on a full disk between two actions."""
PARTITIONS = 2
PRODUCERS = 3

TOPICS = {
    "plain": {"internal.segment.bytes": "3000", "index.interval.bytes": "100"},
    "flushed": {"internal.segment.bytes": "1500", "flush.messages": "3", "index.interval.bytes": "1"},
    "timed": {"internal.segment.bytes": "2000", "flush.ms": "100"},
    "short": {"internal.segment.bytes": "1000", "retention.bytes": "2500", "file.delete.delay.ms": "50"},
}


class LogWorld:
    """One run. `run` raises Violation, with the seed and the end of the trace, if the code breaks a rule."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        self.random = self.simulation.random
        settings = Settings.for_node(
            1,
            log_flush_offset_checkpoint_interval_ms=300,
            log_flush_start_offset_checkpoint_interval_ms=300,
            replica_high_watermark_checkpoint_interval_ms=200,
            log_retention_check_interval_ms=200,
            log_initial_task_delay_ms=100,
        )
        count = self.random.choice((1, 1, 2))
        self.disks = [
            SimulatedDisk(index, random=Random(self.random.getrandbits(64)), clock=self.simulation.clock)
            for index in range(count)
        ]
        self.group_fsync = seed % GROUP_FSYNC_EVERY == 0
        common = {"penstock.log.fsync": "group"} if self.group_fsync else {}
        configs = {topic: TopicConfig.resolve(settings, common | overrides) for topic, overrides in TOPICS.items()}
        self.node = LogNode(self.simulation, self.disks, settings, configs)
        self.node.cut = self._undone
        self.node.restarted = self._restarted
        self.node.crashed = self._repair
        self.node.advanced = self._advanced
        self.topic_ids: dict[str, UUID] = {}
        self.timelines: dict[tuple[str, int], Timeline] = {}
        self.faults = True
        self._unchecked: set[tuple[str, int]] = set()
        self._value = 0
        self.checks = 0
        for topic in TOPICS:
            self._new_topic(topic)

    def run(self) -> Simulation:
        """The whole run."""
        with replayable(self.simulation, "log"):
            self.node.start()
            self.simulation.after_ms(ACTION_EVERY_MS, lambda: self._act(ACTIONS))
            self.simulation.run(self.simulation.now_ms + ACTIONS * ACTION_EVERY_MS)
            self._end_well()
        return self.simulation

    def _end_well(self) -> None:
        """No more faults: the node comes up, is killed twice without a write, stopped cleanly, and has everything."""
        self.faults = False
        self._repair()
        if self.node.running:
            self.node.kill()
        self.simulation.run(self.simulation.now_ms + FINAL_MS)
        for _ in range(2):
            before = {key: timeline.end for key, timeline in self.timelines.items()}
            self.node.kill()
            self.simulation.run(self.simulation.now_ms + FINAL_MS)
            after = {key: timeline.end for key, timeline in self.timelines.items()}
            check(before == after, "recovery is idempotent", f"{before} became {after}")
        self.node.stop()
        self.simulation.run(self.simulation.now_ms + FINAL_MS)
        check(not self.node.running, "a clean stop ends", "it did not")
        self.node.start()
        check(self.node.manager.previous_broker_epoch == 1, "a clean stop is marked", "it was not")
        self.simulation.run(self.simulation.now_ms + FINAL_MS)
        check(not self._unchecked, "every log comes up", f"not {sorted(self._unchecked)}")
        given_up = [str(event) for event in self.node.events if isinstance(event, LogBroken)]
        check(not given_up, "no log is given up", "; ".join(given_up))

    def _advanced(self, log: Log) -> None:
        if self.group_fsync:
            topic, _, partition = log.name.rpartition("-")
            self.timelines[topic, int(partition)].flushed(log.log_end_offset)

    # Life of the node

    def _restarted(self) -> None:
        now_ms = self.simulation.now_ms
        self._repair()
        if self.faults:
            self._set_faults()
            if self.random.random() < REMADE_WHILE_DOWN:
                self._new_topic(self.random.choice(sorted(TOPICS)))
        manager = self.node.manager
        manager.strays.set_aside(lambda topic, _: self.topic_ids.get(topic), lambda *_: None, now_ms)
        manager.create([ReplicaRequest(topic, index, self.topic_ids[topic]) for topic, index in self.timelines], now_ms)
        self._unchecked = set(self.timelines)
        for topic, partition in self.timelines:
            self._use(topic, partition, lambda log, timeline: None)

    def _undone(self, log: Log) -> None:
        topic, _, partition = log.name.rpartition("-")
        self.timelines[topic, int(partition)].undone(log.log_end_offset)

    def _repair(self) -> None:
        for disk in self.disks:
            disk.mend()

    def _set_faults(self) -> None:
        disk = self.random.choice(self.disks)
        fault = self.random.randrange(10)
        if fault < 6:
            disk.crash_at = disk.changes + self.random.randrange(1, CRASH_AFTER_CHANGES_MAX)
        elif fault == 6:
            disk.fail_fsync_at = disk.fsyncs + self.random.randrange(1, 30)
        elif fault == 7:
            disk.capacity_bytes = sum(disk.size(path) for path in disk.paths()) + self.random.randrange(5_000)
        if self.random.random() < 0.3:
            disk.cold = True

    # The load

    def _act(self, left: int) -> None:
        if left == 0 or not self.faults:
            return
        self.simulation.after_ms(ACTION_EVERY_MS, lambda: self._act(left - 1))
        if not self.node.running:
            return
        if disk_failed(self.node.manager.table.directories):
            self._kill()
            return
        for disk in self.disks:
            if disk.capacity_bytes is not None and self.random.random() < SPACE_FREED:
                disk.capacity_bytes = None
        action = self.random.choices(
            (self._append, self._read, self._flush, self._delete_records, self._remake_topic, self._stop, self._kill),
            (60, 20, 6, 3, 1, 0.5, 0.5),
        )[0]
        action()

    def _pick(self) -> tuple[str, int]:
        return self.random.choice(sorted(self.timelines))

    def _use(self, topic: str, partition: int, action: Callable[[Log, Timeline], None]) -> None:
        """Does something to a log and its timeline; the first time after a start, after having checked the log."""
        timeline = self.timelines[topic, partition]

        def checked(log: Log) -> None:
            if self.timelines.get((topic, partition)) is not timeline:
                return
            if log.topic_id != self.topic_ids[topic]:
                raise Violation(f"a log is its topic's: {log.name} has id {log.topic_id}")
            if (topic, partition) in self._unchecked:
                self._check_recovered(log, timeline)
                self._unchecked.discard((topic, partition))
            try:
                action(log, timeline)
            except StorageError:
                assert log.failed or log.closed
            timeline.start = max(timeline.start, log.log_start_offset)
            timeline.flushed(log.recovery_point)

        self.node.use(topic, partition, checked)

    def _append(self) -> None:
        topic, partition = self._pick()
        for number in range(APPENDS_MEANWHILE if self.group_fsync else 0):
            self.simulation.after_ms(number + 1, lambda: self._append_to(topic, partition))
        self._append_to(topic, partition)

    def _append_to(self, topic: str, partition: int) -> None:
        if not (self.node.running and self.faults):
            return
        producer_id = self.random.randrange(PRODUCERS)
        count = self.random.randrange(1, 5)
        self._value += 1
        value = f"{topic}-{partition} {self._value} ".encode() * self.random.randrange(1, 12)

        def append(log: Log, timeline: Timeline) -> None:
            if log.truncating:
                return
            last = timeline.producers().get(producer_id)
            sequence = last.last_sequence + 1 if last is not None else 0
            records = self._batch(producer_id, sequence, [value] * count)
            try:
                appended = log.append_as_leader(records, 1, self.simulation.now_ms)
            except RequestError as error:
                raise Violation(f"the next sequence is taken: {log.name} refused {sequence}: {error}") from error
            if isinstance(appended, Duplicate):
                raise Violation(f"a new batch is no duplicate: {log.name} sequence {sequence}")
            timeline.took(
                WrittenBatch(
                    appended.base_offset,
                    appended.last_offset,
                    bytes(records),
                    producer_id,
                    sequence,
                    sequence + count - 1,
                )
            )

        self._use(topic, partition, append)

    def _batch(self, producer_id: int, sequence: int, values: list[bytes]) -> bytearray:
        builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        for value in values:
            builder.append(self.simulation.now_ms, None, value)
        return bytearray(builder.build())

    def _read(self) -> None:
        def read(log: Log, timeline: Timeline) -> None:
            offset = self.random.randint(log.log_start_offset, log.log_end_offset)
            try:
                self._check_read(log, timeline, offset)
            except RequestError as error:
                check(log.truncating, "what is there is served", f"{log.name} at {offset}: {error}")

        self._use(*self._pick(), read)

    def _check_read(self, log: Log, timeline: Timeline, offset: int) -> int:
        content = log.read_bytes(offset, READ_BYTES_MAX)
        self.checks += 1
        if offset < log.log_end_offset:
            check(len(content) > 0, "what is there is served", f"{log.name} gives nothing at {offset}")
        return timeline.check_served(offset, content, log.log_end_offset)

    def _flush(self) -> None:
        self._use(*self._pick(), lambda log, _: log.flush(self.simulation.now_ms))

    def _delete_records(self) -> None:
        def delete(log: Log, timeline: Timeline) -> None:
            if log.truncating:
                return
            offset = self.random.randint(log.log_start_offset, log.log_end_offset)
            log.advance_log_start(offset, log.log_end_offset)

        self._use(*self._pick(), delete)

    def _new_topic(self, topic: str) -> None:
        self.topic_ids[topic] = UUID(int=self.random.getrandbits(128), version=4)
        for partition in range(PARTITIONS):
            self.timelines[topic, partition] = Timeline(f"{topic}-{partition}")

    def _remake_topic(self) -> None:
        topic = self.random.choice(sorted(TOPICS))
        now_ms = self.simulation.now_ms
        for partition in range(PARTITIONS):
            self.node.manager.delete(topic, partition, now_ms)
        self._new_topic(topic)
        requests = [ReplicaRequest(topic, partition, self.topic_ids[topic]) for partition in range(PARTITIONS)]
        self.node.manager.create(requests, now_ms)
        self.node.drain()

    def _stop(self) -> None:
        self.node.stop()
        self.simulation.after_ms(RESTART_DELAY_MS, self._start_if_stopped)

    def _start_if_stopped(self) -> None:
        if not self.node.running and self.node.manager.stopped:
            if disk_failed(self.node.manager.table.directories):
                self.node.kill()
            else:
                self.node.start()

    def _kill(self) -> None:
        self.node.kill(power_failed=self.random.random() < 0.5)

    # What must hold

    def _check_recovered(self, log: Log, timeline: Timeline) -> None:
        """A log that was opened for the first time after a start is what its timeline allows."""
        timeline.check_recovered(log.log_start_offset, log.log_end_offset)
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            offset = self._check_read(log, timeline, offset)
        timeline.cut(log.log_start_offset, log.log_end_offset)
        for producer_id, last in timeline.producers().items():
            if last.base_offset >= log.log_start_offset:
                self._check_producer(log, producer_id, last)

    def _check_producer(self, log: Log, producer_id: int, last: WrittenBatch) -> None:
        """A producer's last batch is known: again, it is a duplicate; with a gap after it, out of order."""
        count = last.last_sequence - last.base_sequence + 1
        again = self._batch(producer_id, last.base_sequence, [b"again"] * count)
        outcome: Appended | Duplicate | RequestError
        try:
            outcome = log.append_as_leader(again, 1, self.simulation.now_ms)
        except RequestError as error:
            outcome = error
        expected = (last.base_offset, last.last_offset)
        known = isinstance(outcome, Duplicate) and (outcome.base_offset, outcome.last_offset) == expected
        check(known, "producers are remembered", f"{log.name}: {last.base_sequence} of {producer_id} gave {outcome}")
        try:
            log.append_as_leader(self._batch(producer_id, last.last_sequence + 7, [b"gap"]), 1, self.simulation.now_ms)
        except RequestError as error:
            check(error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "gaps are refused", f"{log.name}: {error}")
        else:
            raise Violation(f"gaps are refused: {log.name} took sequence {last.last_sequence + 7} of {producer_id}")
