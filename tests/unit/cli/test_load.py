"""The arguments of `penstock load` as options of a load."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.cli.load import options_of, register
from penstock.client.client import LATEST, READ_UNCOMMITTED
from penstock.client.security import client_security
from penstock.errors import UsageError
from penstock.spark.load.options import LoadOptions

HOUR_MS = 3_600_000


def options(*arguments: str) -> LoadOptions:
    parser = argparse.ArgumentParser()
    register(parser)
    return options_of(parser.parse_args(list(arguments)))


def test_every_argument_reaches_the_load(tmp_path: Path) -> None:
    (tmp_path / "clicks.ddl").write_text("page string")
    (tmp_path / "client.properties").write_text("security.protocol=SSL")
    made = options(
        "--subscribe-pattern", "web-.*", "--table", "s3://lake/web", "--pipeline", "p", "--starting", "latest",
        "--format", "json", "--schema", f"@{tmp_path}/clicks.ddl", "--new-fields", "quarantine", "--quarantine", "q",
        "--table-format", "iceberg", "--table-per-topic", "--partition-by-date", "--storage-option", "A=b=c",
        "--from", "1970-01-01T01:00Z", "--until", "1970-01-01T02:00Z", "--offsets-per-job", "5",
        "--inline-offsets", "0", "--isolation", "read_uncommitted", "--read", "files", "--log-dir", "/logs",
        "--allow-data-loss", "--skip-corrupt", "--bootstrap", "a:1,b:2", "--group", "g",
        "--partition-by", "day(at), page", "--cluster-by", "user,at", "--z-order", "--event-time", "at",
        "--late-after-ms", "5", "--command-config", f"{tmp_path}/client.properties",
    )  # fmt: skip
    assert made == LoadOptions(
        "a:1,b:2", [], "s3://lake/web", "p", starting=LATEST, fail_on_data_loss=False, skip_corrupt=True,
        isolation=READ_UNCOMMITTED, offsets_per_job=5, topic_pattern="web-.*", format="json", schema="page string",
        new_fields="quarantine", table_format="iceberg", table_per_topic=True, partition_by_date=True,
        storage_options={"A": "b=c"}, from_ms=HOUR_MS, until_ms=2 * HOUR_MS, quarantine="q", read="files",
        log_dirs=("/logs",), inline_offsets=0, group="g", partition_by=("day(at)", "page"), cluster_by=("user", "at"),
        z_order=True, event_time="at", late_after_ms=5, security=client_security({"security.protocol": "SSL"}),
    )  # fmt: skip
    defaults = {each.name: each.default for each in fields(LoadOptions) if each.default is not MISSING}
    kept = {name for name, default in defaults.items() if getattr(made, name) == default}
    assert kept == {"schema_registry", "timeout_ms", "client_id"}, "Avro's alone, and what has no argument"
    avro = options("a", "--table", "t", "--format", "avro", "--schema-registry", "http://r")
    assert (avro.topics, avro.schema_registry) == (["a"], "http://r")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--table", "t"], "name the topics"),
        (["a"], "name the topics"),
        (["a", "--table", "t", "--subscribe-pattern", "b"], "name the topics"),
        (["--table", "t", "--subscribe-pattern", "("], "is no regular expression"),
        (["a", "--table", "t", "--format", "jsn"], "format = 'jsn': it must be raw, json or avro; did you mean json?"),
        (["a", "--table", "t", "--schema", "a int"], "schema is for format = json"),
        (["a", "--table", "t", "--format", "json", "--schema", "a itn"], "itn is no type of a JSON column"),
        (["a", "--table", "t", "--format", "json", "--schema", "@/nowhere"], "--schema @/nowhere"),
        (["a", "--table", "t", "--format", "avro"], "format = avro needs schema_registry"),
        (["a", "--table", "t", "--schema-registry", "http://r"], "schema_registry is for format = avro"),
        (["a", "--table", "t", "--from", "now", "--until", "1h"], "from must be before until"),
        (["a", "--table", "t", "--from", "soon"], "--from soon"),
        (["a", "--table", "t", "--starting", "soon"], "--starting 'soon' is neither"),
        (["a", "--table", "t", "--pipeline", "x/reload-1"], "must not be empty or contain"),
        (["a", "--table", "t", "--offsets-per-job", "0"], "offsets_per_job = 0"),
        (["a", "--table", "t", "--isolation", "none"], "--isolation none"),
        (["a", "--table", "t", "--z-order"], "z_order needs two or more columns"),
        (["a", "--table", "t", "--late-after-ms", "5"], "event_time and late_after_ms go together"),
        (["a", "--table", "t", "--interval-ms", "-1"], "--interval-ms -1"),
        (["a", "--table", "t", "--storage-option", "A"], "--storage-option A: it must be NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_named(arguments: list[str], why: str) -> None:
    with pytest.raises(UsageError) as raised:
        options(*arguments)
    assert why in str(raised.value)
