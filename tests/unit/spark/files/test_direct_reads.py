"""Reading a partition from its leader's files while brokers truncate, delete, clean and recreate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from support.legacy import message
from support.partition_files import TOPIC_ID, Leader, batch
from support.upgraded import EPOCH, kept, upgraded

from penstock.errors import RequestError, UnreachableError
from penstock.log import partition_metadata
from penstock.log.names import PARTITION_METADATA
from penstock.records.builder import BatchBuilder
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from penstock.spark.read import files_segments
from penstock.spark.read.decoding import CorruptBatchError
from penstock.spark.read.files import DirectReadError
from penstock.spark.read.files_segments import INDEX_ENTRY


@pytest.fixture
def leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Leader:
    """Ten batches of five records in four segments; every read of a file takes about one batch."""
    monkeypatch.setattr(files_segments, "SPARK_FILE_READ_BYTES", 160)
    leader = Leader(tmp_path / "log" / "clicks-0", [batch(5 * i, 5) for i in range(10)])
    leader.write_segments([0, 20, 35, 45])
    return leader


def abort_marker(offset: int, producer_id: int) -> bytes:
    marker = EndTransactionMarker(ControlType.ABORT, 0)
    return bytes(
        end_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, wall_ms=1, base_offset=offset)
    )


def test_closed_segments_come_from_files_and_the_active_one_from_the_broker(leader: Leader) -> None:
    assert leader.read(0, 50).offsets == list(range(50))
    assert min(leader.fetched) == 45
    assert leader.read(0, 50, read="files").offsets == list(range(50)), "the active segment is nobody's fault"


@pytest.mark.parametrize("bounds", [(0, 35), (3, 17), (19, 21), (20, 35), (22, 23), (34, 36), (49, 50)])
def test_a_range_may_begin_and_end_within_batches(leader: Leader, bounds: tuple[int, int]) -> None:
    assert leader.read(*bounds) == leader.read(*bounds, read="broker")
    assert leader.read(*bounds).offsets == list(range(*bounds))


def test_the_brokers_are_not_asked_for_records_of_closed_segments(leader: Leader) -> None:
    leader.read(0, 35, read="files")
    assert leader.fetched == []


def test_nothing_is_read_beyond_what_the_leader_calls_readable(leader: Leader) -> None:
    """After an unclean election the plan's end may lie beyond what is committed now, and yet be in a closed segment."""
    leader.end = 15
    with pytest.raises(UnreachableError, match="ended at 15, before 35"):
        leader.read(0, 35)
    assert set(leader.fetched) == {15}


def test_a_truncation_under_way_is_noticed_by_the_leader_epoch(leader: Leader) -> None:
    """An unclean election: the log is cut to 10, and others' records follow, in the file that is being read."""

    def cut() -> None:
        leader.epoch = 1
        leader.batches = [*leader.batches[:2], *(batch(5 * i, 5, word="other", epoch=1) for i in range(2, 10))]
        with leader.path(0).open("r+b") as file:
            file.truncate(len(batch(0, 5)) * 2)
            file.seek(0, os.SEEK_END)
            file.write(b"".join(leader.batches[2:4]))

    leader.before_check = [lambda: None, cut]
    read = leader.read(0, 50)
    values = [row["value"].split()[0] for row in read.rows]
    assert values == [b"value"] * values.index(b"other") + [b"other"] * values.count(b"other")
    assert read.offsets == list(range(50))
    assert values.index(b"other") == 10, "what was read before is good, what came after is the broker's"


def test_truncation_is_an_error_when_only_files_will_do(leader: Leader) -> None:
    def cut() -> None:
        leader.epoch = 1

    leader.before_check = [cut]
    with pytest.raises(DirectReadError, match="clicks-0 cannot be read from files at offset 0: its leader changed"):
        leader.read(0, 35, read="files")


def test_a_restarted_broker_may_have_cut_its_log(leader: Leader) -> None:
    """What its recovery cut is written anew, in the same epoch: only the connection tells."""

    def restart() -> None:
        leader.closed = True
        leader.path(0).write_bytes(b"".join(batch(5 * i, 5, word="later") for i in range(4)))

    leader.before_check = [restart]
    assert {row["value"].split()[0] for row in leader.read(0, 35).rows} == {b"value"}


def test_a_shortened_file_without_a_new_epoch_is_a_hole_that_the_broker_fills(leader: Leader) -> None:
    os.truncate(leader.path(0), len(batch(0, 5)) * 2)
    assert leader.read(0, 35) == leader.read(0, 35, read="broker")
    with pytest.raises(DirectReadError, match="at offset 10: no file has the offsets 10 to 19"):
        leader.read(0, 35, read="files")


def test_retention_takes_files_that_are_open_or_not_yet(leader: Leader) -> None:
    def delete() -> None:
        leader.path(0).rename(leader.path(0, ".deleted"))
        leader.path(0, ".deleted").unlink()
        leader.start = 20

    leader.before_check = [delete]
    assert leader.read(0, 35, read="files").offsets == list(range(35)), "an open file can be read to its end"


def test_a_file_that_retention_took_before_is_the_brokers_to_explain(leader: Leader) -> None:
    lead = leader.lead()
    leader.path(0).unlink()
    leader.start = 20
    with pytest.raises(RequestError, match="OUT_OF_RANGE"):
        leader.read(0, 35, lead=lead)
    with pytest.raises(DirectReadError, match="clicks-0 cannot be read from files at offset 0: no file has"):
        leader.read(0, 35, lead=lead, read="files")


def test_the_cleaner_may_merge_segments_while_they_are_read(leader: Leader) -> None:
    """Both closed segments become one with less in it; the old names go as Kafka's cleaner has them go."""
    kept = [batch(0, 5), batch(15, 5), batch(30, 5)]

    def clean() -> None:
        leader.batches = [*kept, *leader.batches[7:]]
        leader.write(0, kept, suffix=".swap")
        for base in (0, 20):
            leader.path(base).rename(leader.path(base, ".deleted"))
        leader.path(0, ".swap").rename(leader.path(0))

    leader.before_check = [lambda: None, lambda: None, clean]
    read = leader.read(0, 50, read="files")
    assert set(read.offsets) >= {*range(15), *range(15, 20), *range(30, 50)}
    assert sorted(read.offsets + [offset for offset, _ in read.missing]) == list(range(50))


def test_a_name_that_is_missing_for_a_moment_is_no_gap(leader: Leader) -> None:
    """Between two renames of the cleaner a listing has neither the old file nor the new one."""
    leader.path(20).rename(leader.path(20, ".swap"))
    assert leader.read(0, 50).offsets == list(range(50))
    with pytest.raises(DirectReadError, match="at offset 20: no file has the offsets 20 to 34"):
        leader.read(0, 50, read="files")


def test_a_gap_between_files_that_the_broker_confirms_is_a_gap(leader: Leader) -> None:
    del leader.batches[2:6]  # 10 to 29, across two segments
    leader.write_segments([0, 20, 35, 45])
    read = leader.read(0, 35, read="files")
    assert read.offsets == [*range(10), *range(30, 35)]
    assert read == leader.read(0, 35, read="broker")


@pytest.mark.parametrize("end", [10, 12, 20, 29, 30])
def test_a_range_that_ends_in_a_gap_accounts_for_all_its_offsets(leader: Leader, end: int) -> None:
    del leader.batches[2:6]
    leader.write_segments([0, 20, 35, 45])
    read = leader.read(0, end)
    assert sorted(read.offsets + [offset for offset, _ in read.missing]) == list(range(end))
    assert read == leader.read(0, end, read="broker")


def test_a_leftover_of_the_cleaner_is_not_read(leader: Leader) -> None:
    leader.write(0, [batch(0, 1)], suffix=".cleaned")
    leader.write(20, [batch(20, 1)], suffix=".swap")
    assert leader.read(0, 35, read="files").offsets == list(range(35))


def test_an_index_of_another_file_only_costs_time(leader: Leader) -> None:
    for data in (b"\x00" * 80, b"\x7f" * 80, b"\x00\x00\x00\x00\x00\x00\x01\x00" * 4, b"odd"):
        (leader.directory / f"{0:020}.index").write_bytes(data)
        assert leader.read(7, 35, read="files").offsets == list(range(7, 35))
    too_far = INDEX_ENTRY.pack(0, 2 * len(batch(0, 5)))
    (leader.directory / f"{0:020}.index").write_bytes(too_far)
    assert leader.read(7, 35, read="files").offsets == list(range(7, 35))
    (leader.directory / f"{0:020}.index").unlink()
    assert leader.read(7, 35, read="files").offsets == list(range(7, 35))


def test_the_index_of_the_file_that_replaces_the_open_one_is_not_used(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It might point at a batch that somebody sent as the value of a record."""
    embedded = batch(5, 5, word="evil")
    builder = BatchBuilder(base_offset=0)
    for _ in range(10):
        builder.append(1_000, None, embedded)
    leader.batches[:2] = [bytes(builder.build())]
    leader.write_segments([0, 20, 35, 45])
    position = leader.path(0).read_bytes().index(embedded)

    def index_after_the_swap(directory: int, base_offset: int, offset: int) -> int:
        content = leader.path(0).read_bytes()
        leader.path(0).rename(leader.path(0, ".deleted"))
        leader.path(0).write_bytes(content)
        return position

    monkeypatch.setattr(files_segments, "_indexed", index_after_the_swap)
    assert leader.read(7, 10, read="files") == leader.read(7, 10, read="broker")


def test_a_recreated_topic_is_not_taken_for_the_old_one(leader: Leader) -> None:
    """The directory is renamed and one with the same name appears: what is open stays the old one's."""

    def recreate() -> None:
        leader.directory.rename(leader.directory.with_name("clicks-0.abc-delete"))
        newer = Leader(leader.directory, [batch(5 * i, 5, word="newer") for i in range(10)], topic_id=UUID(int=77))
        newer.write_segments([0, 20, 35, 45])
        leader.topic_id = newer.topic_id

    leader.before_check = [recreate]
    assert {row["value"].split()[0] for row in leader.read(0, 35, read="files").rows} == {b"value"}


def test_a_topic_recreated_before_is_refused_by_files_and_by_the_broker(leader: Leader) -> None:
    (leader.directory / PARTITION_METADATA).write_bytes(partition_metadata.encode(UUID(int=77)))
    leader.topic_id = UUID(int=77)
    with pytest.raises(DirectReadError, match="belongs to another topic of this name"):
        leader.read(0, 35, read="files")
    with pytest.raises(RequestError, match=rf"deleted and created again .* {TOPIC_ID}, now"):
        leader.read(0, 35)


@pytest.mark.parametrize(
    ("at", "mask"),
    [(0, 0x41), (7, 0x41), (7, 2), (7, 1), (8, 0x41), (16, 1), (20, 1), (23, 1), (60, 1), (80, 0x41), (-1, 0x80)],
)
def test_a_flipped_byte_sends_the_reader_to_the_broker_for_the_rest_of_the_file(
    leader: Leader, at: int, mask: int
) -> None:
    """Its page cache may have the right bytes. The base offset, which no CRC covers, has to fit its neighbours."""
    size = len(batch(0, 5))
    data = bytearray(leader.path(0).read_bytes())
    data[size + (at if at >= 0 else size - 1)] ^= mask
    leader.path(0).write_bytes(data)
    assert leader.read(0, 35).offsets == list(range(35))
    assert leader.fetched[0] in (0, 5)
    assert max(leader.fetched) < 20, "the next file is read as a file again"
    with pytest.raises(DirectReadError, match=r"clicks-0 cannot be read from files at offset [05]: 0+\.log"):
        leader.read(0, 35, read="files")


def test_batches_of_one_read_that_overlap_are_left_to_the_broker(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_segments, "SPARK_FILE_READ_BYTES", 100_000)
    data = bytearray(leader.path(0).read_bytes())
    data[len(batch(0, 5)) + 7] ^= 2
    leader.path(0).write_bytes(data)
    assert leader.read(0, 35).offsets == list(range(35))
    with pytest.raises(DirectReadError, match="goes back to the offset 10"):
        leader.read(0, 35, read="files")


def test_what_is_broken_at_the_broker_too_is_the_same_error_or_the_same_gap(leader: Leader) -> None:
    data = bytearray(leader.batches[2])
    data[-1] ^= 1
    leader.batches[2] = bytes(data)
    leader.write_segments([0, 20, 35, 45])
    with pytest.raises(CorruptBatchError, match="offsets 10 to 14"):
        leader.read(0, 50)
    assert (read := leader.read(0, 50, skip_corrupt=True)) == leader.read(0, 50, read="broker", skip_corrupt=True)
    assert read.missing == [(offset, "corrupt") for offset in range(10, 15)]


def test_transactions_are_read_through_the_broker_when_only_committed_records_are_wanted(leader: Leader) -> None:
    transaction: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    leader.batches[1:3] = [batch(5, 5, **transaction), batch(10, 4), abort_marker(14, 7)]
    leader.aborted = [(7, 5, 14)]
    leader.write_segments([0, 20, 35, 45])
    read = leader.read_committed(0, 50)
    assert read == leader.read_committed(0, 50, read="broker")
    assert read.offsets == [*range(5), *range(10, 14), *range(15, 50)]
    leader.fetched.clear()
    leader.read_committed(0, 35)
    assert leader.fetched, "the segment with the transaction"
    assert max(leader.fetched) < 20, "the next segment has none and is a file again"
    with pytest.raises(DirectReadError, match=r"at offset 5: .* has transactions"):
        leader.read_committed(0, 50, read="files")
    assert leader.read(0, 35, read="files") == leader.read(0, 35, read="broker"), "uncommitted reads hide nothing"


def test_a_directory_that_cannot_be_read_is_read_through_the_broker(leader: Leader) -> None:
    leader.directory.rename(leader.directory.with_name("moved-0"))
    assert leader.read(0, 50).offsets == list(range(50))
    with pytest.raises(DirectReadError, match=r"clicks-0 cannot be read from files at offset 0: .*no such file"):
        leader.read(0, 50, read="files")
    with pytest.raises(DirectReadError, match=r"clicks-0 cannot .*: its leader does not say where it is"):
        leader.read(0, 50, read="files", lead="its leader does not say where it is")


def test_a_batch_larger_than_a_read_comes_whole(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_segments, "SPARK_FILE_READ_BYTES", 70)
    assert leader.read(3, 35, read="files").offsets == list(range(3, 35))
    monkeypatch.setattr(files_segments, "CLIENT_RESPONSE_BYTES", 100)
    with pytest.raises(DirectReadError, match="has a batch of"):
        leader.read(3, 35, read="files")


def test_no_descriptor_is_left_open(leader: Leader) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for read in ("auto", "files"):
        leader.read(0, 35, read=read)
    leader.path(20).unlink()
    with pytest.raises(DirectReadError):
        leader.read(0, 35, read="files")
    assert len(os.listdir("/proc/self/fd")) == before


def test_messages_of_before_kafka_0_11_come_through_the_broker_as_any_other_records(
    leader: Leader, tmp_path: Path
) -> None:
    some = upgraded(seed=2, messages=12, batches=15)
    upgraded_leader = Leader(tmp_path / "upgraded" / "clicks-0", [entry.data for entry in some])
    upgraded_leader.epoch = EPOCH
    bases = [some[number].records[0].offset for number in (0, 20, 30, 35)]
    upgraded_leader.write_segments(bases)
    end = some[-1].last_offset + 1
    read = upgraded_leader.read(0, end)
    assert read == upgraded_leader.read(0, end, read="broker")
    assert [(row["offset"], row["key"], row["value"]) for row in read.rows] == [
        (record.offset, record.key, record.value) for record in kept(some)
    ]
    assert read.missing == []
    upgraded_leader.fetched.clear()
    assert upgraded_leader.read(bases[2], bases[3]).offsets == list(range(bases[2], bases[3]))
    assert upgraded_leader.fetched == [], "a file that has batches alone"
    for start in (0, bases[1]):
        with pytest.raises(DirectReadError, match=rf"at offset {start}: .*a format of before Kafka 0.11"):
            upgraded_leader.read(start, end, read="files")


@pytest.mark.parametrize("read", ["auto", "broker"])
def test_a_damaged_message_of_before_kafka_0_11_stops_the_read(leader: Leader, read: str) -> None:
    leader.batches[1:2] = [message(5, None, b"good"), message(9, None, b"bad")[:-1] + b"?"]
    leader.write_segments([0, 20, 35, 45])
    with pytest.raises(CorruptBatchError, match="format 0 or 1"):
        leader.read(0, 50, read=read, skip_corrupt=True)
    assert leader.read(10, 50, read=read).offsets == list(range(10, 50))
