"""Indexes made anew from segments are those that a recovery makes, and those that the log had."""

from __future__ import annotations

from random import Random

import pytest
from support.compaction import OUT, History, compacted, planned
from support.log_workload import Workload
from support.logs import NAME, NOW_MS, topic_config
from support.planted import checked, contents, flipped, put, said, sound_log

from penstock.errors import StorageError
from penstock.log.loading import OpenArguments
from penstock.log.names import ABORTED_INDEX, LEADER_EPOCHS, LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX
from penstock.log.rebuilding import Rebuilding
from penstock.log.recovery import recover_log
from simulator.world.disk import SimulatedDisk

INDEXES = (OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX)


def rebuild(disk: SimulatedDisk, *, name: str = NAME, start: int = 0, interval_bytes: int = 100) -> list[str]:
    """Makes them anew; the files that changed."""
    changed = []
    rebuilding = Rebuilding(
        disk, name, log_start_offset=start, index_interval_bytes=interval_bytes, told=lambda _: None
    )
    for file in rebuilding.run():
        if file.has_changed:
            disk.replace(f"{name}/{file.name}", file.content)
            changed.append(file.name)
    return changed


def copy_of(disk: SimulatedDisk) -> SimulatedDisk:
    made = SimulatedDisk()
    made.make_directory(NAME)
    for path, content in contents(disk).items():
        if not path.endswith(".deleted"):
            made.write(path, 0, [content])
    return made


def indexes(disk: SimulatedDisk, name: str = NAME) -> dict[str, bytes]:
    return {path: data for path, data in contents(disk).items() if path.startswith(name) and path.endswith(INDEXES)}


def without(disk: SimulatedDisk, *suffixes: str) -> SimulatedDisk:
    for path in [path for path in disk.paths() if path.endswith(suffixes)]:
        disk.unlink(path)
    return disk


def test_the_indexes_of_a_log_are_made_as_it_had_them() -> None:
    disk = sound_log().one.disk
    had = indexes(disk)
    assert rebuild(disk) == []
    without(disk, *INDEXES)
    changed = rebuild(disk)
    assert indexes(disk) == had
    assert len(changed) == len(had) == 9


@pytest.mark.parametrize("start", range(5))
def test_a_transaction_that_began_below_the_log_start_has_all_its_data(start: int) -> None:
    """Otherwise a sound index would be replaced, and by the new one aborted records would count as committed."""
    made = History.empty()
    made.append([(b"k", b"aborted")], producer_id=1, transactional=True)
    made.append([(b"k", b"aborted, too")], producer_id=1, transactional=True)
    made.end(1, commit=False)
    made.append([(b"k", b"last")])
    made.roll()
    made.append([(b"active", b"")])
    made.one.close()
    had = indexes(made.one.disk)
    rebuild(made.one.disk, start=start)
    assert indexes(made.one.disk) == had
    rebuild(without(made.one.disk, ABORTED_INDEX), start=start)
    assert indexes(made.one.disk) == had


@pytest.mark.parametrize("seed", range(8))
def test_they_are_those_of_a_recovery_whatever_work_was_done(seed: int) -> None:
    workload = Workload(Random(seed))
    workload.run(120, check=False)
    log, config = workload.one.log, workload.one.config
    workload.one.close()
    recovered, rebuilt = copy_of(workload.one.disk), without(copy_of(workload.one.disk), *INDEXES)
    recover_log(recovered, OpenArguments(NAME, config, 0, log.log_start_offset, NOW_MS))
    rebuild(rebuilt, start=log.log_start_offset, interval_bytes=config.index_interval_bytes)
    assert {path: data for path, data in indexes(rebuilt).items() if data} == {
        path: data for path, data in indexes(recovered).items() if data
    }
    assert not checked(rebuilt).findings.problems, said(checked(rebuilt))


def test_those_of_a_cleaned_log_are_made_as_the_cleaner_made_them() -> None:
    disk = sound_log().one.disk
    compacted(disk, planned(disk))
    had = indexes(disk, OUT)
    aborted = min(path for path in had if path.endswith(ABORTED_INDEX))
    assert had[aborted], "the cleaner keeps what it knows of transactions whose data it has removed"
    for path in (path for path in had if not path.endswith(ABORTED_INDEX)):
        disk.unlink(path)
    rebuild(disk, name=OUT)
    assert indexes(disk, OUT) == had
    put(disk, aborted, flipped(had[aborted], 9 * 8))
    assert rebuild(disk, name=OUT) == [aborted.rpartition("/")[2]]
    assert not checked(disk, name=OUT).findings.problems


@pytest.mark.parametrize("suffix", INDEXES)
def test_a_wrong_index_is_replaced_and_the_right_ones_stay(suffix: str) -> None:
    disk = sound_log().one.disk
    path = max(path for path in disk.paths() if path.endswith(suffix))
    content = disk.content(path)
    put(disk, path, flipped(content, 5))
    assert checked(disk).findings.problems
    assert rebuild(disk) == [path.rpartition("/")[2]]
    assert disk.content(path) == content


def test_a_missing_snapshot_and_lost_leader_epochs_are_made_anew_and_good_ones_stay() -> None:
    disk = sound_log().one.disk
    had = contents(disk)
    latest = max(path for path in disk.paths() if path.endswith(SNAPSHOT))
    without(disk, SNAPSHOT, LEADER_EPOCHS)
    changed = rebuild(disk)
    assert disk.content(latest) == had[latest]
    assert disk.content(f"{NAME}/{LEADER_EPOCHS}") == had[f"{NAME}/{LEADER_EPOCHS}"]
    assert LEADER_EPOCHS in changed
    put(disk, latest, flipped(had[latest], 80))
    assert rebuild(disk) == [latest.rpartition("/")[2]]
    assert disk.content(latest) == had[latest]


def test_a_damaged_segment_is_for_a_recovery() -> None:
    disk = sound_log().one.disk
    path = min(path for path in disk.paths() if path.endswith(LOG))
    put(disk, path, flipped(disk.content(path), 800))
    before = contents(disk)
    with pytest.raises(StorageError, match=r"is damaged from byte 0 on"):
        rebuild(disk)
    assert contents(disk) == before


def test_an_unfinished_compaction_is_for_a_brokers_start() -> None:
    disk = sound_log().one.disk
    disk.write(f"{NAME}/{0:020d}.log.cleaned", 0, [b""])
    assert rebuild(disk) == [], "what is only being written is no part of the log"
    disk.write(f"{NAME}/{0:020d}.log.swap", 0, [b""])
    with pytest.raises(StorageError, match="of a compaction that has not ended"):
        rebuild(disk)


def test_a_log_that_opens_after_it_needs_no_recovery() -> None:
    one = sound_log().one
    without(one.disk, *INDEXES)
    rebuild(one.disk)
    end = one.log.log_end_offset
    one.config = topic_config(index_interval_bytes=100)
    assert one.open(recovery_point=end).log_end_offset == end


def test_a_start_that_comes_after_the_end_changes_nothing_of_the_log() -> None:
    """The leader epochs went, and a snapshot as of that offset came, which a later start would have believed."""
    disk = sound_log().one.disk
    had = contents(disk)
    with pytest.raises(StorageError, match="by log-start-offset-checkpoint it begins at 9000"):
        rebuild(disk, start=9000)
    assert contents(disk) == had
