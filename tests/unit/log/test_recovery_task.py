"""The recovery of a log as a task for a worker: when there is one, and what becomes of its report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.logs import NAME, NOW_MS, OneLog, batch, topic_config

from penstock.log import recovery_task
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import RecoverLog
from penstock.log.loading import OpenArguments
from penstock.log.names import LOG, SWAP, file_name
from penstock.log.recording_disk import RecordingDisk, TooManyChangesError, apply
from penstock.log.recovery import RecoveryReport
from penstock.log.recovery_task import PlannedRecovery, PlanRecovery, ScannedSegment, segments_to_scan
from penstock.log.replica import Replica, State
from penstock.log.tasks import Parts
from simulator.world.disk import SimulatedDisk


def torn() -> OneLog:
    """Forty batches in several segments, and half a batch after them."""
    one = OneLog(topic_config(segment_bytes=2048, index_interval_bytes=300), SimulatedDisk())
    for number in range(40):
        one.append(batch(b"%100d" % number))
    path = one.log.segments.all[-1].log_path
    one.disk.write(path, one.disk.size(path), [bytes(batch(b"torn", base_offset=40))[:50]])
    return one


def operation(one: OneLog, *, doubtful: bool = False) -> RecoverLog:
    directory = LogDirectory(0, "logs", one.disk, one.disk)
    replica = Replica("clicks", 0, None, directory, State.RECOVERING)
    arguments = OpenArguments(NAME, one.config, 0, 0, NOW_MS, doubtful)
    return RecoverLog(replica, None, arguments)  # type: ignore[arg-type]


def planned(one: OneLog) -> PlannedRecovery:
    return PlanRecovery(operation(one).arguments, 0).run(one.disk)


def test_little_is_not_worth_a_worker_and_what_must_be_written_again_is_none_of_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = torn()
    assert operation(one).task(one.disk) is None
    scan_bytes = sum(one.disk.size(path) for path in one.disk.paths() if path.endswith(".log"))
    monkeypatch.setattr(recovery_task, "RECOVERY_WORKER_MIN_BYTES", scan_bytes)
    task = operation(one).task(one.disk)
    assert isinstance(task, PlanRecovery)
    assert task.scan_bytes == scan_bytes
    assert operation(one, doubtful=True).task(one.disk) is None
    from_the_second = operation(one)
    from_the_second.arguments = replace(from_the_second.arguments, recovery_point=one.log.segments.bases[1])
    assert from_the_second.task(one.disk) is None, "the first segment is not scanned"


def test_a_log_without_a_segment_is_no_work_for_a_worker() -> None:
    one = OneLog(topic_config(), SimulatedDisk())
    assert operation(one).task(one.disk) is None
    report = operation(one).run(one.disk)
    assert isinstance(report, RecoveryReport)
    assert report.log_end_offset == 0


def test_a_report_is_carried_out() -> None:
    one = torn()
    report = operation(one).finish(one.disk, planned(one))
    assert isinstance(report, RecoveryReport)
    assert (report.log_end_offset, report.cut_bytes) == (40, 50)


def test_a_report_about_files_that_have_changed_is_not_carried_out_and_the_lane_recovers_the_log() -> None:
    one = torn()
    plan = planned(one)
    path = one.log.segments.all[-1].log_path
    one.disk.truncate(path, one.disk.size(path) - 60)
    marked = replace(plan.recovery, log_end_offset=-7)
    report = operation(one).finish(one.disk, replace(plan, recovery=marked))
    assert isinstance(report, RecoveryReport)
    assert report.log_end_offset == 39


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any log is recovered in parts, two segments at a time."""
    for name, value in (("TASK_MAX_BYTES", 0), ("WORKER_MIN_BYTES", 1), ("PARTS_MAX", 2)):
        monkeypatch.setattr(recovery_task, f"RECOVERY_{name}", value)


def scanned(parts: object, disk: SimulatedDisk) -> list[ScannedSegment]:
    assert isinstance(parts, Parts)
    return [report for task in parts.tasks if isinstance(report := task.run(disk), ScannedSegment)]


@pytest.mark.usefixtures("split")
def test_a_large_log_is_recovered_a_few_segments_at_a_time() -> None:
    one = torn()
    segments = len(one.log.segments.bases)
    recovery = operation(one)
    work: object = recovery.task(one.disk)
    left = [recovery.segments_left]
    while isinstance(work, Parts):
        assert len(work.tasks) <= 2
        work = recovery.finish(one.disk, scanned(work, one.disk))
        left.append(recovery.segments_left)
    assert left == [*range(segments, 0, -2), 0]
    assert isinstance(work, RecoveryReport)
    assert (work.log_end_offset, work.cut_bytes, work.scanned_segments) == (40, 50, segments)


@pytest.mark.usefixtures("split")
def test_the_scans_of_segments_are_used_and_nothing_is_scanned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one = torn()
    recovery = operation(one)
    work: object = recovery.task(one.disk)

    def again(*_: object) -> None:
        pytest.fail("a segment is scanned again")

    while isinstance(work, Parts):
        reports = scanned(work, one.disk)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recovery_task, "scan_segment", again)
            work = recovery.finish(one.disk, reports)
    assert isinstance(work, RecoveryReport)


@pytest.mark.usefixtures("split")
def test_a_log_that_changed_while_it_was_scanned_in_parts_is_scanned_anew() -> None:
    one = torn()
    recovery = operation(one)
    reports = scanned(recovery.task(one.disk), one.disk)
    path = one.log.segments.all[-1].log_path
    one.disk.truncate(path, one.disk.size(path) - 60)
    work = recovery.finish(one.disk, reports)
    assert isinstance(work, PlanRecovery)
    report = recovery.finish(one.disk, work.run(one.disk))
    assert isinstance(report, RecoveryReport)
    assert report.log_end_offset == 39


@pytest.mark.usefixtures("split")
def test_a_segment_with_too_many_producers_has_the_log_recovered_in_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    one = OneLog(topic_config(segment_bytes=2048), SimulatedDisk())
    for number in range(40):
        one.append(batch(b"%100d" % number, producer=(number, 0, 0)))
    for name in ("RECOVERY_PART_BATCHES_MAX", "RECOVERY_PRODUCER_BATCHES_MAX"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recovery_task, name, 3)
            recovery = operation(one)
            work = recovery.finish(one.disk, scanned(recovery.task(one.disk), one.disk))
            assert isinstance(work, PlanRecovery), name


@pytest.mark.usefixtures("split")
def test_a_segment_with_too_large_indexes_is_not_reported_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a topic whose index.interval.bytes was lowered to 0: eight such reports would fill the broker's memory."""
    one = torn()
    first, _ = scanned(operation(one).task(one.disk), one.disk)
    reported_bytes = len(first.found.offset_index or b"") + len(first.found.time_index or b"")
    monkeypatch.setattr(recovery_task, "RECOVERY_PART_INDEXES_MAX_BYTES", reported_bytes - 1)
    recovery = operation(one)
    reports = scanned(recovery.task(one.disk), one.disk)
    assert (reports[0].found.offset_index, reports[0].batches) == (None, None)
    assert isinstance(recovery.finish(one.disk, reports), PlanRecovery)


@pytest.mark.usefixtures("split")
def test_a_log_with_a_swap_to_finish_is_recovered_in_one_task() -> None:
    one = torn()
    assert isinstance(operation(one).task(one.disk), Parts)
    one.disk.write(f"{NAME}/{file_name(0, LOG)}{SWAP}", 0, [one.disk.content(one.log.segments.all[0].log_path)])
    assert isinstance(operation(one).task(one.disk), PlanRecovery)


def test_an_older_segment_that_lacks_an_index_counts_as_one_to_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    one = torn()
    monkeypatch.setattr(recovery_task, "RECOVERY_WORKER_MIN_BYTES", 1)
    arguments = replace(operation(one).arguments, recovery_point=40)
    first, last = one.log.segments.all[0], one.log.segments.all[-1]
    assert [wanted.base_offset for wanted in segments_to_scan(one.disk, arguments)] == [last.base_offset]
    one.disk.unlink(first.time_index.path)
    assert [wanted.base_offset for wanted in segments_to_scan(one.disk, arguments)] == [0, last.base_offset]


def test_where_no_worker_can_do_it_the_lane_does() -> None:
    one = torn()
    report = operation(one).without_report(one.disk, "killed")
    assert isinstance(report, RecoveryReport)
    assert report.log_end_offset == 40


def test_a_large_log_has_more_time() -> None:
    arguments = operation(torn()).arguments
    assert PlanRecovery(arguments, 10 << 30).deadline_ms > 10 * PlanRecovery(arguments, 1 << 20).deadline_ms


# The disk on which a recovery is planned


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("a")
    for name in ("one", "two", "three"):
        disk.write(f"a/{name}", 0, [name.encode()])
    return disk


def work_on(disk: SimulatedDisk | RecordingDisk) -> None:
    disk.write("a/one", 1, [b"xy", b"z"])
    disk.truncate("a/one", 3)
    disk.truncate("a/two", 2)
    disk.rename("a/two", "a/second")
    disk.write("a/second", 5, [b"!"])
    disk.unlink("a/three")
    disk.unlink("a/missing")
    disk.write("a/three", 0, [])
    disk.replace("a/four", b"4444")
    disk.replace_all([("a/five", b"5"), ("a/six", b"6")])
    disk.truncate("a/six", 4)
    disk.make_directory("b")
    disk.write("b/file", 0, [b"b"])
    disk.rename("b/file", "a/file")
    disk.make_directory("c")
    disk.write("c/file", 0, [b"c"])
    disk.remove_directory("c")
    disk.fsync("a/one")
    disk.fsync_directory("a")


def seen(disk: SimulatedDisk | RecordingDisk) -> dict[str, bytes]:
    return {info.name: disk.read(f"a/{info.name}", 0, disk.size(f"a/{info.name}")) for info in disk.list("a")}


def test_who_reads_a_recording_disk_sees_what_was_done_to_it_and_nothing_is_done(disk: SimulatedDisk) -> None:
    before = seen(disk)
    recording = RecordingDisk(disk, 1000)
    work_on(recording)
    assert seen(disk) == before
    expected = SimulatedDisk()
    expected.make_directory("a")
    for name, content in before.items():
        expected.write(f"a/{name}", 0, [content])
    work_on(expected)
    assert seen(recording) == seen(expected)
    assert [info.size_bytes for info in recording.list("a")] == [info.size_bytes for info in expected.list("a")]
    assert recording.exists("b")
    assert not recording.exists("c/file")
    with pytest.raises(FileNotFoundError):
        recording.read("a/two", 0, 1)
    apply(disk, recording.changes)
    assert seen(disk) == seen(expected)


def test_a_recording_disk_holds_so_much_and_no_more(disk: SimulatedDisk) -> None:
    recording = RecordingDisk(disk, 10)
    recording.write("a/new", 0, [bytes(10)])
    with pytest.raises(TooManyChangesError):
        recording.write("a/new", 10, [b"1"])
    with pytest.raises(TooManyChangesError):
        RecordingDisk(disk, 2).write("a/three", 0, [b"1"])
