"""The job `audit` counts at secured clusters: its own, as [kafka] says, and mirrors, each with its command_config."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")

from confluent_kafka import Producer
from interop.secured_kafka import write_properties
from interop.security.secured_penstock import SecuredPenstock

from penstock.client.property_files import client_properties
from penstock.pipelines.audit.settings import Settings
from penstock.pipelines.audit.tally import BUCKET_MS
from penstock.pipelines.context import Context
from penstock.pipelines.jobs.audit import JOB, Audit
from penstock.pipelines.models.alarms import Alarms
from penstock.pipelines.models.project import Alarm

START_MS = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
RECORDS = 3


def test_an_audit_logs_in_everywhere(tmp_path: Path) -> None:
    with SecuredPenstock(tmp_path) as broker:
        broker.create_topic("clicks", 2, {"retention.ms": "-1"})
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for n in range(RECORDS):
            producer.produce("clicks", value=b"%d" % n, timestamp=START_MS + n)
        assert producer.flush(30) == 0
        file = write_properties(tmp_path / "client.properties", broker.properties())
        mirror = {"name": "mirror", "bootstrap": broker.secured, "prefix": "", "command_config": str(file)}
        given = {option.name: option.default for option in JOB.options}
        given |= {"topics": ["clicks"], "mirrors": [mirror], "since": "2026-01-31T12:00Z", "keep_days": 3650}
        told: list[str] = []
        spark: Any = None
        context = Context(
            spark,
            "audit",
            broker.secured,
            given,
            tmp_path / "audit",
            told=told.append,
            security=client_properties(str(file))[1],
        )
        alarms = Alarms(Alarm(), context, spark)
        audit = Audit(
            context,
            Settings.of(given, tmp_path / "audit"),
            alarms,
            every_s=60,
            clock=lambda: START_MS + 10 * BUCKET_MS,
        )
        audit.step()
        assert told == []
        assert audit._table is not None
        rows = audit._table.rows().group_by(["tier"]).aggregate([("records", "sum")]).to_pylist()
        assert {row["tier"]: row["records_sum"] for row in rows} == {"cluster": RECORDS, "mirror": RECORDS}
