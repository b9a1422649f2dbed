"""Imports: what a batch carries, going on, and the partitions that are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from support.import_partition import TOPIC_ID, Connection, Partition, source

from penstock.client import importing
from penstock.client.importing import PartitionImport, Target
from penstock.errors import ErrorCode, RequestError, UsageError
from penstock.records.batch import read_header
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.legacy.formats import LegacyRecord

TARGET = Target("clicks", TOPIC_ID, 0, batch_bytes=400)


def run(
    partition: Partition, records: list[LegacyRecord], target: Target = TARGET, connection: Connection | None = None
) -> PartitionImport:
    work = PartitionImport(connection or Connection(partition), target, lambda: iter(records))  # type: ignore[arg-type]
    asyncio.run(work.run())
    return work


def batch_of(records: list[LegacyRecord], offset: int) -> bytes:
    """As an import would append them there."""
    builder = BatchBuilder(producer_id=TARGET.producer_id, producer_epoch=0, base_sequence=offset)
    for record in records:
        builder.append(record.timestamp_ms, record.key, record.value)
    return bytes(builder.build())


def test_each_batch_has_the_one_producer_of_the_topic_and_its_offset_as_sequence() -> None:
    partition = Partition()
    work = run(partition, source(30))
    headers = [read_header(batch) for batch in partition.batches]
    assert len(headers) > 2
    assert {header.producer_id for header in headers} == {TARGET.producer_id}
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]
    assert (work.found, work.position) == (0, 30)
    assert TARGET.producer_id >= 1 << 62
    assert replace(TARGET, topic_id=UUID(int=8)).producer_id != TARGET.producer_id


def test_what_is_there_is_not_appended_again() -> None:
    partition = Partition()
    run(partition, source(20))
    work = run(partition, source(33))
    assert (work.found, work.position) == (20, 33)
    assert partition.content() == [record[1:4] for record in source(33)]


class Overtaken(Connection):
    """Another run appends the first two of the records that this one is about to append, once."""

    async def produce(self, topic: str, partition: int, batch: bytes | bytearray, **ids: UUID) -> tuple[int, int]:
        if self.partition.end == 0:
            self.partition.append(batch_of(source(2), 0))
        return await super().produce(topic, partition, batch, **ids)


def test_who_is_overtaken_goes_on_within_the_batch() -> None:
    partition = Partition()
    run(partition, source(20), connection=Overtaken(partition))
    assert partition.content() == [record[1:4] for record in source(20)]
    assert read_header(partition.batches[1]).base_offset == 2


@pytest.mark.parametrize("codec", Codec)
def test_no_batch_of_several_records_is_larger_than_the_topic_takes(codec: Codec) -> None:
    """What cannot be compressed grows, and the broker refused the batch though it would take each of its records."""
    random = Random(1)
    for size_bytes in (100, 50_000, 249_800):
        batch_bytes = 61 + 2 * (32 + size_bytes)
        content = [LegacyRecord(n, 5, None, random.randbytes(size_bytes)) for n in range(6)]
        partition = Partition()
        run(partition, content, replace(TARGET, codec=codec, batch_bytes=batch_bytes))
        assert partition.content() == [record[1:4] for record in content]
        assert max(map(len, partition.batches)) <= batch_bytes


def test_a_batch_has_one_codec_that_of_the_source_or_the_one_asked_for() -> None:
    partition = Partition()
    run(partition, source(6, codecs=(0, 1)))
    assert [read_header(batch).compression for batch in partition.batches] == [Codec.NONE, Codec.GZIP] * 3
    partition = Partition()
    run(partition, source(6, codecs=(0, 1)), replace(TARGET, codec=Codec.ZSTD))
    assert [read_header(batch).compression for batch in partition.batches] == [Codec.ZSTD]


def test_times_too_far_apart_for_a_batch_are_in_two() -> None:
    partition = Partition()
    records = [LegacyRecord(0, -1, None, b"a"), LegacyRecord(1, 2**63 - 1, None, b"b")]
    run(partition, records)
    assert partition.content() == [record[1:4] for record in records]
    assert len(partition.batches) == 2


def test_a_partition_with_records_of_others_is_refused() -> None:
    partition = Partition()
    builder = BatchBuilder()
    builder.append(1, b"k", b"v")
    partition.batches.append(bytes(builder.build()))
    with pytest.raises(UsageError, match="clicks-0 has 1 records, the last of which no import has written"):
        run(partition, source(5))
    assert len(partition.batches) == 1


def test_other_files_than_those_imported_before_are_refused() -> None:
    partition = Partition()
    run(partition, source(20))
    with pytest.raises(UsageError, match="the files have only 19"):
        run(partition, source(19))
    with pytest.raises(UsageError, match="another record at offset 1"):
        run(partition, source(25)[1:])
    assert partition.content() == [record[1:4] for record in source(20)]


def test_a_partition_whose_records_were_all_deleted_is_refused() -> None:
    partition = Partition()
    run(partition, source(20))
    partition.start = 20
    with pytest.raises(UsageError, match="is empty, but ended at 20 once"):
        run(partition, source(25))


def test_a_topic_that_was_made_again_is_not_written_to() -> None:
    partition = Partition()
    partition.topic_id = UUID(int=9)
    with pytest.raises(RequestError, match="made again") as raised:
        run(partition, source(5))
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_ID
    assert not partition.batches


class Shared(Connection):
    """Somebody else writes to the topic before our second batch."""

    async def produce(self, topic: str, partition: int, batch: bytes | bytearray, **ids: UUID) -> tuple[int, int]:
        if self.partition.end:
            builder = BatchBuilder()
            builder.append(1, None, b"other")
            data = bytes(builder.build())
            self.partition.batches.append(self.partition.end.to_bytes(8, "big") + data[8:])
        return await super().produce(topic, partition, batch, **ids)


def test_another_writer_is_noticed() -> None:
    partition = Partition()
    with pytest.raises(UsageError, match=r"should be at offset \d+ was appended at \d+: somebody else writes to it"):
        run(partition, source(20), connection=Shared(partition))


class Recreated(Connection):
    """The topic is deleted and made again once it has the first batch."""

    async def produce(self, topic: str, partition: int, batch: bytes | bytearray, **ids: UUID) -> tuple[int, int]:
        if self.partition.end:
            self.partition.batches.clear()
            self.partition.topic_id = UUID(int=8)
        return await super().produce(topic, partition, batch, **ids)


def test_nothing_is_appended_to_another_topic_of_the_name() -> None:
    partition = Partition()
    with pytest.raises(RequestError, match="clicks was deleted and made again meanwhile"):
        run(partition, source(20), connection=Recreated(partition))
    assert partition.batches == []


class Refusing(Connection):
    async def produce(self, topic: str, partition: int, batch: bytes | bytearray, **ids: UUID) -> tuple[int, int]:
        raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, "too large")


def test_a_refusal_says_what_to_do() -> None:
    partition = Partition()
    with pytest.raises(RequestError) as raised:
        run(partition, source(1), connection=Refusing(partition))
    assert "max.message.bytes" in raised.value.__notes__[0]


class Lagging(Connection):
    """The high watermark has not passed the first batch yet, for so many looks at it."""

    looks = 0

    async def offsets(self, keys: Iterable[tuple[str, int]], which: int) -> dict[tuple[str, int], Any]:
        self.looks -= 1
        if self.looks < 0:
            return await super().offsets(keys, which)
        return {key: SimpleNamespace(offset=0) for key in keys}


def lagging(partition: Partition, looks: int, monkeypatch: pytest.MonkeyPatch) -> Lagging:
    partition.append(batch_of(source(2), 0))
    monkeypatch.setattr(importing, "CLIENT_RETRY_BACKOFF_MS", 1)
    monkeypatch.setattr(importing, "IMPORT_SETTLE_MS", 20)
    connection = Lagging(partition)
    connection.looks = looks
    return connection


def test_what_is_not_replicated_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = Partition()
    run(partition, source(20), connection=lagging(partition, 5, monkeypatch))
    assert partition.content() == [record[1:4] for record in source(20)]


def test_it_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = Partition()
    with pytest.raises(RequestError, match="ends at 0, but does not take the batch"):
        run(partition, source(20), connection=lagging(partition, 10_000, monkeypatch))
    assert partition.content() == [record[1:4] for record in source(2)]
