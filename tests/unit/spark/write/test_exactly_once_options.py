"""Options of the transactional sink: what it needs, has of the producer, and refuses, and how that reads."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.records.compression import Codec
from penstock.spark.write.exactly_once import ExactlyOnce
from penstock.spark.write.options import parse

NEEDED = {
    "kafka.bootstrap.servers": "127.0.0.1:9092",
    "topic": "counts",
    "penstock.exactly.once": "true",
    "penstock.sink.id": "counts-1",
    "checkpointLocation": "/checkpoints/counts",
}


def parsed(**options: str) -> ExactlyOnce:
    found = parse({**NEEDED, **options}).exactly_once
    assert found is not None
    return found


def test_a_stream_needs_no_more_than_a_name() -> None:
    options = parsed()
    assert options.transactional_id == "penstock-sink-counts-1"
    assert options.staging == "/checkpoints/counts/penstock-staged"
    assert (options.codec, options.level, options.transaction_timeout_ms) == (Codec.LZ4, None, 60_000)
    assert (options.replaces, options.write_id) == (None, None)


def test_without_the_switch_nothing_changes() -> None:
    plain = {"kafka.bootstrap.servers": "a:1", "topic": "t"}
    assert parse(plain).exactly_once is None
    assert parse({**plain, "penstock.exactly.once": "false"}) == parse(plain)


def test_the_producers_settings_that_it_has() -> None:
    options = parsed(
        **{
            "kafka.compression.type": "zstd",
            "kafka.compression.zstd.level": "7",
            "kafka.compression.gzip.level": "1",
            "kafka.batch.size": "1000",
            "kafka.transaction.timeout.ms": "900000",
            "kafka.acks": "all",
            "kafka.max.block.ms": "5000",
            "kafka.request.timeout.ms": "200000",
            "penstock.staging": "file:///staged/here",
        }
    )
    assert (options.codec, options.level, options.batch_bytes) == (Codec.ZSTD, 7, 1000)
    assert (options.transaction_timeout_ms, options.staging) == (900_000, "/staged/here")
    assert (options.max_block_ms, options.request_timeout_ms) == (5000, 200_000)
    assert options.delivery_timeout_ms == 200_000, "a default gives way, as in Java"


@pytest.mark.parametrize(
    ("codec", "level", "taken"),
    [
        *(("gzip", level, level in (-1, 1, 9)) for level in (-2, -1, 0, 1, 9, 10, 22)),
        *(("lz4", level, level in (1, 17)) for level in (-1, 0, 1, 17, 18)),
        *(("zstd", level, level in (-131072, 0, 22)) for level in (-131073, -131072, 0, 22, 23)),
    ],
)
def test_each_codec_has_the_levels_that_kafka_gives_it(codec: str, level: int, taken: bool) -> None:
    name = f"kafka.compression.{codec}.level"
    if taken:
        assert parsed(**{"kafka.compression.type": codec, name: str(level)}).level == level
    for chosen in (codec, "none") if not taken else ():
        with pytest.raises(ConfigError, match=f"option {name} = '{level}' must be "):
            parsed(**{"kafka.compression.type": chosen, name: str(level)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penstock.exactly.once": "yes"}, "penstock.exactly.once = 'yes' must be one of true, false"),
        ({"penstock.exactly.onse": "true"}, "unknown option penstock.exactly.onse; did you mean penstock.exactly.once"),
        ({"penstock.exactly.once": "false"}, "option penstock.sink.id has a meaning only with penstock.exactly.once"),
        ({"penstock.sink.id": "a b"}, "option penstock.sink.id = 'a b' must be 1 to 200 letters"),
        ({"penstock.sink.id": ""}, "option penstock.sink.id = '' must be"),
        (
            {"checkpointLocation": "s3://bucket/x"},
            "option checkpointLocation = 's3://bucket/x' is no directory to stage",
        ),
        ({"penstock.staging": "hdfs://a/b"}, "option penstock.staging = 'hdfs://a/b' is no directory"),
        ({"kafka.linger.ms": "5"}, "option kafka.linger.ms cannot be used with penstock.exactly.once = true"),
        ({"kafka.acks": "1"}, "option kafka.acks = '1' must be all with penstock.exactly.once"),
        ({"kafka.security.protocol": "SASL_SSL"}, "option kafka.sasl.jaas.config is missing"),
        ({"kafka.sasl.username": "x"}, "option kafka.sasl.username is librdkafka's and cannot be used with"),
        (
            {"kafka.compression.type": "zip"},
            "kafka.compression.type = 'zip' must be one of none, gzip, snappy, lz4, zstd",
        ),
        ({"kafka.transaction.timeout.ms": "0"}, "kafka.transaction.timeout.ms = '0' must be a whole number from 1"),
        ({"kafka.max.block.ms": "0"}, "kafka.max.block.ms = '0' must be a whole number from 1"),
        (
            {"kafka.delivery.timeout.ms": "29999"},
            "kafka.delivery.timeout.ms = 29999 must not be below kafka.request.timeout.ms = 30000",
        ),
        ({"kafka.transaction.timeout.ms": "1m"}, "kafka.transaction.timeout.ms = '1m' must be a whole number"),
    ],
)
def test_what_cannot_be_is_named_with_what_would_be_right(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed(**options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("penstock.sink.id", "option penstock.sink.id is missing: the sink needs a name"),
        ("checkpointLocation", "option penstock.staging is missing: a directory that the driver and all executors"),
        ("topic", "option topic is missing: with penstock.exactly.once = true all rows go to one topic"),
    ],
)
def test_what_is_missing_is_named(missing: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse({name: value for name, value in NEEDED.items() if name != missing})
    assert message in str(raised.value)


def test_a_timeout_of_transactions_needs_transactions() -> None:
    with pytest.raises(ConfigError, match="only with penstock"):
        parse({"kafka.bootstrap.servers": "a:1", "topic": "t", "kafka.transaction.timeout.ms": "1000"})
