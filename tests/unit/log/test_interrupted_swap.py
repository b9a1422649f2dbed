"""What a recovery makes of the files that a swap leaves where it is interrupted: Apache Kafka's swap, and ours.

Three old segments become one. Apache Kafka gives the new one's files `.swap`, the old ones' `.deleted` a segment at a
time, takes `.swap` away, and gives the producers' snapshots `.deleted`; of a segment it renames the records first, then
the indexes. Nothing is fsynced in between. Source: `LocalLog.replaceSegments` and `UnifiedLog.replaceSegments` of 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from support.compaction import History, batches_in, planned
from support.logs import NAME, NOW_MS, topic_config
from support.planted import checked, said
from support.swaps import cleaned_beside, files_of, swap_of, with_files

from penstock.log import producer_snapshot
from penstock.log.compaction.report import GroupReport, PassReport
from penstock.log.loading import OpenArguments, load
from penstock.log.names import CLEANED, CORRUPT, DELETED, INDEX_SUFFIXES, LOG, SNAPSHOT, SWAP, file_name
from penstock.log.recovery import RecoveryReport, recover_log
from penstock.log.recovery_task import PlanRecovery
from penstock.log.verification.partition import Beside
from simulator.world.disk import PowerLoss, SimulatedDisk

Files = dict[str, bytes]
CONFIG = topic_config(index_interval_bytes=100, segment_bytes=2000, cleanup_policy=("compact",))
ASIDE = file_name(5, LOG) + CORRUPT


@dataclass
class Group:
    """The files of a log after a pass over its first three segments, `bases`, and where it ends."""

    files: Files
    bases: list[int]
    end_offset: int

    @property
    def renames(self) -> list[tuple[str, str]]:
        """All that Apache Kafka does to names, in its order."""
        new = [file_name(self.bases[0], suffix) for suffix in (LOG, *INDEX_SUFFIXES)]
        new = [name for name in new if name + CLEANED in self.files]
        old = [file_name(base, suffix) for base in self.bases for suffix in (LOG, *INDEX_SUFFIXES)]
        snapshots = [file_name(base, SNAPSHOT) for base in self.bases[1:]]
        return [
            *((name + CLEANED, name + SWAP) for name in new),
            *((name, name + DELETED) for name in old if name in self.files),
            *((name + SWAP, name) for name in new),
            *((name, name + DELETED) for name in snapshots),
        ]

    def after(self, steps: int) -> Files:
        """The files when so many names have changed."""
        files = dict(self.files)
        for old, new in self.renames[:steps]:
            files[new] = files.pop(old)
        return files

    @property
    def begun(self) -> int:
        """From so many steps on the swap is finished and not undone."""
        return sum(new.endswith(SWAP) for _, new in self.renames)


def group(
    change: Callable[[History], None] = lambda history: None, *, last: bytes = b"last", later: bool = False
) -> Group:
    """Keys in three segments, and an aborted transaction of which a batch stays, for its producer.

    `change` is made before the pass. `last` is the key in the last of the segments. With `later` there is a segment of
    another group, which is not cleaned yet, with the key "later".
    """
    history = History.empty()
    history.append([(b"a", b"1"), (b"b", b"1" * 80)])
    history.append([(b"x", b"aborted")], producer_id=1, transactional=True)
    history.roll()
    history.append([(b"a", b"2"), (b"c", b"1" * 80)], producer_id=2)
    history.end(1, commit=False)
    history.roll()
    history.append([(last, b"3")])
    history.append([(last, b"4" * 80)])
    history.roll()
    if later:
        history.append([(b"later", b"5" * CONFIG.max_segment_bytes)])
        history.roll()
    history.append([(b"active", b"1")])
    history.one.close()
    disk = history.one.disk
    change(history)
    disk.write(f"{NAME}/{ASIDE}", 0, [b"set aside once"])
    disk.write(f"{NAME}/{file_name(0, SNAPSHOT)}", 0, [producer_snapshot.encode({})])
    work = planned(disk, config=CONFIG)
    bases = [segment.base_offset for segment in work.segments]
    report = cleaned_beside(disk, work)
    assert [each.base_offsets for each in report.groups] == ([bases[:3], bases[3:]] if later else [bases])
    files = files_of(disk, NAME)
    files = {
        name: files[name]
        for name in files
        if not (later and name.startswith(file_name(bases[3], "")) and name.endswith(CLEANED))
    }
    return Group(files, bases[:3], history.one.log.log_end_offset)


def arguments(made: Group) -> OpenArguments:
    """What was on disk at the last checkpoint: all of the old segments, so that none is scanned without a reason."""
    return OpenArguments(NAME, CONFIG, made.end_offset - 1, 0, NOW_MS)


def recover(disk: SimulatedDisk, made: Group) -> RecoveryReport:
    report = recover_log(disk, arguments(made))
    assert (report.log_end_offset, report.lost, report.cut_bytes) == (made.end_offset, [], 0)
    return report


def content(disk: SimulatedDisk) -> tuple[list[bytes], list[tuple[int, ...]]]:
    """The batches of a log and its aborted transactions."""
    segments = load(disk, NAME, log_start_offset=0, wall_ms=NOW_MS).segments
    aborted = [entry for segment in segments for entry in segment.aborted_index.all(disk)]
    return [data for _, data in batches_in(disk, NAME)], aborted


def check_files(disk: SimulatedDisk) -> None:
    """No leftovers, and every index is right."""
    files = files_of(disk, NAME)
    assert not [name for name in files if name.endswith((SWAP, CLEANED, DELETED))]
    assert files[ASIDE] == b"set aside once"
    assert file_name(0, SNAPSHOT) in files, "it is about what is before the group"
    report = checked(disk, Beside(was_stopped_cleanly=False))
    assert not report.findings.problems, said(report)


def outcomes(made: Group) -> tuple[object, object]:
    """The content of the log without the swap, and after all of it."""
    old, new = (with_files(made.after(steps), NAME) for steps in (0, len(made.renames)))
    recover(old, made)
    recover(new, made)
    assert content(old) != content(new)
    return content(old), content(new)


@pytest.mark.parametrize("planned_by_a_worker", [False, True], ids=["in the lane", "planned by a worker"])
def test_each_step_of_kafkas_swap_leaves_all_that_was_or_all_that_is_new(planned_by_a_worker: bool) -> None:
    made = group()
    assert file_name(0, ".txnindex") + CLEANED in made.files
    old, new = outcomes(made)
    for steps in range(len(made.renames) + 1):
        disk = with_files(made.after(steps), NAME)
        if planned_by_a_worker:
            PlanRecovery(arguments(made), 0).run(disk).carry_out(disk)
        else:
            recover(disk, made)
        assert content(disk) == (old if steps < made.begun else new), steps
        check_files(disk)
        assert (file_name(made.bases[1], LOG) in files_of(disk, NAME)) == (steps < made.begun)


@pytest.mark.parametrize("power_failed", [True, False], ids=["power failure", "kill"])
def test_a_recovery_of_it_may_be_interrupted_as_well(power_failed: bool) -> None:
    made = group()
    old, new = outcomes(made)
    for steps in range(0, len(made.renames) + 1, 1 if power_failed else 2):
        crash_at = 1
        while True:
            disk = with_files(made.after(steps), NAME)
            disk.random.seed(crash_at)
            disk.crash_at = disk.changes + crash_at
            try:
                recover(disk, made)
                break
            except PowerLoss:
                disk.restart(power_failed=power_failed)
            recover(disk, made)
            assert content(disk) == (old if steps < made.begun else new), (steps, crash_at)
            check_files(disk)
            crash_at += 1
        assert crash_at > 3


def test_old_segments_of_which_nothing_is_left_come_back_from_the_last_on() -> None:
    """Nobody knows any more that they belong to the new one. They are an end of the group all the same."""
    made = group(last=b"later", later=True)
    left = []
    for steps in range(made.begun, len(made.renames) + 1):
        disk = with_files(made.after(steps), NAME)
        recover(disk, made)
        check_files(disk)
        files = files_of(disk, NAME)
        there = [base for base in made.bases[1:] if file_name(base, LOG) in files]
        assert there == made.bases[len(made.bases) - len(there) :]
        assert all(files[file_name(base, LOG)] == made.files[file_name(base, LOG)] for base in there)
        left.append(len(there))
    assert left == sorted(left, reverse=True)
    assert set(left) == {0, 1}, "the second has a batch still, so that it is known to be replaced"


def flip_first_batch(history: History) -> None:
    """Damages a record of the first batch, which the cleaner then keeps as it is."""
    history.one.disk.flip_bit(f"{NAME}/{file_name(0, LOG)}", 75)


def test_a_damaged_batch_in_the_new_segment_brings_no_segment_back_that_the_new_one_contains() -> None:
    made = group(flip_first_batch)
    for steps in range(made.begun, len(made.renames) + 1):
        disk = with_files(made.after(steps), NAME)
        recover(disk, made)
        bases = [base for base in made.bases if file_name(base, LOG) in files_of(disk, NAME)]
        assert bases == [0], steps


def test_our_own_swap_leaves_all_that_was_or_all_that_is_new_wherever_it_is_interrupted() -> None:
    made = group()
    old, new = outcomes(made)
    found = []
    crash_at = 0
    while True:
        disk = with_files(made.files, NAME)
        work = planned(disk, config=CONFIG)
        swap = swap_of(disk, work, PassReport(NAME, 0, 0, 0, groups=[GroupReport(made.bases)]))
        disk.random.seed(crash_at)
        crash_at += 1
        disk.crash_at = disk.changes + crash_at
        try:
            swap.run(disk)
            break
        except PowerLoss:
            disk.restart(power_failed=bool(crash_at % 2))
        recover(disk, made)
        check_files(disk)
        assert content(disk) in (old, new), crash_at
        found.append(content(disk) == new)
    assert content(disk) == new
    assert found == sorted(found), "once it goes on, it goes on"
    assert len(set(found)) == 2
