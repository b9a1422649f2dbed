"""One task of the sink, without Spark: what a broker gets, and what becomes of a task when it does not."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from interop.spark.write.reading import Record, records_of

from penstock.errors import ConfigError, PenstockError, UnreachableError
from penstock.records.partitioner import partition_for_key
from penstock.spark.write import sending
from penstock.spark.write.options import WriteOptions, parse
from penstock.spark.write.rows import SinkError
from penstock.spark.write.sink import write
from penstock.testing.broker import LocalBroker

PARTITIONS = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker({"auto.create.topics.enable": "false"}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_kept_producers() -> Iterator[None]:
    yield
    sending._KEPT.clear()


def options(bootstrap: str, topic: str | None = None, **settings: str) -> WriteOptions:
    given = {"kafka.bootstrap.servers": bootstrap, **settings}
    return parse(given if topic is None else {**given, "topic": topic})


def batch(**columns: Any) -> Any:
    return pa.record_batch(columns)


def test_keys_choose_the_partition_that_kafkas_own_producers_choose(broker: LocalBroker) -> None:
    broker.create_topic("keyed", 7)
    keys = [b"", b"\x00", b"\xff" * 9, *(f"user-{number}".encode() for number in range(500))]
    rows = batch(value=pa.array(keys), key=pa.array(keys))
    assert write(iter([rows]), options(broker.bootstrap, "keyed"), ("value", "key")).records == len(keys)
    found = records_of(broker.bootstrap, "keyed")
    assert {each.key: each.partition for each in found} == {key: partition_for_key(key, 7) for key in keys}


def test_rows_without_a_key_stay_together_for_a_while(broker: LocalBroker) -> None:
    broker.create_topic("keyless", PARTITIONS)
    rows = batch(value=pa.array([b"x"] * 1000))
    write(iter([rows]), options(broker.bootstrap, "keyless"), ("value",))
    found = records_of(broker.bootstrap, "keyless")
    changes = sum(a.partition != b.partition for a, b in itertools.pairwise(found))
    assert len(found) == 1000
    assert changes < 100  # and not one in three


def test_nulls_headers_and_times_arrive_as_they_are(broker: LocalBroker) -> None:
    broker.create_topic("whole", PARTITIONS)
    header_type = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = batch(
        value=pa.array([None, b"", b"v"]),
        key=pa.array([b"", None, b"k"]),
        partition=pa.array([1, 1, 1], pa.int32()),
        headers=pa.array([None, [("a", b"\xff"), ("a", None)], []], header_type),
        timestamp=pa.array([5_000_000, 6_000_999, None], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
    )
    before_ms = time.time_ns() // 1_000_000
    write(iter([rows]), options(broker.bootstrap, "whole"), tuple(rows.schema.names))
    found = records_of(broker.bootstrap, "whole")
    assert found[:2] == [
        Record(1, 0, b"", None, (), 5000),
        Record(1, 1, None, b"", (("a", b"\xff"), ("a", None)), 6000),
    ]
    assert found[2].timestamp_ms >= before_ms


def test_the_column_topic_sends_rows_to_several_topics(broker: LocalBroker) -> None:
    for topic in ("one", "two"):
        broker.create_topic(topic)
    rows = batch(value=pa.array([b"1", b"2", b"1"]), topic=pa.array(["one", "two", "one"]))
    write(iter([rows]), options(broker.bootstrap), ("value", "topic"))
    assert [len(records_of(broker.bootstrap, topic)) for topic in ("one", "two")] == [2, 1]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked(broker: LocalBroker, codec: str) -> None:
    broker.create_topic(f"packed-{codec}")
    rows = batch(value=pa.array([b"x" * 1000] * 500))
    write(iter([rows]), options(broker.bootstrap, f"packed-{codec}", **{"kafka.compression.type": codec}), ("value",))
    assert len(records_of(broker.bootstrap, f"packed-{codec}")) == 500
    size = sum(file.stat().st_size for file in broker.data_dir.glob(f"packed-{codec}-0/*.log"))
    assert 0 < size < 100_000


def test_a_full_queue_holds_the_task_back_and_loses_nothing(broker: LocalBroker) -> None:
    broker.create_topic("narrow")
    narrow = options(broker.bootstrap, "narrow", **{"kafka.queue.buffering.max.messages": "10"})
    rows = batch(value=pa.array([str(number).encode() for number in range(2000)]))
    write(iter([rows]), narrow, ("value",))
    assert [each.value for each in records_of(broker.bootstrap, "narrow")] == rows.column("value").to_pylist()


def test_a_worker_keeps_its_producer_from_task_to_task(broker: LocalBroker) -> None:
    broker.create_topic("kept")
    wanted = options(broker.bootstrap, "kept")
    rows = batch(value=pa.array([b"x"]))
    write(iter([rows]), wanted, ("value",))
    first = sending.take(wanted)
    sending.keep(wanted, first)
    write(iter([rows]), wanted, ("value",))
    assert sending.take(wanted) is first


def test_a_failed_task_leaves_nothing_behind_for_the_next(broker: LocalBroker) -> None:
    broker.create_topic("clean", configs={"max.message.bytes": "2000"})
    wanted = options(broker.bootstrap, "clean", **{"kafka.linger.ms": "50"})
    rows = [batch(value=pa.array([b"fine"])), batch(value=pa.array([b"x" * 5000]))]
    with pytest.raises(SinkError, match=r"a record for clean-0 was not written: .*MSG_SIZE_TOO_LARGE"):
        write(iter(rows), wanted, ("value",))
    assert not sending._KEPT
    write(iter([batch(value=pa.array([b"again"]))]), wanted, ("value",))
    assert records_of(broker.bootstrap, "clean")[-1].value == b"again"


def test_an_error_of_whoever_gives_the_rows_passes(broker: LocalBroker) -> None:
    def rows() -> Iterator[Any]:
        yield batch(value=pa.array([b"x"]))
        raise ValueError("the query failed")

    broker.create_topic("passed")
    with pytest.raises(ValueError, match="the query failed"):
        write(rows(), options(broker.bootstrap, "passed"), ("value",))
    assert not sending._KEPT


@pytest.mark.parametrize("partition", [PARTITIONS, -2])
def test_a_partition_that_is_not_there_is_named(broker: LocalBroker, partition: int) -> None:
    topic = f"outside{partition}"
    broker.create_topic(topic, PARTITIONS)
    rows = batch(value=pa.array([b"a", b"b"]), partition=pa.array([0, partition], pa.int32()))
    with pytest.raises(SinkError, match=rf"has partitions 0 to 2; a row's column `partition` is {partition}"):
        write(iter([rows]), options(broker.bootstrap, topic), ("value", "partition"))
    assert records_of(broker.bootstrap, topic) == []


def test_a_topic_that_is_not_there_is_named_in_bounded_time(broker: LocalBroker) -> None:
    wanted = options(broker.bootstrap, "nowhere", **{"kafka.max.block.ms": "300"})
    with pytest.raises(SinkError, match=r"there is no topic nowhere at 127\.0\.0\.1:"):
        write(iter([batch(value=pa.array([b"a"]))]), wanted, ("value",))


def test_a_cluster_that_makes_topics_by_itself_makes_this_one() -> None:
    with LocalBroker({"auto.create.topics.enable": "true"}) as broker:
        write(iter([batch(value=pa.array([b"a"]))]), options(broker.bootstrap, "made"), ("value",))
        assert len(records_of(broker.bootstrap, "made")) == 1


def test_nobody_at_the_address_is_an_error_in_bounded_time() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, and nobody listens
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        wanted = options(address, "t", **{"kafka.max.block.ms": "400"})
        with pytest.raises(UnreachableError, match=f"no broker at {address} answered within kafka.max.block.ms = 400"):
            write(iter([batch(value=pa.array([b"a"]))]), wanted, ("value",))


def test_a_broker_that_goes_away_fails_the_task_in_bounded_time() -> None:
    settings = {"kafka.delivery.timeout.ms": "1000", "kafka.linger.ms": "0"}
    rows = batch(value=pa.array([b"a"]))
    with LocalBroker() as broker:
        broker.create_topic("gone")
        wanted = options(broker.bootstrap, "gone", **settings)

        def stopping() -> Iterator[Any]:
            yield rows
            broker.stop()
            yield rows

        with pytest.raises(PenstockError, match=r"a record for gone.* was not written: .*MSG_TIMED_OUT"):
            write(stopping(), wanted, ("value",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kafka.foo.bar": "1"}, "unknown option kafka.foo.bar"),
        (
            {"kafka.compresion.type": "lz4"},
            r"unknown option kafka.compresion.type; did you mean kafka.compression.type\?",
        ),
        ({"kafka.compression.type": "lzz"}, 'Invalid value "lzz" for configuration property "compression'),
        ({"kafka.linger.ms": "-5"}, "value -5 is outside allowed range"),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "`acks` must be set to `all`"),
    ],
)
def test_settings_that_librdkafka_refuses_are_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sending.Sending(options("127.0.0.1:1", "t", **settings))
