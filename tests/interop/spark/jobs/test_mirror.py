"""The job `mirror` keeps everything of a record but its offset, goes on where it was, and says when it cannot."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from interop.kafka_peer import KafkaPeer
from interop.spark.load.cutting import TOPIC, Cut
from support.upgraded import content, upgraded

from penstock.client.admin import (
    Change,
    ConfigOperation,
    Resource,
    ResourceType,
    alter_configs,
    create_partitions,
    delete_topics,
    wait_for_topic,
)
from penstock.client.client import LATEST, Client
from penstock.client.features import UpgradeType, describe_features, update_features
from penstock.client.transactional import TRANSACTION_VERSION
from penstock.records.batch import headers
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.isolation import AbortedTransactions
from penstock.records.reader import records
from penstock.records.run import SeenEpoch
from penstock.testing.broker import LocalBroker

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.errors import ConfigError, CorruptRecordError, PenstockError, RequestError, UnreachableError
from penstock.pipelines.jobs.mirror import Mirror, check
from penstock.pipelines.jobs.mirror_batches import taken
from penstock.pipelines.jobs.mirror_progress import PROGRESS, Place, Reached, decoded, key_of, value_of
from penstock.pipelines.jobs.mirror_sending import Step
from penstock.pipelines.jobs.mirror_topics import Choice, own_configs
from penstock.spark.read.plan import DataLossError

SET = ConfigOperation.SET
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


def contents(broker: LocalBroker | KafkaPeer, topic: str, partition: int) -> list[Got]:
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


async def set_level(bootstrap: str, level: int) -> None:
    async with Client(bootstrap) as client:
        (now,) = [each.level for each in await describe_features(client, [1]) if each.name == TRANSACTION_VERSION]
        if now != level:
            await update_features(client, {TRANSACTION_VERSION: (level, UpgradeType.SAFE_DOWNGRADE)})


def mirrored(mirror: Mirror) -> int:
    """Steps until there is nothing left; how many records were passed on."""
    count = 0
    while (did := mirror.step()) is not None:
        count += did.rows
    return count


def mirror_of(source: LocalBroker, target: LocalBroker, topic: str, **more: Any) -> Mirror:
    choice = more.pop("choice", Choice([topic]))
    return Mirror((source.bootstrap, target.bootstrap), choice, more.pop("mirror_id", topic), **more)


def rounds(mirror: Mirror) -> int:
    """All there is, and the end of the mirror."""
    try:
        return mirrored(mirror)
    finally:
        mirror.close()


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_keys_values_headers_times_and_partitions_are_kept(
    source: LocalBroker, target: LocalBroker, codec: str
) -> None:
    topic = f"kept-{codec}"
    source.create_topic(topic, partitions=2)
    publish(source, topic, 0, 100, codec)
    mirror = mirror_of(source, target, topic)
    assert mirrored(mirror) == 100
    publish(source, topic, 100, 50, codec)
    assert mirrored(mirror) == 50
    mirror.close()
    for partition in range(2):
        assert contents(target, topic, partition) == contents(source, topic, partition)


def test_batches_that_are_in_flight_together_arrive_in_order(source: LocalBroker, target: LocalBroker) -> None:
    async def publish_apart() -> None:
        async with Client(source.bootstrap) as client:
            for number in range(40):
                builder = BatchBuilder()
                builder.append(START_MS, None, b"%d" % number, ())
                await client.produce("apart", 0, builder.build())

    source.create_topic("apart")
    asyncio.run(publish_apart())
    mirror = mirror_of(source, target, "apart")
    assert mirrored(mirror) == 40
    mirror.close()
    assert [got[4] for got in contents(target, "apart", 0)] == [b"%d" % number for number in range(40)]


def test_after_a_stop_it_goes_on_where_it_was(source: LocalBroker, target: LocalBroker) -> None:
    source.create_topic("resumed", partitions=2)
    for first in (0, 40):
        publish(source, "resumed", first, 40)
        mirror = mirror_of(source, target, "resumed")
        assert mirrored(mirror) == 40
        mirror.close()
    assert sum(len(contents(target, "resumed", partition)) for partition in range(2)) == 80


@pytest.mark.parametrize("version", [2, 1], ids=["v2", "v1"])
def test_a_mirror_that_dies_at_any_step_doubles_and_loses_nothing(source: LocalBroker, version: int) -> None:
    """With the transaction.version of KIP-890, whose epochs count the transactions, and with the one before."""
    topic = f"died-{version}"
    source.create_topic(topic, partitions=2)
    with LocalBroker() as target:
        asyncio.run(set_level(target.bootstrap, version))
        for number, step in enumerate(Step):
            publish(source, topic, 40 * number, 40)
            dying = mirror_of(source, target, topic, reached=dies_at(step))
            with pytest.raises(Died):
                mirrored(dying)
            dying._forget = no_more  # type: ignore[method-assign]  # the dead tidy nothing up
            dying.close()
        last = mirror_of(source, target, topic)
        mirrored(last)
        publish(source, topic, 1000, 10)
        assert mirrored(last) == 10, "the same transactions go on"
        last.close()
        for partition in range(2):
            assert contents(target, topic, partition) == contents(source, topic, partition)


async def no_more() -> None:
    return


class Died(BaseException):
    """The process's end."""


def dies_at(step: Step) -> Callable[[Step], None]:
    def reached(found: Step) -> None:
        if found is step:
            raise Died

    return reached


def test_a_second_mirror_of_the_id_fences_the_first_and_records_come_once(
    source: LocalBroker, target: LocalBroker
) -> None:
    source.create_topic("fenced", partitions=2)
    publish(source, "fenced", 0, 10)
    first = mirror_of(source, target, "fenced")
    assert mirrored(first) == 10
    second = mirror_of(source, target, "fenced")
    publish(source, "fenced", 10, 10)
    assert mirrored(second) == 10
    publish(source, "fenced", 20, 10)
    with pytest.raises(PenstockError, match="If another mirror runs with the id fenced"):
        first.step()
    assert mirrored(first) == 10, "it takes the mirror over again"
    first.close()
    second.close()
    for partition in range(2):
        assert contents(target, "fenced", partition) == contents(source, "fenced", partition)


def test_topics_of_a_pattern_are_found_while_it_runs_and_made_like_those_of_the_source(
    source: LocalBroker, target: LocalBroker
) -> None:
    choice = Choice(pattern=r"shop\..*", prefix="a.")
    mirror = mirror_of(source, target, "shop", choice=choice, topics_ms=0, starting=LATEST)
    assert mirrored(mirror) == 0
    source.create_topic("shop.orders", 2, {"max.message.bytes": "2000000", "min.insync.replicas": "1"})
    source.create_topic("shopping", 2)
    for topic in ("shop.orders", "shopping"):
        publish(source, topic, 0, 10)
    assert mirrored(mirror) == 10, "what begins later begins at its start"
    resource = Resource(ResourceType.TOPIC, "a.shop.orders")
    assert asyncio.run(own(target, "a.shop.orders")) == {"max.message.bytes": "2000000"}

    async def change() -> None:
        async with Client(source.bootstrap) as client:
            await create_partitions(client, "shop.orders", 3)
            await wait_for_topic(client, "shop.orders", expected=3)
            changes = [Change("max.message.bytes", SET, "3000000"), Change("retention.ms", SET, "-1")]
            await alter_configs(client, Resource(ResourceType.TOPIC, "shop.orders"), changes)
        async with Client(target.bootstrap) as client:
            await alter_configs(client, resource, [Change("segment.bytes", SET, "2000000")])

    asyncio.run(change())
    mirror._configs_at = 0.0
    mirrored(mirror)
    mirror.close()
    assert len(contents(target, "a.shop.orders", 2)) == 0
    assert asyncio.run(own(target, "a.shop.orders")) == {"max.message.bytes": "3000000", "retention.ms": "-1"}
    assert "a.shopping" not in asyncio.run(names(target))


async def own(broker: LocalBroker, topic: str) -> dict[str, str]:
    async with Client(broker.bootstrap) as client:
        return (await own_configs(client, [topic]))[topic]


async def names(broker: LocalBroker) -> list[str]:
    async with Client(broker.bootstrap) as client:
        return await client.topic_names()


async def drop(broker: LocalBroker, topic: str) -> None:
    async with Client(broker.bootstrap) as client:
        assert await delete_topics(client, [topic]) == {topic: None}


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_was_made_again_is_mirrored_from_its_start(
    source: LocalBroker, target: LocalBroker, side: str
) -> None:
    topic = f"again-{side}"
    source.create_topic(topic, 2)
    publish(source, topic, 0, 20)
    mirror = mirror_of(source, target, topic, topics_ms=0)
    assert mirrored(mirror) == 20
    before = [contents(target, topic, partition) for partition in range(2)]
    if side == "source":
        asyncio.run(drop(source, topic))
        source.create_topic(topic, 2)
        publish(source, topic, 100, 30)
        assert mirrored(mirror) == 30
    else:
        asyncio.run(drop(target, topic))
        before = [[], []]
        while not (count := mirrored(mirror)):  # until the target's metadata have heard of it
            continue
        assert count == 20
    mirror.close()
    for partition in range(2):
        assert contents(target, topic, partition) == before[partition] + contents(source, topic, partition)


def test_fewer_partitions_at_the_target_become_as_many(source: LocalBroker, target: LocalBroker) -> None:
    source.create_topic("wide", partitions=3)
    target.create_topic("wide", partitions=1)
    publish(source, "wide", 0, 10)
    assert rounds(mirror_of(source, target, "wide")) == 10
    assert [len(contents(target, "wide", partition)) for partition in range(3)] == [5, 5, 0]


def test_what_cannot_be_is_said(source: LocalBroker, target: LocalBroker) -> None:
    with pytest.raises(RequestError, match="topic nowhere: the source has none"):
        rounds(mirror_of(source, target, "nowhere"))
    with pytest.raises(ConfigError, match="source and target are the same cluster"):
        rounds(mirror_of(source, source, "nowhere"))
    source.create_topic("__penstock_sinks", 1)
    with pytest.raises(ConfigError, match="cannot be mirrored into __penstock_sinks, in which the target keeps"):
        rounds(mirror_of(source, target, "__penstock_sinks"))
    with socket.socket() as taken_port:
        taken_port.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{taken_port.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=f"the target of the mirror: cannot reach {gone}"):
            rounds(Mirror((source.bootstrap, gone), Choice(["nowhere"]), "m"))


def test_a_batch_that_is_too_large_for_the_target_is_named_and_waits(source: LocalBroker, target: LocalBroker) -> None:
    source.create_topic("large", 2)
    target.create_topic("large", 2, {"max.message.bytes": "100"})
    publish(source, "large", 0, 50)
    with pytest.raises(PenstockError, match=r"a batch for large-\d is larger than the topic's max.message.bytes"):
        rounds(mirror_of(source, target, "large", choice=Choice(["large"], configs=False)))
    assert [contents(target, "large", partition) for partition in range(2)] == [[], []]
    mirror = mirror_of(source, target, "large")
    mirror._configs_at = 0.0
    assert rounds(mirror) == 50, "the source's configs let it through"


def test_a_topic_of_progress_that_forgets_is_refused(source: LocalBroker) -> None:
    with LocalBroker() as target:
        target.create_topic(PROGRESS)
        with pytest.raises(PenstockError, match=f"topic {PROGRESS} must have cleanup.policy=compact, it has delete"):
            rounds(mirror_of(source, target, "any"))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "topics or topic_pattern must say"),
        ({"topic_pattern": "("}, "topic_pattern is no regular expression"),
        ({"topics": ["a"], "id": "a b"}, "id must be 1 to 200 letters"),
        ({"topics": ["a"]}, None),
    ],
)
def test_options_are_checked_together(given: dict[str, Any], problem: str | None) -> None:
    found = check({"topics": [], "topic_pattern": None, "id": None, "to_command_config": None, **given})
    assert (found == []) if problem is None else found[0].startswith(problem)


def test_append_times_become_the_records_own(source: LocalBroker, target: LocalBroker) -> None:
    source.create_topic("appended", partitions=2, configs={"message.timestamp.type": "LogAppendTime"})
    publish(source, "appended", 0, 10)
    mirror = mirror_of(source, target, "appended")
    assert mirrored(mirror) == 10
    mirror.close()
    before, after = contents(source, "appended", 0), contents(target, "appended", 0)
    assert [record[2:] for record in after] == [record[2:] for record in before]
    assert {record[1] for record in after} == {1}


def test_what_the_source_deleted_too_early_is_an_error_unless_allowed(source: LocalBroker, target: LocalBroker) -> None:
    source.create_topic("overtaken", 2)
    publish(source, "overtaken", 0, 20)
    assert rounds(mirror_of(source, target, "overtaken")) == 20
    publish(source, "overtaken", 20, 20)
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    admin.delete_records([TopicPartition("overtaken", 0, 15)])[TopicPartition("overtaken", 0)].result(20)
    with pytest.raises(DataLossError, match="overtaken-0: the mirror is at 10, the source has 15 to 20"):
        rounds(mirror_of(source, target, "overtaken"))
    assert rounds(mirror_of(source, target, "overtaken", allow_data_loss=True)) == 15
    assert rounds(mirror_of(source, target, "overtaken")) == 0


@pytest.mark.parametrize("more", [40, 0], ids=["log_grew_beyond", "log_is_shorter"])
def test_after_an_unclean_election_it_goes_on_where_the_histories_part(
    target: LocalBroker, tmp_path: Path, more: int
) -> None:
    """Not at the mirror's offset, where the log goes on otherwise, nor at the first: all would come twice."""
    cut = Cut(tmp_path)
    name = f"{more}-{TOPIC}"

    def mirror(**allow: bool) -> Mirror:
        choice = Choice([TOPIC], prefix=f"{more}-")
        return Mirror((cut.broker.bootstrap, target.bootstrap), choice, name, **allow)

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


@pytest.mark.parametrize(
    "value", [b"", b"[]", b'{"version": 2}', b'{"version": 1, "offset": null, "last_epoch": null}']
)
def test_progress_that_cannot_be_read_is_named(value: bytes) -> None:
    place = Place(UUID(int=1), UUID(int=2), 3)
    reached = Reached(5, SeenEpoch(1, 4))
    assert decoded(key_of("m", place), value_of(reached, "t", "u")) == (place, reached)
    with pytest.raises(PenstockError, match=f"topic {PROGRESS} of the target has a record that this version cannot"):
        decoded(key_of("m", place), value)


@pytest.mark.parametrize(
    ("kills", "peer"),
    [
        pytest.param(3, LocalBroker, id="3", marks=pytest.mark.slow),
        pytest.param(20, LocalBroker, id="20", marks=[pytest.mark.slow, pytest.mark.long]),
        pytest.param(5, KafkaPeer, id="5-kafka", marks=[pytest.mark.slow, pytest.mark.long, pytest.mark.java]),
    ],
)
def test_a_mirror_that_is_killed_again_and_again_copies_each_record_once(
    kills: int, peer: Callable[[], LocalBroker | KafkaPeer]
) -> None:
    """While producers send, with commits and aborts at the source, and with steps of all kinds to be killed at."""
    script = Path(__file__).with_name("killed_mirror.py")
    with LocalBroker() as source, peer() as target:
        source.create_topic("killed", 3)
        transactions = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": "t"})
        transactions.init_transactions()
        sent = 0

        def run(*, killed_at: str) -> int:
            command = [sys.executable, str(script), source.bootstrap, target.bootstrap, "killed", killed_at]
            return subprocess.run(command, timeout=120, check=False).returncode

        for number in range(kills + 1):
            for aborted in (False, True):
                transactions.begin_transaction()
                for key in range(sent, sent + 500):
                    value = b"aborted" if aborted else b"%d" % key
                    transactions.produce("killed", key=b"%d" % key, value=value, partition=key % 3)
                assert transactions.flush(60) == 0
                transactions.abort_transaction() if aborted else transactions.commit_transaction()
            sent += 500
            step = list(Step)[number % len(Step)]
            if number < kills:
                assert run(killed_at=f"{step.name}:1") == -signal.SIGKILL
        assert run(killed_at="") == 0
        found = [got for partition in range(3) for got in contents(target, "killed", partition)]
        assert Counter(got[3] for got in found) == Counter(b"%d" % key for key in range(sent))
        assert all(got[4] == got[3] for got in found)


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


@pytest.mark.parametrize("offsets", [[5, 6, 7], [5, 8, 9]], ids=["as_it_is", "written_anew"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_broken_batch_is_not_passed_on_with_a_new_crc(offsets: Sequence[int], codec: Codec) -> None:
    broken = bytearray(batch(offsets, codec))
    broken[-2] ^= 1
    with pytest.raises(CorruptRecordError, match="the batch at offset 5 is corrupt"):
        values_of(bytes(broken))


def test_messages_of_before_kafka_0_11_are_passed_on_as_batches() -> None:
    some = upgraded(1, messages=10, batches=0)
    found = values_of(content(some), start=some[3].records[0].offset)
    assert found == [[record.value for record in entry.records] for entry in some[3:]]
    with pytest.raises(CorruptRecordError):
        values_of(some[0].data[:-1] + bytes([some[0].data[-1] ^ 1]))
