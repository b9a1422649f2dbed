"""The log cleaner of a node: chooses logs, has passes run over them, and takes their results into use.

Logs that may have become due (`schedule`) are measured by their files (`dirt`), the dirtiest go first, up to
`log.cleaner.threads` at the same time. A pass is planned from the open log, and runs in a worker while the log is used
as ever (`task`). What it made counts only if the log is still the one it was planned for: not cut, not deleted, not on
its way to another directory. Then the log closes, whoever wants it waits, the segments are exchanged (`swap`), and it
opens anew. A pass for which there is not enough room runs in parts (`parts`), each of which ends like this; other logs
may come in between.

A log that could not be cleaned is named with the reason, and tried again after a while or when its topic's
configuration changes. Source: `LogCleaner` and `LogCleanerManager` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from random import Random
from typing import Any

from penstock.errors import NotResident, Report, StorageError
from penstock.log.checked_times import TimesNotChecked
from penstock.log.checkpointing import Checkpointing
from penstock.log.compaction.dirt import Bounds, Dirt, MeasureDirt
from penstock.log.compaction.offset_map import ENTRY_BYTES
from penstock.log.compaction.parts import Figures, part_of
from penstock.log.compaction.passes import LogState, Pass, Rest, plan_pass
from penstock.log.compaction.report import PassReport
from penstock.log.compaction.schedule import CleaningSchedule
from penstock.log.compaction.swap import Exchange, RemoveCleaned, Swapped, SwapSegments
from penstock.log.compaction.task import CleanLog, PassOutcome, RunPass, cleaning_order
from penstock.log.deadlines import Deadlines
from penstock.log.directory_operations import ReadMissing
from penstock.log.events import LogCleaned, LogEvent, LogNotCleaned, LogPartCleaned, TimeIndexWrong
from penstock.log.failures import Failures
from penstock.log.limits import (
    CLEANING_AGAIN_MS,
    CLEANING_CHUNK_MAX_BYTES,
    CLEANING_CHUNK_MIN_BYTES,
    CLEANING_HELD_MS,
    CLEANING_LOOK_REPLICAS_MAX,
    UNLINK_STEP_MS,
    UNLINKS_PER_STEP,
)
from penstock.log.log import Log
from penstock.log.not_open import NotOpen
from penstock.log.open_logs import OpenLogs
from penstock.log.outbox import Outbox
from penstock.log.removals import Removals
from penstock.log.replica import Replica, State
from penstock.log.replica_directories import ReplicaDirectories
from penstock.log.table import ReplicaTable
from penstock.records.wall import WallTime

HASH_KEY_BYTES = 16
NO_ROOM_TO_SWAP = "there was no room for the names of its new segments"
DIRTIEST = 64
"""How many of the logs that are due are put in order at a time."""
READY = (State.CLOSED, State.RETIRING, State.OPENING, State.OPEN, State.CLOSING)
"""States of a log whose files are good."""


@dataclass(eq=False)
class Cleaning:
    """One log from its choice to the end of its pass.

    Attributes:
        cuts: those of the replica when the pass was planned.
        held_since_ms: since when it waits for its directory, to open or close the log or exchange files; None while it
            does not.
        work, report: of the part that is running or has run last, the only one unless there is too little room.
        rest: what is left after it.
        began_ms: when that part was planned.
        buffer_bytes, load_factor: of the map of the first part, and so of the others.
        figures: of the parts in use.
    """

    replica: Replica
    cuts: int
    held_since_ms: int | None = None
    work: Pass | None = None
    report: PassReport | None = None
    rest: Rest | None = None
    began_ms: int = 0
    buffer_bytes: int = 0
    load_factor: float = 0.0
    figures: Figures = field(default_factory=Figures)

    def begin_anew(self) -> None:
        """Forgets the parts that are in use."""
        self.rest, self.figures = None, Figures()


@dataclass(slots=True)
class LastPass:
    """Figures of the pass that was taken into use last."""

    took_ms: int = 0
    recopied_ratio: float = 0.0
    buffer_used_ratio: float = 0.0


@dataclass(eq=False)
class LogCleaner:
    """See the module's head.

    Attributes:
        uncleanable: why logs could not be cleaned the last time, or not all of them.
        cleaned_logs: passes that were taken into use since the start; `removed_bytes` by them.
        looked_ms: when it looked at logs last, or when the node began. What it found is in the replicas.
        last_pass: figures of the last one.
    """

    _table: ReplicaTable
    _deadlines: Deadlines
    _outbox: Outbox
    _schedule: CleaningSchedule
    _logs: OpenLogs
    _directories: ReplicaDirectories
    _failures: Failures
    _checkpointing: Checkpointing
    _removals: Removals
    _wall: WallTime
    _random: Random
    _report: Callable[[LogEvent], None]
    _bug: Report
    uncleanable: dict[Replica, str] = field(default_factory=dict, init=False)
    cleaned_logs: int = field(default=0, init=False)
    removed_bytes: int = field(default=0, init=False)
    looked_ms: int = field(default=0, init=False)
    last_pass: LastPass = field(default_factory=LastPass, init=False)
    _not_before_ms: dict[Replica, int] = field(default_factory=dict, init=False)
    _due: dict[Replica, Dirt] = field(default_factory=dict, init=False)
    _running: dict[Replica, Cleaning] = field(default_factory=dict, init=False)
    _unfinished: dict[Replica, Cleaning] = field(default_factory=dict, init=False)
    _beginning: bool = field(default=False, init=False)

    def config_changed(self, replica: Replica) -> None:
        """A topic has another configuration: with it, the log may be due, or one that could not be cleaned can be."""
        self._not_before_ms.pop(replica, None)
        self._schedule.changed(replica)

    @property
    def dead_threads(self) -> int:
        """How many passes that may run at the same time are taken up by a directory that does not answer."""
        held_from_ms = self._deadlines.now_ms - CLEANING_HELD_MS
        since_ms = [each.held_since_ms for each in self._running.values() if each.held_since_ms is not None]
        return sum(1 for each_ms in since_ms if each_ms <= held_from_ms)

    # Choice

    def look(self, now_ms: int) -> None:
        """Looks at the logs that may have become due."""
        self.looked_ms = now_ms
        requests: dict[int, list[tuple[Replica, Bounds]]] = {}
        settings = self._table.settings
        for replica in self._schedule.take(now_ms):
            if not settings.log_cleaner_enable or not self._is_ours(replica) or replica.state is State.BROKEN:
                self._forget(replica)
            elif replica.state not in READY or replica in self._running:
                self._schedule.look_later(replica, now_ms)
            elif self._table.topic_config(replica.topic).compact:
                requests.setdefault(replica.directory.index, []).append((replica, self._bounds(replica)))
            else:
                self._forget(replica)
        for index, of_directory in requests.items():
            for start in range(0, len(of_directory), CLEANING_LOOK_REPLICAS_MAX):
                batch = [
                    (replica, bounds, self._table.topic_config(replica.topic))
                    for replica, bounds in of_directory[start : start + CLEANING_LOOK_REPLICAS_MAX]
                ]
                measure = MeasureDirt(index, self._outbox, batch, self._wall.at(now_ms))
                self._outbox.emit(measure, self._measured)
        self._begin_next(now_ms)
        self._schedule.arm()

    def _forget(self, replica: Replica) -> None:
        replica.dirty_ratio, replica.overdue_ms = 0.0, 0
        self.uncleanable.pop(replica, None)
        self._not_before_ms.pop(replica, None)
        self._unfinished.pop(replica, None)

    def _is_ours(self, replica: Replica) -> bool:
        """Whether it is in the table still, in a directory that is well."""
        return self._table.find(*replica.key) is replica and replica.directory.error is None

    def _bounds(self, replica: Replica) -> Bounds:
        """The last stable offset of a log that is closed is not known: it has seldom an open transaction."""
        directory, log = replica.directory, replica.log
        start = directory.log_starts.get(replica.key) or 0
        stable_offset = replica.high_watermark
        if log is not None:
            stable_offset = log.last_stable_offset(min(stable_offset, log.log_end_offset))
        return Bounds(directory.clean_offsets.get(replica.key), start, stable_offset)

    def _measured(self, operation: MeasureDirt, results: Sequence[Dirt | None], now_ms: int) -> None:
        self._deadlines.seen(now_ms)
        for replica, dirt in zip(operation.replicas, results, strict=True):
            if dirt is None:
                continue
            replica.dirty_ratio, replica.overdue_ms = dirt.ratio, dirt.delay_ms
            if not self._is_ours(replica) or replica in self._running:
                continue
            not_before_ms = self._not_before_ms.get(replica, 0)
            if not_before_ms > now_ms:  # what was set for then may have given way to an earlier look
                self._schedule.look_at(replica, self._wall.at(not_before_ms))
                continue
            if replica in self._unfinished or dirt.is_due(self._table.topic_config(replica.topic)):
                self._due[replica] = dirt
            if dirt.next_ms is not None:
                self._schedule.look_at(replica, dirt.next_ms)
        self._begin_next(now_ms)
        self._schedule.arm()

    def _begin_next(self, now_ms: int) -> None:
        """Begins passes over the dirtiest logs, as many as may run. One whose log is gone or broken counts no more."""
        for replica in [each for each in self._running if not self._is_ours(each) or each.state is State.BROKEN]:
            del self._running[replica]
        if self._beginning:
            return  # one that was begun has ended at once
        self._beginning = True
        try:
            while self._due and self._may_begin:
                self._begin_dirtiest(now_ms)
        finally:
            self._beginning = False
        if self._due:  # the threads may become more
            self._schedule.look_later(next(iter(self._due)), now_ms)

    @property
    def _may_begin(self) -> bool:
        return len(self._running) < self._table.settings.log_cleaner_threads and not self._table.stopping

    def _begin_dirtiest(self, now_ms: int) -> None:
        dirtiest = nlargest(DIRTIEST, self._due, key=self._urgency)
        for replica in dirtiest:
            if not self._may_begin:
                return
            del self._due[replica]
            if self._is_ours(replica) and replica not in self._running:
                self._running[replica] = self._unfinished.pop(replica, Cleaning(replica, replica.cuts))
                self._begin(self._running[replica], now_ms)

    def _urgency(self, replica: Replica) -> tuple[bool, bool, float]:
        """Overdue logs come first, then those that were begun, then the dirtiest."""
        dirt = self._due[replica]
        return dirt.overdue, replica in self._unfinished, dirt.ratio

    # The pass

    def _log_for(self, cleaning: Cleaning, then: Callable[[int], None], now_ms: int) -> Log | None:
        """The open log. None if `then` is called when it is open, or the cleaning has ended because it cannot be."""
        replica = cleaning.replica
        if not self._is_ours(replica) or self._table.stopping:
            self._end(cleaning, now_ms)
            return None
        try:
            return self._logs.get(replica, now_ms)
        except NotOpen as missing:
            missing.opening.when_done.append(then)
        except StorageError:
            self._end(cleaning, now_ms)
        return None

    def _begin(self, cleaning: Cleaning, now_ms: int) -> None:
        """Damage, or a bug, in what comes before a pass ends that one, and costs no thread."""
        if cleaning.held_since_ms is None:
            cleaning.held_since_ms = now_ms
        try:
            self._begin_pass(cleaning, now_ms)
        except StorageError as error:  # a damaged file
            self._failed(cleaning, str(error), now_ms)
        except Exception as error:
            self._failed(cleaning, f"a bug: {error!r}", now_ms)
            self._bug(f"the beginning of a pass over {cleaning.replica.name}", error)

    def _begin_pass(self, cleaning: Cleaning, now_ms: int) -> None:
        """Plans a pass, or the next part of one, and has it run."""
        log = self._log_for(cleaning, partial(self._begin, cleaning), now_ms)
        if log is None:
            return
        replica = cleaning.replica
        if log.truncating or log.failed or replica.key in self._table.futures:
            self._schedule.changed(replica)
            self._end(cleaning, now_ms)
            return
        if not self._table.topic_config(replica.topic).compact:  # not any more
            self._end(cleaning, now_ms)
            return
        if cleaning.rest is not None and cleaning.cuts != replica.cuts:
            cleaning.begin_anew()
        cleaning.cuts = replica.cuts
        try:
            work = self._plan(log, replica, now_ms)
        except NotResident as missing:
            self._outbox.emit(ReadMissing(missing, self._outbox), partial(self._read, cleaning))
            return
        work = self._part(cleaning, work)
        if not work.segments or work.first_dirty_offset >= work.first_uncleanable_offset:
            self._schedule.look_later(replica, now_ms)
            self._end(cleaning, now_ms)
            return
        cleaning.work, cleaning.began_ms = work, now_ms
        key = self._random.randbytes(HASH_KEY_BYTES)
        reserve_bytes = replica.directory.space.reserve_bytes
        task = RunPass(work, cleaning.buffer_bytes, cleaning.load_factor, key, reserve_bytes)
        self._outbox.emit(
            CleanLog(replica, self._outbox, task),
            partial(self._cleaned, cleaning),
            broke=partial(self._broke, cleaning),
            background=True,
        )
        cleaning.held_since_ms = None

    def _read(self, cleaning: Cleaning, operation: ReadMissing, result: Any, now_ms: int) -> None:
        """What a plan needs was read, or is gone."""
        missing = operation.missing
        if result is None:
            self._schedule.look_later(cleaning.replica, now_ms)
            self._end(cleaning, now_ms)
            return
        missing.was_read(result)
        if isinstance(missing, TimesNotChecked):
            log = cleaning.replica.log
            for wrong in missing.wrong(result, log.segments.sound if log is not None else ()):
                self._report(TimeIndexWrong(cleaning.replica.name, wrong))
        self._begin(cleaning, now_ms)

    def _plan(self, log: Log, replica: Replica, now_ms: int) -> Pass:
        """Raises NotResident."""
        clean_offset = replica.directory.clean_offsets.get(replica.key)
        if log.config.min_compaction_lag_ms > 0:
            log.segments.check_times(clean_offset or 0)
        return plan_pass(
            log.disk,
            log.name,
            LogState(log.segments.all, log.log_end_offset, log.producers),
            log.config,
            log_start_offset=log.log_start_offset,
            high_watermark=min(replica.high_watermark, log.log_end_offset),
            clean_offset=clean_offset,
            now_ms=self._wall.at(now_ms),
            chunk_bytes=self._chunk_bytes,
        )

    def _part(self, cleaning: Cleaning, work: Pass) -> Pass:
        """What is to be done of a pass now: the rest of the one that was begun, or, if that cannot go on, all of it."""
        part = part_of(work, cleaning.rest) if cleaning.rest is not None else None
        if part is not None:
            return part
        settings = self._table.settings
        cleaning.begin_anew()
        cleaning.buffer_bytes = settings.log_cleaner_dedupe_buffer_size // max(settings.log_cleaner_threads, 1)
        cleaning.load_factor = settings.log_cleaner_io_buffer_load_factor
        return work

    @property
    def _chunk_bytes(self) -> int:
        """What a pass reads or writes at once."""
        settings = self._table.settings
        share_bytes = settings.log_cleaner_io_buffer_size // max(settings.log_cleaner_threads, 1)
        return max(CLEANING_CHUNK_MIN_BYTES, min(share_bytes // 2, CLEANING_CHUNK_MAX_BYTES))

    def _cleaned(self, cleaning: Cleaning, operation: CleanLog, outcome: PassOutcome, now_ms: int) -> None:
        """A pass has ended, well or not."""
        self._deadlines.seen(now_ms)
        cleaning.report, cleaning.held_since_ms = outcome.report, now_ms
        if outcome.report is None:
            self._failed(cleaning, outcome.failure, now_ms)
        else:
            self._swap(cleaning, now_ms)

    def _broke(self, cleaning: Cleaning, operation: CleanLog | SwapSegments, error: Exception, now_ms: int) -> None:
        """A bug in a pass: the log stays as it is."""
        self._failed(cleaning, f"a bug: {error!r}", now_ms)

    def _failed(self, cleaning: Cleaning, reason: str, now_ms: int) -> None:
        replica = cleaning.replica
        if self._is_ours(replica) and not self._table.stopping:
            self._not_before_ms[replica] = now_ms + CLEANING_AGAIN_MS
            self.uncleanable[replica] = reason
            self._report(LogNotCleaned(replica.name, reason))
            self._schedule.look_at(replica, self._wall.at(now_ms) + CLEANING_AGAIN_MS)
            self._keep(cleaning)
        self._end(cleaning, now_ms)

    def _end(self, cleaning: Cleaning, now_ms: int) -> None:
        """Nothing more is done with this one."""
        cleaning.held_since_ms = None
        self._running.pop(cleaning.replica, None)
        self._begin_next(now_ms)
        self._schedule.arm()

    # The swap

    def _swap(self, cleaning: Cleaning, now_ms: int) -> None:
        """Takes the result of a pass into use, if the log is still what it was made from."""
        if self._log_for(cleaning, partial(self._swap, cleaning), now_ms) is None:
            return
        replica = cleaning.replica
        if self._is_stale(cleaning):
            self._discard(cleaning, now_ms)
            return
        replica.frozen = partial(self._closed, cleaning)
        self._logs.close(replica, now_ms)

    def _is_stale(self, cleaning: Cleaning) -> bool:
        """Whether the log was cut since the pass was planned, is on its way to another directory, or is to be kept."""
        replica = cleaning.replica
        return (
            replica.cuts != cleaning.cuts
            or replica.key in self._table.futures
            or not self._table.topic_config(replica.topic).compact
        )

    def _discard(self, cleaning: Cleaning, now_ms: int) -> None:
        replica = cleaning.replica
        self._outbox.emit(RemoveCleaned(replica, self._outbox, cleaning_order(replica)))
        self._schedule.changed(replica)
        self._end(cleaning, now_ms)

    def _closed(self, cleaning: Cleaning, now_ms: int) -> None:
        """The frozen log has closed; or it is open again, since it could not."""
        replica = cleaning.replica
        assert cleaning.work is not None
        assert cleaning.report is not None
        if replica.state is not State.CLOSED:
            self._outbox.emit(RemoveCleaned(replica, self._outbox, cleaning_order(replica)))
            self._failed(cleaning, "there was no room to close it", now_ms)
            return
        if self._is_stale(cleaning):  # it was being cut when it was to close
            replica.frozen = None
            self._discard(cleaning, now_ms)
            self._logs.now_closed(replica, now_ms)
            return
        replica.state = State.SWAPPING
        swap = SwapSegments(replica, self._outbox, Exchange.of(cleaning.work, cleaning.report))
        self._outbox.emit(
            swap,
            partial(self._swapped, cleaning),
            broke=partial(self._broke_swapping, cleaning),
            no_room=partial(self._no_room_to_swap, cleaning),
        )

    def _no_room_to_swap(self, cleaning: Cleaning, operation: SwapSegments, now_ms: int) -> None:
        """A swap could not go on for lack of room: a recovery ends it, when there is some."""
        replica = cleaning.replica
        if replica.state is State.SWAPPING:
            replica.frozen = None
            replica.state = State.UNRECOVERED
            self._table.will_recover(replica)
            if replica.opening is not None:
                self._logs.proceed(replica, now_ms)
            self._logs.recover_next(replica.directory, now_ms)
        cleaning.begin_anew()
        self._failed(cleaning, NO_ROOM_TO_SWAP, now_ms)

    def _broke_swapping(self, cleaning: Cleaning, operation: SwapSegments, error: Exception, now_ms: int) -> None:
        """A bug in a swap: nobody knows which files there are, and a recovery will find out."""
        replica = cleaning.replica
        replica.frozen = None
        cleaning.begin_anew()
        self._failures.replica_broken(replica, StorageError(f"a bug: {error!r}"), now_ms)
        self._failed(cleaning, f"a bug: {error!r}", now_ms)

    def _swapped(self, cleaning: Cleaning, operation: SwapSegments, result: Swapped | None, now_ms: int) -> None:
        """The log has its new segments, or, if its files had changed, the old ones."""
        self._deadlines.seen(now_ms)
        replica, report = cleaning.replica, cleaning.report
        assert report is not None
        if replica.state is State.SWAPPING:
            replica.frozen = None
            if result is not None:
                self._removals.unlink_later(replica, result.deleted_paths, now_ms)
                replica.size_bytes = result.size_bytes
            if result is not None and result.no_room:
                cleaning.begin_anew()
                self._logs.now_closed(replica, now_ms)
                self._failed(cleaning, f"{NO_ROOM_TO_SWAP}: {result.no_room}", now_ms)
                return
            if result is not None:
                self._note(cleaning, report, now_ms)
            self._logs.now_closed(replica, now_ms)
            self._keep(cleaning)
            if result is not None and cleaning.rest is not None:
                self._go_on_later(replica, len(result.deleted_paths), now_ms)
            else:
                self._schedule.changed(replica)
        self._end(cleaning, now_ms)

    def _keep(self, cleaning: Cleaning) -> None:
        """Remembers a pass of which some parts are in use."""
        if cleaning.rest is not None:
            cleaning.work = cleaning.report = None
            self._unfinished[cleaning.replica] = cleaning

    def _go_on_later(self, replica: Replica, removals: int, now_ms: int) -> None:
        """The next part of a pass follows when the files that this one has replaced are gone, and other logs may come
        before.
        """
        delay_ms = self._table.topic_config(replica.topic).file_delete_delay_ms
        delay_ms += UNLINK_STEP_MS * (removals // UNLINKS_PER_STEP + 1)
        self._not_before_ms[replica] = now_ms + min(delay_ms, CLEANING_AGAIN_MS)
        self._schedule.look_at(replica, self._wall.at(self._not_before_ms[replica]))

    def _note(self, cleaning: Cleaning, report: PassReport, now_ms: int) -> None:
        """A pass, or a part of it, is in use."""
        replica, figures = cleaning.replica, cleaning.figures
        before, after = figures.add(report, now_ms - cleaning.began_ms)
        self.removed_bytes += before - after
        cleaning.rest = report.rest
        if report.rest is not None:
            from_offset = report.groups[0].base_offsets[0]
            self._report(LogPartCleaned(replica.name, from_offset, report.rest.from_offset, before, after))
        else:
            self._finish(cleaning, report)
        if report.problems and not figures.problem:
            figures.problem = f"{report.problems[0]}; {report.problem_count} problems in all, what is damaged was kept"
            self._report(LogNotCleaned(replica.name, figures.problem))
        if figures.problem:
            self.uncleanable[replica] = figures.problem
        else:
            self.uncleanable.pop(replica, None)

    def _finish(self, cleaning: Cleaning, report: PassReport) -> None:
        """All of a pass is in use."""
        replica, figures = cleaning.replica, cleaning.figures
        self._checkpointing.note(replica, replica.directory.clean_offsets, report.end_offset)
        keys_max = int(cleaning.buffer_bytes / ENTRY_BYTES * cleaning.load_factor)
        self.last_pass = LastPass(
            figures.took_ms, figures.after_bytes / max(figures.before_bytes, 1), figures.keys / max(keys_max, 1)
        )
        self.cleaned_logs += 1
        self._report(
            LogCleaned(
                replica.name,
                report.first_dirty_offset,
                report.end_offset,
                figures.before_bytes,
                figures.after_bytes,
                figures.removed_records,
            )
        )
