"""Recovery of one log after an unclean stop."""

from __future__ import annotations

import pytest
from support.logs import EXPIRATION_MS, NAME, NOW_MS, OneLog, batch, marker, topic_config

from penstock.log.loading import RecoveryNeeded
from penstock.log.recovery import OffsetRange, RecoveryReport, recover_log
from penstock.records.batch import headers
from penstock.testing.simulator.disk import SimulatedDisk


def filled(count: int = 40) -> OneLog:
    """Batches of one record of one producer in several segments, not closed."""
    one = OneLog(topic_config(segment_bytes=2048, index_interval_bytes=300), SimulatedDisk())
    for number in range(count):
        one.append(batch(b"%100d" % number, producer=(7, 0, number), timestamp_ms=NOW_MS + number))
    assert len(one.log.bases) >= 4
    return one


def recover(one: OneLog, recovery_point: int = 0, log_start_offset: int = 0) -> RecoveryReport:
    report = recover_log(
        one.disk,
        NAME,
        one.config,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        now_ms=NOW_MS,
        producer_expiration_ms=EXPIRATION_MS,
    )
    one.open(recovery_point=report.recovery_point, log_start_offset=report.log_start_offset)
    assert one.log.log_end_offset == report.log_end_offset
    return report


def offsets(one: OneLog) -> list[int]:
    return [header.base_offset for _, header in headers(one.content())]


def files(one: OneLog) -> dict[str, bytes]:
    return {path: one.disk.content(path) for path in one.disk.paths()}


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
    path = one.log.segments[1].offset_index.path
    before = one.disk.content(path)
    one.disk.unlink(path)
    with pytest.raises(RecoveryNeeded):
        one.open(recovery_point=40)
    assert recover(one, 40).scanned_segments == 2
    assert one.disk.content(path) == before


@pytest.mark.parametrize("torn_bytes", [1, 60, 61, 100])
def test_a_torn_tail_is_cut(torn_bytes: int) -> None:
    one = filled()
    active = one.log.segments[-1]
    one.disk.write(active.log_path, active.size_bytes, [bytes(batch(b"y" * 100, base_offset=40))[:torn_bytes]])
    report = recover(one)
    assert (report.cut_bytes, report.lost, report.kept_aside) == (torn_bytes, [], [])
    assert offsets(one) == list(range(40))


def test_zeros_at_the_end_are_cut() -> None:
    one = filled()
    active = one.log.segments[-1]
    one.disk.write(active.log_path, active.size_bytes, [bytes(5000)])
    assert recover(one).cut_bytes == 5000
    assert offsets(one) == list(range(40))


def test_valid_batches_after_a_bad_one_are_kept_aside_and_reported() -> None:
    one = filled()
    second = one.log.segments[1]
    bad = second.base_offset + 2
    first_bytes = [position for position, _ in headers(one.disk.content(second.log_path))]
    before = {segment.base_offset: one.disk.content(segment.log_path) for segment in one.log.segments}
    one.disk.flip_bit(second.log_path, first_bytes[2] + 90)
    damaged = one.disk.content(second.log_path)
    report = recover(one)
    assert offsets(one) == list(range(bad))
    third = one.log.segments[-1].base_offset + len(first_bytes)
    assert report.lost[0] == OffsetRange(bad + 1, third)
    assert report.lost[-1].end == 40
    assert report.cut_bytes > 0
    assert one.disk.content(report.kept_aside[0]) == damaged[first_bytes[2] :]
    assert one.disk.content(report.kept_aside[1]) == before[third]
    assert one.append(batch(b"z", producer=(7, 0, bad))).base_offset == bad


@pytest.mark.parametrize("policy", [("delete",), ("compact",)])
def test_a_segment_that_lost_its_tail_ends_the_log_unless_a_cleaner_may_have_done_it(policy: tuple[str, ...]) -> None:
    one = filled()
    one.config = topic_config(cleanup_policy=policy)
    second, third = one.log.segments[1:3]
    last = [position for position, _ in headers(one.disk.content(second.log_path))][-1]
    one.disk.truncate(second.log_path, last)
    report = recover(one)
    if policy == ("delete",):
        assert report.lost[0] == OffsetRange(third.base_offset - 1, third.base_offset)
        assert offsets(one) == list(range(third.base_offset - 1))
    else:
        assert report.lost == []
        assert offsets(one) == [*range(third.base_offset - 1), *range(third.base_offset, 40)]


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
    recover(one, one.log.bases[-1])
    logs = {path for path, count in one.disk.read_bytes.items() if path.endswith(".log") and count}
    assert logs == {one.log.segments[-1].log_path}


def test_a_recovery_that_was_interrupted_is_repeated() -> None:
    from penstock.testing.simulator.disk import PowerLoss

    crash_at = 1
    while True:
        one = filled()
        one.disk.flip_bit(one.log.segments[1].log_path, 300)
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
    first, second = one.log.segments[:2]
    whole = one.disk.content(first.log_path) + one.disk.content(second.log_path)
    one.disk.write(f"{first.log_path}.swap", 0, [whole])
    one.disk.write(f"{first.offset_index.path}.swap", 0, [])
    one.disk.write(f"{first.time_index.path}.swap", 0, [])
    one.disk.write(f"{NAME}/{30:020d}.log.cleaned", 0, [b"half"])
    one.disk.write(f"{NAME}/{3:020d}.log.deleted", 0, [b"old"])
    one.disk.write(f"{NAME}/{5:020d}.index", 0, [b""])
    recover(one)
    assert offsets(one) == list(range(40))
    assert second.base_offset not in one.log.bases
    assert not [
        path for path in one.disk.paths() if path.endswith((".swap", ".cleaned", ".deleted", f"{5:020d}.index"))
    ]


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
    for path in (log.segments[0].aborted_index.path, f"{NAME}/leader-epoch-checkpoint"):
        one.disk.unlink(path)
    recover(one)
    assert one.log.leader_epochs.entries() == [(0, 0), (1, 4), (2, 8)]
    assert one.log.producers.ongoing == log.producers.ongoing == {1: 2, 13: 3}
    assert {
        key: producer._replace(batches=producer.batches[-1:]) for key, producer in log.producers.producers.items()
    } == {
        key: producer._replace(batches=producer.batches[-1:]) for key, producer in one.log.producers.producers.items()
    }
    assert one.log.aborted_transactions(0, 14) == log.aborted_transactions(0, 14) == [(1, 0, 12, 1)]
    assert one.log.last_stable_offset_bound == 1
