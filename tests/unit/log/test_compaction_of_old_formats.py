"""What the cleaner makes of messages of before Kafka 0.11: record batches, as Apache Kafka does since 4.0."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import pytest
from support.compaction import DAY_MS, HASH_KEY, OUT, batches_in, compacted, compacted_in_parts, planned
from support.legacy import GZIP, Kept, message, message_set
from support.logs import NAME, NOW_MS, OneLog, topic_config
from support.upgraded import OLD_MS, Entry, content, decoded, kept, put_segments, upgraded

from penstock.log.compaction import cleaning
from penstock.log.compaction import target as target_of_a_pass
from penstock.log.compaction.cleaning import run_pass
from penstock.log.compaction.dirt import Bounds, dirt_of
from penstock.log.compaction.offset_map import OffsetMap
from penstock.log.compaction.report import PassReport
from penstock.log.compaction.task import LEAST_SLOTS, RunPass
from penstock.log.loading import OpenArguments
from penstock.log.names import LOG, file_name
from penstock.log.recovery import recover_log
from penstock.records.batch import TimestampType, check_crc, headers
from penstock.records.builder import BatchBuilder
from simulator.world.disk import SimulatedDisk

CONFIG = topic_config(index_interval_bytes=100)
APPEND_TIME = 8


def closed(segments: Sequence[Sequence[Entry]]) -> OneLog:
    """A log of these segments, all of which are closed."""
    one = OneLog(CONFIG, SimulatedDisk())
    put_segments(one.disk, segments)
    recover_log(one.disk, OpenArguments(NAME, CONFIG, 0, 0, NOW_MS))
    one.open(recovery_point=segments[-1][-1].last_offset + 1)
    one.log.roll(NOW_MS)
    one.run()
    one.close()
    return one


def cleaned(one: OneLog, **options: int) -> PassReport:
    work = planned(one.disk, config=CONFIG, **options)  # type: ignore[arg-type]
    return compacted(one.disk, work)


def left(one: OneLog, name: str = OUT) -> list[Kept]:
    return decoded(b"".join(data for _, data in batches_in(one.disk, name)))


def survivors(some: Sequence[Kept]) -> list[Kept]:
    last = {record.key: record.offset for record in some}
    return [record for record in some if record.key is not None and record.offset == last[record.key]]


@pytest.mark.parametrize("seed", range(8))
def test_the_last_record_of_each_key_stays_with_its_offset_and_time_in_a_batch(seed: int) -> None:
    some = upgraded(seed, batches=0)
    one = closed([some[:30], some[30:55], some[55:]])
    report = cleaned(one)
    found = left(one)
    assert found == survivors(kept(some))
    assert not report.problems
    assert {header.magic for header, _ in batches_in(one.disk, OUT)} == {2}
    for header, data in batches_in(one.disk, OUT):
        check_crc(data, 0, header)
        assert header.leader_epoch == -1
    assert sum(group.before.bytes for group in report.groups) == len(content(some))
    assert sum(group.before.records for group in report.groups) == len(kept(some))
    assert batches_in(one.disk, OUT)[-1][0].last_offset == some[-1].last_offset, "the log ends where it did"


def test_a_second_pass_removes_the_delete_markers_when_their_time_has_come_and_nothing_else() -> None:
    some = upgraded(3, batches=0)
    one = closed([some])
    cleaned(one)
    first = left(one)
    assert any(record.value is None for record in first)
    again = planned(one.disk, OUT, config=CONFIG, now_ms=NOW_MS + 1)
    compacted(one.disk, again, "again-0")
    assert left(one, "again-0") == first
    later = planned(one.disk, OUT, config=CONFIG, now_ms=NOW_MS + DAY_MS + 1)
    compacted(one.disk, later, "later-0")
    assert left(one, "later-0") == [record for record in first if record.value is not None]


def test_old_messages_and_batches_of_a_log_are_cleaned_together() -> None:
    old = [Kept(number, OLD_MS, b"key %d" % (number % 3), b"old") for number in range(6)]
    builder = BatchBuilder(base_offset=6, leader_epoch=4)
    builder.append(NOW_MS, b"key 1", b"new")
    builder.append(NOW_MS, b"key 9", b"new")
    new = [Kept(6, NOW_MS, b"key 1", b"new"), Kept(7, NOW_MS, b"key 9", b"new")]
    one = closed([[Entry(message_set("aiokafka", 1, GZIP, old), old), Entry(bytes(builder.build()), new)]])
    cleaned(one)
    assert left(one) == survivors(old + new)
    assert [header.leader_epoch for header, _ in batches_in(one.disk, OUT)] == [-1, 4]
    assert [header.base_offset for header, _ in batches_in(one.disk, OUT)] == [0, 6]


def test_a_time_that_the_broker_had_set_stays_so() -> None:
    inside = message(0, b"a", b"1", timestamp_ms=1) + message(1, b"b", b"2", timestamp_ms=2)
    data = message(1, None, gzip.compress(inside), timestamp_ms=OLD_MS, attributes=GZIP | APPEND_TIME)
    one = closed([[Entry(data, [Kept(0, OLD_MS, b"a", b"1"), Kept(1, OLD_MS, b"b", b"2")])]])
    cleaned(one)
    ((header, _),) = batches_in(one.disk, OUT)
    assert (header.timestamp_type, header.max_timestamp_ms) == (TimestampType.LOG_APPEND_TIME, OLD_MS)
    assert [record.timestamp_ms for record in left(one)] == [OLD_MS, OLD_MS]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (message(2, b"key 1", b"v")[:20] + b"?" + message(2, b"key 1", b"v")[21:], "its checksum is wrong"),
        (message(2, None, b"no gzip", attributes=GZIP), "gzip"),
    ],
)
def test_a_message_that_cannot_be_read_is_kept_as_it_is_and_said(broken: bytes, why: str) -> None:
    around = [Kept(number, OLD_MS, b"key 1", b"v") for number in (0, 1, 3)]
    some = [Entry(message_set("aiokafka", 1, 0, [each]), [each]) for each in around]
    some.insert(2, Entry(broken, [Kept(2, OLD_MS, None, None)]))
    one = OneLog(CONFIG, SimulatedDisk())
    data = content(some)
    sound = [*some[:2], some[3]]
    put_segments(one.disk, [sound])
    recover_log(one.disk, OpenArguments(NAME, CONFIG, 0, 0, NOW_MS))
    one.open(recovery_point=4)
    one.log.roll(NOW_MS)
    one.run()
    one.close()
    one.disk.write(f"{NAME}/{file_name(0, LOG)}", 0, [data])
    report = cleaned(one)
    assert report.problem_count == 1
    assert why in report.problems[0]
    made = one.disk.content(f"{OUT}/{file_name(0, LOG)}")
    assert broken in made
    position = made.index(broken)
    assert decoded(made[:position] + made[position + len(broken) :]) == [around[-1]]


@pytest.mark.parametrize("first_offset", [3, 5])
def test_a_message_with_offsets_before_its_place_does_not_become_a_batch_that_goes_back(first_offset: int) -> None:
    inside = message_set("aiokafka", 0, 0, [Kept(first_offset, -1, b"k", b"v"), Kept(8, -1, b"l", b"v")])
    wrapper = message(8, None, gzip.compress(inside), attributes=GZIP, magic=0)
    some = [
        Entry(message(7, b"a", b"1"), [Kept(4, -1, b"a", b"1")]),
        Entry(wrapper, [Kept(8, -1, None, None)]),
        Entry(message(9, b"c", b"1"), [Kept(9, -1, b"c", b"1")]),
    ]
    one = closed([some])
    report = cleaned(one)
    assert f"it holds offset {first_offset}, which is before 8" in report.problems[0]
    assert wrapper in one.disk.content(f"{OUT}/{file_name(4, LOG)}")
    recovered = recover_log(one.disk, OpenArguments(OUT, CONFIG, 0, 0, NOW_MS))
    assert (recovered.log_end_offset, recovered.lost) == (10, [])


def test_a_segment_that_might_grow_beyond_what_an_index_can_say_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    some = upgraded(1, batches=0)
    one = closed([some[:40], some[40:]])
    size_bytes = len(content(some[40:]))
    monkeypatch.setattr(cleaning, "POSITION_MAX", size_bytes + 10 * cleaning.GROWTH_BYTES)
    report = cleaned(one)
    assert report.left_alone == [0, some[40].records[0].offset]
    assert "more than a segment holds" in report.problems[0]
    assert left(one) == kept(some)
    monkeypatch.undo()
    monkeypatch.setattr(target_of_a_pass, "POSITION_MAX", 100)
    work = planned(one.disk, config=CONFIG)
    outcome = RunPass(work, 24 * 1024 * LEAST_SLOTS, 0.9, HASH_KEY).run_with(one.disk, OffsetMap)
    assert outcome.report is None
    assert "larger than 100 bytes" in outcome.failure
    assert not [path for path in one.disk.paths() if path.endswith(".cleaned")]


def test_small_segments_are_put_together_by_what_they_grow_to() -> None:
    some = [Kept(number, -1, b"k%d" % number, None) for number in range(40)]
    each = [Entry(message_set("aiokafka", 0, 0, [record]), [record]) for record in some]
    one = closed([each[:20], each[20:]])
    size_bytes = len(content(each))
    for segment_bytes, groups in ((size_bytes + 40 * cleaning.GROWTH_BYTES, 1), (size_bytes + 1, 2)):
        config = topic_config(index_interval_bytes=100, segment_bytes=segment_bytes)
        work = planned(one.disk, config=config)
        report = run_pass(one.disk, work, OffsetMap(1 << 16, 0.9, HASH_KEY), None)
        assert len(report.groups) == groups


def test_what_messages_grow_by_counts_against_the_room_of_a_part() -> None:
    some = [Kept(number, -1, b"k%d" % number, None) for number in range(40)]
    each = [Entry(message_set("aiokafka", 0, 0, [record]), [record]) for record in some]
    one = closed([each[:20], each[20:]])
    part_bytes = len(content(each)) + 20 * cleaning.GROWTH_BYTES
    config = topic_config(index_interval_bytes=100, segment_bytes=len(content(each)))
    parts = compacted_in_parts(one.disk, config=config, part_bytes=part_bytes)
    assert [[group.base_offsets for group in report.groups] for _, report in parts] == [[[0]], [[20]]]
    assert all(group.after.bytes <= part_bytes for _, report in parts for group in report.groups)
    assert left(one, parts[-1][0]) == some


def test_a_segment_that_has_no_room_when_it_grows_is_said() -> None:
    some = [Kept(number, -1, b"k%d" % number, None) for number in range(40)]
    one = closed([[Entry(message_set("aiokafka", 0, 0, [record]), [record]) for record in some]])
    free_bytes = 2 * len(one.disk.content(f"{NAME}/{file_name(0, LOG)}"))
    one.disk.capacity_bytes = sum(len(one.disk.content(path)) for path in one.disk.paths()) + free_bytes
    work = planned(one.disk, config=CONFIG)
    outcome = RunPass(work, 24 * 1024 * LEAST_SLOTS, 0.9, HASH_KEY, free_bytes // 4).run_with(one.disk, OffsetMap)
    assert "the next new segment may take up to" in outcome.failure


def test_how_old_the_dirt_is_goes_by_the_times_of_old_messages_too() -> None:
    one = closed([upgraded(1, formats=(1,), batches=0)])
    config = topic_config(max_compaction_lag_ms=1_000)
    dirt = dirt_of(one.disk, NAME, Bounds(None, 0, 1_000), config, NOW_MS)
    assert dirt.overdue
    assert dirt.delay_ms <= NOW_MS - OLD_MS
    timeless = closed([upgraded(1, formats=(0,), batches=0)])
    assert not dirt_of(timeless.disk, NAME, Bounds(None, 0, 1_000), config, NOW_MS).overdue


def test_a_compiled_map_says_the_same() -> None:
    pytest.importorskip("numba", reason="needs penstock[kernels]")
    from penstock.log.compaction.compiled_offset_map import CompiledOffsetMap

    one = closed([upgraded(4, batches=0)])
    cleaned(one)
    work = planned(one.disk, config=CONFIG)
    compacted(one.disk, work, "compiled-0", offsets=CompiledOffsetMap(1 << 16, 0.9, HASH_KEY))
    assert batches_in(one.disk, "compiled-0") == batches_in(one.disk, OUT)
    assert list(headers(batches_in(one.disk, OUT)[0][1]))


def test_a_new_segment_is_as_old_as_the_last_one_that_it_was_made_from() -> None:
    """The age of messages without times is that of their file."""
    some = [Kept(number, -1, b"k%d" % number, b"v") for number in range(40)]
    each = [Entry(message_set("aiokafka", 0, 0, [record]), [record]) for record in some]
    one = closed([each[:20], each[20:]])
    for number, base_offset in enumerate((0, 20), 1):
        one.disk.set_modified(f"{NAME}/{file_name(base_offset, LOG)}", NOW_MS - number * DAY_MS)
    cleaned(one)
    files = {info.name: info.modified_ms for info in one.disk.list(OUT)}
    assert files[file_name(0, LOG)] == NOW_MS - 2 * DAY_MS
