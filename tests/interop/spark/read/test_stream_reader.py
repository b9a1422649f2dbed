"""The streaming reader against a running broker, called as Spark calls it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.errors import RequestError, UnreachableError
from penstock.spark.read.plan import DataLossError
from penstock.testing.broker import LocalBroker

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from interop.spark.read.driving import (
    Query,
    batch,
    consumed,
    create,
    delete,
    delete_records,
    grow,
    keys,
    publish,
)


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with LocalBroker() as broker:
        yield broker.bootstrap


@pytest.fixture
def topic(broker: str, request: pytest.FixtureRequest) -> str:
    name = request.node.name[:80].replace("[", ".").replace("]", "")
    create(broker, name, 2)
    return name


def test_a_stream_from_the_earliest_reads_what_a_consumer_does(broker: str, topic: str) -> None:
    with Query(broker, subscribe=topic, startingOffsets="earliest") as query:
        publish(broker, topic, 0, 0, 50)
        publish(broker, topic, 1, 50, 70, **{"compression.type": "zstd"})
        first = query.step()
        assert query.step() == []
        publish(broker, topic, 0, 70, 75)
        second = query.step()
    assert keys(first) == list(range(70))
    assert sorted(first + second) == sorted(consumed(broker, [topic]))


def test_a_stream_from_the_latest_reads_only_what_comes_later(broker: str, topic: str) -> None:
    publish(broker, topic, 0, 0, 5)
    with Query(broker, subscribe=topic) as query:
        assert query.step() == []
        publish(broker, topic, 0, 5, 8)
        assert keys(query.step()) == [5, 6, 7]


def test_a_stream_begins_at_offsets_and_at_times(broker: str, topic: str) -> None:
    publish(broker, topic, 0, 0, 10)
    publish(broker, topic, 1, 10, 20)
    offsets = f'{{"{topic}": {{"0": 7, "1": -1}}}}'
    with Query(broker, subscribe=topic, startingOffsets=offsets) as query:
        assert keys(query.step()) == [7, 8, 9]
    at_ms = consumed(broker, [topic])[3][3]
    with Query(broker, subscribe=topic, startingTimestamp=str(at_ms)) as query:
        assert keys(query.step())[-1] == 19
        assert query.offset["topics"][topic]["begins"]["0"] <= 3
    times = f'{{"{topic}": {{"0": {at_ms}, "1": 99999999999999}}}}'
    with pytest.raises(RequestError, match="-1 has no record at or after the starting time"):
        Query(broker, subscribe=topic, startingOffsetsByTimestamp=times)
    lenient = {"startingOffsetsByTimestamp": times, "startingOffsetsByTimestampStrategy": "latest"}
    with Query(broker, subscribe=topic, **lenient) as query:
        assert max(keys(query.step())) == 9


def test_offsets_must_be_given_for_exactly_the_partitions_that_are_read(broker: str, topic: str) -> None:
    with pytest.raises(RequestError, match=f"no offset is given for {topic}-1, which is read"):
        Query(broker, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 7}}}}')
    with pytest.raises(RequestError, match=f"an offset is given for {topic}-2, which is not read"):
        Query(broker, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 7, "1": 0, "2": 0}}}}')


def test_new_partitions_are_read_from_their_start(broker: str, topic: str) -> None:
    with Query(broker, subscribe=topic) as query:
        assert query.step() == []
        grow(broker, topic, 3)
        publish(broker, topic, 2, 0, 5)
        publish(broker, topic, 0, 5, 6)
        assert keys(query.step()) == list(range(6))
        publish(broker, topic, 2, 6, 8)
        assert keys(query.step()) == [6, 7]


def test_a_pattern_picks_up_new_topics_from_their_start(broker: str, topic: str) -> None:
    with Query(broker, subscribePattern=f"{topic}.*") as query:
        assert query.step() == []
        create(broker, f"{topic}-new", 1)
        create(broker, f"not-{topic}", 1)
        publish(broker, f"{topic}-new", 0, 0, 5)
        publish(broker, f"not-{topic}", 0, 5, 9)
        assert keys(query.step()) == list(range(5))


def test_assigned_partitions_are_read_and_no_others(broker: str, topic: str) -> None:
    publish(broker, topic, 0, 0, 3)
    publish(broker, topic, 1, 3, 6)
    with Query(broker, assign=f'{{"{topic}": [1]}}', startingOffsets="earliest") as query:
        assert keys(query.step()) == [3, 4, 5]
    with pytest.raises(RequestError, match=f"{topic} has partitions 0-1, not 7"):
        Query(broker, assign=f'{{"{topic}": [1, 7]}}')


def test_a_topic_that_is_not_there_at_the_start_is_named(broker: str) -> None:
    with pytest.raises(RequestError, match="topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"):
        Query(broker, subscribe="nowhere")


def test_a_restart_resumes_exactly(broker: str, topic: str) -> None:
    publish(broker, topic, 0, 0, 10)
    with Query(broker, subscribe=topic, startingOffsets="earliest") as query:
        assert keys(query.step()) == list(range(10))
    publish(broker, topic, 0, 10, 20)
    with Query(broker, query.offset, subscribe=topic, startingOffsets="earliest") as again:
        assert keys(again.step()) == list(range(10, 20))


def test_the_first_microbatch_is_repeated_as_it_was_planned(broker: str, topic: str) -> None:
    """Spark logs only its end, and asks anew where to begin: "latest" is past the end by then."""
    with Query(broker, subscribe=topic) as query:
        publish(broker, topic, 0, 0, 10)
        end = query.plan()
    publish(broker, topic, 0, 10, 20)
    with Query(broker, subscribe=topic) as again:
        assert again.offset["topics"][topic]["offsets"]["0"] == 20
        assert keys(again.run(end)) == list(range(10))
        assert keys(again.step()) == list(range(10, 20))


def test_a_microbatch_that_met_new_partitions_is_repeated_as_it_was_planned(broker: str, topic: str) -> None:
    publish(broker, topic, 0, 0, 2)
    with Query(broker, subscribe=topic, startingOffsets="earliest") as query:
        query.step()
        grow(broker, topic, 3)
        publish(broker, topic, 2, 2, 12)
        delete_records(broker, topic, 2, 4)
        end = query.plan()
    with Query(broker, query.offset, subscribe=topic) as again:
        assert keys(again.run(end)) == list(range(6, 12))


def test_the_official_connectors_checkpoint_is_taken_over(broker: str, topic: str) -> None:
    publish(broker, topic, 0, 0, 10)
    publish(broker, topic, 1, 10, 12)
    with Query(broker, {topic: {"0": 4, "1": 2}}, subscribe=topic) as query:
        assert keys(query.step()) == list(range(4, 10))
        assert query.offset["topics"][topic]["id"] is not None


def test_topics_that_are_no_longer_subscribed_are_forgotten(broker: str, topic: str) -> None:
    create(broker, f"{topic}-2", 1)
    publish(broker, topic, 0, 0, 2)
    with Query(broker, subscribe=f"{topic},{topic}-2", startingOffsets="earliest") as query:
        query.step()
    publish(broker, f"{topic}-2", 0, 2, 4)
    publish(broker, topic, 0, 4, 6)
    with Query(broker, query.offset, subscribe=f"{topic}-2") as fewer:
        assert keys(fewer.step()) == [2, 3]
        assert list(fewer.offset["topics"]) == [f"{topic}-2"]


def test_a_microbatch_has_at_most_so_many_offsets(broker: str, topic: str) -> None:
    publish(broker, topic, 0, 0, 300)
    publish(broker, topic, 1, 300, 400)
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    with Query(broker, subscribe=topic, **limits) as query:
        steps = []
        while step := query.step():
            steps.append(step)
    assert [row[1] for row in steps[0]].count(0) == 30
    assert max(len(step) for step in steps) == 40
    assert keys([row for step in steps for row in step]) == list(range(400))


def test_a_microbatch_has_about_so_many_bytes(broker: str, topic: str) -> None:
    for first in range(0, 200, 10):
        publish(broker, topic, 0, first, first + 10, **{"compression.type": "none"})
    one = {"startingOffsets": "earliest", "maxBytesPerTrigger": "1"}
    with Query(broker, subscribe=topic, **one) as query:
        assert len(query.step()) == 1, "never nothing"
    some = {"startingOffsets": "earliest", "maxBytesPerTrigger": "2k"}
    with Query(broker, subscribe=topic, **some) as query:
        assert 20 <= len(query.step()) <= 100  # a batch of ten is some 250 bytes
    with Query(broker, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="1g") as query:
        assert len(query.step()) == 200


def test_a_microbatch_waits_until_enough_is_there(broker: str, topic: str) -> None:
    enough = {"minOffsetsPerTrigger": "10", "startingOffsets": "earliest"}
    with Query(broker, subscribe=topic, **enough, maxTriggerDelay="1h") as query:
        publish(broker, topic, 0, 0, 3)
        assert keys(query.step()) == [0, 1, 2], "the first after a start is let go"
        publish(broker, topic, 0, 3, 12)
        assert query.step() == []
        publish(broker, topic, 1, 12, 13)
        assert keys(query.step()) == list(range(3, 13))
        publish(broker, topic, 1, 13, 14)
        assert query.step() == []
    with Query(broker, query.offset, subscribe=topic, **enough, maxTriggerDelay="0s") as query:
        assert keys(query.step()) == [13]


def test_available_now_ends_with_what_was_there(broker: str, topic: str) -> None:
    publish(broker, topic, 0, 0, 10)
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "4", "minOffsetsPerTrigger": "4"}
    with Query(broker, subscribePattern=f"{topic}.*", **given) as query:
        query.reader.prepareForTriggerAvailableNow()
        publish(broker, topic, 0, 10, 20)
        grow(broker, topic, 3)
        publish(broker, topic, 2, 20, 30)
        create(broker, f"{topic}-new", 1)
        publish(broker, f"{topic}-new", 0, 30, 40)
        steps = []
        while step := query.step():
            steps.append(keys(step))
        assert steps == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_tasks_are_many_or_few_as_asked_for(broker: str, topic: str) -> None:
    publish(broker, topic, 0, 0, 100)
    publish(broker, topic, 1, 100, 110)

    def sizes(**options: str) -> list[int]:
        with Query(broker, subscribe=topic, startingOffsets="earliest", **options) as query:
            tasks = query.reader.partitions(query.offset, query.plan())
            return [sum(each.size for each in task.ranges) for task in tasks]  # type: ignore[attr-defined]

    assert sizes() == [110]
    assert sizes(minPartitions="4") == [27, 28, 27, 28]
    assert max(sizes(maxRecordsPerPartition="25")) <= 25


LOSSES = pytest.mark.parametrize("strict", [True, False], ids=["error", "passed-over"])


def outcome(query: Query, strict: bool, said: str) -> list[int]:
    """The keys of the next microbatch; of a strict query, that it fails and says why."""
    if not strict:
        return keys(query.step())
    with pytest.raises(DataLossError, match=said):
        query.step()
    return []


@LOSSES
def test_retention_overtakes_a_slow_query(broker: str, topic: str, strict: bool) -> None:
    publish(broker, topic, 0, 0, 10)
    loss = {"failOnDataLoss": str(strict)}
    with Query(broker, subscribe=topic, startingOffsets="earliest", **loss) as query:
        query.step()
        publish(broker, topic, 0, 10, 30)
        delete_records(broker, topic, 0, 25)
        found = outcome(query, strict, f"{topic}-0: read up to 10, and the brokers have 25 to 30")
        assert found == ([] if strict else [25, 26, 27, 28, 29])


@LOSSES
def test_retention_overtakes_a_planned_microbatch(broker: str, topic: str, strict: bool) -> None:
    """Between planning and reading, and likewise when a planned one is repeated after a restart."""
    publish(broker, topic, 0, 0, 10)
    loss = {"failOnDataLoss": str(strict), "penstock.read": "broker"}
    with Query(broker, subscribe=topic, startingOffsets="earliest", **loss) as query:
        end = query.plan()
        delete_records(broker, topic, 0, 7)
        begin = query.offset
        if strict:
            with pytest.raises((DataLossError, RequestError), match="asked for, the brokers have 7 to 10"):
                query.run(end)
        else:
            assert keys(query.run(end)) == [7, 8, 9]
    with Query(broker, begin, subscribe=topic, **loss) as again:
        if strict:
            with pytest.raises(DataLossError, match="offsets 0 to 10 were asked for, the brokers have 7 to 10"):
                again.run(end)
        else:
            assert keys(again.run(end)) == [7, 8, 9]


@LOSSES
def test_a_topic_is_deleted(broker: str, topic: str, strict: bool) -> None:
    create(broker, f"{topic}-2", 1)
    publish(broker, topic, 0, 0, 10)
    loss = {"failOnDataLoss": str(strict)}
    with Query(broker, subscribe=f"{topic},{topic}-2", startingOffsets="earliest", **loss) as query:
        query.step()
        delete(broker, topic)
        publish(broker, f"{topic}-2", 0, 10, 12)
        assert outcome(query, strict, f"{topic}-0: the topic is gone, it was read up to 10") == (
            [] if strict else [10, 11]
        )


@LOSSES
def test_a_topic_is_deleted_and_created_anew(broker: str, topic: str, strict: bool) -> None:
    publish(broker, topic, 0, 0, 10)
    loss = {"failOnDataLoss": str(strict)}
    with Query(broker, subscribe=topic, startingOffsets="earliest", **loss) as query:
        query.step()
        delete(broker, topic)
        create(broker, topic, 2)
        publish(broker, topic, 0, 10, 30)  # longer than the old one: offsets alone would not tell
        found = outcome(query, strict, f"{topic}-0: the topic was deleted and created anew")
        assert found == ([] if strict else list(range(10, 30)))
        if not strict:
            publish(broker, topic, 0, 30, 31)
            assert query.step()[0][2] == 20


@LOSSES
def test_a_topic_is_created_anew_after_a_microbatch_was_planned(broker: str, topic: str, strict: bool) -> None:
    publish(broker, topic, 0, 0, 10)
    loss = {"failOnDataLoss": str(strict), "penstock.read": "broker"}
    with Query(broker, subscribe=topic, startingOffsets="earliest", **loss) as query:
        end = query.plan()
        delete(broker, topic)
        create(broker, topic, 2)
        publish(broker, topic, 0, 100, 120)
        if strict:
            with pytest.raises(DataLossError, match="the topic was created anew"):
                query.run(end)
        else:
            assert query.run(end) == [], "records of another topic must not pass for those that were planned"
            assert keys(query.step()) == list(range(100, 120))


def test_connections_that_were_closed_are_opened_again() -> None:
    topic = "clicks"
    with LocalBroker() as other:
        create(other.bootstrap, topic, 1)
        with Query(other.bootstrap, subscribe=topic) as query:
            for connection in query.reader.brokers._client._connections.values():
                assert connection._transport is not None
                connection._transport.abort()
            publish(other.bootstrap, topic, 0, 0, 3)
            assert keys(query.step()) == [0, 1, 2]


def test_brokers_that_cannot_be_reached_are_named() -> None:
    nobody = {"subscribe": "clicks", "fetchOffset.retryIntervalMs": "0"}
    with pytest.raises(UnreachableError, match=r"cannot reach 127.0.0.1:1: connection refused"):
        Query("127.0.0.1:1", **nobody)


def test_a_batch_reads_what_a_consumer_does_over_many_small_partitions(broker: str, topic: str) -> None:
    create(broker, f"{topic}-many", 40)
    for partition in range(40):
        publish(broker, f"{topic}-many", partition, partition * 3, partition * 3 + 3)
    assert batch(broker, subscribe=f"{topic}-many") == consumed(broker, [f"{topic}-many"])
    assert keys(batch(broker, subscribe=f"{topic}-many", minPartitions="7")) == list(range(120))
