"""The job `mirror` keeps everything of a record but its offset, goes on where it was, and says when it cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from interop.spark.load.cutting import TOPIC, Cut
from support.upgraded import content, upgraded

from penstock.client.client import EARLIEST, Client
from penstock.records.batch import headers
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.isolation import AbortedTransactions
from penstock.records.reader import records
from penstock.testing.broker import LocalBroker

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.errors import CorruptRecordError, PenstockError
from penstock.pipelines.jobs.mirror import Mirror, Progress, Reached, taken
from penstock.spark.read.plan import DataLossError

START_MS = 1_769_860_800_000
Got = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@pytest.fixture(scope="module")
def source() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def publish(broker: LocalBroker, topic: str, first: int, count: int, codec: str = "none") -> None:
    """Records with everything that a record may have: headers, no value, an empty key, no key."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 20})
    keys = (b"k", b"", None)
    for i in range(first, first + count):
        producer.produce(
            topic,
            key=keys[i % 3],
            value=None if i % 5 == 0 else f"value {i}".encode(),
            headers=[("i", str(i).encode()), ("none", None)] if i % 2 else None,
            timestamp=START_MS + i,
            partition=i % 2,
        )
    assert producer.flush(30) == 0


def contents(broker: LocalBroker, topic: str, partition: int) -> list[Got]:
    """All records of a partition, without their offsets: timestamp type and time, key, value, headers."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "t", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Got] = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        kind, at = message.timestamp()
        found.append((partition, kind, at, message.key(), message.value(), tuple(message.headers() or ())))
    assert message is not None
    consumer.close()
    return found


def mirrored(mirror: Mirror) -> int:
    """Steps until there is nothing left; how many records were passed on."""
    count = 0
    while (did := mirror.step()) is not None:
        count += did.rows
    return count


def mirror_of(source: LocalBroker, target: LocalBroker, topic: str, path: Path, **more: bool) -> Mirror:
    return Mirror((source.bootstrap, target.bootstrap), {topic: topic}, Progress(path / "mirror.json"), **more)


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_keys_values_headers_times_and_partitions_are_kept(
    source: LocalBroker, target: LocalBroker, tmp_path: Path, codec: str
) -> None:
    topic = f"kept-{codec}"
    source.create_topic(topic, partitions=2)
    publish(source, topic, 0, 100, codec)
    mirror = mirror_of(source, target, topic, tmp_path)
    assert mirrored(mirror) == 100
    publish(source, topic, 100, 50, codec)
    assert mirrored(mirror) == 50
    mirror.close()
    for partition in range(2):
        assert contents(target, topic, partition) == contents(source, topic, partition)


def test_batches_that_are_in_flight_together_arrive_in_order(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    async def publish_apart() -> None:
        async with Client(source.bootstrap) as client:
            for number in range(40):
                builder = BatchBuilder()
                builder.append(START_MS, None, b"%d" % number, ())
                await client.produce("apart", 0, builder.build())

    source.create_topic("apart")
    asyncio.run(publish_apart())
    mirror = mirror_of(source, target, "apart", tmp_path)
    assert mirrored(mirror) == 40
    mirror.close()
    assert [got[4] for got in contents(target, "apart", 0)] == [b"%d" % number for number in range(40)]


def test_after_a_stop_it_goes_on_where_it_was(source: LocalBroker, target: LocalBroker, tmp_path: Path) -> None:
    source.create_topic("resumed", partitions=2)
    for first in (0, 40):
        publish(source, "resumed", first, 40)
        mirror = mirror_of(source, target, "resumed", tmp_path)
        assert mirrored(mirror) == 40
        mirror.close()
    assert sum(len(contents(target, "resumed", partition)) for partition in range(2)) == 80


def test_what_was_acknowledged_and_not_noted_before_a_crash_is_sent_again_and_nothing_is_lost(
    source: LocalBroker, target: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.create_topic("crashed", partitions=2)
    publish(source, "crashed", 0, 40)
    mirror = mirror_of(source, target, "crashed", tmp_path)

    async def topic_id(broker: LocalBroker, topic: str) -> object:
        async with Client(broker.bootstrap) as client:
            return (await client.topic(topic)).topic_id

    identity = asyncio.run(topic_id(source, "crashed"))

    def crash(progress: Progress) -> None:
        reached = progress.next("crashed", identity, 0)
        if reached is not None and reached.offset:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "save", crash)
    with pytest.raises(KeyboardInterrupt):
        mirror.step()
    monkeypatch.undo()
    mirror.close()
    again = mirror_of(source, target, "crashed", tmp_path)
    assert mirrored(again) == 40
    again.close()
    for partition in range(2):
        original = contents(source, "crashed", partition)
        assert contents(target, "crashed", partition) == original * 2


def test_more_partitions_at_the_source_are_made_at_the_target(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    source.create_topic("wide", partitions=3)
    target.create_topic("wide", partitions=1)
    publish(source, "wide", 0, 10)
    mirror = mirror_of(source, target, "wide", tmp_path)
    assert mirrored(mirror) == 10
    mirror.close()
    assert [len(contents(target, "wide", partition)) for partition in range(3)] == [5, 5, 0]


def test_append_times_become_the_records_own(source: LocalBroker, target: LocalBroker, tmp_path: Path) -> None:
    source.create_topic("appended", partitions=2, configs={"message.timestamp.type": "LogAppendTime"})
    publish(source, "appended", 0, 10)
    mirror = mirror_of(source, target, "appended", tmp_path)
    assert mirrored(mirror) == 10
    mirror.close()
    before, after = contents(source, "appended", 0), contents(target, "appended", 0)
    assert [record[2:] for record in after] == [record[2:] for record in before]
    assert {record[1] for record in after} == {1}


def test_what_the_source_deleted_too_early_is_an_error_unless_allowed(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    source.create_topic("overtaken")
    progress = Progress(tmp_path / "mirror.json")

    async def beyond() -> None:
        async with Client(source.bootstrap) as client:
            progress.advance("overtaken", (await client.topic("overtaken")).topic_id, 0, Reached(700))
            assert (await client.offsets([("overtaken", 0)], EARLIEST))["overtaken", 0].offset == 0

    asyncio.run(beyond())
    progress.save()
    mirror = mirror_of(source, target, "overtaken", tmp_path)
    with pytest.raises(DataLossError, match="overtaken-0: the mirror is at 700, the source has 0 to 0"):
        mirror.step()
    mirror.close()
    allowed = mirror_of(source, target, "overtaken", tmp_path, allow_data_loss=True)
    assert mirrored(allowed) == 0
    allowed.close()


@pytest.mark.parametrize("more", [40, 0], ids=["log_grew_beyond", "log_is_shorter"])
def test_after_an_unclean_election_it_goes_on_where_the_histories_part(
    target: LocalBroker, tmp_path: Path, more: int
) -> None:
    """Not at the mirror's offset, where the log goes on otherwise, nor at the first: all would come twice."""
    cut = Cut(tmp_path)
    name = f"{TOPIC}-{more}"

    def mirror(**allow: bool) -> Mirror:
        progress = Progress(tmp_path / "mirror.json")
        return Mirror((cut.broker.bootstrap, target.bootstrap), {TOPIC: name}, progress, **allow)

    try:
        cut.publish(20)
        first = mirror()
        assert mirrored(first) == 100
        first.close()
        cut.cut()
        if more:
            cut.publish(more)
        stopped = mirror()
        with pytest.raises(DataLossError, match=r"clicks-0: the mirror is at 100, .* goes on at 80"):
            stopped.step()
        stopped.close()
        allowed = mirror(allow_data_loss=True)
        assert mirrored(allowed) == more
        cut.publish(5)
        assert mirrored(allowed) == 5
        allowed.close()
        assert len(contents(target, name, 0)) == 100 + more + 5
    finally:
        cut.broker.stop()


def test_a_damaged_progress_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "mirror.json").write_text("[1")
    with pytest.raises(PenstockError, match=r"mirror.json is damaged"):
        Progress(tmp_path / "mirror.json")
    (tmp_path / "mirror.json").write_text(json.dumps({"t 1": {"0": 5}}))
    assert Progress(tmp_path / "mirror.json").next("t", 1, 0) == Reached(5)


def batch(offsets: Sequence[int], codec: Codec = Codec.LZ4, **more: object) -> bytes:
    builder = BatchBuilder(
        base_offset=offsets[0], codec=codec, producer_id=7, producer_epoch=1, base_sequence=3, **more
    )  # type: ignore[arg-type]
    for offset in offsets:
        builder.append(START_MS + offset, None, b"%d" % offset, offset=offset)
    return bytes(builder.build())


def values_of(view: bytes, start: int = 0, aborted: Sequence[tuple[int, int]] = ()) -> list[list[bytes | None]]:
    found = []
    for each in taken(memoryview(view), start, AbortedTransactions(aborted)):
        ((position, header),) = headers(each.batch)
        assert (header.base_offset, header.producer_id, header.is_transactional) == (0, -1, False)
        assert header.record_count == header.last_offset_delta + 1 == each.records
        found.append([record.value for record in records(each.batch, header, position)])
    return found


def test_a_batch_that_can_be_taken_whole_keeps_its_compressed_bytes() -> None:
    original = batch([5, 6, 7])
    (each,) = taken(memoryview(original), 0, AbortedTransactions(()))
    assert bytes(each.batch[61:]) == original[61:]
    assert values_of(original) == [[b"5", b"6", b"7"]]


def test_gaps_of_compaction_are_closed_and_what_is_before_the_start_is_left_out() -> None:
    assert values_of(batch([5, 8, 9]) + batch([20, 21])) == [[b"5", b"8", b"9"], [b"20", b"21"]]
    assert values_of(batch([5, 6, 7]) + batch([20, 21]), start=7) == [[b"7"], [b"20", b"21"]]


def test_aborted_batches_are_left_out_and_committed_ones_lose_their_transaction() -> None:
    both = batch([0, 1], is_transactional=True) + batch([2, 3], is_transactional=True)
    assert values_of(both, aborted=[(7, 0)]) == []
    assert values_of(both) == [[b"0", b"1"], [b"2", b"3"]]


def test_messages_of_before_kafka_0_11_are_passed_on_as_batches() -> None:
    some = upgraded(1, messages=10, batches=0)
    found = values_of(content(some), start=some[3].records[0].offset)
    assert found == [[record.value for record in entry.records] for entry in some[3:]]
    with pytest.raises(CorruptRecordError):
        values_of(some[0].data[:-1] + bytes([some[0].data[-1] ^ 1]))
