"""Truncations to an offset inside a batch, which goes whole, and with it what the indexes say of it.

Apache Kafka up to 3.5 notes in a time index the offset of the record with the largest timestamp, which may be any of
its batch; later ones note the last offset of the batch.

And reads while the files of a log are being cut: what is there is served, or whoever asks is to ask again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.logs import NAME, NOW_MS, OneLog, batch, topic_config
from support.planted import put

from penstock.errors import ErrorCode, RequestError, StorageError
from penstock.log import truncation
from penstock.log.disk import Operation
from penstock.log.index import TimeIndex
from penstock.log.loading import load
from penstock.log.log import Log
from penstock.log.names import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from penstock.log.truncation import Truncate

RECORDS = 10
BATCHES = 5
WITHIN = 3
"""Where in its batch each record with the largest timestamp is."""
BATCH_MS = 100
PATH = f"{NAME}/{file_name(0, TIME_INDEX)}"


def of_an_old_kafka(index_interval_bytes: int) -> OneLog:
    """Batches of ten records, the fourth of which is the latest, with an index as Apache Kafka 3.5 leaves it."""
    one = OneLog(topic_config(index_interval_bytes=index_interval_bytes))
    for number in range(BATCHES):
        values = [b"%20d" % each for each in range(RECORDS)]
        one.append(batch(*values, timestamp_ms=NOW_MS + number * BATCH_MS))
    one.close()
    entry = TimeIndex.ENTRY
    moved = bytearray()
    for timestamp_ms, offset in entry.iter_unpack(one.disk.content(PATH)):
        moved += entry.pack(timestamp_ms, offset - offset % RECORDS + WITHIN)
    put(one.disk, PATH, bytes(moved))
    one.open(recovery_point=BATCHES * RECORDS)
    return one


@pytest.mark.parametrize("index_interval_bytes", [1, 4096])
@pytest.mark.parametrize("target", [*range(2, 51, 4), 49])
def test_the_time_index_says_nothing_beyond_the_new_end(target: int, index_interval_bytes: int) -> None:
    one = of_an_old_kafka(index_interval_bytes)
    whole = target // RECORDS * RECORDS
    one.log.truncate_to(target, NOW_MS)
    one.run()
    assert one.told[-1] == ("truncated", whole) or target == BATCHES * RECORDS
    assert one.log.log_end_offset == whole
    found = one.log.segments.offset_of_max_timestamp()
    assert (found.offset if found is not None else -1) == max(whole - RECORDS, -1)
    one.append(batch(b"next", timestamp_ms=NOW_MS + 10 * BATCH_MS))
    one.close()
    again = load(one.disk, NAME, log_start_offset=0, wall_ms=NOW_MS)
    assert again.log_end_offset == whole + 1
    assert again.segments[-1].largest_timestamp_ms == NOW_MS + 10 * BATCH_MS


def test_where_a_batch_begins_nothing_more_than_that_goes() -> None:
    one = of_an_old_kafka(1)
    one.log.truncate_to(2 * RECORDS, NOW_MS)
    one.run()
    assert [offset for _, offset in TimeIndex.ENTRY.iter_unpack(one.disk.content(PATH))] == [RECORDS + WITHIN]
    assert len(one.disk.content(f"{NAME}/{file_name(0, LOG)}")) == len(one.content())


def test_planted_the_entries_below_the_target_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    real = truncation.keep_below
    monkeypatch.setattr(
        truncation, "keep_below", lambda disk, index, column, relative: real(disk, index, column, relative + WITHIN + 1)
    )
    with pytest.raises(AssertionError):
        test_the_time_index_says_nothing_beyond_the_new_end(26, 1)


# Meanwhile


def filled(batches: int = 40) -> OneLog:
    one = OneLog(topic_config(index_interval_bytes=1))
    for number in range(batches):
        one.append(batch(b"%20d" % number, timestamp_ms=NOW_MS + number))
    return one


def cut_but_not_told(one: OneLog, target: int) -> tuple[Operation, object]:
    """The lane has cut the files, and the log does not know it yet: the operation and its result."""
    one.log.truncate_to(target, NOW_MS)
    one.take()
    while not isinstance(one.taken[0], Truncate):
        one.run_one()
    operation = one.taken.popleft()
    return operation, operation.run(one.disk)


LOOKS: dict[str, Callable[[Log, int], object]] = {
    "read": lambda log, offset: log.read_bytes(offset, 100),
    "time": lambda log, offset: log.offset_for_timestamp(NOW_MS + offset),
    "latest": lambda log, offset: log.segments.offset_of_max_timestamp(),
    "aborted": lambda log, offset: log.segments.aborted_transactions(offset, log.log_end_offset),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("reopened", [False, True])
def test_whoever_looks_while_files_are_cut_asks_again(look: str, *, reopened: bool) -> None:
    one = filled()
    if reopened:  # its index is in the file
        one.reopen()
    content = {offset: one.log.read_bytes(offset, 100) for offset in range(40)}
    truncate, result = cut_but_not_told(one, 20)
    refused = 0
    for offset in range(20):
        try:
            found = LOOKS[look](one.log, offset)
        except RequestError as error:
            refused += error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            assert look != "read" or found == content[offset]
    assert refused or look == "aborted" or not reopened
    one.log.operation_completed(truncate, result, NOW_MS)
    one.run()
    for offset in range(20):
        assert one.log.read_bytes(offset, 100) == content[offset]
        LOOKS[look](one.log, offset)


def test_an_index_that_somebody_else_has_cut_is_an_error_all_the_same() -> None:
    one = filled()
    one.reopen()
    put(one.disk, f"{NAME}/{file_name(0, OFFSET_INDEX)}", b"")
    with pytest.raises(StorageError, match="was changed from outside"):
        one.log.read_bytes(10, 100)
