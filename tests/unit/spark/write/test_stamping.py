"""What tasks stage and the driver stamps: batches that parse, with valid CRCs, and sequences without a gap."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.records.batch import MAX_SEQUENCE, check_crc, headers, increment_sequence, read_header
from penstock.records.compression import Codec, Contexts
from penstock.records.partitioner import partition_for_key
from penstock.records.reader import bounded, records
from penstock.spark.write.rows import Row, SinkError
from penstock.spark.write.staging import Staged, StagedBatch, Stager, StagingPlan
from penstock.spark.write.stamping import check_staged, planned, stamp

NOW_MS = 1_700_000_000_000
Header = tuple[str, bytes | None]
RecordRow = tuple[bytes | None, bytes | None, int, int, list[Header] | None]


def some_rows(random: Random) -> list[RecordRow]:
    """Rows of a task: with and without keys, partitions, times and headers."""

    def row() -> RecordRow:
        heads: list[Header] = [("é", b"1"), ("n", None)][: random.randrange(3)]
        return (
            random.choice([None, b"", random.randbytes(random.randrange(200))]),
            random.choice([None, b"", random.randbytes(8)]),
            random.choice([-1, -1, 0, 2]),
            random.choice([0, NOW_MS - 5, 7]),
            heads or random.choice([None, []]),
        )

    return [row() for _ in range(random.randrange(40))]


def staged(task: list[RecordRow], plan: StagingPlan, first: int = 0) -> Staged:
    """The stage of a task with these rows."""
    content = bytearray()
    stager = Stager(plan, content.extend, first, NOW_MS)
    values, keys, partitions, times, heads = zip(*task, strict=True) if task else ((),) * 5
    stager.add(Row(("t",) * len(task), values, keys, partitions, times, heads))
    return Staged("query", 0, stager.finish(), content=bytes(content))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), codec=st.sampled_from(list(Codec)), batch_bytes=st.sampled_from([1, 150, 10_000]))
def test_stamped_batches_are_those_of_a_producer(seed: int, codec: Codec, batch_bytes: int) -> None:
    random = Random(seed)
    tasks = [some_rows(random) for _ in range(random.randrange(4))]
    identity = (random.randrange(2**63), random.randrange(2**15))
    plan = StagingPlan("t", 3, codec, None, batch_bytes)
    decompress = bounded(Contexts())
    found: list[tuple[bytes | None, bytes | None, int, int, list[Header]]] = []
    for partition, batches in planned([staged(task, plan, first) for first, task in enumerate(tasks)]).items():
        sequence = 0
        for each in batches:
            assert each.base_sequence == sequence
            start = each.batch.position
            batch = bytearray(each.staged.content[start : start + each.batch.size_bytes])
            check_staged(batch, each.batch, "here")
            stamp(batch, *identity, each.base_sequence)
            ((position, header),) = headers(batch)
            assert header.size_bytes == len(batch)
            check_crc(batch, position, header)
            assert header.is_transactional
            assert not header.is_control
            assert (header.producer_id, header.producer_epoch, header.base_sequence) == (*identity, sequence)
            assert header.compression is codec
            got = list(records(batch, header, position, decompress))
            assert len(got) == header.record_count == each.batch.records == header.last_offset_delta + 1
            found += [(r.value, r.key, partition, r.timestamp_ms, list(r.headers)) for r in got]
            sequence = increment_sequence(sequence, header.record_count)
    wanted = [row for task in tasks for row in task]
    assert len(found) == len(wanted)
    placed = [partition_for_key(row[1], 3) if row[2] == -1 and row[1] is not None else row[2] for row in wanted]
    for place, (value, key, _, time_ms, heads) in sorted(zip(placed, wanted, strict=True), key=lambda row: -row[0]):
        match = next(
            each
            for each in found
            if each[:2] == (value, key) and place in (-1, each[2]) and each[3:] == (time_ms or NOW_MS, heads or [])
        )
        found.remove(match)


def test_sequences_wrap_as_kafkas_do() -> None:
    batches = tuple(StagedBatch(0, 0, 100, records) for records in (MAX_SEQUENCE, 1, 5))
    assert [each.base_sequence for each in planned([Staged("q", 0, batches)])[0]] == [0, MAX_SEQUENCE, 0]


def test_order_is_that_of_the_tasks() -> None:
    plan = StagingPlan("t", 1, Codec.NONE, None, 1)
    stages = [staged([(value, None, -1, 0, None)] * 2, plan) for value in (b"a", b"b")]
    assert [each.staged for each in planned(stages)[0]] == [stages[0]] * 2 + [stages[1]] * 2


def test_rows_without_a_key_stay_until_the_batch_is_full_and_tasks_begin_apart() -> None:
    plan = StagingPlan("t", 3, Codec.NONE, None, 100)
    keyless: list[RecordRow] = [(b"x" * 30, None, -1, 0, None)] * 6
    assert [(each.partition, each.records) for each in staged(keyless, plan, 2).batches] == [(2, 2), (0, 2), (1, 2)]


@pytest.mark.parametrize("asked", [3, -2])
def test_a_partition_that_is_not_there_is_named(asked: int) -> None:
    plan = StagingPlan("counts", 3, Codec.NONE, None, 100)
    with pytest.raises(SinkError, match=f"topic counts has partitions 0 to 2; a row's column `partition` is {asked}"):
        staged([(b"x", None, asked, 0, None)], plan)


def test_every_damage_to_a_staged_batch_is_found() -> None:
    plan = StagingPlan("t", 1, Codec.LZ4, None, 1000)
    stage = staged([(b"value", b"key", -1, 0, None)] * 3, plan)
    (batch,) = stage.batches
    covered = [*range(8, 12), *range(16, len(stage.content))]  # a leader writes the offset and its epoch itself
    for position in covered:
        damaged = bytearray(stage.content)
        damaged[position] ^= 0x40
        with pytest.raises(SinkError, match=r"file-7 is damaged at byte 0: .* Nothing was committed"):
            check_staged(damaged, batch, "file-7")
    for content in (b"", stage.content[:-1], stage.content + b"x"):
        with pytest.raises(SinkError, match="is damaged"):
            check_staged(bytearray(content), batch, "file-7")


def test_a_batch_that_a_producer_has_is_not_taken_for_a_staged_one() -> None:
    (batch,) = (stage := staged([(b"v", None, -1, 0, None)], StagingPlan("t", 1, Codec.NONE, None, 1000))).batches
    stamped = bytearray(stage.content)
    stamp(stamped, 7, 0, 0)
    assert read_header(stamped).producer_id == 7
    with pytest.raises(PenstockError, match="is damaged"):
        check_staged(stamped, batch, "here")
    assert struct.unpack_from(">h", stamped, 21) == (0x10,)
