"""What goes wrong around a load, each with the outcome that is promised for it."""

from __future__ import annotations

import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from interop.spark.load.support import caught_up, options, publish, publish_values, rows, total

from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.spark.lake.verify import verify
from penstock.spark.load.load import JobError, Load
from penstock.spark.read.plan import DataLossError
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def during_the_job(load: Load, deed: Callable[[], Any]) -> None:
    """Does it once, between the tasks' work and the commit."""
    check = load._check_same_logs

    def disturbed(*arguments: Any) -> None:
        load._check_same_logs = check  # type: ignore[method-assign]
        deed()
        check(*arguments)

    load._check_same_logs = disturbed  # type: ignore[method-assign]


def recreate(broker: LocalBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    broker.create_topic(topic, 1)


def test_a_topic_made_again_while_a_job_runs_is_not_taken_for_the_old_one(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path)) as load:

        def deed() -> None:
            recreate(broker, topic)
            publish(broker, topic, 20, partitions=1)

        during_the_job(load, deed)
        caught_up(load)
        (verdict,) = verify(load.lake)
        assert (verdict.clean, verdict.rows) == (True, 20), "nothing of the old topic came under the new one's name"


def test_a_topic_deleted_while_the_load_runs_ends_it_by_name(broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    publish(broker, topic, 30)
    with Load(None, options(broker, topic, tmp_path)) as load:
        caught_up(load)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics([topic])[topic].result(30)
        load._brokers._asked = -1e9  # it is time to look for partitions
        with pytest.raises(RequestError, match=f"topic {topic}: UNKNOWN_TOPIC_OR_PARTITION") as raised:
            load.run_job()
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert total(verify(load.lake)) == 30


def test_retention_that_overtakes_a_job_is_data_loss_and_nothing_is_doubled(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 300)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with Load(None, options(broker, topic, tmp_path, offsets_per_job=150)) as load:
        assert load.run_job() is not None
        extents = load._brokers.extents

        async def overtaken(*arguments: Any) -> Any:
            found = await extents(*arguments)
            admin.delete_records([TopicPartition(topic, 0, 90)])[TopicPartition(topic, 0)].result(30)
            return found

        load._brokers.extents = overtaken  # type: ignore[method-assign]
        with pytest.raises((DataLossError, JobError, RequestError)):
            load.run_job()
        load._brokers.extents = extents  # type: ignore[method-assign]
        with pytest.raises(DataLossError, match="the table ends at 50, the brokers have 90 to 100"):
            load.run_job()
    with Load(None, options(broker, topic, tmp_path, fail_on_data_loss=False)) as load:
        caught_up(load)
        assert total(verify(load.lake)) == 260
        assert [verdict.gaps for verdict in verify(load.lake)] == [{"deleted": 40}, {}, {}]


def test_a_vacuum_leaves_a_load_all_that_it_needs(broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    publish(broker, topic, 30)
    with Load(None, options(broker, topic, tmp_path)) as load:
        caught_up(load)
        load.lake.table.vacuum(0, enforce_retention_duration=False, dry_run=False, full=True)  # type: ignore[attr-defined]
        publish(broker, topic, 30)
        caught_up(load)
    with Load(None, options(broker, topic, tmp_path)) as load:
        assert caught_up(load) == 0
        assert total(verify(load.lake)) == 60


@contextmanager
def disk_full(limit_bytes: int) -> Iterator[None]:
    """No file of this process gets larger than that: writes fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("limit_bytes", [1000, 50_000])
def test_a_full_disk_commits_nothing_says_so_and_the_load_goes_on_when_there_is_room(
    broker: LocalBroker, topic: str, tmp_path: Path, limit_bytes: int
) -> None:
    """Full for the first byte of a data file, and for its last."""
    import random

    chance = random.Random(1)
    publish_values(broker, topic, *(chance.randbytes(1000) for _ in range(200)))
    with Load(None, options(broker, topic, tmp_path)) as load:
        with disk_full(limit_bytes), pytest.raises(PenstockError, match=r"File too large|No space") as raised:
            load.run_job()
        assert "\n" not in str(raised.value)
        load.lake.refresh()
        assert load.lake.version == 0
        assert list(tmp_path.glob("*.parquet")) == []
        caught_up(load)
        assert total(verify(load.lake)) == 200


def test_a_table_deleted_underneath_ends_the_load_and_a_new_one_begins_anew(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 30)
    with Load(None, options(broker, topic, tmp_path / "t")) as load:
        caught_up(load)
        shutil.rmtree(tmp_path / "t")
        publish(broker, topic, 3)
        with pytest.raises(PenstockError, match="gone"):
            load.run_job()
    with Load(None, options(broker, topic, tmp_path / "t")) as load:
        caught_up(load)
        assert total(verify(load.lake)) == 33


def test_the_schema_may_change_from_record_to_record(broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    with Load(None, options(broker, topic, tmp_path, format="json")) as load:
        for round_ in range(4):
            publish_values(broker, topic, b'{"a%d":%d}' % (round_, round_), b'{"b":"%d"}' % round_)
            caught_up(load)
        assert rows(load, "a3", "b")[-2:] == [{"a3": 3}, {"b": "3"}]
        assert total(verify(load.lake)) == 8


def test_a_killed_spark_task_commits_nothing_and_is_named_in_one_line(
    spark: SparkSession, broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 30)
    with Load(spark, options(broker, topic, tmp_path, inline_offsets=0)) as load:
        make = load._connect
        load._connect = lambda: make().__class__("127.0.0.1:1", "x", 100, 1)  # type: ignore[method-assign]
        with pytest.raises(JobError) as raised:
            load.run_job()
        assert "\n" not in str(raised.value)
        load._connect = make  # type: ignore[method-assign]
        caught_up(load)
        assert total(verify(load.lake)) == 30
