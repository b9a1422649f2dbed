"""A move copies closed segments as whole files: what that makes of them, and what may come in between."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from support.broker import Node
from support.logs import OneLog, marker, topic_config
from support.logs import batch as records
from support.requests import batch, fetch, partitions_of, produced, wanted

from penstock.errors import ErrorCode
from penstock.log.compaction.task import CleanLog
from penstock.log.directory_operations import ReadBytes
from penstock.log.disk import Operation
from penstock.log.log import Log
from penstock.log.names import ABORTED_INDEX, CLEANED, INDEX_SUFFIXES, LOG, SNAPSHOT, file_name
from penstock.log.producer_state import Origin
from penstock.log.segment_copies import COPY, PlaceSegment, WriteCopy
from penstock.node import segment_moves
from penstock.node.segment_moves import is_beginning
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from penstock.records.batch import headers
from penstock.records.builder import BatchBuilder
from penstock.replication.follower import Follower
from simulator.world.disk import PowerLoss

from .test_moves import fill, move, moved, names, values, where


@pytest.fixture(autouse=True)
def all_closed_segments_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_moves, "MOVE_FILES_MIN_BYTES", 1)
    monkeypatch.setattr(segment_moves, "MOVE_READ_BYTES", 400_000)


def two_directories() -> Node:
    """`t` lies in the first of two, and has several segments; what is appended is flushed."""
    node = Node(directories=2)
    node.create_topic("t", segment_bytes="1048576", flush_messages="1", index_interval_bytes="100000")
    node.settle()
    return node


@pytest.fixture
def node() -> Node:
    return two_directories()


def log(node: Node) -> Log:
    found = node.broker.logs.open_log("t", 0)
    assert found is not None
    return found


def files(node: Node, directory: int, name: str = "t-0") -> dict[str, bytes]:
    disk = node.disks[directory]
    return {path: disk.content(path) for path in disk.paths() if path.startswith(f"{name}/")}


def test_closed_segments_arrive_byte_for_byte_with_their_indexes_and_the_rest_by_batches(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = node.connect()
    expected = fill(client, 60)
    for number in range(40):  # an idempotent producer, so that snapshots have something
        assert (
            produced(
                client, "t", batch(b"i" * 30_000, producer_id=7, producer_epoch=0, base_sequence=number)
            ).error_code
            == 0
        )
        expected.append(b"i" * 30_000)
    bases = log(node).segments.bases
    assert len(bases) == 4
    before = files(node, 0)
    fetched: list[int] = []
    monkeypatch.setattr(Follower, "fetched", noting_fetches(Follower.fetched, fetched))
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(1_000)
    assert moved(node)
    placed = [operation for operation in node.ran if isinstance(operation, PlaceSegment)]
    assert len(placed) == len(bases) - 1
    after = files(node, 1)
    closed = [path for path in before if path.endswith((LOG, *INDEX_SUFFIXES)) and base_of(path) < bases[-1]]
    assert {path: after[path] for path in closed} == {path: before[path] for path in closed}
    assert after[f"t-0/{bases[-1]:020d}{SNAPSHOT}"] == before[f"t-0/{bases[-1]:020d}{SNAPSHOT}"]
    assert min(fetched) >= bases[-1], "nothing of the closed segments was copied by batches"
    assert not [path for path in after if path.endswith(COPY)]
    assert values(node) == expected
    assert (
        produced(node.connect(), "t", batch(b"again", producer_id=7, producer_epoch=0, base_sequence=39)).base_offset
        == 99
    ), "a duplicate"
    node.restart()
    assert values(node) == expected


def idempotent(sequence: int) -> bytes:
    return batch(b"i" * 30_000, producer_id=7, producer_epoch=0, base_sequence=sequence)


def noting_fetches(real: object, offsets: list[int]) -> object:
    def fetched(follower: Follower, position: object, data: object, now_ms: int) -> None:
        if data.records:  # type: ignore[attr-defined]
            offsets.append(position.fetch_offset)  # type: ignore[attr-defined]
        real(follower, position, data, now_ms)  # type: ignore[operator]

    return fetched


def base_of(path: str) -> int:
    return int(path.rpartition("/")[2].partition(".")[0])


@pytest.mark.parametrize(
    ("directory", "stride"),
    [(0, 2), (1, 7), pytest.param(0, 1, marks=pytest.mark.long), pytest.param(1, 1, marks=pytest.mark.long)],
)
def test_a_power_failure_at_any_change_of_a_disk_loses_nothing_and_the_move_goes_on(
    directory: int, stride: int
) -> None:
    """And what was copied before is not copied again."""
    crash_at, copied_anew = 1, []
    while True:
        node = two_directories()
        expected = fill(node.connect(), 56)
        disk = node.disks[directory]
        disk.crash_at = disk.changes + crash_at
        try:
            assert move(node, "/data/1") is ErrorCode.NONE
            node.advance(1_000)
        except PowerLoss:
            pass
        else:
            break
        had = sum(path.endswith(LOG) and "-future" in path for path in node.disks[1].paths())
        ran = len(node.ran)
        node.crash(power_failed=True)
        assert values(node) == expected
        expected += fill(node.connect(), 1, first=56)
        assert move(node, "/data/1") is ErrorCode.NONE
        node.advance(2_000)
        assert moved(node)
        assert values(node) == expected
        assert not [path for path in node.disks[1].paths() if path.endswith(COPY)]
        copied_anew.append((had, sum(isinstance(each, PlaceSegment) for each in node.ran[ran:])))
        crash_at += stride
    assert moved(node)
    assert crash_at > (40 if directory else 3)
    if directory:
        assert {(0, 2), (1, 1)} <= set(copied_anew), "segments that were whole are not copied again"


def test_how_far_a_copy_of_files_is_behind_can_be_asked(node: Node) -> None:
    fill(node.connect(), 60)
    bases = log(node).segments.bases
    held: list[Operation] = []

    def second_segment(operation: Operation) -> bool:
        if isinstance(operation, PlaceSegment):
            held.append(operation)
        return len(held) == 2

    node.held = second_segment
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(100)
    answer = node.connect().ask(DescribeLogDirsRequest(topics=None), 4)
    (future,) = [
        each for result in answer.results for topic in result.topics for each in topic.partitions if each.is_future_key
    ]
    assert future.offset_lag == 60 - bases[1]
    assert future.partition_size == log(node).segments.all[0].size_bytes
    node.let_go()
    node.advance(1_000)
    assert moved(node)


def test_a_clean_stop_in_the_middle_leaves_nothing_behind_and_the_move_goes_on(node: Node) -> None:
    expected = fill(node.connect(), 60)
    node.held = lambda operation: isinstance(operation, WriteCopy) and operation.position > 0
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(100)
    assert [path for path in node.disks[1].paths() if path.endswith(COPY)]
    node.broker.shutdown(node.now_ms)
    node.let_go()
    assert node.broker.stopped
    assert [path for path in node.disks[1].paths() if path.endswith(COPY)]
    node.start()
    node.advance(2_000)
    assert moved(node)
    assert not [path for path in node.disks[1].paths() if path.endswith(COPY)]
    assert values(node) == expected


def test_a_segment_of_a_log_that_was_truncated_meanwhile_is_copied_anew(node: Node) -> None:
    expected = fill(node.connect(), 60)
    node.held = lambda operation: isinstance(operation, WriteCopy) and operation.position > 0
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(100)
    log(node).generation += 1  # as a truncation does
    node.let_go()
    node.advance(1_000)
    assert moved(node)
    begun = [each.path for each in node.ran if isinstance(each, WriteCopy) and each.path.endswith(f"{LOG}{COPY}")]
    first = next(path for path in begun if f"/{0:020d}." in path)
    assert sum(isinstance(each, WriteCopy) and each.path == first and not each.position for each in node.ran) == 2
    assert values(node) == expected


def test_a_future_log_that_went_another_way_gets_no_file() -> None:
    def written(*epochs: int) -> Log:
        one = OneLog(topic_config(segment_bytes=300))
        for number, epoch in enumerate(epochs):
            one.append(records(b"%200d" % number), epoch)
        return one.log

    source = written(1, 1, 3, 3, 3)
    assert is_beginning(written(), source)
    assert is_beginning(written(1), source)
    assert is_beginning(written(1, 1, 3), source)
    assert not is_beginning(written(1, 1, 1), source), "epoch 1 ended before that"
    assert not is_beginning(written(1, 1, 2), source), "there is no epoch 2"
    assert not is_beginning(written(1, 1, 3, 3, 3, 3), source), "it is longer"
    assert not is_beginning(written(1, 4), source)


def test_segments_that_go_while_they_are_copied_are_looked_for_again(node: Node) -> None:
    expected = fill(node.connect(), 90)
    held: list[Operation] = []
    node.held = lambda operation: isinstance(operation, ReadBytes) and not held.append(operation)  # type: ignore[func-returns-value]
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(100)
    assert held
    partition = node.broker.replicas.in_use("t", 0)
    assert partition is not None
    partition.delete_records(40, node.now_ms)
    log(node).delete_old_segments(node.now_ms, 90)
    node.advance(120_000)
    assert log(node).log_start_offset == 40
    assert log(node).segments.bases[0] > 0
    node.let_go()
    node.advance(2_000)
    assert moved(node)
    assert values(node, 40) == expected[40:]


def test_files_that_cannot_be_read_whole_are_given_up_and_batches_are_copied(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fill(node.connect(), 60)
    real = segment_moves.segment_to_copy

    def longer(source: Log, offset: int | None) -> object:
        """As if an index had lost entries."""
        found = real(source, offset)
        if found is None:
            return None
        file = found.files[1]
        return found._replace(files=[file._replace(size_bytes=(file.size_bytes or 0) + 8), *found.files[1:]])

    monkeypatch.setattr(segment_moves, "segment_to_copy", longer)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(2_000)
    assert moved(node)
    assert not [operation for operation in node.ran if isinstance(operation, PlaceSegment)]
    assert values(node) == expected


def test_a_move_that_is_called_off_leaves_no_file(node: Node) -> None:
    expected = fill(node.connect(), 60)
    node.held = lambda operation: isinstance(operation, WriteCopy) and operation.position > 0
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(100)
    assert move(node, "/data/0") is ErrorCode.NONE
    node.let_go()
    node.advance(120_000)
    assert where(node) == [("/data/0", False)]
    assert names(node, 1) == []
    assert values(node) == expected


def test_a_replica_counts_as_clean_as_far_as_it_did_when_the_move_began(node: Node) -> None:
    """A delete marker and the record that it is about may have been copied after, and before, a pass of the cleaner."""
    fill(node.connect(), 10)
    source, target = node.broker.logs.table.directories
    source.clean_offsets.set(("t", 0), 4)
    node.held = lambda operation: isinstance(operation, ReadBytes)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(100)
    source.clean_offsets.set(("t", 0), 9)
    node.let_go()
    node.advance(1_000)
    assert moved(node)
    assert target.clean_offsets.get(("t", 0)) == 4


# Compacted logs


def compacted() -> Node:
    """As `two_directories`, with a topic of keys."""
    node = Node(directories=2)
    node.create_topic("t", segment_bytes="1048576", flush_messages="1", cleanup_policy="compact")
    node.settle()
    return node


def write_keys(node: Node, count: int) -> None:
    """Batches of 30 kB with seven keys in turn, producers of their own, and transactions that were aborted."""
    assert fetched(node) == b""  # which opens the log
    for number in range(count):
        sequence = number // 4
        if number % 4 == 3:
            append(
                node,
                [(b"aborted", b"a")],
                producer_id=9,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=True,
            )
            log(node).append_as_leader(
                marker(9, 0, commit=False), log(node).leader_epochs.latest, node.now_ms, origin=Origin.COORDINATOR
            )
            node.run()
        pairs: list[tuple[bytes, bytes | None]] = [(b"key %d" % (number % 7), b"%d" % number + b"." * 30_000)]
        if number % 5 == 4:
            pairs.append((b"key %d" % (number % 3), None))
        append(node, pairs, producer_id=10 + number, producer_epoch=0, base_sequence=0)


def append(node: Node, pairs: list[tuple[bytes, bytes | None]], **batch_arguments: Any) -> None:
    builder = BatchBuilder(**batch_arguments)
    for key, value in pairs:
        builder.append(node.now_ms, key, value)
    log(node).append_as_leader(builder.build(), log(node).leader_epochs.latest, node.now_ms)
    node.run()


def fetched(node: Node) -> bytes:
    """All batches that a consumer gets, of a log with gaps."""
    client, found, offset = node.connect(), b"", 0
    while True:
        data = partitions_of(client.ask(fetch("t", wanted(offset=offset)), 12))[0]
        assert data.error_code == 0
        if not data.records:
            return found
        found += bytes(data.records)
        offset = [header for _, header in headers(bytes(data.records))][-1].next_offset


def test_a_cleaned_log_arrives_byte_for_byte() -> None:
    """Gaps in the offsets, batches that were emptied, delete horizons, and aborted transactions."""
    node = compacted()
    write_keys(node, 120)
    node.advance(60_000)
    assert node.broker.logs.cleaner.cleaned_logs == 1
    node.advance(120_000)  # the old files have gone
    before, expected = files(node, 0), fetched(node)
    aborted_before = [entry for each in log(node).segments.all for entry in each.aborted_index.all(node.disks[0])]
    bases = log(node).segments.bases
    batches = [header for path, data in before.items() if path.endswith(LOG) for _, header in headers(data)]
    assert len(bases) > 2
    assert any(later.base_offset > earlier.next_offset for earlier, later in pairwise(batches))
    assert any(not header.record_count for header in batches)
    assert any(header.delete_horizon_ms is not None for header in batches)
    assert any(path.endswith(ABORTED_INDEX) and base_of(path) < bases[-2] for path in before)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(2_000)
    assert moved(node)
    placed = [operation for operation in node.ran if isinstance(operation, PlaceSegment)]
    assert len(placed) == len(bases) - 1
    after = files(node, 1)
    closed = [path for path in before if path.endswith((LOG, *INDEX_SUFFIXES)) and base_of(path) < bases[-2]]
    assert {path: after.get(path) for path in closed} == {path: before[path] for path in closed}
    for suffix in (LOG, ABORTED_INDEX):  # the last one is so small that the rest goes on in it
        path = f"t-0/{file_name(bases[-2], suffix)}"
        assert after[path].startswith(before[path])
    assert fetched(node) == expected
    node.restart()
    assert fetched(node) == expected
    aborted_after = [entry for each in log(node).segments.all for entry in each.aborted_index.all(node.disks[1])]
    assert len(aborted_after) == len(aborted_before) > 20
    assert aborted_after == aborted_before


def test_a_pass_over_a_log_that_a_move_begins_meanwhile_counts_for_nothing() -> None:
    node = compacted()
    write_keys(node, 120)
    node.held = lambda operation: isinstance(operation, CleanLog)
    node.advance(60_000)
    (running,) = node.waiting_operations
    expected = fetched(node)
    node.held = lambda operation: isinstance(operation, CleanLog | ReadBytes)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(100)
    node.waiting_operations.remove(running)
    outcome = running.run(node.disks[0])  # type: ignore[arg-type]
    assert [path for path in node.disks[0].paths() if path.endswith(CLEANED)]
    node.broker.operation_completed(running, outcome, node.now_ms)
    node.run()
    cleaner = node.broker.logs.cleaner
    assert cleaner.cleaned_logs == 0
    assert not [path for path in node.disks[0].paths() if path.endswith(CLEANED)]
    assert not cleaner.uncleanable
    node.let_go()
    node.advance(2_000)
    assert moved(node)
    assert fetched(node) == expected, "the pass has changed nothing"
    node.advance(120_000)
    assert cleaner.cleaned_logs == 1, "where it has moved to"
    assert len(fetched(node)) < len(expected) / 3
