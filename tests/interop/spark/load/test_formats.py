"""JSON and Avro into columns, what does not fit into the quarantine, each offset in exactly one of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from interop.spark.load.schema_registry import Registry, avro, click
from interop.spark.load.support import caught_up, options, proof, publish_values, rows

from penstock.errors import ConfigError
from penstock.spark.lake.reading import batches_of
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verify import verify
from penstock.spark.load.load import Load
from penstock.spark.load.registry import RegistryError
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.spark


class Crash(BaseException):
    """In the place of a kill."""


def crash(table: LakeTable, *, after: bool) -> None:
    """Lets the next commit of a table be the load's last deed, or the first that it does not do."""
    commit = table.commit

    def crashing(*arguments: Any, **more: Any) -> int:
        if after:
            commit(*arguments, **more)
        raise Crash

    table.commit = crashing  # type: ignore[method-assign]


def quarantined(load: Load) -> list[tuple[bytes | None, str]]:
    table = load.quarantines[load.lake.uri]
    found = [row for batch in batches_of(table, ["value", "reason", "offset"]) for row in batch.to_pylist()]
    return [(row["value"], row["reason"]) for row in sorted(found, key=lambda row: row["offset"])]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_json_columns_are_found_grow_and_what_does_not_fit_is_quarantined(
    broker: LocalBroker, topic: str, tmp_path: Path, table_format: str
) -> None:
    publish_values(broker, topic, b'{"page":"/","ms":1}', b'{"page":"/b","ms":2,"key":"mine"}', None)
    with Load(None, options(broker, topic, tmp_path / "t", format="json", table_format=table_format)) as load:
        caught_up(load)
        publish_values(broker, topic, b'{"ms":"much"}', b'{"ms":3,"user":{"id":7}}', b"no JSON", b'{"ms":4}')
        caught_up(load)
        assert rows(load, "page", "ms", "value_key", "user") == [
            {"page": "/", "ms": 1}, {"page": "/b", "ms": 2, "value_key": "mine"}, {},
            {"ms": 3, "user": '{"id":7}'}, {"ms": 4},
        ]  # fmt: skip
        assert quarantined(load) == [
            (b'{"ms":"much"}', 'ms: "much" is a string, the column is bigint'),
            (b"no JSON", "no valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ]
        assert proof(load).rows == 7
        assert [verdict.gaps for verdict in verify(load.lake)] == [{"quarantined": 2}]


def test_a_declared_schema_is_the_tables_from_the_start_and_may_be_all_of_it(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    publish_values(broker, topic, b'{"at":"2026-01-31T08:00:00Z","tags":["a"]}', b'{"more":1}')
    declared = {"format": "json", "schema": "at timestamp, tags array<string>", "new_fields": "quarantine"}
    with Load(None, options(broker, topic, tmp_path, **declared)) as load:
        assert load.lake.columns.names[-2:] == ["at", "tags"]
        caught_up(load)
        assert quarantined(load) == [(b'{"more":1}', "more: the table has no such column")]
        assert proof(load).rows == 2
    with pytest.raises(ConfigError, match="it is not of format raw"):
        Load(None, options(broker, topic, tmp_path))


@pytest.mark.parametrize("where", ["before_table", "after_table", "after_quarantine"])
def test_a_crash_around_either_commit_leaves_each_offset_in_exactly_one_table(
    broker: LocalBroker, topic: str, tmp_path: Path, where: str
) -> None:
    """Even if the schema is another one after the crash: what was decided stays decided."""
    first = options(broker, topic, tmp_path, format="json", schema="ms bigint", new_fields="quarantine")
    publish_values(broker, topic, b'{"ms":1}', b'{"page":"/"}', b'{"ms":"x"}', b'{"ms":2}')
    with Load(None, first) as load:
        table = load.quarantines[load.lake.uri] if where == "after_quarantine" else load.lake
        crash(table, after=where != "before_table")
        with pytest.raises(Crash):
            load.run_job()
    publish_values(broker, topic, b'{"page":"/later"}', b"broken")
    with Load(None, options(broker, topic, tmp_path, format="json", schema="ms bigint, page string")) as load:
        caught_up(load)
        assert proof(load).rows == 6
        fits = 2 if where != "before_table" else 1
        assert len(quarantined(load)) == fits + 1
        assert caught_up(load) == 0


def test_a_crash_keeps_no_record_from_the_quarantine_that_follows_on_one_which_is_there(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    """The table tells both as one gap, which begins before what the quarantine lacks."""
    with Load(None, options(broker, topic, tmp_path, format="json")) as load:
        publish_values(broker, topic, b"broken")
        caught_up(load)
        publish_values(broker, topic, b"broken too", b'{"ms":1}')
        crash(load.lake, after=True)
        with pytest.raises(Crash):
            caught_up(load)
    with Load(None, options(broker, topic, tmp_path, format="json")) as load:
        caught_up(load)
        assert proof(load).rows == 3
        assert [value for value, _ in quarantined(load)] == [b"broken", b"broken too"]


def test_a_quarantine_that_was_lost_is_made_again_from_the_brokers(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    import shutil

    publish_values(broker, topic, b'{"ms":1}', b"broken")
    with Load(None, options(broker, topic, tmp_path / "t", format="json")) as load:
        caught_up(load)
    shutil.rmtree(tmp_path / "t_quarantine")
    with Load(None, options(broker, topic, tmp_path / "t", format="json")) as load:
        caught_up(load)
        assert proof(load).rows == 2


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.stop()


def test_avro_follows_its_registry_and_quarantines_what_it_does_not_know(
    broker: LocalBroker, topic: str, tmp_path: Path, registry: Registry
) -> None:
    old, new = click(("page", ["null", "string"])), click(("page", ["null", "string"]), ("ms", ["null", "long"]))
    one = registry.register(topic, old)
    publish_values(broker, topic, avro(old, one, {"page": "/"}), None)
    made = options(broker, topic, tmp_path, format="avro", schema_registry=registry.url)
    with Load(None, made) as load:
        caught_up(load)
        two = registry.register(topic, new)
        publish_values(broker, topic, avro(new, two, {"page": "/b", "ms": 5}), avro(old, 99, {"page": "/"}), b"{}")
        registry.up = False
        with pytest.raises(RegistryError, match="not today"):
            load.run_job()
        assert len(rows(load, "page")) == 2, "a registry that is away commits nothing"
        registry.up = True
        caught_up(load)
        assert rows(load, "page", "ms") == [{"page": "/"}, {}, {"page": "/b", "ms": 5}]
        assert [reason for _, reason in quarantined(load)] == [
            "the registry knows no schema 99",
            "no schema id: the value does not begin with a zero byte and four more",
        ]
        assert proof(load).rows == 5


def test_a_job_that_runs_again_for_a_new_column_leaves_no_file_of_the_first_try(
    broker: LocalBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task finds the column; the other had written its file by then."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with Load(None, options(broker, topic, tmp_path / "lake", format="json", inline_offsets=0)) as load:
        publish_values(broker, topic, b'{"a": 1}')
        caught_up(load)
        publish_values(broker, topic, b'{"a": 2}', partition=0)
        publish_values(broker, topic, b'{"a": 3, "b": 4}', partition=1)
        assert caught_up(load) == 1
        assert rows(load, "a", "b") == [{"a": 1}, {"a": 2}, {"a": 3, "b": 4}]
        assert {path.name for path in (tmp_path / "lake").glob("*.parquet")} == {f.path for f in load.lake.files()}


def test_a_table_is_partitioned_by_a_field_that_only_the_registry_knows(
    broker: LocalBroker, topic: str, tmp_path: Path, registry: Registry
) -> None:
    fields = click(("page", ["null", "string"]), ("ms", ["null", "long"]))
    one = registry.register(topic, fields)
    publish_values(broker, topic, avro(fields, one, {"page": "/", "ms": 3_600_000}), None)
    made = options(
        broker, topic, tmp_path, format="avro", schema_registry=registry.url, partition_by=["page", "hour(ms)"]
    )
    with Load(None, made) as load:
        caught_up(load)
        values = [tuple(file.partition_values.values()) for file in load.lake.files()]
        assert sorted(values, key=str) == [("/", "1970-01-01-01"), (None, None)]
        assert proof(load).rows == 2
