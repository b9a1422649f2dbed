"""Files of a log directory that changed while no broker had it: what the node serves of them, and what it says."""

from __future__ import annotations

import logging

import pytest
from support.broker import START_MS, Node
from support.planted import flipped, put
from support.requests import batch, fetch, list_offsets, partitions_of, produced, values_of, wanted

from penstock.errors import ErrorCode
from penstock.log.checkpoints import CLEANER_OFFSET, HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from penstock.log.events import CheckpointUnreadable, DirectoryFailed, LogBroken, LogRecovered, RecordsLost
from penstock.log.limits import RECALLED_INDEX_ENTRIES
from penstock.log.names import OFFSET_INDEX, file_name
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

CHECKPOINTS = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER_OFFSET)
RECORDS = 12
DELETED = 2


def filled() -> Node:
    """A compacted topic of several segments, a pass of the cleaner behind it, whose first records were deleted."""
    node = Node(log_cleaner_backoff_ms=1000)
    configs = {"cleanup_policy": "compact,delete", "min_cleanable_dirty_ratio": "0.01", "internal_segment_bytes": "400"}
    node.create_topic("t", **configs)
    client = node.connect()
    for number in range(RECORDS):
        data = batch(b"%100d" % number, key=b"%d" % number, timestamp_ms=START_MS + number)
        assert produced(client, "t", data).error_code == 0
    node.advance(60_000)
    wanted_start = DeleteRecordsPartition(partition_index=0, offset=DELETED)
    topics = [DeleteRecordsTopic(name="t", partitions=[wanted_start])]
    answer = client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
    assert answer.topics[0].partitions[0].error_code == 0
    node.advance(120_000)
    return node


def numbers(node: Node, offset: int) -> list[int]:
    found = partitions_of(node.connect().ask(fetch("t", wanted(0, offset)), 12))[0]
    assert found.error_code == ErrorCode.NONE
    return [int(value) for value in values_of(found) if value is not None]


def read_all(node: Node, offset: int) -> list[int]:
    """The numbers of all records from an offset on."""
    read: list[int] = []
    while more := numbers(node, read[-1] + 1 if read else offset):
        read += more
    return read


@pytest.mark.parametrize("clean_stop", [True, False], ids=["after a clean stop", "after a kill"])
@pytest.mark.parametrize("file", CHECKPOINTS)
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"1\n1\nt 0 5\n", id="of a later version"),
        pytest.param(b"0\n1\nt 0 1000000\n", id="beyond the log"),
    ],
)
def test_a_checkpoint_that_cannot_be_right_loses_nothing(file: str, content: bytes, *, clean_stop: bool) -> None:
    node = filled()
    if clean_stop:
        node.stop()
    node.events.clear()
    put(node.disks[0], file, content)
    if clean_stop:
        node.start()
    else:
        node.crash(power_failed=False)
    node.advance(1000)

    if file == LOG_START and b"1000000" in content:
        check_set_aside(node)
        return
    assert read_all(node, DELETED) == list(range(DELETED, RECORDS))
    end = produced(node.connect(), "t", batch(b"%d" % RECORDS, key=b"new", timestamp_ms=START_MS))
    assert (end.error_code, end.base_offset) == (ErrorCode.NONE, RECORDS)
    node.advance(120_000)
    assert read_all(node, DELETED) == list(range(DELETED, RECORDS + 1))
    assert not [event for event in node.events if isinstance(event, RecordsLost | LogBroken | DirectoryFailed)]
    said = [event.path for event in node.events if isinstance(event, CheckpointUnreadable)]
    assert said == ([f"/data/0/{file}"] if content.startswith(b"1") else [])


def check_set_aside(node: Node) -> None:
    """A log start beyond the log's end: as in Apache Kafka it begins there. Its records are kept beside it."""
    end = produced(node.connect(), "t", batch(b"new", timestamp_ms=START_MS))
    assert (end.error_code, end.base_offset) == (ErrorCode.NONE, 1_000_000)
    lost = [event for event in node.events if isinstance(event, RecordsLost)]
    assert {event.log for event in lost} == {"t-0"}
    assert max(event.end_offset for event in lost) == RECORDS
    aside = [info.name for info in node.disks[0].list("t-0") if info.name.endswith(".corrupt")]
    assert len(aside) > 1
    kept = b"".join(node.disks[0].content(f"t-0/{name}") for name in aside)
    assert all(b"%100d" % number in kept for number in range(DELETED, RECORDS))


def test_an_index_of_another_segment_is_an_error_of_its_partition_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node()
    node.create_topic("t", partitions=2, internal_segment_bytes="3000", index_interval_bytes="200")
    client = node.connect()
    for number in range(80):
        data = batch(b"v" * (50 + number), timestamp_ms=START_MS + number)
        assert produced(client, "t", data).error_code == 0
    assert produced(client, "t", batch(b"other"), partition=1).error_code == 0
    node.stop()
    disk = node.disks[0]
    paths = sorted(f"t-0/{info.name}" for info in disk.list("t-0") if info.name.endswith(".index"))[:2]
    first, second = (disk.content(path) for path in paths)
    put(disk, paths[0], second)
    put(disk, paths[1], first)
    node.start()

    client = node.connect()
    errors = []
    with caplog.at_level(logging.ERROR):
        for offset in reversed(range(80)):  # so that no read goes on where another ended
            request = fetch("t", wanted(0, offset, max_bytes=1), wanted(1, 0, max_bytes=1 << 20))
            found = partitions_of(client.ask(request, 12))
            assert values_of(found[1]) == [b"other"]
            if found[0].error_code:
                errors.append(found[0].error_code)
            else:
                assert values_of(found[0])[0] == b"v" * (50 + offset)
    assert set(errors) == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert 0 < len(errors) < 80
    assert "fetch of t-0 failed" in caplog.text
    assert "is damaged or of another segment" in caplog.text
    assert "`penstock log index`" in caplog.text
    assert not [event for event in node.events if isinstance(event, DirectoryFailed)]
    assert produced(client, "t", batch(b"more", timestamp_ms=START_MS + 80)).base_offset == 80
    look_up = client.ask(list_offsets("t", (0, START_MS + 1)), 7)
    assert look_up.topics[0].partitions[0].error_code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize("bit", [7, 6, 29], ids=["a negative position", "beyond the file", "within a batch"])
def test_an_active_index_with_a_flipped_bit_is_made_anew_and_said(bit: int) -> None:
    """Opening a log looks up the last batches of its producers there. It is recovered; nobody else is concerned."""
    node = Node()
    node.create_topic("t", partitions=2, index_interval_bytes="100")
    client = node.connect()
    data = [
        bytes(batch(b"%60d" % number, producer_id=7, producer_epoch=0, base_sequence=number, timestamp_ms=START_MS))
        for number in range(41)
    ]
    for number in range(40):
        assert produced(client, "t", bytearray(data[number])).base_offset == number
    assert produced(client, "t", batch(b"other"), partition=1).error_code == 0
    node.stop()
    disk = node.disks[0]
    path = f"t-0/{file_name(0, OFFSET_INDEX)}"
    sound = disk.content(path)
    position_at = len(sound) - RECALLED_INDEX_ENTRIES * 8 + 4
    put(disk, path, flipped(sound, position_at * 8 + bit))
    node.events.clear()
    node.start()
    node.advance(1000)

    assert produced(node.connect(), "t", batch(b"other"), partition=1).error_code == 0
    again = produced(node.connect(), "t", bytearray(data[39]))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 39), "the broker knows it already"
    assert produced(node.connect(), "t", bytearray(data[40])).base_offset == 40
    assert read_all(node, 0) == list(range(41))
    assert disk.content(path).startswith(sound)
    [said] = [event for event in node.events if isinstance(event, LogRecovered)]
    assert said.log == "t-0"
    assert path in said.reason
    assert not [event for event in node.events if isinstance(event, RecordsLost | LogBroken | DirectoryFailed)]
