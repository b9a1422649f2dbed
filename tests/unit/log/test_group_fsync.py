"""penstock.log.fsync=group: records count once an fsync has them on disk, which serves all logs of a directory."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest
from support.logs import NAME, NOW_MS, OneLog, batch, topic_config

from penstock.errors import StorageError
from penstock.log import group_fsync
from penstock.log.disk import Operation
from penstock.log.file_work import FileWork
from penstock.log.group_fsync import FsyncRound, GroupFsync
from penstock.log.loading import OpenArguments
from penstock.log.log import Log
from penstock.log.operations import Flush, Roll, Write
from penstock.log.recovery import recover_log
from penstock.log.results import Duplicate
from simulator.world.disk import SimulatedDisk


class Directory:
    """The rounds of a log directory; who is told when it fails."""

    def __init__(self) -> None:
        self.rounds = GroupFsync(0, self, ready=lambda _: None, bug=self.bug)  # type: ignore[arg-type]
        self.failed: list[OSError] = []
        self.bugs: list[Exception] = []

    def directory_failed(self, index: int, error: OSError, now_ms: int) -> None:
        self.failed.append(error)

    def bug(self, where: str, error: Exception) -> None:
        self.bugs.append(error)

    def round(self) -> FsyncRound:
        """The round that begins now."""
        (taken,) = self.rounds.take_operations()
        assert isinstance(taken, FsyncRound)
        return taken


class Grouped(OneLog):
    """A log whose records count once they are on disk. `run` does all but the rounds of fsyncs."""

    def __init__(
        self,
        directory: Directory | None = None,
        *,
        disk: SimulatedDisk | None = None,
        name: str = NAME,
        **config: Any,
    ) -> None:
        self.directory = directory or Directory()
        super().__init__(topic_config(penstock_log_fsync="group", **config), disk, name)
        self.disk.fsync_directory("")

    def log_wrote(self, log: Log, now_ms: int) -> None:
        self.directory.rounds.expect(log, now_ms)

    def write(self) -> list[Flush]:
        """Does all but the rounds and the flushes of what was rolled, which are still to come."""
        flushes: list[Flush] = []
        self.take()
        while self.taken:
            if isinstance(self.taken[0], Flush):
                flushes.append(self.taken.popleft())  # type: ignore[arg-type]
            else:
                self.run_one()
                self.take()
        return flushes

    def sync(self) -> FsyncRound:
        """Does the next round."""
        taken = self.directory.round()
        self.end(taken)
        return taken

    def end(self, taken: FsyncRound) -> None:
        """Does a round that has begun."""
        try:
            missing = taken.run(self.disk)
        except OSError as error:
            self.directory.rounds.operation_failed(taken, error, NOW_MS)
        else:
            self.directory.rounds.operation_completed(taken, missing, NOW_MS)
        self.run()

    @property
    def counted(self) -> int:
        return self.log.log_end_offset

    def after_power_failure(self) -> int:
        """Where the log ends for whoever recovers it on a machine that has lost its power now."""
        self.disk.restart()
        arguments = OpenArguments(self.name, self.config, self.log.recovery_point, 0, NOW_MS)
        return recover_log(self.disk, arguments).log_end_offset


def test_a_record_counts_when_it_is_on_disk_and_not_when_it_is_written() -> None:
    one = Grouped()
    one.append(batch(b"a", b"b"))
    assert (one.log.reserved_end_offset, one.counted, one.log.segments.all[0].size_bytes) == (2, 0, 0)
    assert one.content() == b""
    assert not [told for told, _ in one.told if told == "advanced"]
    one.sync()
    assert one.counted == 2
    assert len(one.content()) == one.log.segments.all[0].size_bytes > 0
    assert ("advanced", 2) in one.told
    assert one.after_power_failure() == 2


def test_what_is_appended_during_a_round_is_the_next_ones() -> None:
    one = Grouped()
    one.append(batch(b"first"))
    under_way = one.directory.round()
    for number in range(5):
        one.append(batch(b"%d" % number))
    assert one.directory.rounds.take_operations() == [], "one round at a time"
    one.end(under_way)
    assert one.counted == 1
    before = one.disk.fsyncs
    one.sync()
    assert (one.counted, one.disk.fsyncs - before) == (6, 1)


def test_a_round_serves_all_logs_of_the_directory() -> None:
    directory, disk = Directory(), SimulatedDisk()
    logs = [Grouped(directory, disk=disk, name=f"clicks-{number}") for number in range(3)]
    for one in logs:
        one.append(batch(b"x"))
    logs[0].sync()
    assert [one.counted for one in logs] == [1, 1, 1]
    assert (directory.rounds.counts.rounds, directory.rounds.counts.files) == (1, 6), "each and its directory"
    for one in logs:
        one.append(batch(b"y"))
    logs[0].sync()
    assert directory.rounds.counts.files_max == 6
    assert directory.rounds.counts.files == 6 + 3, "the names are on disk already"


def test_a_round_has_so_many_files_and_the_logs_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_fsync, "GROUP_FSYNC_FILES_MAX", 4)
    directory, disk = Directory(), SimulatedDisk()
    logs = [Grouped(directory, disk=disk, name=f"clicks-{number}") for number in range(5)]
    for one in logs:
        one.append(batch(b"x"))
    rounds = [logs[0].sync()]
    logs[0].append(batch(b"again"))
    while directory.rounds.waiting_logs:
        rounds.append(logs[0].sync())
    served = [[part.log.name[-1] for part in each.parts] for each in rounds]
    assert served == [["0", "1"], ["2", "3"], ["4", "0"]]
    assert directory.rounds.counts.files_max == 4
    assert [one.counted for one in logs] == [2, 1, 1, 1, 1]


def test_a_log_with_more_files_than_a_round_goes_on_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_fsync, "GROUP_FSYNC_FILES_MAX", 2)
    one = Grouped(segment_bytes=300)
    for _ in range(7):
        one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    one.write()
    counted = []
    while one.directory.rounds.waiting_logs:
        one.sync()
        counted.append(one.counted)
    assert counted == [4, 7]


def test_a_roll_during_a_round_leaves_the_old_file_to_the_next() -> None:
    one = Grouped(segment_bytes=300)
    one.append(batch(b"x" * 50))
    under_way = one.directory.round()
    for _ in range(3):
        one.append(batch(b"x" * 50))
    assert len(one.log.segments.all) == 2
    one.end(under_way)
    assert one.counted >= 1
    taken = one.sync()
    assert [part.unsynced.names for part in taken.parts] == [True], "the new file's name is made durable with it"
    assert one.counted == 4
    assert one.after_power_failure() == 4


def test_a_round_leaves_no_hole_before_what_it_covers() -> None:
    """Of records that were written with another setting, and whose segment was closed but not flushed yet."""
    one = Grouped(segment_bytes=300)
    one.log.config = topic_config(internal_segment_bytes=300)
    for _ in range(3):
        one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    one.write()
    assert (one.counted, len(one.log.segments.all)) == (3, 2)
    one.log.config = topic_config(penstock_log_fsync="group", internal_segment_bytes=300)
    one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    one.write()
    taken = one.directory.round()
    one.directory.rounds.operation_completed(taken, taken.run(one.disk), NOW_MS)
    assert one.counted == 4
    assert one.after_power_failure() == 4


def test_a_segment_before_may_have_been_taken_away_when_a_round_comes_to_it() -> None:
    one = Grouped(segment_bytes=300)
    one.log.config = topic_config(internal_segment_bytes=300)
    for _ in range(3):
        one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    one.write()
    one.log.config = topic_config(penstock_log_fsync="group", internal_segment_bytes=300)
    one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    one.write()
    taken = one.directory.round()
    assert [part.unsynced.paths_before for part in taken.parts] == [[f"{NAME}/{0:020d}.log"]]
    one.disk.rename(f"{NAME}/{0:020d}.log", f"{NAME}/{0:020d}.log.deleted")
    one.directory.rounds.operation_completed(taken, taken.run(one.disk), NOW_MS)
    assert one.counted == 4


def test_a_segment_that_is_only_begun_is_not_asked_for() -> None:
    """The round is put together while the roll of the next segment still waits for its turn."""
    one = Grouped(segment_bytes=300)
    one.append(batch(b"x" * 50))
    one.append(batch(b"x" * 50))
    one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    taken = one.directory.round()
    assert [part.unsynced.paths for part in taken.parts] == [[f"{NAME}/{0:020d}.log"]]
    one.end(taken)
    one.sync()
    assert one.counted == 3


def orders(operations: list[Operation]) -> list[str]:
    """The orders that operations have, each once."""
    return list(dict.fromkeys(each.order for each in operations))


@pytest.mark.parametrize("seed", range(40))
def test_what_counts_survives_a_power_failure_at_any_change(seed: int) -> None:
    random = Random(seed)
    disk = SimulatedDisk(random=random)
    one = Grouped(disk=disk, segment_bytes=400, index_interval_bytes=1)
    todo: list[Operation] = []
    for number in range(60):
        one.log.append_as_leader(batch(b"%d" % number * 20), 0, NOW_MS)
        todo += one.log.take_operations()
        one.calls_to_take = 0
        todo += one.directory.rounds.take_operations()
        while todo and random.random() < 0.8:
            operation = random.choice([next(each for each in todo if each.order == order) for order in orders(todo)])
            todo.remove(operation)
            operation.owner.operation_completed(operation, operation.run(disk), NOW_MS)
    counted = one.counted
    assert counted > 10
    assert one.after_power_failure() >= counted


def test_a_flush_lets_count_what_it_has_flushed() -> None:
    one = Grouped()
    one.append(batch(b"a"))
    one.log.flush(NOW_MS)
    one.run()
    assert (one.counted, one.log.recovery_point) == (1, 1)
    assert one.directory.rounds.take_operations() == [], "nothing is left to do"


def test_the_flush_of_a_segment_that_was_rolled_lets_its_records_count() -> None:
    one = Grouped(segment_bytes=300)
    for _ in range(3):
        one.append(batch(b"x" * 50))
    assert one.counted == one.log.segments.bases[1] == 2


def test_a_round_is_a_flush() -> None:
    one = Grouped()
    one.append(batch(b"a"))
    one.sync()
    assert one.log.recovery_point == 1
    assert ("flushed", 1) in one.told


def test_the_recovery_point_does_not_pass_a_segment_whose_indexes_may_be_lost() -> None:
    one = Grouped(segment_bytes=300)
    for _ in range(2):
        one.append(batch(b"x" * 50))
    one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    (flush,) = one.write()
    taken = one.directory.round()
    one.directory.rounds.operation_completed(taken, taken.run(one.disk), NOW_MS)
    assert (one.counted, one.log.recovery_point) == (3, 0)
    flush.owner.operation_completed(flush, flush.run(one.disk), NOW_MS)
    assert one.log.recovery_point == 2
    one.append(batch(b"x" * 50))
    one.sync()
    assert one.log.recovery_point == 4


def test_a_close_lets_all_count_before_it_says_so() -> None:
    one = Grouped()
    one.append(batch(b"a"))
    one.close()
    assert [told for told, _ in one.told].index("advanced") < [told for told, _ in one.told].index("closed")
    assert one.counted == 1
    assert one.after_power_failure() == 1


def test_a_round_that_ends_after_the_log_has_closed_changes_nothing() -> None:
    one = Grouped()
    one.append(batch(b"a"))
    under_way = one.directory.round()
    one.close()
    one.disk.rename(NAME, f"{NAME}.deleted")
    told = len(one.told)
    one.end(under_way)
    assert len(one.told) == told
    assert one.directory.failed == []


def test_a_truncation_drops_what_waits_and_leaves_the_rest_on_disk() -> None:
    one = Grouped(segment_bytes=400)
    for number in range(8):
        one.append(batch(b"%d" % number * 50))
    under_way = one.directory.round()
    assert one.log.truncate_to(5, NOW_MS)
    one.run()
    assert (one.counted, one.log.files.held) == (5, 0)
    one.append(batch(b"other"))
    one.end(under_way)
    assert one.counted == 5, "the round was of another time"
    one.sync()
    assert one.counted == 6
    assert one.after_power_failure() == 6


def test_a_truncation_makes_durable_what_it_leaves_in_segments_closed_before() -> None:
    one = Grouped(segment_bytes=300)
    for _ in range(5):
        one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    one.write()
    assert one.log.truncate_to(4, NOW_MS)
    one.write()
    assert one.counted == 4
    assert one.after_power_failure() == 4


def test_a_failed_fsync_takes_the_directory_offline_and_is_not_tried_again() -> None:
    one = Grouped()
    one.append(batch(b"a"))
    one.disk.fail_fsync_at = one.disk.fsyncs + 1
    one.sync()
    assert [error.errno for error in one.directory.failed] == [errno.EIO]
    one.append(batch(b"b"))
    assert one.directory.rounds.take_operations() == []
    assert one.counted == 0


def test_a_failed_write_undoes_what_was_held_back_too() -> None:
    one = Grouped()
    one.append(batch(b"a", producer=(7, 0, 0)))
    one.disk.fail_write_at = one.disk.changes + 1
    one.append(batch(b"b", producer=(7, 0, 1)))
    assert one.told[-1][0] == "failed"
    assert one.log.reserved_end_offset == one.counted == 0
    assert one.directory.rounds.take_operations() == [], "a log that has failed is not fsynced"


def test_a_file_that_is_gone_fails_the_log() -> None:
    one = Grouped()
    one.append(batch(b"a"))
    one.disk.unlink(f"{NAME}/{0:020d}.log")
    one.sync()
    assert one.told[-1][0] == "failed"
    assert one.counted == 0
    with pytest.raises(StorageError):
        one.log.append_as_leader(batch(b"b"), 0, NOW_MS)


def test_a_repeated_batch_is_known_before_it_counts() -> None:
    one = Grouped()
    records = batch(b"a", producer=(7, 0, 0))
    one.append(bytearray(records))
    again = one.log.append_as_leader(bytearray(records), 0, NOW_MS)
    assert isinstance(again, Duplicate)
    assert again.last_offset >= one.counted, "whoever repeats it waits for the original"


def test_without_it_again_the_next_write_counts_with_all_before_it() -> None:
    one = Grouped()
    one.append(batch(b"a"))
    one.log.config = topic_config()
    one.append(batch(b"b"))
    assert (one.counted, one.log.files.held) == (2, 0)
    assert one.directory.rounds.take_operations() == []


def test_flush_messages_asks_for_nothing_beside_it() -> None:
    one = Grouped(flush_messages=1)
    one.log.append_as_leader(batch(b"a"), 0, NOW_MS)
    write = one.log.take_operations()[-1]
    assert isinstance(write, Write)
    assert not write.sync_paths


def test_a_write_that_may_wait_for_a_round_is_not_made_on_the_loop() -> None:
    one = Grouped()
    one.log.append_as_leader(batch(b"a"), 0, NOW_MS)
    assert [each.inline for each in one.log.take_operations() if isinstance(each, Write)] == [False]


def test_a_log_without_it_never_asks_for_a_round() -> None:
    one = OneLog()
    one.append(batch(b"a"))
    assert one.log.log_end_offset == 1
    assert "wrote" not in [told for told, _ in one.told]


def test_retention_leaves_what_waits() -> None:
    one = Grouped(segment_bytes=300, retention_bytes=1)
    for _ in range(4):
        one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    one.write()
    assert one.log.delete_old_segments(NOW_MS, one.counted) == 0


def test_a_bug_at_the_end_of_a_round_gives_up_that_log_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    directory, disk = Directory(), SimulatedDisk()
    first, second = (Grouped(directory, disk=disk, name=name) for name in ("a-0", "b-0"))
    for one in (first, second):
        one.append(batch(b"x"))
    real = FileWork.release

    def release(files: FileWork, *arguments: Any) -> Any:
        assert files.name != "a-0", "planted"
        return real(files, *arguments)

    monkeypatch.setattr(FileWork, "release", release)
    first.sync()
    assert first.told[-1][0] == "broke"
    assert (len(directory.bugs), second.counted) == (1, 1)


def test_rolls_are_told_apart_from_the_round() -> None:
    """The round has an order of its own: appends and rolls of a log do not wait for it."""
    one = Grouped(segment_bytes=300)
    one.append(batch(b"x" * 50))
    assert one.directory.round().order != NAME
    for _ in range(2):
        one.log.append_as_leader(batch(b"x" * 50), 0, NOW_MS)
    assert {type(each) for each in one.log.take_operations()} == {Write, Roll}


@pytest.mark.parametrize("segment_bytes", [1 << 20, 100])
def test_what_waits_for_an_fsync_is_taken_back_with_an_append_that_finds_no_room(segment_bytes: int) -> None:
    one = Grouped(segment_bytes=segment_bytes)
    one.goes_on = True
    one.append(batch(b"a", producer=(7, 0, 0)))
    one.sync()
    for sequence in (1, 2):
        one.log.append_as_leader(batch(b"b", producer=(7, 0, sequence)), 0, NOW_MS)
        one.write()
    under_way = one.directory.round()
    before = one.content()
    one.disk.capacity_bytes = sum(one.disk.size(path) for path in one.disk.paths()) + 20
    one.log.append_as_leader(batch(b"c", producer=(7, 0, 3)), 0, NOW_MS)
    one.write()
    assert ("undone", 1) in one.told
    assert (one.counted, one.log.reserved_end_offset, one.log.files.held) == (1, 1, 0)
    assert one.content() == before
    assert sum(one.disk.size(path) for path in one.disk.paths() if path.endswith(".log")) == len(before)
    one.disk.capacity_bytes = None
    one.log.append_as_leader(batch(b"d", producer=(7, 0, 1)), 0, NOW_MS)
    one.write()
    one.end(under_way)
    assert one.counted == 1, "the round has not seen this record at this offset"
    one.sync()
    assert one.counted == 2
    assert one.after_power_failure() == 2
