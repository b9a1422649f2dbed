"""The cleaner and indexes of aborted transactions that are wrong: it cleans nothing by them, and names the file."""

from __future__ import annotations

import pytest
from support.compacted import MINUTE_MS, Compacted
from support.compaction import OUT, History, Written, compacted, compacted_in_parts, planned, records_in
from support.logs import NAME, topic_config
from support.planted import contents, flipped, put

from penstock.log.compaction.transactions import CleanedTransactions
from penstock.log.damaged_index import DamagedIndexError
from penstock.log.events import LogCleaned, LogNotCleaned
from penstock.log.index import AbortedIndex
from penstock.log.limits import CLEANING_AGAIN_MS
from penstock.log.names import ABORTED_INDEX, CLEANED, LOG, SNAPSHOT, file_name
from penstock.log.producer_state import Origin
from penstock.log.rebuilding import Rebuilding
from penstock.records.batch import HEADER_BYTES, headers
from penstock.records.builder import BatchBuilder
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker

ENTRY = AbortedIndex.ENTRY
Entry = tuple[int, int, int, int]
SEGMENTS = 4
SMALL_SEGMENTS = topic_config(index_interval_bytes=100, segment_bytes=600)
"""So no two of them become one."""
ABORTED, COMMITTED = 1, 2
"""Producers."""


def history() -> History:
    """Closed segments with, in each, a transaction that one producer aborts and one that another commits; the producer
    that aborts has committed one before. The last one goes on into the active segment.
    """
    made = History.empty()
    for number in range(SEGMENTS):
        made.append([(b"k%d" % number, b"first")], producer_id=ABORTED, transactional=True)
        made.end(ABORTED, commit=True)
        made.append([(b"k%d" % number, b"aborted")], producer_id=ABORTED, transactional=True)
        made.append([(b"j%d" % number, b"committed")], producer_id=COMMITTED, transactional=True)
        made.append([(b"i%d" % number, b"aborted")], producer_id=ABORTED, transactional=True)
        if number == SEGMENTS - 1:
            made.roll()
        made.end(ABORTED, commit=False)
        made.end(COMMITTED, commit=True)
        if number < SEGMENTS - 1:
            made.roll()
    made.append([(b"active", b"")])
    made.one.close()
    return made


def path_of(made: History, number: int) -> str:
    return f"{NAME}/{file_name(made.one.log.segments.bases[number], ABORTED_INDEX)}"


def entry_of(made: History, number: int) -> Entry:
    [entry] = ENTRY.iter_unpack(made.one.disk.content(path_of(made, number)))
    return entry[1:]


def change(made: History, number: int, *entries: Entry) -> str:
    path = path_of(made, number)
    put(made.one.disk, path, b"".join(ENTRY.pack(0, *entry) for entry in entries))
    return path


def is_refused(made: History, path: str) -> None:
    with pytest.raises(DamagedIndexError, match=path.rpartition("/")[2]):
        compacted(made.one.disk, planned(made.one.disk))


def what_stays(made: History) -> set[Written]:
    """What a pass leaves of the last records of the keys: all of them, if it is right."""
    latest = {each.key: each for each in made.written if each.offset not in made.aborted}
    return set(latest.values()) & set(records_in(made.one.disk, OUT))


def test_sound_indexes_are_believed_in_one_pass_in_parts_and_in_the_next() -> None:
    made = history()
    compacted(made.one.disk, planned(made.one.disk))
    assert len(what_stays(made)) == 2 * SEGMENTS + 1
    compacted(made.one.disk, planned(made.one.disk, OUT), "again-0")
    assert set(records_in(made.one.disk, OUT)) == set(records_in(made.one.disk, "again-0"))
    assert len(compacted_in_parts(made.one.disk, config=SMALL_SEGMENTS)) > 1


@pytest.mark.parametrize("number", range(SEGMENTS + 1))
def test_an_entry_of_another_producer(number: int) -> None:
    """By it, the records of a transaction that was committed would go for good."""
    made = history()
    if number == SEGMENTS - 1:  # the marker of that one is in the next segment
        assert not made.one.disk.exists(path_of(made, number))
        return
    _, *offsets = entry_of(made, number)
    is_refused(made, change(made, number, (COMMITTED, *offsets)))  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [0, 1, SEGMENTS])
@pytest.mark.parametrize("by", [-2, 2])
def test_an_entry_that_says_another_first_offset(number: int, by: int) -> None:
    """By it, the transaction that was committed before would go, or a part of the aborted one would count."""
    made = history()
    producer_id, first, last, stable = entry_of(made, number)
    is_refused(made, change(made, number, (producer_id, first + by, last, stable)))


@pytest.mark.parametrize("number", [0, 1, SEGMENTS])
def test_an_entry_that_says_another_last_offset(number: int) -> None:
    made = history()
    producer_id, first, last, stable = entry_of(made, number)
    is_refused(made, change(made, number, (producer_id, first, last + 1, stable)))
    if number < SEGMENTS:
        is_refused(made, change(made, number, (producer_id, first, last - 1, stable)))


@pytest.mark.parametrize("number", [0, 1, SEGMENTS])
def test_an_entry_that_is_missing(number: int) -> None:
    """Aborted records would count, and the committed ones with their keys would go."""
    made = history()
    is_refused(made, change(made, number))


def test_an_index_of_another_segment() -> None:
    made = history()
    first, second = path_of(made, 0), path_of(made, 1)
    before = made.one.disk.content(first)
    put(made.one.disk, first, made.one.disk.content(second))
    with pytest.raises(DamagedIndexError, match=first):
        planned(made.one.disk)
    put(made.one.disk, first, before)
    put(made.one.disk, second, before)
    with pytest.raises(DamagedIndexError, match=second):
        compacted(made.one.disk, planned(made.one.disk))


def test_a_part_of_a_pass_is_refused_before_it_is_used() -> None:
    """What an entry says of the second segment is wrong: the first part ends before, the second is given up."""
    made = history()
    _, *offsets = entry_of(made, 1)
    path = change(made, 1, (COMMITTED, *offsets))  # type: ignore[arg-type]
    with pytest.raises(DamagedIndexError, match=path.rpartition("/")[2]):
        compacted_in_parts(made.one.disk, config=SMALL_SEGMENTS)


def test_any_bit_of_an_index_loses_nothing() -> None:
    """A pass by it leaves the last record of each key, or there is none."""
    made, refused = history(), 0
    sound = contents(made.one.disk)
    for number in (0, 1, SEGMENTS):
        path = path_of(made, number)
        for bit in range(16, ENTRY.size * 8):
            put(made.one.disk, path, flipped(sound[path], bit))
            try:
                compacted(made.one.disk, planned(made.one.disk))
            except DamagedIndexError:
                refused += 1
            else:
                assert len(what_stays(made)) == 2 * SEGMENTS + 1, f"bit {bit} of {path}"
            for name in [name for name in made.one.disk.paths() if name.startswith(f"{OUT}/")]:
                made.one.disk.unlink(name)
        put(made.one.disk, path, sound[path])
    assert refused > 3 * 64 * 2


@pytest.mark.parametrize("number", [0, 1, SEGMENTS])
def test_a_wrong_index_can_be_made_anew(number: int) -> None:
    """What the error says to do helps."""
    made = history()
    sound = contents(made.one.disk)
    producer_id, first, last, stable = entry_of(made, number)
    for entries in (
        [],
        [(COMMITTED, first, last, stable)],
        [(producer_id, first - 2, last, stable)],
        [(producer_id, first + 2, last, stable)],
        [(producer_id, first, last + 1, stable)],
    ):
        path = change(made, number, *entries)
        rebuilding = Rebuilding(made.one.disk, NAME, log_start_offset=0, index_interval_bytes=100, told=lambda _: None)
        for file in list(rebuilding.run()):
            put(made.one.disk, f"{NAME}/{file.name}", file.content)
        assert made.one.disk.content(path) == sound[path]


@pytest.mark.parametrize("log_start_offset", [1, 2, 3])
def test_an_entry_need_not_have_what_is_below_the_log_start(log_start_offset: int) -> None:
    """Producers that are loaded without a snapshot know transactions from the log start on."""
    made = History.empty()
    made.append([(b"k", b"aborted")], producer_id=ABORTED, transactional=True)
    made.append([(b"k", b"aborted, too")], producer_id=ABORTED, transactional=True)
    made.append([(b"j", b"")])
    made.one.close()
    for file in [info.name for info in made.one.disk.list(NAME)]:
        if file.endswith(SNAPSHOT):
            made.one.disk.unlink(f"{NAME}/{file}")
    made.one.open(log_start_offset=log_start_offset)
    made.end(ABORTED, commit=False)
    made.append([(b"k", b"last")])
    made.roll()
    made.append([(b"active", b"")])
    made.one.close()
    report = compacted(made.one.disk, planned(made.one.disk, log_start_offset=log_start_offset))
    assert not report.problems
    assert [each.value for each in records_in(made.one.disk, OUT)][-3:] == [b"", b"last", b""]


def test_after_a_batch_that_cannot_be_read_no_marker_is_asked() -> None:
    """The marker that is missed may be that batch. As before, what is damaged stays, and the rest is cleaned."""
    made = history()
    disk = made.one.disk
    path = f"{NAME}/{file_name(0, LOG)}"
    commit_marker, _ = list(headers(disk.content(path)))[1]
    disk.flip_bit(path, commit_marker + HEADER_BYTES + 1)
    change(made, 0)
    report = compacted(disk, planned(disk))
    assert report.problem_count == 1


def test_planted_the_markers_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CleanedTransactions, "_differs", lambda *_: None)
    with pytest.raises(AssertionError):
        test_any_bit_of_an_index_loses_nothing()


def test_planted_the_markers_behind_a_pass_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.log.compaction.cleaning.first_markers", lambda *_: [])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_an_entry_that_is_missing(SEGMENTS)


# In a broker


def append_aborted(topic: Compacted) -> None:
    """A transaction of two records with keys that others have, which is aborted."""
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    for key in (b"key 0", b"key 1"):
        builder.append(topic.simulation.now_ms, key, b"aborted")
    data = bytes(builder.build())
    end = end_transaction_marker(
        EndTransactionMarker(ControlType.ABORT, 0), producer_id=7, producer_epoch=0, wall_ms=topic.simulation.now_ms
    )
    now_ms = topic.simulation.now_ms
    topic.use(lambda log: log.append_as_leader(bytearray(data), 0, now_ms))
    topic.use(lambda log: log.append_as_leader(bytearray(end), 0, now_ms, origin=Origin.COORDINATOR))
    topic.wait(100)


@pytest.mark.parametrize("kind", ["empty", "foreign"])
def test_a_log_with_a_wrong_index_is_uncleanable_until_that_is_made_anew(kind: str) -> None:
    topic = Compacted(min_cleanable_dirty_ratio="1")
    topic.append(4)
    append_aborted(topic)
    topic.append(4)
    topic.node.stop()
    topic.wait(1_000)
    [file] = topic.files(ABORTED_INDEX)
    path = f"users-0/{file}"
    sound = topic.disk.content(path)
    put(topic.disk, path, b"" if kind == "empty" else ENTRY.pack(0, 7, 3, 900, 901))
    topic.configure(min_cleanable_dirty_ratio="0.01")
    topic.node.start()
    topic.wait(2 * MINUTE_MS)
    assert not topic.events(LogCleaned)
    [event] = topic.events(LogNotCleaned)
    assert isinstance(event, LogNotCleaned)
    assert path in event.reason
    assert "`penstock log index`" in event.reason
    assert "a bug" not in event.reason
    assert list(topic.node.manager.cleaner.uncleanable.values()) == [event.reason]
    assert not topic.files(CLEANED)

    topic.node.stop()
    topic.wait(1_000)
    put(topic.disk, path, sound)
    topic.node.start()
    topic.wait(CLEANING_AGAIN_MS)
    assert topic.events(LogCleaned)
    assert not topic.node.manager.cleaner.uncleanable
    found = {record.key: record.value for record in topic.records() if record.key is not None and record.value}
    assert b"aborted" not in found.values()
