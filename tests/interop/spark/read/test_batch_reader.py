"""The batch reader against a running broker, called as Spark calls it: where reads begin and end, what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from penstock.errors import RequestError
from penstock.spark.read.plan import DataLossError
from penstock.testing.broker import LocalBroker

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from interop.spark.read.driving import batch, consumed, create, delete_records, keys, publish

FIRST_MS = 1_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """Topics clicks and orders with 100 records in each of 3 partitions; a millisecond apart, from FIRST_MS on."""
    with LocalBroker() as broker:
        for topic in ("clicks", "orders"):
            create(broker.bootstrap, topic, 3, retention_ms="-1")  # the records say that they are of 1970
            for partition in range(3):
                numbers = range(partition * 100, partition * 100 + 100)
                publish(broker.bootstrap, topic, partition, numbers.start, numbers.stop, first_ms=FIRST_MS)
        yield broker.bootstrap


def offsets(rows: list[tuple[object, ...]]) -> list[tuple[object, object]]:
    return [(row[1], row[2]) for row in rows]


def test_a_read_is_what_a_consumer_gets(broker: str) -> None:
    assert batch(broker, subscribe="clicks,orders") == consumed(broker, ["clicks", "orders"])


def test_offsets_bound_a_read_on_both_sides(broker: str) -> None:
    rows = batch(
        broker,
        assign='{"clicks": [0, 2]}',
        startingOffsets='{"clicks": {"0": 90, "2": -2}}',
        endingOffsets='{"clicks": {"0": -1, "2": 5}}',
    )
    assert offsets(rows) == [*((0, offset) for offset in range(90, 100)), *((2, offset) for offset in range(5))]


def test_times_bound_a_read_on_both_sides(broker: str) -> None:
    start, end = str(FIRST_MS + 110), str(FIRST_MS + 120)
    rows = batch(broker, subscribe="clicks", startingTimestamp=str(FIRST_MS), endingTimestamp=end)
    assert keys(rows) == list(range(120))
    rows = batch(broker, assign='{"clicks": [1]}', startingTimestamp=start, endingTimestamp=end)
    assert keys(rows) == list(range(110, 120))


def test_times_can_differ_from_partition_to_partition(broker: str) -> None:
    rows = batch(
        broker,
        subscribe="clicks",
        startingOffsetsByTimestamp=f'{{"clicks": {{"0": {FIRST_MS + 95}, "1": {FIRST_MS}, "2": {FIRST_MS + 290}}}}}',
        endingOffsetsByTimestamp=f'{{"clicks": {{"0": 99999999999, "1": {FIRST_MS + 103}, "2": {FIRST_MS + 295}}}}}',
    )
    assert keys(rows) == [*range(95, 103), *range(290, 295)]


def test_a_time_beyond_the_last_record_is_an_error_or_nothing(broker: str) -> None:
    late = str(int(time.time() * 1000) + 3_600_000)
    with pytest.raises(RequestError, match="no record at or after the starting time"):
        batch(broker, subscribe="clicks", startingTimestamp=late)
    assert batch(broker, subscribe="clicks", startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (0, 5000, "offsets 0 to 5000 were asked for, the brokers have 0 to 100"),
        (5000, -1, "offset 5000 is to be the first, the brokers have 0 to 100"),
    ],
)
def test_offsets_that_are_not_there_are_an_error_unless_loss_is_accepted(
    broker: str, start: int, end: int, said: str
) -> None:
    bounds = {"startingOffsets": f'{{"orders": {{"0": {start}}}}}', "endingOffsets": f'{{"orders": {{"0": {end}}}}}'}
    with pytest.raises(DataLossError, match=f"orders-0: {said}; failOnDataLoss = false"):
        batch(broker, assign='{"orders": [0]}', **bounds)
    rows = batch(broker, assign='{"orders": [0]}', failOnDataLoss="false", **bounds)
    assert len(rows) == (100 if start == 0 else 0)


def test_offsets_that_retention_took_are_an_error_unless_loss_is_accepted(broker: str) -> None:
    create(broker, "expired", 1)
    publish(broker, "expired", 0, 0, 10)
    delete_records(broker, "expired", 0, 6)
    bounds = {"subscribe": "expired", "startingOffsets": '{"expired": {"0": 2}}'}
    with pytest.raises(DataLossError, match="offsets 2 to 10 were asked for, the brokers have 6 to 10"):
        batch(broker, **bounds)
    assert keys(batch(broker, failOnDataLoss="false", **bounds)) == [6, 7, 8, 9]
    assert keys(batch(broker, subscribe="expired")) == [6, 7, 8, 9], "earliest is where the log begins now"


def test_a_read_that_ends_before_it_begins_is_refused(broker: str) -> None:
    with pytest.raises(RequestError, match="clicks-0 would be read from 50 on and end before it, at 20"):
        batch(
            broker,
            assign='{"clicks": [0]}',
            startingOffsets='{"clicks": {"0": 50}}',
            endingOffsets='{"clicks": {"0": 20}}',
        )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_reads_back(broker: str, codec: str) -> None:
    topic = f"codec-{codec}"
    create(broker, topic, 1)
    publish(broker, topic, 0, 0, 60, **{"compression.type": codec})
    assert batch(broker, subscribe=topic) == consumed(broker, [topic])


def test_a_topic_that_does_not_exist_is_named(broker: str) -> None:
    with pytest.raises(RequestError, match="topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"):
        batch(broker, subscribe="nowhere")


def test_a_pattern_that_matches_nothing_reads_nothing(broker: str) -> None:
    assert batch(broker, subscribePattern="no.*such") == []
    assert {row[0] for row in batch(broker, subscribePattern="(clicks|orders)")} == {"clicks", "orders"}
