"""Recovery of one log after an unclean stop."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
from support.legacy import message
from support.logs import NAME, NOW_MS, OneLog, batch, marker, topic_config

from penstock.log import recovery_task
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import RecoverLog
from penstock.log.disk import FSYNC_FAILED
from penstock.log.loading import OpenArguments, RecoveryNeeded
from penstock.log.names import LOG, file_name
from penstock.log.operations import Flush
from penstock.log.recovery import OffsetRange, RecoveryReport, recover_log
from penstock.log.recovery_task import OTHERS, PlanRecovery, ScannedSegment, split_recovery
from penstock.log.replica import Replica, State
from penstock.log.rolls import read_rolls
from penstock.records.batch import headers
from simulator.world.disk import SimulatedDisk


def filled(count: int = 40) -> OneLog:
    """Batches of one record of one producer in several segments, not closed."""
    one = OneLog(topic_config(segment_bytes=2048, index_interval_bytes=300), SimulatedDisk())
    for number in range(count):
        one.append(batch(b"%100d" % number, producer=(7, 0, number), timestamp_ms=NOW_MS + number))
    assert len(one.log.segments.bases) >= 4
    return one


@pytest.fixture(autouse=True, params=["in the lane", "planned by a worker", "in parts"])
def planned(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is so, whoever recovers the log."""
    if request.param == "planned by a worker":
        monkeypatch.setattr(sys.modules[__name__], "recover_log", plan_and_carry_out)
    if request.param == "in parts":
        monkeypatch.setattr(sys.modules[__name__], "recover_log", recover_in_parts)
        monkeypatch.setattr(recovery_task, "RECOVERY_TASK_MAX_BYTES", 0)
        monkeypatch.setattr(recovery_task, "RECOVERY_PARTS_MAX", 2)


def plan_and_carry_out(disk: SimulatedDisk, arguments: OpenArguments) -> RecoveryReport:
    """As a worker and the lane do it together, held against what the lane does alone."""
    before = contents(disk)
    twin = SimulatedDisk()
    twin.make_directory(NAME)
    for path, content in before.items():
        twin.write(path, 0, [content])
    planned = PlanRecovery(arguments, 0).run(disk)
    assert contents(disk) == before, "a worker only reads"
    assert planned.still_holds(disk)
    report = planned.carry_out(disk)
    assert report == inline(twin, arguments)
    assert contents(disk) == contents(twin)
    return report


def recover_in_parts(disk: SimulatedDisk, arguments: OpenArguments) -> RecoveryReport:
    """As several workers and the lane do it together, held against what the lane does alone."""
    split = split_recovery(disk, arguments)
    if split is None:
        return inline(disk, arguments)
    twin = SimulatedDisk()
    twin.make_directory(NAME)
    for path, content in contents(disk).items():
        twin.write(path, 0, [content])
    while split.left:
        before, left = contents(disk), len(split.left)
        reports = [task.run(disk) for task in reversed(split.next_parts(OTHERS).tasks)]
        assert contents(disk) == before, "a worker only reads"
        assert split.take(disk, [report for report in reversed(reports) if isinstance(report, ScannedSegment)])
        assert len(split.left) < left
    report = split.carry_out(disk)
    assert report == inline(twin, arguments)
    assert contents(disk) == contents(twin)
    return report


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: disk.content(path) for path in disk.paths()}


inline = recover_log


def recover(one: OneLog, recovery_point: int = 0, log_start_offset: int = 0) -> RecoveryReport:
    report = recover_log(one.disk, OpenArguments(NAME, one.config, recovery_point, log_start_offset, NOW_MS))
    one.open(recovery_point=report.recovery_point, log_start_offset=report.log_start_offset)
    assert one.log.log_end_offset == report.log_end_offset
    return report


def offsets(one: OneLog) -> list[int]:
    return [header.base_offset for _, header in headers(one.content())]


def files(one: OneLog) -> dict[str, bytes]:
    return contents(one.disk)


def test_a_whole_log_is_left_as_it_is() -> None:
    one = filled()
    report = recover(one, one.log.recovery_point)
    assert report.scanned_segments == 1
    assert (report.cut_bytes, report.lost) == (0, [])
    assert offsets(one) == list(range(40))
    assert one.append(batch(b"x", producer=(7, 0, 40))).base_offset == 40


def test_indexes_are_rebuilt_as_they_were() -> None:
    one = filled()
    one.close()
    before = files(one)
    for path in one.disk.paths():
        if path.endswith("index"):
            one.disk.truncate(path, 0)
    recover(one)
    for path, content in files(one).items():
        if path.endswith("index"):
            assert content == before[path], path


def test_a_missing_index_needs_a_recovery_which_makes_it_again() -> None:
    one = filled()
    one.close()
    path = one.log.segments.all[1].offset_index.path
    before = one.disk.content(path)
    one.disk.unlink(path)
    with pytest.raises(RecoveryNeeded):
        one.open(recovery_point=40)
    assert recover(one, 40).scanned_segments == 2
    assert one.disk.content(path) == before


@pytest.mark.parametrize("torn_bytes", [1, 60, 61, 100])
def test_a_torn_tail_is_cut(torn_bytes: int) -> None:
    one = filled()
    active = one.log.segments.all[-1]
    one.disk.write(active.log_path, active.size_bytes, [bytes(batch(b"y" * 100, base_offset=40))[:torn_bytes]])
    report = recover(one)
    assert (report.cut_bytes, report.lost, report.kept_aside) == (torn_bytes, [], [])
    assert offsets(one) == list(range(40))


def test_zeros_at_the_end_are_cut() -> None:
    one = filled()
    active = one.log.segments.all[-1]
    one.disk.write(active.log_path, active.size_bytes, [bytes(5000)])
    assert recover(one).cut_bytes == 5000
    assert offsets(one) == list(range(40))


def test_valid_batches_after_a_bad_one_are_kept_aside_and_reported() -> None:
    one = filled()
    second = one.log.segments.all[1]
    bad = second.base_offset + 2
    first_bytes = [position for position, _ in headers(one.disk.content(second.log_path))]
    before = {segment.base_offset: one.disk.content(segment.log_path) for segment in one.log.segments.all}
    one.disk.flip_bit(second.log_path, first_bytes[2] + 90)
    damaged = one.disk.content(second.log_path)
    report = recover(one)
    assert offsets(one) == list(range(bad))
    third = one.log.segments.all[-1].base_offset + len(first_bytes)
    assert report.lost[0] == OffsetRange(bad + 1, third)
    assert report.lost[-1].end == 40
    assert report.cut_bytes > 0
    assert one.disk.content(report.kept_aside[0]) == damaged[first_bytes[2] :]
    assert one.disk.content(report.kept_aside[1]) == before[third]
    assert one.append(batch(b"z", producer=(7, 0, bad))).base_offset == bad


@pytest.mark.parametrize(("byte", "bit"), [(7, 6), (6, 1), (4, 7)])
def test_a_base_offset_that_was_raised_ends_the_log_there(byte: int, bit: int) -> None:
    """No CRC covers it: that the next batch goes back says that this one is wrong, and not those that follow."""
    one = filled()
    last = one.log.segments.all[-1]
    position, _ = list(headers(one.disk.content(last.log_path)))[1]
    one.disk.flip_bit(last.log_path, position + byte, bit)
    damaged = one.disk.content(last.log_path)
    report = recover(one)
    assert offsets(one) == list(range(last.base_offset + 1))
    assert report.lost == [OffsetRange(last.base_offset + 2, 40)]
    assert one.disk.content(report.kept_aside[0]) == damaged[position:]


@pytest.mark.parametrize(("byte", "bit"), [(7, 6), (6, 1)])
def test_a_base_offset_that_was_raised_beyond_the_next_segment_ends_the_log_there(byte: int, bit: int) -> None:
    """The last batch of a segment has none after it that goes back; where the next segment begins says the same."""
    one = filled()
    second, third = one.log.segments.all[1:3]
    *_, (position, header) = headers(one.disk.content(second.log_path))
    whole = one.disk.content(third.log_path)
    one.disk.flip_bit(second.log_path, position + byte, bit)
    damaged = one.disk.content(second.log_path)
    report = recover(one)
    assert offsets(one) == list(range(header.base_offset))
    assert report.lost[0] == OffsetRange(header.base_offset, third.base_offset)
    assert report.lost[-1].end == 40
    assert one.disk.content(report.kept_aside[0]) == damaged[position:]
    assert one.disk.content(report.kept_aside[1]) == whole


@pytest.mark.parametrize("cleaned", [False, True])
def test_a_segment_whose_file_has_come_back_costs_the_one_around_it_nothing(cleaned: bool) -> None:
    """A power failure may undo a removal that nobody made durable, as in a directory of Apache Kafka's."""
    one = filled()
    second = one.log.segments.all[1]
    content = one.disk.content(second.log_path)
    _, (position, header), *_, (before_last, _), (last, _) = headers(content)
    stale = content[position : position + header.size_bytes]
    if cleaned:  # a gap before the last batch, behind where the stale segment begins
        content = content[:before_last] + content[last:]
        one.disk.truncate(second.log_path, 0)
        one.disk.write(second.log_path, 0, [content])
    one.disk.write(f"{NAME}/{file_name(header.base_offset, LOG)}", 0, [stale])
    report = recover(one)
    assert (report.cut_bytes, report.lost) == (0, [])
    assert one.disk.content(second.log_path) == content


def lose_tail(one: OneLog, number: int) -> int:
    """Takes the last batch of a segment; returns its offset."""
    path = one.log.segments.all[number].log_path
    position, header = list(headers(one.disk.content(path)))[-1]
    one.disk.truncate(path, position)
    return header.base_offset


def unflushed(policy: tuple[str, ...]) -> OneLog:
    """Two segments, of which the first is not flushed when the power fails."""
    one = OneLog(topic_config(segment_bytes=2048, cleanup_policy=policy), SimulatedDisk())
    while len(one.log.segments.bases) < 2:
        one.log.append_as_leader(batch(b"%100d" % one.log.reserved_end_offset), 0, NOW_MS)
        one.take()
        while one.taken:
            if type(one.taken[0]) is Flush:
                one.taken.popleft()
            else:
                one.run_one()
            one.take()
    assert one.log.recovery_point == 0
    return one


@pytest.mark.parametrize("policy", [("delete",), ("compact",)])
@pytest.mark.parametrize("recovery_point", [0, 12])
def test_a_gap_that_a_cleaner_may_have_left_is_kept(policy: tuple[str, ...], recovery_point: int) -> None:
    one = filled()
    one.config = topic_config(cleanup_policy=policy)
    removed = lose_tail(one, 1)
    report = recover(one, recovery_point)
    assert (report.lost, report.kept_aside, report.cut_bytes) == ([], [], 0)
    assert offsets(one) == [*range(removed), *range(removed + 1, 40)]


@pytest.mark.parametrize("policy", [("delete",), ("compact",)])
def test_a_segment_that_lost_its_unflushed_tail_ends_the_log(policy: tuple[str, ...]) -> None:
    one = unflushed(policy)
    second = one.log.segments.bases[1]
    assert read_rolls(one.disk, NAME) == {second}
    lost = lose_tail(one, 0)
    report = recover(one)
    assert report.lost == [OffsetRange(lost, second), OffsetRange(second, second + 1)]
    assert offsets(one) == list(range(lost))
    assert not one.disk.exists(f"{NAME}/unflushed-rolls"), "all is flushed now"


def test_a_roll_is_noted_before_the_new_segment_has_a_file() -> None:
    one = unflushed(("delete",))
    noted: dict[str, frozenset[int]] = {}
    write = one.disk.write

    def watched(path: str, position: int, chunks: Sequence[bytes]) -> None:
        if not position and not chunks:
            noted[path] = read_rolls(one.disk, NAME)
        write(path, position, chunks)

    one.disk.write = watched
    bases = len(one.log.segments.bases)
    while len(one.log.segments.bases) == bases:
        one.log.append_as_leader(batch(b"%100d" % 0), 0, NOW_MS)
        one.run()
    paths = one.log.segments.all[-1].paths
    assert [one.log.segments.bases[-1] in noted[path] for path in paths] == [True] * len(paths)


def test_a_roll_notes_only_what_is_not_flushed_and_a_clean_close_leaves_no_note() -> None:
    one = unflushed(("delete",))
    one.log.flush(NOW_MS)
    one.run()
    bases = len(one.log.segments.bases)
    while len(one.log.segments.bases) == bases:
        one.append(batch(b"%100d" % 0))
    assert read_rolls(one.disk, NAME) == {one.log.segments.bases[-1]}
    one.close()
    assert not one.disk.exists(f"{NAME}/unflushed-rolls")


def test_an_old_message_that_is_damaged_is_a_torn_tail() -> None:
    one = OneLog(topic_config(), SimulatedDisk())
    one.append(batch(b"a"))
    active = one.log.segments.all[-1]
    old = message(1, None, b"value")
    one.disk.write(active.log_path, active.size_bytes, [old[:-1], b"?"])
    assert recover(one).cut_bytes == len(old)


def test_a_bad_batch_below_the_recovery_point_ends_its_segment_alone() -> None:
    """A missing index has an old segment scanned; the later ones are as good as they were."""
    one = filled()
    one.close()
    second, third = one.log.segments.all[1:3]
    one.disk.unlink(second.offset_index.path)
    bad = second.base_offset + 2
    positions = [position for position, _ in headers(one.disk.content(second.log_path))]
    one.disk.flip_bit(second.log_path, positions[2] + 90)
    report = recover(one, 40)
    assert offsets(one) == [*range(bad), *range(third.base_offset, 40)]
    assert report.lost == [OffsetRange(bad + 1, third.base_offset)]
    assert len(report.kept_aside) == 1
    assert one.append(batch(b"x", producer=(7, 0, 40))).base_offset == 40


def test_a_killed_log_keeps_what_came_after_a_truncation_or_a_gap() -> None:
    one = OneLog(topic_config(segment_bytes=300), SimulatedDisk())
    for _ in range(3):
        one.append(batch(b"a", b"b", b"c"))
    one.log.truncate_to(4, NOW_MS)
    one.run()
    for number in range(5):
        one.log.append_as_follower(batch(b"d" * 100, base_offset=10 + 10 * number, leader_epoch=0), NOW_MS)
        one.run()
    assert recover(one).lost == []
    assert offsets(one) == [0, 10, 20, 30, 40, 50]


def test_what_is_below_the_recovery_point_is_not_read_again() -> None:
    one = filled()
    one.close()
    one.disk.read_bytes.clear()
    recover(one, one.log.segments.bases[-1])
    logs = {path for path, count in one.disk.read_bytes.items() if path.endswith(".log") and count}
    assert logs == {one.log.segments.all[-1].log_path}


def test_a_recovery_that_was_interrupted_is_repeated() -> None:
    from simulator.world.disk import PowerLoss

    crash_at = 1
    while True:
        one = filled()
        one.disk.flip_bit(one.log.segments.all[1].log_path, 300)
        for path in one.disk.paths():
            one.disk.fsync(path)
        one.disk.fsync_directory(NAME)
        one.disk.fsync_directory("")
        one.disk.crash_at = one.disk.changes + crash_at
        try:
            recover(one)
            break
        except PowerLoss:
            one.disk.restart()
        recover(one)
        assert offsets(one) == list(range(len(offsets(one))))
        assert one.append(batch(b"x")).base_offset == len(offsets(one)) - 1
        crash_at += 1
    assert crash_at > 10


def test_leftovers_of_deletions_cleanings_and_swaps_are_dealt_with() -> None:
    one = filled()
    one.close()
    first, second = one.log.segments.all[:2]
    whole = one.disk.content(first.log_path) + one.disk.content(second.log_path)
    one.disk.write(f"{first.log_path}.swap", 0, [whole])
    one.disk.write(f"{first.offset_index.path}.swap", 0, [])
    one.disk.write(f"{first.time_index.path}.swap", 0, [])
    one.disk.write(f"{NAME}/{30:020d}.log.cleaned", 0, [b"half"])
    one.disk.write(f"{NAME}/{3:020d}.log.deleted", 0, [b"old"])
    one.disk.write(f"{NAME}/{5:020d}.index", 0, [b""])
    recover(one)
    assert offsets(one) == list(range(40))
    assert second.base_offset not in one.log.segments.bases
    assert not [
        path for path in one.disk.paths() if path.endswith((".swap", ".cleaned", ".deleted", f"{5:020d}.index"))
    ]


@pytest.mark.parametrize("rewrite", [True, False])
def test_what_an_fsync_failed_to_write_survives_a_power_failure_only_when_it_is_written_again(rewrite: bool) -> None:
    one = OneLog(topic_config(), SimulatedDisk())
    one.disk.fsync_directory("")
    one.append(batch(b"a"))
    one.log.flush(NOW_MS)
    one.run()
    one.append(batch(b"b" * 100))
    one.disk.fail_fsync_at = one.disk.fsyncs + 1
    one.log.flush(NOW_MS)
    one.run()
    assert one.log.failed
    assert one.disk.exists(FSYNC_FAILED)
    one.disk.restart(power_failed=False)
    arguments = OpenArguments(NAME, one.config, 1, 0, NOW_MS, doubtful=rewrite)
    directory = LogDirectory(0, "/data/0", one.disk.loop, one.disk)
    replica = Replica("clicks", 0, None, directory, State.RECOVERING)
    report = RecoverLog(replica, one, arguments).run(one.disk)  # type: ignore[arg-type]
    assert isinstance(report, RecoveryReport)
    assert report.recovery_point == report.log_end_offset == 2, "it is all in the page cache, and fsynced again"
    one.disk.restart(power_failed=True)
    assert (one.disk.size(one.log.segments.all[0].log_path) == one.log.segments.all[0].reserved_bytes) is rewrite


def test_a_log_that_ends_before_its_start_begins_anew() -> None:
    one = filled()
    report = recover(one, log_start_offset=100)
    assert (report.log_start_offset, report.log_end_offset) == (100, 100)
    assert one.append(batch(b"x")).base_offset == 100


def test_producers_epochs_and_aborted_transactions_come_back() -> None:
    one = OneLog(topic_config(index_interval_bytes=300), SimulatedDisk())
    for number in range(6):
        one.append(batch(b"a" * 200, producer=(1, 0, number), transactional=True), leader_epoch=number // 2)
        one.append(batch(b"b" * 200, producer=(2, 3, number), transactional=True), leader_epoch=number // 2)
    one.append(marker(1, 0, commit=False), leader_epoch=2)
    one.append(batch(b"c", producer=(3, 0, 0), transactional=True), leader_epoch=2)
    log = one.log
    for path in (log.segments.all[0].aborted_index.path, f"{NAME}/leader-epoch-checkpoint"):
        one.disk.unlink(path)
    recover(one)
    assert one.log.leader_epochs.entries() == [(0, 0), (1, 4), (2, 8)]
    assert one.log.producers.ongoing == log.producers.ongoing == {1: 2, 13: 3}
    assert {
        key: producer._replace(batches=producer.batches[-1:]) for key, producer in log.producers.producers.items()
    } == {
        key: producer._replace(batches=producer.batches[-1:]) for key, producer in one.log.producers.producers.items()
    }
    assert one.log.segments.aborted_transactions(0, 14) == log.segments.aborted_transactions(0, 14) == [(1, 0, 12, 1)]
    assert one.log.producers.last_stable_offset(14) == 1


def give_content(one: OneLog, number: int, other: int) -> bytes:
    """Gives a segment the records of another one; what it had."""
    paths = [one.log.segments.all[each].log_path for each in (number, other)]
    before, content = map(one.disk.content, paths)
    one.disk.truncate(paths[0], 0)
    one.disk.write(paths[0], 0, [content])
    return before


@pytest.mark.parametrize("other", [2, 3])
def test_a_segment_with_the_records_of_a_later_one_is_damaged(other: int) -> None:
    """All its batches are right but for their place. What it had is lost, and nobody gets records twice."""
    one = filled()
    second, third = one.log.segments.all[1:3]
    give_content(one, 1, other)
    content = one.disk.content(second.log_path)
    whole = one.disk.content(third.log_path)
    report = recover(one)
    assert offsets(one) == list(range(second.base_offset))
    assert report.lost[0] == OffsetRange(second.base_offset, third.base_offset)
    assert report.lost[-1].end == 40
    assert one.disk.content(report.kept_aside[0]) == content
    assert one.disk.content(report.kept_aside[1]) == whole
    assert one.append(batch(b"z", producer=(7, 0, second.base_offset))).base_offset == second.base_offset


def test_a_segment_whose_end_is_that_of_a_later_one_is_damaged_there() -> None:
    one = filled()
    second, third = one.log.segments.all[1:3]
    places = [position for position, _ in headers(one.disk.content(second.log_path))]
    kept = one.disk.content(second.log_path)[: places[2]]
    give_content(one, 1, 3)
    foreign = one.disk.content(second.log_path)[: places[3]]
    one.disk.truncate(second.log_path, 0)
    one.disk.write(second.log_path, 0, [kept, foreign])
    report = recover(one)
    assert offsets(one) == list(range(second.base_offset + 2))
    assert report.lost[0] == OffsetRange(second.base_offset + 2, third.base_offset)
    assert one.disk.content(report.kept_aside[0]) == foreign


def test_an_older_segment_that_lacks_an_index_and_has_records_of_a_later_one_ends_alone() -> None:
    one = filled()
    second, third = one.log.segments.all[1:3]
    give_content(one, 1, 2)
    one.disk.unlink(second.offset_index.path)
    report = recover(one, 40)
    assert offsets(one) == [*range(second.base_offset), *range(third.base_offset, 40)]
    assert report.lost == [OffsetRange(second.base_offset, third.base_offset)]
    assert len(report.kept_aside) == 1
