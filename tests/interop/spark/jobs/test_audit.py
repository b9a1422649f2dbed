"""The job `audit` from producers to the lake: what is lost, doubled or behind is told by bucket, tier and number."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from confluent_kafka import Producer
from deltalake import DeltaTable
from interop.spark.jobs.test_mirror import drop, mirror_of, mirrored
from interop.spark.load.support import caught_up, options
from support.lake_tables import written

from penstock.cli.main import main
from penstock.errors import ConfigError
from penstock.pipelines.audit.producer import BUCKET_MS, ProducerCounts
from penstock.pipelines.audit.settings import Settings
from penstock.pipelines.context import Context
from penstock.pipelines.jobs import audit as audits
from penstock.pipelines.jobs.audit import JOB, Audit
from penstock.pipelines.models.alarms import Alarms
from penstock.pipelines.models.project import Alarm
from penstock.pipelines.monitor import Monitor
from penstock.pipelines.reading import read_pipeline
from penstock.pipelines.runner import Running
from penstock.spark.lake.open import open_table
from penstock.spark.lake.reading import batches_of
from penstock.spark.load.load import Load
from penstock.testing.broker import LocalBroker

START_MS = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
GRACE_S = 900
OVER_MS = START_MS + 10 * BUCKET_MS
FOR_EVER = {"retention.ms": "-1"}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


class Place:
    """A topic with its audit topic, a mirror and a lake table, and an audit of them whose clock is set."""

    def __init__(self, broker: LocalBroker, target: LocalBroker, topic: str, directory: Path) -> None:
        self.broker, self.target, self.topic, self.directory = broker, target, topic, directory
        broker.create_topic(topic, 2, FOR_EVER)
        broker.create_topic(f"{topic}-said", 1, {**FOR_EVER, "cleanup.policy": "compact"})
        self.counts = ProducerCounts("test")
        self.now_ms = OVER_MS
        self.told: list[str] = []
        self.audit = self.new_audit()

    @property
    def table(self) -> str:
        return str(self.directory / "lake")

    def options(self, **more: Any) -> dict[str, Any]:
        given = {
            "topics": [self.topic],
            "audit_topic": f"{self.topic}-said",
            "mirrors": [{"name": "mirror", "bootstrap": self.target.bootstrap, "prefix": ""}],
            "lakes": [{"table": self.table, "table_format": "auto", "storage_options": {}}],
            "since": "2026-01-31T12:00Z",
            "grace_seconds": GRACE_S,
            "keep_days": 3650,
        }
        return {option.name: option.default for option in JOB.options} | given | more

    def new_audit(self) -> Audit:
        given = self.options()
        spark: Any = None
        context = Context(spark, "audit", self.broker.bootstrap, given, self.directory, told=self.told.append)
        settings = Settings.of(given, self.directory)
        return Audit(context, settings, Alarms(Alarm(), context, spark), every_s=60, clock=lambda: self.now_ms)

    def publish(self, bucket: int, records: int, *, counted: int | None = None) -> None:
        """Records of a bucket; the producer says that it has sent `counted`."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for n in range(records):
            at_ms = START_MS + bucket * BUCKET_MS + n
            producer.produce(self.topic, value=b"%d" % n, timestamp=at_ms, partition=n % 2)
        self.counts.delivered(self.topic, START_MS + bucket * BUCKET_MS, records if counted is None else counted)
        for key, value in self.counts.records():
            producer.produce(f"{self.topic}-said", key=key, value=value)
        assert producer.flush(30) == 0

    def mirror(self) -> None:
        mirror = mirror_of(self.broker, self.target, self.topic)
        mirrored(mirror)
        mirror.close()

    def load(self) -> None:
        with Load(None, options(self.broker, self.topic, Path(self.table))) as load:
            caught_up(load)

    def everywhere(self, bucket: int, records: int) -> None:
        self.publish(bucket, records)
        self.mirror()
        self.load()

    def alarms(self) -> list[str]:
        """What a step tells; each place is looked at once more, when the grace period is over."""
        self.told.clear()
        while (did := self.audit.step()) is not None and did.lag:
            continue
        self.now_ms += GRACE_S * 1000
        self.audit.step()
        return list(self.told)


@pytest.fixture
def place_of(broker: LocalBroker, target: LocalBroker, tmp_path: Path) -> Callable[[str], Place]:
    return lambda topic: Place(broker, target, topic, tmp_path)


def test_what_is_everywhere_is_no_alarm_and_a_restart_counts_nothing_twice(place_of: Callable[[str], Place]) -> None:
    place = place_of("complete")
    place.everywhere(0, 10)
    assert place.alarms() == []
    place.audit = place.new_audit()
    assert place.alarms() == []
    place.everywhere(0, 3)  # late ones correct their bucket
    place.everywhere(1, 5)
    place.audit = place.new_audit()
    assert place.alarms() == []
    counts = place.audit._table
    assert counts is not None
    rows = counts.rows().group_by(["tier", "bucket"]).aggregate([("records", "sum")]).to_pylist()
    found = sorted((row["tier"], row["bucket"].minute, row["records_sum"]) for row in rows)
    tiers = ("cluster", "lake", "mirror", "producer")
    assert found == [(tier, minute, n) for tier in tiers for minute, n in ((0, 13), (10, 5))]


def test_what_is_lost_on_the_way_to_the_cluster_is_told_once(place_of: Callable[[str], Place]) -> None:
    place = place_of("lost")
    place.everywhere(0, 10)
    place.publish(1, 9, counted=10)
    place.mirror()
    place.load()
    said = "lost 2026-01-31T12:10Z: cluster has 1 records fewer than producer (9 of 10)"
    assert place.alarms() == [said]
    assert place.alarms() == []
    place.publish(1, 1, counted=0)
    place.mirror()
    place.load()
    assert place.alarms() == [], "what comes late heals it"


def test_a_record_that_is_twice_or_missing_in_the_lake_is_told(place_of: Callable[[str], Place]) -> None:
    place = place_of("doubled")
    place.everywhere(0, 10)
    place.everywhere(2, 4)
    lake = open_table(place.table, "stranger", create=False)
    some = [batch.slice(0, 1) for batch in batches_of(lake, lake.columns.names) if batch.num_rows]
    lake.commit(written(lake, some[0]), {}, {})
    (said,) = place.alarms()
    assert said.startswith("doubled 2026-01-31T12:")
    assert ": lake has 1 records more than cluster (" in said
    DeltaTable(place.table).delete("timestamp = '2026-01-31T12:20:00.001Z'")
    assert place.alarms()[-1:] == ["doubled 2026-01-31T12:20Z: lake has 1 records fewer than cluster (3 of 4)"]


def test_a_mirror_that_lags_is_told_after_the_grace_period_and_one_that_is_gone_is_told_at_once(
    place_of: Callable[[str], Place], broker: LocalBroker, target: LocalBroker
) -> None:
    place = place_of("lagging")
    place.everywhere(0, 10)
    assert place.alarms() == []
    place.publish(1, 6)
    place.load()
    place.audit.step()
    place.now_ms += GRACE_S * 1000 - 1
    place.audit.step()
    assert place.told == [], "it may still come"
    place.now_ms += 1
    place.audit.step()
    assert place.told == ["lagging 2026-01-31T12:10Z: mirror has 6 records fewer than cluster (0 of 6)"]
    place.mirror()
    assert place.alarms() == []
    asyncio.run(drop(target, "lagging"))
    assert place.alarms() == ["mirror is not counted: topic lagging: UNKNOWN_TOPIC_OR_PARTITION"]
    place.mirror()
    assert place.alarms() == [], "the copy that was deleted does not count beside the new one"


def test_looks_that_are_cut_short_go_on_where_they_were(
    place_of: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: an audit that died between counting and its commit has counted nothing."""
    monkeypatch.setattr(audits, "AUDIT_OFFSETS_PER_STEP", 3)
    place = place_of("cut")
    place.everywhere(0, 10)
    with monkeypatch.context() as dying:
        dying.setattr(audits._Look, "commit", lambda look: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            place.audit.step()
    place.audit = place.new_audit()
    assert place.alarms() == []
    assert place.audit._table is not None
    assert {each.as_py() for each in place.audit._table.rows()["tier"]} == {"producer", "cluster", "mirror", "lake"}


def test_a_compacted_topic_is_refused(place_of: Callable[[str], Place]) -> None:
    place = place_of("compacted")
    settings = Settings.of(place.options(topics=["compacted-said"], audit_topic=None), place.directory)
    audit = Audit(place.audit._context, settings, place.audit._alarms, every_s=60)
    with pytest.raises(ConfigError, match=r"topic compacted-said cannot be audited: its cleanup\.policy is compact"):
        audit.step()


def test_the_report_of_a_declared_pipeline(
    place_of: Callable[[str], Place], capsys: pytest.CaptureFixture[str]
) -> None:
    place = place_of("declared")
    place.everywhere(0, 10)
    place.publish(1, 3, counted=5)
    place.mirror()
    place.load()
    file = place.directory / "audit.toml"
    file.write_text(f'''
        [pipeline]
        job = "audit"
        [kafka]
        bootstrap = "{place.broker.bootstrap}"
        [options]
        topics = ["declared"]
        since = "2026-01-31T12:00Z"
        audit_topic = "declared-said"
        keep_days = 3650
        table = "tables/completeness"
        lakes = [{{ table = "lake" }}]
        [[options.mirrors]]
        bootstrap = "{place.target.bootstrap}"
    ''')
    command = ["pipeline", "audit", str(file), "--state", str(place.directory / "state")]
    assert main(["pipeline", "validate", str(file)]) == 0
    assert main(command) == 1
    assert "there is no table of counts" in capsys.readouterr().err
    pipeline, _ = read_pipeline(file, place.directory / "state")
    assert pipeline is not None
    spark: Any = None
    running = Running(pipeline, Monitor("audit", "audit", 0, 0), threading.Event(), once=True)
    (step,) = pipeline.job.run(running.context(spark)) or ()
    assert step.interval_ms == 60_000
    step.step()
    capsys.readouterr()
    assert main([*command, "--json"]) == 0, "what has just been counted may still change"
    assert {each["state"] for each in json.loads(capsys.readouterr().out)} == {"waits"}
    file.write_text(file.read_text().replace("keep_days", "grace_seconds = 0\n        keep_days"))
    assert main([*command, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [(each["bucket"], each["tier"], each["difference"]) for each in told] == [
        ("2026-01-31T12:10:00+00:00", "cluster", -2)
    ]
    assert main([*command, "--all"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "declared" in line]) == 6
    assert main([*command, "--from", "2026-01-31T12:20Z"]) == 0
    assert "no difference" in capsys.readouterr().out
