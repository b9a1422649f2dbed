"""The lake load against a running broker: exactly once, whatever happens in the middle."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from interop.spark.load.support import caught_up, options, publish, total

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.cli.main import main
from penstock.client.client import LATEST, Client
from penstock.errors import RequestError
from penstock.records.batch import CRC, CRC_POSITION, HEADER_BYTES, computed_crc
from penstock.records.builder import BatchBuilder
from penstock.spark.lake.maintenance import Maintenance
from penstock.spark.lake.records import LakeConflictError
from penstock.spark.lake.verify import verify
from penstock.spark.load.load import JobError, Load, LoadOptions
from penstock.spark.read.plan import DataLossError
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("inline_offsets", [0, 20_000], ids=["on_spark", "in_the_driver"])
def test_every_record_arrives_once_over_several_jobs(
    spark: SparkSession, broker: LocalBroker, topic: str, tmp_path: Path, inline_offsets: int
) -> None:
    with Load(spark, options(broker, topic, tmp_path, offsets_per_job=400, inline_offsets=inline_offsets)) as load:
        publish(broker, topic, 1000)
        assert caught_up(load) == 3
        publish(broker, topic, 50)
        assert caught_up(load) == 1
        assert load.run_job() is None
        assert total(verify(load.lake)) == 1050
        rows = load.lake.table.to_pyarrow_table(columns=["value", "headers"]).to_pylist()
    assert sorted({row["value"] for row in rows}) == sorted(f"value {i}".encode() for i in range(1000))
    assert all(row["value"] == b"value " + row["headers"][0]["value"] for row in rows)


def test_a_row_deleted_from_the_table_is_found_missing(broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path)) as load:
        caught_up(load)
        load.lake.table.delete("partition = 1 AND offset = 42")
        wrong = [verdict for verdict in verify(load.lake) if not verdict.clean]
    assert [(verdict.partition, verdict.missing_ranges) for verdict in wrong] == [(1, [(42, 43)])]


def test_a_row_that_is_doubled_is_found(broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path)) as load:
        caught_up(load)
        table = load.lake.table.to_pyarrow_table()
        rows = table.filter((table["partition"].to_numpy() == 2) & (table["offset"].to_numpy() == 7))
        write_deltalake(load.lake.table, rows, mode="append")
        load.lake.refresh()
        wrong = [verdict for verdict in verify(load.lake) if not verdict.clean]
    assert [(verdict.partition, verdict.duplicate_ranges) for verdict in wrong] == [(2, [(7, 8)])]


@pytest.mark.parametrize("after_commit", [False, True], ids=["before_commit", "after_commit"])
def test_a_crash_around_the_commit_repeats_the_plan_and_doubles_nothing(
    broker: LocalBroker, topic: str, tmp_path: Path, after_commit: bool
) -> None:
    publish(broker, topic, 300)

    class Crash(BaseException):
        pass

    def crashing(*arguments: object, **more: object) -> int:
        if after_commit:
            commit(*arguments, **more)
        raise Crash

    with Load(None, options(broker, topic, tmp_path)) as load:
        commit = load.lake.commit
        load.lake.commit = crashing  # type: ignore[method-assign]
        with pytest.raises(Crash):
            load.run_job()
    with Load(None, options(broker, topic, tmp_path)) as load:
        assert caught_up(load) == (0 if after_commit else 1)
        assert total(verify(load.lake)) == 300


def test_of_two_copies_of_a_pipeline_one_stops_and_nothing_is_doubled(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path)) as first, Load(None, options(broker, topic, tmp_path)) as copy:
        check = copy._check_same_logs

        def overtaken(*arguments: object) -> None:
            check(*arguments)  # type: ignore[arg-type]
            caught_up(first)

        copy._check_same_logs = overtaken  # type: ignore[method-assign,assignment]
        with pytest.raises(LakeConflictError, match="another copy of the pipeline is running"):
            copy.run_job()
        assert total(verify(first.lake)) == 300
        named = {file.path for file in first.lake.files()}
        orphans = {path.name for path in tmp_path.glob("*.parquet")} - named
        assert len(orphans) == 1, "the store was asked to name it, so only vacuum may delete it"
        Maintenance(first.lake, target_bytes=1, keep_hours=0).run(["vacuum"])
        assert {path.name for path in tmp_path.glob("*.parquet")} == named


def test_retention_that_overtook_the_load_is_an_error_or_a_recorded_gap(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path)) as load:
        caught_up(load)
    publish(broker, topic, 300)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 150)]).values():
        future.result(30)
    with (
        Load(None, options(broker, topic, tmp_path)) as load,
        pytest.raises(DataLossError, match="the table ends at 100, the brokers have 150 to 200"),
    ):
        load.run_job()
    with Load(None, options(broker, topic, tmp_path, fail_on_data_loss=False)) as load:
        caught_up(load)
        verdicts = verify(load.lake)
        assert total(verdicts) == 550
        assert [verdict.legal_gaps for verdict in verdicts] == [50, 0, 0]


def test_a_topic_made_again_is_loaded_from_its_start_beside_the_old_one(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path)) as load:
        caught_up(load)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    broker.create_topic(topic, 1)
    publish(broker, topic, 20, partitions=1)
    with Load(None, options(broker, topic, tmp_path)) as load:
        caught_up(load)
        verdicts = verify(load.lake)
        assert total(verdicts) == 320
        assert len({verdict.topic_id for verdict in verdicts}) == 2


def test_latest_is_the_moment_of_the_first_run(broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    """Nothing came while it ran, and it was started again: from cron, or after a crash."""
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path, starting=LATEST)) as load:
        assert caught_up(load) == 0
    publish(broker, topic, 30)
    with Load(None, options(broker, topic, tmp_path, starting=LATEST)) as load:
        assert caught_up(load) == 1
        verdicts = verify(load.lake)
    assert total(verdicts) == 30
    assert [(verdict.start, verdict.end) for verdict in verdicts] == [(100, 110)] * 3


def test_latest_stays_where_it_was_when_the_first_job_is_killed(
    broker: LocalBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(broker, topic, 300)

    class Crash(BaseException):
        pass

    def crash(*_: object) -> None:
        raise Crash

    with Load(None, options(broker, topic, tmp_path, starting=LATEST)) as load:
        monkeypatch.setattr(load, "_live_plan", crash)
        with pytest.raises(Crash):
            load.run_job()
    publish(broker, topic, 30)
    with Load(None, options(broker, topic, tmp_path, starting=LATEST)) as load:
        caught_up(load)
        assert total(verify(load.lake)) == 30


def test_a_partition_added_while_the_load_is_down_begins_at_its_start(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path, starting=LATEST)) as load:
        caught_up(load)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    publish(broker, topic, 40, partitions=4)
    with Load(None, options(broker, topic, tmp_path, starting=LATEST)) as load:
        caught_up(load)
        verdicts = verify(load.lake)
    assert total(verdicts) == 40
    assert [verdict.start for verdict in verdicts] == [100, 100, 100, 0]


def test_a_topic_that_comes_to_match_while_the_load_is_down_begins_at_its_start(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    def matching() -> LoadOptions:
        return LoadOptions(
            broker.bootstrap,
            [],
            str(tmp_path),
            "test",
            topic_pattern=f"{topic}.*",
            starting=LATEST,
            table_per_topic=True,
        )

    publish(broker, topic, 300)
    with Load(None, matching()) as load:
        caught_up(load)
    broker.create_topic(f"{topic}.later", 1)
    publish(broker, f"{topic}.later", 20, partitions=1)
    with Load(None, matching()) as load:
        caught_up(load)
        rows = {uri.rpartition("/")[2]: total(verify(table)) for uri, table in load.tables.items()}
    assert rows == {topic: 0, f"{topic}.later": 20}


def test_a_topic_that_does_not_exist_is_named(broker: LocalBroker, tmp_path: Path) -> None:
    with Load(None, options(broker, "nowhere", tmp_path)) as load, pytest.raises(RequestError, match="nowhere"):
        load.run_job()


def publish_broken(broker: LocalBroker, topic: str, partition: int) -> None:
    """A batch of five records, the first of an impossible length, with a right CRC: header validation lets it in."""
    builder = BatchBuilder()
    for i in range(5):
        builder.append(1_000, b"k", b"broken %d" % i)
    batch = builder.build()
    batch[HEADER_BYTES] = 0x7F
    CRC.pack_into(batch, CRC_POSITION, computed_crc(batch, 0, len(batch)))

    async def send() -> None:
        async with Client(broker.bootstrap) as client:
            await client.produce(topic, partition, batch)

    asyncio.run(send())


def test_a_broken_batch_stops_the_load_by_name_or_becomes_a_recorded_gap(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish(broker, topic, 300)
    publish_broken(broker, topic, 1)
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path)) as load:
        with pytest.raises(JobError, match=rf"{topic}-1: the batch at offsets 100 to 104 is broken") as raised:
            load.run_job()
        assert "--skip-corrupt" in str(raised.value)
        load.lake.refresh()
        assert load.lake.table.version() == 0, "nothing is committed"
        assert list(tmp_path.rglob("*.parquet")) == []
    with Load(None, options(broker, topic, tmp_path, skip_corrupt=True)) as load:
        caught_up(load)
        verdicts = verify(load.lake)
        assert total(verdicts) == 600
        assert [verdict.gaps for verdict in verdicts] == [{}, {"corrupt": 5}, {}]


def load_once(bootstrap: str, topic: str, table: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "load", topic, "--table", str(table), "--bootstrap", bootstrap]
    return subprocess.run([*command, "--once", *more], capture_output=True, text=True, timeout=120, check=False)


def test_a_load_that_cannot_begin_says_why_before_spark_starts(broker: LocalBroker, tmp_path: Path) -> None:
    missing = load_once(broker.bootstrap, "nowhere", tmp_path)
    assert missing.returncode == 1
    assert missing.stderr == f"error: there is no topic nowhere at {broker.bootstrap}\n"
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        unreachable = load_once(f"127.0.0.1:{nobody.getsockname()[1]}", "clicks", tmp_path)
    assert unreachable.returncode == 1
    assert unreachable.stderr.startswith("error: ")
    assert "is a broker running there?" in unreachable.stderr
    assert "Traceback" not in unreachable.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_master_that_is_not_there_ends_a_load_in_a_line(broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    publish(broker, topic, 3)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{nobody.getsockname()[1]}"
        done = load_once(broker.bootstrap, topic, tmp_path / "t", "--master", master, "--inline-offsets", "0")
    assert done.returncode == 1
    said = done.stderr.splitlines()
    assert said[0].startswith("loading ")
    assert said[1] == f"error: no Spark master at {master}: connection refused"
    assert len(said) == 3, "and a remedy; nothing was loaded, and nothing says that 0 rows were"


def test_a_spark_that_does_not_start_is_said_in_a_line_with_where_its_log_is(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from penstock.spark.session import SparkError, session\n"
        "try: session('a test', settings={'spark.driver.memory': 'much'}, log=Path(sys.argv[1]))\n"
        "except SparkError as error: print(error)"
    )
    log = tmp_path / "spark.log"
    command = [sys.executable, "-c", script, str(log)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    said = done.stdout.splitlines()
    assert said[0].startswith("Spark did not start: ")
    assert said[1:] == [f"  its log is {log}"]


def test_the_command_line_verifies_what_a_load_made(
    broker: LocalBroker,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path)) as load:
        caught_up(load)
        publish(broker, topic, 30)
        assert main(["verify", str(tmp_path), "--broker", broker.bootstrap, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["clean"]
        assert [each["behind_broker"] for each in told["partitions"]] == [10, 10, 10]
        load.lake.table.delete("partition = 1 AND offset = 42")
    assert main(["verify", str(tmp_path), "--broker", broker.bootstrap]) == 1
    assert f"{topic}-1: missing 42" in capsys.readouterr().out
