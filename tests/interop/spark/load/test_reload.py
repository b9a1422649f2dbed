"""Several tables, reloads beside a live load, topics that come and go: nothing twice, nothing missing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from interop.spark.load.support import caught_up, options, proof, publish, publish_values, rows, total

from penstock.client.client import LATEST
from penstock.errors import ConfigError
from penstock.spark.lake.open import open_table
from penstock.spark.lake.reading import batches_of
from penstock.spark.lake.verify import verify
from penstock.spark.load.load import Load, LoadOptions, Outcome
from penstock.spark.load.plan import ClaimError
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.spark
DAY_MS = 86_400_000


@pytest.fixture
def week(broker: LocalBroker, topic: str) -> str:
    """A topic whose partition 0 has ten records a day, of the days 1 to 6 since 1970."""
    for day in range(1, 7):
        values = [b"day %d" % day] * 10
        publish_values(broker, topic, *values, timestamp_ms=day * DAY_MS)
    return topic


def claims(load: Load) -> list[tuple[str, int, int]]:
    (progress,) = [each for p, each in load.lake.progress().items() if p.partition == 0]
    return sorted((claim.pipeline, claim.start, claim.end) for claim in progress.claims)


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_reloads_fill_what_is_missing_and_nothing_twice(
    broker: LocalBroker, week: str, tmp_path: Path, table_format: str
) -> None:
    more = {"table_format": table_format}
    with Load(None, options(broker, week, tmp_path / "t", from_ms=2 * DAY_MS, until_ms=3 * DAY_MS, **more)) as load:
        assert caught_up(load) == 1
        assert claims(load) == [("test/reload-1", 10, 20)]
    with Load(None, options(broker, week, tmp_path / "t", starting=5 * DAY_MS, **more)) as live:
        caught_up(live)
        span = {"from_ms": 1 * DAY_MS, "until_ms": 6 * DAY_MS}
        with Load(None, options(broker, week, tmp_path / "t", offsets_per_job=7, **span, **more)) as load:
            assert load.run_job() is not None
        with Load(None, options(broker, week, tmp_path / "t", offsets_per_job=7, **span, **more)) as load:
            caught_up(load)
            assert claims(load) == [("test", 40, 60), ("test/reload-1", 10, 40), ("test/reload-2", 0, 10)]
            assert caught_up(load) == 0
        publish(broker, week, 3)
        caught_up(live)
        assert total(verify(live.lake)) == 63
        assert all(not verdict.not_loaded_ranges for verdict in verify(live.lake))


def test_a_live_load_that_begins_while_a_reload_runs_makes_it_plan_anew(
    broker: LocalBroker, week: str, tmp_path: Path
) -> None:
    """Without the check in the commit, both would load the last two days."""
    with (
        Load(None, options(broker, week, tmp_path, from_ms=0)) as load,
        Load(None, options(broker, week, tmp_path, starting=5 * DAY_MS)) as live,
    ):
        check = load._check_same_logs

        def overtaken(*arguments: object) -> None:
            check(*arguments)  # type: ignore[arg-type]
            caught_up(live)

        load._check_same_logs = overtaken  # type: ignore[method-assign,assignment]
        caught_up(load)
        live.lake.refresh()
        assert claims(live) == [("test", 40, 60), ("test/reload-1", 0, 40)]
        assert total(verify(live.lake)) == 60


def test_two_live_loads_of_one_topic_into_one_table_cannot_be(broker: LocalBroker, week: str, tmp_path: Path) -> None:
    with Load(None, options(broker, week, tmp_path)) as load:
        caught_up(load)
    other = LoadOptions(broker.bootstrap, [week], str(tmp_path), "other")
    with Load(None, other) as load, pytest.raises(ClaimError, match="is loaded into this table by pipeline 'test'"):
        load.run_job()


def test_a_reload_of_a_format_with_a_quarantine(broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    for day in (1, 2, 3):
        publish_values(broker, topic, b'{"ms":%d}' % day, b"broken", timestamp_ms=day * DAY_MS)
    with Load(None, options(broker, topic, tmp_path, format="json", starting=3 * DAY_MS)) as load:
        caught_up(load)
    with Load(None, options(broker, topic, tmp_path, format="json", from_ms=2 * DAY_MS)) as load:
        caught_up(load)
        assert proof(load).rows == 4
        assert rows(load, "ms") == [{"ms": 2}, {"ms": 3}]


def test_a_load_from_the_latest_takes_what_comes_after_it_began(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 30)
    with Load(None, options(broker, topic, tmp_path, starting=LATEST)) as load:
        assert load.run_job() is None
        publish(broker, topic, 9)
        caught_up(load)
        assert total(verify(load.lake)) == 9


def test_topics_and_partitions_that_appear_are_loaded_each_into_its_table(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 30)
    made = LoadOptions(
        broker.bootstrap, [], str(tmp_path), "test", topic_pattern=f"{topic}.*", table_per_topic=True,
        partition_by_date=True, starting=LATEST,
    )  # fmt: skip
    with Load(None, made) as load:
        caught_up(load)
        assert total(verify(load.lake)) == 0
        broker.create_topic(f"{topic}.new", 1)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
        publish(broker, topic, 40, partitions=4)
        publish_values(broker, f"{topic}.new", b"a", b"b", timestamp_ms=DAY_MS)
        publish_values(broker, f"{topic}.new", b"c", timestamp_ms=2 * DAY_MS)
        load._brokers._asked = -1e9  # it is time to look for partitions
        caught_up(load)
        totals = {Path(uri).name: total(verify(table)) for uri, table in load.tables.items()}
        assert totals == {topic: 40, f"{topic}.new": 3}
    days = sorted(path.name for path in (tmp_path / f"{topic}.new").glob("date=*"))
    assert days == ["date=1970-01-02", "date=1970-01-03"]
    table = open_table(str(tmp_path / f"{topic}.new"), "test")
    assert [str(row["date"]) for batch in batches_of(table, ["date"]) for row in batch.to_pylist()] == [
        "1970-01-02", "1970-01-02", "1970-01-03",
    ]  # fmt: skip
    Load(None, options(broker, topic, tmp_path / "plain")).close()
    with pytest.raises(ConfigError, match="is not partitioned by date"):
        Load(None, options(broker, topic, tmp_path / "plain", partition_by_date=True))


def test_the_next_job_starts_when_there_is_something_and_a_stop_is_heard(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    stop = threading.Event()
    heard: list[Outcome] = []

    def publish_more(outcome: Outcome) -> None:
        heard.append(outcome)
        if len(heard) == 3:
            stop.set()
        else:
            publish(broker, topic, 3)

    publish(broker, topic, 3)
    with Load(None, options(broker, topic, tmp_path)) as load:
        load.run(stop, 0, publish_more, once=False)
        assert total(verify(load.lake)) == 9
