"""A check of a log's files finds what is wrong with them, says nothing of sound ones, and changes none."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from random import Random
from struct import Struct
from typing import Any

import pytest
from support.compaction import OUT, compacted, planned
from support.log_workload import Workload
from support.logs import NAME, OneLog, batch
from support.planted import checked, contents, flipped, mutated, old_message, put, said, sound_log

from penstock.errors import InvalidRecordError, StorageError
from penstock.log.limits import VERIFY_COMPILED_MIN_BYTES
from penstock.log.loading import RecoveryNeeded
from penstock.log.names import LOG, file_name
from penstock.log.rebuilding import Rebuilding
from penstock.log.verification.findings import Severity
from penstock.log.verification.partition import Beside, check_partition
from penstock.log.verification.record_checks import WalkRecords, plain_walk
from penstock.log.verification.walks import walk_for
from penstock.records.batch import CRC_POSITION, HEADER_BYTES, BatchHeader, computed_crc, headers, read_header
from penstock.records.builder import BatchBuilder
from penstock.records.reader import record_bytes
from simulator.world.disk import SimulatedDisk

FIRST = f"{NAME}/{file_name(0, LOG)}"
HISTORY = sound_log()
SOUND = contents(HISTORY.one.disk)
BASES = sorted(int(path.split("/")[1][:20]) for path in SOUND if path.endswith(LOG))
END = HISTORY.one.log.log_end_offset
INDEX_ENTRY, TIME_ENTRY = Struct(">ii"), Struct(">qi")


@pytest.fixture
def disk() -> SimulatedDisk:
    """A sound log without gaps, in three segments."""
    made = SimulatedDisk()
    made.make_directory(NAME)
    for path, content in SOUND.items():
        made.write(path, 0, [content])
    return made


def path_of(suffix: str, number: int = 0) -> str:
    return f"{NAME}/{file_name(BASES[number], suffix)}"


def test_a_sound_log_has_no_findings_and_its_figures_are_right(disk: SimulatedDisk) -> None:
    report = checked(disk, Beside(recovery_point=END, was_stopped_cleanly=True))
    assert not said(report)
    assert (report.segments, report.start_offset, report.end_offset) == (3, 0, END)
    batches = [header for path, data in SOUND.items() if path.endswith(LOG) for _, header in headers(data)]
    assert (report.batches, report.records) == (len(batches), sum(header.record_count for header in batches))


@pytest.mark.parametrize("seed", range(6))
def test_whatever_work_leaves_is_sound(seed: int) -> None:
    """Truncations, deletions, recoveries and followers' appends; gaps are noted at most."""
    workload = Workload(Random(seed))
    workload.run(120, check=False)
    workload.one.close()
    log = workload.one.log
    beside = Beside(log.recovery_point, log.log_start_offset, was_stopped_cleanly=True)
    report = checked(workload.one.disk, beside)
    assert {each.severity for each in report.findings.listed} <= {Severity.NOTE}, said(report)


def test_what_the_cleaner_leaves_is_sound_and_its_gaps_are_no_news(disk: SimulatedDisk) -> None:
    compacted(disk, planned(disk))
    report = checked(disk, name=OUT)
    assert report.records < checked(disk).records / 2
    assert [each.file for each in report.findings.listed] in ([], ["partition.metadata"]), said(report)


def test_no_flipped_bit_of_a_batch_is_called_sound(disk: SimulatedDisk) -> None:
    random = Random(15)
    logs = [path for path in SOUND if path.endswith(LOG) and SOUND[path]]
    for _ in range(150):
        path = random.choice(logs)
        batches = list(headers(SOUND[path]))
        position, header = random.choice(batches)
        size = HEADER_BYTES if random.random() < 0.5 else header.size_bytes
        bit = (position * 8) + random.randrange(size * 8)
        put(disk, path, flipped(SOUND[path], bit))
        report = checked(disk)
        counts = report.findings.counts
        assert counts[Severity.PROBLEM] or counts[Severity.UNJUDGED], f"bit {bit} of {path}: {header}"
        put(disk, path, SOUND[path])
    assert not said(checked(disk))


def test_an_offset_that_changed_shows_by_the_batches_around_it() -> None:
    """Of every batch but the last, each bit of the offset; no index entry is near."""
    one = OneLog()
    for number in range(5):
        one.append(batch(*[b"v"] * (number + 1)))
    one.close()
    assert not one.disk.content(f"{NAME}/{file_name(0, '.index')}")
    content = one.disk.content(FIRST)
    for position, _ in list(headers(content))[:-1]:
        for bit in range(64):
            put(one.disk, FIRST, flipped(content, position * 8 + bit))
            assert "offset" in said(checked(one.disk))
            assert checked(one.disk).findings.problems, (position, bit)


def test_after_a_clean_stop_even_the_last_batchs_offset_has_a_witness() -> None:
    one = OneLog()
    for value in (b"a", b"b", b"c"):
        appended = one.append(batch(value))
    one.close()
    content = one.disk.content(FIRST)
    position, _ = list(headers(content))[-1]
    put(one.disk, FIRST, flipped(content, (position + 6) * 8))
    report = checked(one.disk)
    assert not report.findings.problems
    assert "the last batch has offset 258 after a gap: no checksum covers its offset" in said(report)
    report = checked(one.disk, Beside(recovery_point=appended.last_offset + 1, was_stopped_cleanly=True))
    assert "stopped cleanly, with 3 as the end of this log; now it ends at 259" in said(report)


def is_as_right(path: str, content: bytes) -> bool:
    """Whether a file is as it was, or an index that lacks entries: sparse, and right."""
    if not path.endswith(".index") or len(content) % INDEX_ENTRY.size:
        return content == SOUND[path]
    used = content.rstrip(b"\0")
    whole = content[: -(-len(used) // INDEX_ENTRY.size) * INDEX_ENTRY.size]
    return set(INDEX_ENTRY.iter_unpack(whole)) <= set(INDEX_ENTRY.iter_unpack(SOUND[path]))


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 100))])
def test_mutated_files_are_found_and_never_raise_nor_change(disk: SimulatedDisk, seed: int) -> None:
    """A hundred directories each with one to three files changed; 10,000 in all."""
    random = Random(seed)
    silent = []
    for _ in range(100):
        chosen = random.sample(sorted(SOUND), random.randint(1, 3))
        for path in chosen:
            put(disk, path, mutated(SOUND[path], random))
        before = contents(disk)
        report = checked(disk, Beside(recovery_point=END, high_watermark=END, was_stopped_cleanly=True))
        assert contents(disk) == before
        changed = [path for path in chosen if not is_as_right(path, before[path])]
        if not report.findings.problems and any(path.endswith((LOG, ".index", ".snapshot")) for path in changed):
            silent.append(changed)
        for path in chosen:
            put(disk, path, SOUND[path])
    assert not silent


Planted = Callable[[SimulatedDisk], Any]


def cut_index(disk: SimulatedDisk) -> None:
    put(disk, path_of(".index"), SOUND[path_of(".index")][:-3])


def index_of_another_segment(disk: SimulatedDisk) -> None:
    put(disk, path_of(".index", 1), SOUND[path_of(".index")])


def index_entry_within_a_batch(disk: SimulatedDisk) -> None:
    offset, position = INDEX_ENTRY.unpack_from(SOUND[path_of(".index")])
    put(disk, path_of(".index"), INDEX_ENTRY.pack(offset, position + 1) + SOUND[path_of(".index")][8:])


def index_entry_with_another_offset(disk: SimulatedDisk) -> None:
    offset, position = INDEX_ENTRY.unpack_from(SOUND[path_of(".index")])
    put(disk, path_of(".index"), INDEX_ENTRY.pack(offset - 1, position) + SOUND[path_of(".index")][8:])


def index_entry_of_the_beginning(disk: SimulatedDisk) -> None:
    put(disk, path_of(".index"), SOUND[path_of(".index")][:7] + bytes(73))


def time_entry_later_than_its_batch(disk: SimulatedDisk) -> None:
    timestamp_ms, offset = TIME_ENTRY.unpack_from(SOUND[path_of(".timeindex")])
    put(disk, path_of(".timeindex"), TIME_ENTRY.pack(timestamp_ms + 1, offset))


def a_sealed_time_index_without_its_last_entry(disk: SimulatedDisk) -> None:
    put(disk, path_of(".timeindex"), b"")


def aborted_transaction_missing(disk: SimulatedDisk) -> None:
    put(disk, path_of(".txnindex"), SOUND[path_of(".txnindex")][34:])


def aborted_transaction_of_another_producer(disk: SimulatedDisk) -> None:
    put(disk, path_of(".txnindex"), flipped(SOUND[path_of(".txnindex")], 9 * 8))


def snapshot_flipped(disk: SimulatedDisk) -> None:
    path = next(path for path in sorted(SOUND, reverse=True) if path.endswith(".snapshot"))
    put(disk, path, flipped(SOUND[path], 100))


def epochs_of_a_later_version(disk: SimulatedDisk) -> None:
    put(disk, f"{NAME}/leader-epoch-checkpoint", b"1\n0\n")


def epochs_that_fall(disk: SimulatedDisk) -> None:
    put(disk, f"{NAME}/leader-epoch-checkpoint", b"0\n2\n0 0\n1 0\n")


def another_leader_epoch(disk: SimulatedDisk) -> None:
    put(disk, f"{NAME}/leader-epoch-checkpoint", b"0\n2\n0 0\n1 60\n")


def no_leader_epochs(disk: SimulatedDisk) -> None:
    disk.unlink(f"{NAME}/leader-epoch-checkpoint")


def topic_id_of_nothing(disk: SimulatedDisk) -> None:
    put(disk, f"{NAME}/partition.metadata", b"version: 0\ntopic_id: AAAA\n")


def missing_index(disk: SimulatedDisk) -> None:
    disk.unlink(path_of(".index", 1))


def missing_segment(disk: SimulatedDisk) -> None:
    for suffix in (LOG, ".index", ".timeindex"):
        disk.unlink(path_of(suffix, -1))


def zeros_at_the_end(disk: SimulatedDisk) -> None:
    put(disk, path_of(LOG, -1), SOUND[path_of(LOG, -1)] + bytes(100))


def a_torn_batch(disk: SimulatedDisk) -> None:
    put(disk, path_of(LOG, -1), SOUND[path_of(LOG, -1)][:-7])


def sound_batches_after_a_bad_length(disk: SimulatedDisk) -> None:
    position, _ = list(headers(SOUND[FIRST]))[3]
    put(disk, FIRST, flipped(SOUND[FIRST], (position + 8) * 8))


def a_segment_that_ends_in_the_next(disk: SimulatedDisk) -> None:
    put(disk, FIRST, SOUND[FIRST] + SOUND[path_of(LOG, 1)])


def resigned(disk: SimulatedDisk, position: int, value: bytes) -> None:
    """Changes the first batch, and its checksum so that it fits."""
    data = bytearray(SOUND[FIRST])
    data[position : position + len(value)] = value
    size_bytes = read_header(data).size_bytes
    data[CRC_POSITION : CRC_POSITION + 4] = computed_crc(data, 0, size_bytes).to_bytes(4, "big")
    put(disk, FIRST, bytes(data))


def a_record_count_that_lies(disk: SimulatedDisk) -> None:
    resigned(disk, 57, (9).to_bytes(4, "big"))


def a_codec_that_does_not_exist(disk: SimulatedDisk) -> None:
    resigned(disk, 21, b"\0\7")


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (cut_index, "its size is no multiple of 8"),
        (index_of_another_segment, ".index: entry"),
        (index_entry_within_a_batch, "where no batch begins"),
        (index_entry_with_another_offset, "and the batch there ends with"),
        (index_entry_of_the_beginning, "no broker makes an entry for where a segment begins"),
        (time_entry_later_than_its_batch, ".timeindex: entry 0: it says"),
        (a_sealed_time_index_without_its_last_entry, "its last entry says -1"),
        (aborted_transaction_missing, "the transaction of producer 7"),
        (aborted_transaction_of_another_producer, "aborts a transaction of producer"),
        (snapshot_flipped, "is corrupt: stored CRC"),
        (epochs_of_a_later_version, "line 1: version '1'"),
        (epochs_that_fall, "line 4: epoch 1 from offset 0 comes after epoch 0 from 0"),
        (another_leader_epoch, "has leader epoch 0, by the checkpoint it is 1"),
        (no_leader_epochs, "leader-epoch-checkpoint: : it is missing, and batches have leader epochs up to 0"),
        (topic_id_of_nothing, "partition.metadata: : topic_id 'AAAA'"),
        (missing_index, ".index: : it is missing"),
        (missing_segment, f"the recovery point by the checkpoint is {END}; the log ends at {BASES[-1]}"),
        (zeros_at_the_end, "the last 100 bytes are zeros"),
        (a_torn_batch, "7 of its bytes are missing; no sound batch"),
        (sound_batches_after_a_bad_length, "come after that"),
        (a_segment_that_ends_in_the_next, "are not of this segment"),
        (a_record_count_that_lies, "its checksum is right, and yet"),
        (a_codec_that_does_not_exist, "unknown compression type 7"),
    ],
)
def test_a_planted_fault_is_a_problem_and_is_named(disk: SimulatedDisk, plant: Planted, says: str) -> None:
    plant(disk)
    report = checked(disk, Beside(recovery_point=END, high_watermark=END))
    assert any(each.severity is Severity.PROBLEM for each in report.findings.listed)
    assert says in said(report)


def test_what_is_left_over_is_named_with_what_it_means(disk: SimulatedDisk) -> None:
    for name in (".log.cleaned", ".log.swap", ".log.deleted", ".log.corrupt"):
        disk.write(f"{NAME}/{file_name(7, name)}", 0, [b"x"])
    disk.write(f"{NAME}/{file_name(999, '.index')}", 0, [b""])
    disk.write(f"{NAME}/notes.txt", 0, [b"x"])
    disk.make_directory(f"{NAME}/sub")
    report = checked(disk)
    assert not report.findings.problems
    lines = said(report)
    for name, meaning in {
        ".log.cleaned": "a pass of the cleaner that has not ended",
        ".log.swap": "taking the place of older ones",
        ".log.deleted": "of a deleted segment",
        ".log.corrupt": "a recovery took out of the log",
        "999.index": "of a segment that is not there",
        "notes.txt": "nothing that a broker makes",
        "sub": "a directory",
    }.items():
        assert any(name in line and meaning in line for line in lines.splitlines()), name


@pytest.mark.parametrize("suffixes", [[LOG], [LOG, ".index"]])
def test_a_segment_whose_files_a_kill_kept_from_being_made_is_sound(disk: SimulatedDisk, suffixes: list[str]) -> None:
    """A roll makes one after the other. The next start recovers the log, which makes the others."""
    for suffix in suffixes:
        disk.write(f"{NAME}/{file_name(END, suffix)}", 0, [])
    report = checked(disk, Beside(recovery_point=END, high_watermark=END))
    assert not report.findings.problems
    assert f"{file_name(END, '.timeindex')}: : it is missing, as after a kill in the middle of a roll" in said(report)
    with pytest.raises(RecoveryNeeded, match=r"timeindex is missing|\.index is missing"):
        OneLog(disk=disk)
    put(disk, f"{NAME}/{file_name(END, LOG)}", batch(b"a record", base_offset=END))
    assert "timeindex: : it is missing" in said(checked(disk, Beside(recovery_point=END, high_watermark=END)))
    assert checked(disk, Beside(recovery_point=END, high_watermark=END)).findings.problems


@pytest.mark.parametrize("seed", range(3))
def test_files_that_are_renamed_missing_or_empty_never_raise(disk: SimulatedDisk, seed: int) -> None:
    """What crashes in swaps and deletions leave, in any combination; and an index can be made anew, or says why not."""
    random = Random(seed)
    for _ in range(40):
        for path in random.sample(sorted(SOUND), random.randint(1, 8)):
            kind = random.choice([".swap", ".cleaned", ".deleted", "", "empty"])
            if kind == "empty":
                put(disk, path, b"")
            else:
                disk.unlink(path)
                if kind:
                    disk.write(path + kind, 0, [SOUND[path]])
        before = contents(disk)
        for is_written in (False, True):
            checked(disk, Beside(END, 0, END, END, is_written=is_written, was_stopped_cleanly=not is_written))
        with suppress(StorageError):
            list(Rebuilding(disk, NAME, log_start_offset=0, index_interval_bytes=100, told=lambda _: None).run())
        assert contents(disk) == before
        for path in disk.paths():
            disk.unlink(path)
        for path, content in SOUND.items():
            disk.write(path, 0, [content])


def test_indexes_that_a_swap_has_not_renamed_yet_are_not_missing(disk: SimulatedDisk) -> None:
    for suffix in (".index", ".timeindex", ".txnindex"):
        disk.rename(path_of(suffix), path_of(suffix) + ".swap")
    report = checked(disk)
    assert not report.findings.problems, said(report)
    assert "before a swap" in said(report)


def test_a_torn_tail_is_not_judged_while_a_broker_writes(disk: SimulatedDisk) -> None:
    a_torn_batch(disk)
    report = checked(disk, Beside(is_written=True))
    assert not report.findings.problems
    assert "not judged" in said(report)
    assert "the tail, which is being written" in said(report)


def test_what_is_wrong_for_a_moment_only_does_not_count_beside_a_broker(disk: SimulatedDisk) -> None:
    zeros_at_the_end(disk)
    position, _ = list(headers(SOUND[FIRST]))[3]
    put(disk, FIRST, flipped(SOUND[FIRST], (position + 70) * 8))
    looks: list[int] = []

    def mended(_: int) -> None:
        if not looks:
            put(disk, FIRST, SOUND[FIRST])
        looks.append(1)

    report = check_partition(disk, NAME, Beside(is_written=True), plain_walk, mended)
    assert not report.findings.problems, said(report)
    put(disk, FIRST, flipped(SOUND[FIRST], (position + 70) * 8))
    report = check_partition(disk, NAME, Beside(is_written=True), plain_walk, lambda _: None)
    assert report.findings.problems == 1


def test_beside_a_broker_two_looks_that_find_different_things_have_found_nothing(disk: SimulatedDisk) -> None:
    places = [position for position, _ in list(headers(SOUND[FIRST]))[3:15]]

    def changing(_: int) -> None:
        put(disk, FIRST, flipped(SOUND[FIRST], (places.pop() + 70) * 8))

    changing(0)
    report = check_partition(disk, NAME, Beside(is_written=True), plain_walk, changing)
    assert not report.findings.problems, said(report)
    assert len(places) < 8, "it was looked at again"


class Failing(SimulatedDisk):
    """Does not read one file."""

    def __init__(self, failing: str) -> None:
        super().__init__()
        self.failing = failing

    def read(self, path: str, position: int, length: int) -> bytes:
        if path == self.failing:
            raise OSError(errno.EIO, "Input/output error", path)
        return super().read(path, position, length)


@pytest.mark.parametrize("path", [path_of(LOG, 1), *(path for path in SOUND if not path.endswith(LOG))])
def test_a_file_that_cannot_be_read_is_a_problem_and_the_others_are_checked(path: str) -> None:
    """Of an index or another small file it was said that the whole log cannot be read, and nothing of it was looked
    at."""
    failing = Failing(path)
    failing.make_directory(NAME)
    for each, content in SOUND.items():
        failing.write(each, 0, [content])
    report = checked(failing)
    assert f"problem: {path.rpartition('/')[2]}: : it cannot be read: Input/output error" in said(report)
    assert (report.end_offset, report.segments) == (END, 2 if path.endswith(LOG) else 3)


def test_the_compiled_walk_says_the_same_of_every_batch() -> None:
    """Of sound records, and of some with a byte changed."""
    walk = walk_for(VERIFY_COMPILED_MIN_BYTES)
    assert walk is not plain_walk, "numba is installed for the tests"
    random = Random(3)
    for seed in range(3):
        for path, content in contents(sound_log(seed).one.disk).items():
            for at, header in headers(content) if path.endswith(LOG) else ():
                data = bytearray(record_bytes(content, at, header))
                if random.random() < 0.5:
                    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
                assert outcome(walk, bytes(data), header) == outcome(plain_walk, bytes(data), header)


def outcome(walk: WalkRecords, data: bytes, header: BatchHeader) -> int | str:
    try:
        return walk(data, header)
    except InvalidRecordError as error:
        return str(error)


def test_an_empty_log_is_sound() -> None:
    one = OneLog()
    assert not checked(one.disk).findings.problems
    one.append(batch(b"a"))
    one.close()
    assert not checked(one.disk).findings.problems


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_an_old_format_are_checked_too(magic: int) -> None:
    """Apache Kafka serves them; a message of theirs has a checksum."""
    one = OneLog()
    content = b"".join(old_message(offset, magic, b"v" * 40) for offset in (0, 1, 5))
    put(one.disk, FIRST, content)
    for suffix in (".index", ".timeindex"):
        put(one.disk, f"{NAME}/{file_name(0, suffix)}", b"")
    report = checked(one.disk)
    assert not report.findings.problems, said(report)
    assert (report.old_messages, report.end_offset) == (3, 6)
    random = Random(magic)
    for _ in range(60):
        bit = random.randrange(96 if random.random() < 0.3 else 0, len(content) * 8 // 3)
        put(one.disk, FIRST, flipped(content, bit if bit >= 64 else bit + 64))
        assert checked(one.disk).findings.problems, bit
    put(one.disk, FIRST, old_message(3, magic, b"v") + content)
    assert "comes after 3" in said(checked(one.disk))


def test_a_timestamp_that_a_producer_got_wrong_is_a_note(disk: SimulatedDisk) -> None:
    one = OneLog()
    builder = BatchBuilder()
    builder.append(5_000, None, b"late")
    data = builder.build()
    data[35:43] = (4_000).to_bytes(8, "big")
    data[CRC_POSITION : CRC_POSITION + 4] = computed_crc(data, 0, len(data)).to_bytes(4, "big")
    one.append(data)
    one.close()
    report = checked(one.disk)
    assert not report.findings.problems
    assert "its largest timestamp is 4000; it is 5000" in said(report)
