"""`penstock verify --broker --values`: a planted change in any column of any format is found, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")
pytest.importorskip("numba", reason="needs penstock[kernels]")

import pyarrow.parquet as pq  # noqa: E402
from confluent_kafka import TopicPartition as At  # noqa: E402
from confluent_kafka.admin import AdminClient  # noqa: E402
from interop.spark.load.schema_registry import Registry, avro  # noqa: E402
from interop.spark.load.support import caught_up, options, publish, publish_values  # noqa: E402

from penstock.cli.main import main  # noqa: E402
from penstock.spark.lake.maintenance import Maintenance  # noqa: E402
from penstock.spark.lake.open import open_table  # noqa: E402
from penstock.spark.lake.table import LakeTable  # noqa: E402
from penstock.spark.load.load import Load  # noqa: E402
from penstock.testing.broker import LocalBroker  # noqa: E402

PARTITIONS = 3
PLANTED = 5
"""The offset whose row is changed."""


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def topic(broker: LocalBroker, request: pytest.FixtureRequest) -> str:
    name = request.node.name[-80:].replace("[", ".").replace("]", "")
    broker.create_topic(name, PARTITIONS)
    return name


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.stop()


Verify = Callable[..., dict[str, Any]]


@pytest.fixture
def verify(broker: LocalBroker, capsys: pytest.CaptureFixture[str]) -> Verify:
    """The command with --json: what it told, with its exit code as `code`."""

    def run(lake: LakeTable | str, *more: str) -> dict[str, Any]:
        uri = lake if isinstance(lake, str) else lake.uri
        capsys.readouterr()
        code = main(["verify", uri, "--broker", broker.bootstrap, "--json", *more])
        said = capsys.readouterr()
        assert not said.err
        return {**json.loads(said.out), "code": code}

    return run


def found(told: dict[str, Any], what: str) -> list[Any]:
    """What the brokers told of each partition."""
    return [partition["broker"][what] for partition in told["partitions"]]


def plant(lake: LakeTable, change: Callable[[pa.Table], pa.Table]) -> None:
    """Changes rows in the files themselves, behind the back of the table."""
    base = Path(lake.uri)
    for file in open_table(lake.uri, "plant", format=lake.format, create=False).files():
        path = base / file.path if (base / file.path).exists() else Path("/" + file.path)
        rows = pq.ParquetFile(path).read()
        changed = change(rows)
        if not changed.equals(rows):
            pq.write_table(changed, path)


def changed_at(column: str, offset: int = PLANTED) -> Callable[[pa.Table], pa.Table]:
    """Another value in one column of the row of an offset of partition 0."""

    def change(rows: pa.Table) -> pa.Table:
        if column not in rows.column_names:
            return rows
        values, kind = rows[column].to_pylist(), rows.schema.field(column)
        places = zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
        for at, place in enumerate(places):
            if place == (0, offset):
                values[at] = another(values[at], kind.type)
        return rows.set_column(rows.column_names.index(column), kind, pa.array(values, kind.type))

    return change


def another(value: Any, kind: pa.DataType) -> Any:
    """A value that is as near to this one as can be, and not it."""
    types = pa.types
    if value is None:
        return {"binary": b"", "string": ""}.get(str(kind), [{"key": "?", "value": None}])
    if types.is_struct(kind):
        last = kind[kind.num_fields - 1]
        return value | {last.name: another(value[last.name], last.type)}
    if types.is_map(kind):
        return [*value[:-1], (value[-1][0], another(value[-1][1], kind.item_type))]
    if types.is_list(kind):
        return [*value[:-1], another(value[-1], kind.value_type)]
    if isinstance(value, bool):
        return not value
    if isinstance(value, datetime):
        return value + timedelta(microseconds=1)
    if isinstance(value, date):
        return value + timedelta(days=1)
    if isinstance(value, Decimal):
        return value + Decimal(1).scaleb(-kind.scale)
    return value + {str: "?", bytes: b"?", int: 1, float: 0.5}[type(value)]


def assert_each_change_is_found(lake: LakeTable, verify: Verify, *more: str, columns: list[str]) -> None:
    """Plants a change in one column after the other; each is found where it is, and what is mended is clean."""
    clean = verify(lake, "--values", "all", *more)
    assert (clean["code"], clean["columns_not_compared"]) == (0, {})
    rows = sum(partition["rows"] for partition in clean["partitions"])
    assert sum(found(clean, "compared")) == rows
    assert sorted(columns) == sorted({*lake.columns.names} - {"topic", "topicId", "partition", "offset"})
    directory = Path(lake.uri)
    before = {path: path.read_bytes() for path in directory.rglob("*.parquet")}
    for column in columns:
        plant(lake, changed_at(column))
        told = verify(lake, "--values", "all", *more)
        assert (told["code"], found(told, "changed")[0]) == (1, [[PLANTED, column]]), column
        assert (sum(found(told, "changed_rows")), sum(found(told, "compared"))) == (1, rows)
        for path, content in before.items():
            path.write_bytes(content)


RECORD = ["timestamp", "timestampType", "key", "headers"]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_in_every_column_of_raw_values(
    broker: LocalBroker, topic: str, tmp_path: Path, verify: Verify, table_format: str
) -> None:
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path / "t", table_format=table_format)) as load:
        caught_up(load)
        assert_each_change_is_found(load.lake, verify, columns=[*RECORD, "value"])


JSON_COLUMNS = (
    "flag boolean, tiny tinyint, small smallint, n int, big bigint, x float, y double, d decimal(9, 2), s string, "
    "day date, at timestamp, tags array<string>, client struct<os: string, scores: array<double>>, value_key string, "
    "value bigint"
)


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_in_every_column_of_json_values(
    broker: LocalBroker, topic: str, tmp_path: Path, verify: Verify, table_format: str
) -> None:
    value = {
        "flag": True, "tiny": 1, "small": 2, "n": 3, "big": 2**60, "x": 0.5, "y": 0.1, "d": 1.25, "s": "ü", "value": 7,
        "day": "2026-01-31", "at": "2026-01-31T08:00:00Z", "tags": ["a", "b"], "key": "k",
        "client": {"os": "x", "scores": [1.5, 2.5]},
    }  # fmt: skip
    types = JSON_COLUMNS
    if table_format == "iceberg":  # which has no narrower integers
        types = types.replace("tinyint", "int").replace("smallint", "int")
    publish_values(broker, topic, *[json.dumps({**value, "n": n}).encode() for n in range(PLANTED)])
    more = {"table_format": table_format, "format": "json", "schema": types}
    with Load(None, options(broker, topic, tmp_path / "t", **more)) as load:
        caught_up(load)
        publish_values(broker, topic, json.dumps({**value, "later": {"id": 1}}).encode(), None, b"broken")
        caught_up(load)
        names = [*value.keys() - {"key"}, "value_key"]
        assert_each_change_is_found(load.lake, verify, columns=[*RECORD, *names, "later"])


AVRO = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "big", "type": "long"},
        {"name": "x", "type": "float"},
        {"name": "y", "type": "double"},
        {"name": "flag", "type": "boolean"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "b", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "id", "type": "long"}]}},
        {"name": "either", "type": ["string", "long"]},
    ],
}
GIVEN = {
    "n": 1, "big": 2**60, "x": 0.5, "y": float("nan"), "flag": False, "s": None, "b": b"\0", "kind": "A", "tags": ["a"],
    "d": Decimal("1.25"), "day": date(2026, 1, 31), "at": datetime(2026, 1, 31, tzinfo=UTC), "counts": {"a": 1, "b": 2},
    "inner": {"id": 7}, "either": 8,
}  # fmt: skip


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_in_every_column_of_avro_values(
    broker: LocalBroker, tmp_path: Path, verify: Verify, registry: Registry, table_format: str
) -> None:
    topic = f"avro-{table_format}"
    broker.create_topic(topic, PARTITIONS)
    number = registry.register(topic, AVRO)
    values = [avro(AVRO, number, {**GIVEN, "n": n, "y": 0.5 if n == PLANTED else GIVEN["y"]}) for n in range(10)]
    publish_values(broker, topic, *values, None)
    more = {"table_format": table_format, "format": "avro", "schema_registry": registry.url}
    with Load(None, options(broker, topic, tmp_path / "t", **more)) as load:
        caught_up(load)
        names = [field["name"] for field in AVRO["fields"]]
        assert_each_change_is_found(load.lake, verify, "--schema-registry", registry.url, columns=[*RECORD, *names])


def test_an_avro_row_is_right_by_the_schema_that_was_the_latest_when_it_was_loaded(
    broker: LocalBroker, topic: str, tmp_path: Path, verify: Verify, registry: Registry
) -> None:
    """Later versions give the same record other defaults, and fields that the table does not have yet."""
    old = {"type": "record", "name": "Click", "fields": [{"name": "page", "type": "string"}]}
    ms = {"name": "ms", "type": "long", "default": 0}
    newer = {**old, "fields": [*old["fields"], ms]}
    newest = {**newer, "fields": [*newer["fields"], {"name": "user", "type": "string", "default": "?"}]}
    one = registry.register(topic, old)
    publish_values(broker, topic, *(avro(old, one, {"page": f"/{n}"}) for n in range(10)))
    made = options(broker, topic, tmp_path / "t", format="avro", schema_registry=registry.url)
    with Load(None, made) as load:
        caught_up(load)
        two = registry.register(topic, newer)
        publish_values(broker, topic, avro(newer, two, {"page": "/new", "ms": 5}), avro(old, one, {"page": "/old"}))
        caught_up(load)
        registry.register(topic, newest)
        told = verify(load.lake, "--values", "all", "--schema-registry", registry.url)
        assert (told["code"], found(told, "compared")) == (0, [12])
        plant(load.lake, changed_at("page"))
        told = verify(load.lake, "--values", "all", "--schema-registry", registry.url)
        assert (told["code"], found(told, "changed")) == (1, [[[PLANTED, "page"]]])


def test_avro_values_without_their_registry_are_not_taken_for_broken_json(
    broker: LocalBroker, topic: str, tmp_path: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = {"type": "record", "name": "Click", "fields": [{"name": "page", "type": "string"}]}
    publish_values(broker, topic, avro(schema, registry.register(topic, schema), {"page": "/"}))
    with Load(None, options(broker, topic, tmp_path / "t", format="avro", schema_registry=registry.url)) as load:
        caught_up(load)
    assert main(["verify", str(tmp_path / "t"), "--broker", broker.bootstrap]) == 1
    assert "name their --schema-registry URL" in capsys.readouterr().err


@pytest.mark.parametrize("values", ["sample", "all"])
def test_a_column_that_is_overwritten_in_every_row_is_found_and_counted_a_partition(
    broker: LocalBroker, topic: str, tmp_path: Path, verify: Verify, values: str
) -> None:
    for partition in range(PARTITIONS):
        some = [json.dumps({"page": f"/{n}"}).encode() for n in range(100 * (partition + 1))]
        publish_values(broker, topic, *some, partition=partition)
    with Load(None, options(broker, topic, tmp_path / "t", format="json")) as load:
        caught_up(load)
        kind, at = load.lake.columns.field("page"), load.lake.columns.names.index("page")
        plant(load.lake, lambda rows: rows.set_column(at, kind, pa.array(["?"] * len(rows))))
        told = verify(load.lake, "--values", values, "--sample", "60")
        assert told["code"] == 1
        rows = [100, 200, 300] if values == "all" else [60, 60, 60]
        assert (found(told, "changed_rows"), found(told, "compared")) == (rows, rows)
        assert found(told, "changed_columns") == [{"page": count} for count in rows]
        assert verify(load.lake, "--values", "none")["code"] == 0, "offsets alone do not tell"


def test_rows_of_one_partition_are_not_counted_by_the_sample_of_another(
    broker: LocalBroker, topic: str, tmp_path: Path, verify: Verify
) -> None:
    """Samples lie elsewhere in each partition, and nothing is gone from the broker."""
    publish(broker, topic, 3000)
    with Load(None, options(broker, topic, tmp_path / "t")) as load:
        caught_up(load)
        told = verify(load.lake, "--sample", "100")
        assert (told["code"], found(told, "compared"), found(told, "gone_rows")) == (0, [100] * 3, [0] * 3)


def test_compacted_files_whose_row_groups_hold_all_partitions_are_compared_whole(
    broker: LocalBroker, topic: str, tmp_path: Path, verify: Verify
) -> None:
    with Load(None, options(broker, topic, tmp_path / "t", partition_by_date=True)) as load:
        for _ in range(3):
            publish(broker, topic, 300)
            caught_up(load)
        Maintenance(load.lake, target_bytes=1 << 27, keep_hours=168).run(("compact",))
        told = verify(load.lake, "--values", "all")
        assert (told["code"], found(told, "compared")) == (0, [300] * 3)
        plant(load.lake, changed_at("value", 150))
        assert found(verify(load.lake, "--values", "all"), "changed") == [[[150, "value"]], [], []]


def test_a_second_row_of_an_offset_is_compared_like_the_first(
    broker: LocalBroker, topic: str, tmp_path: Path, verify: Verify
) -> None:
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path / "t")) as load:
        caught_up(load)

        def twin(rows: pa.Table) -> pa.Table:
            offsets, partitions = rows["offset"].to_numpy(), rows["partition"].to_numpy()
            forged = rows.filter(pa.array((offsets == PLANTED) & (partitions == 0)))
            values = pa.array([b"forged"] * len(forged), pa.binary())
            at = rows.column_names.index("value")
            return pa.concat_tables([rows, forged.set_column(at, rows.schema.field("value"), values)])

        plant(load.lake, twin)
        told = verify(load.lake, "--values", "all")
        assert told["partitions"][0]["duplicates"] == 1
        assert found(told, "changed") == [[[PLANTED, "value"]], [], []]
        assert found(told, "compared") == [101, 100, 100]


def test_records_in_the_quarantine_are_not_missed_in_the_table_unless_they_are_in_neither(
    broker: LocalBroker, topic: str, tmp_path: Path, verify: Verify
) -> None:
    publish_values(broker, topic, b'{"page":"/"}', b"broken", b'{"page":"/b"}', b"broken too")
    table = str(tmp_path / "t")
    with Load(None, options(broker, topic, tmp_path / "t", format="json")) as load:
        caught_up(load)
        told = verify(table)
        assert (told["code"], found(told, "elsewhere"), found(told, "compared")) == (0, [2], [2])
        beside = verify(table + "_quarantine", "--values", "all")
        assert (beside["code"], found(beside, "elsewhere"), found(beside, "compared")) == (0, [2], [2])
        assert beside["columns_not_compared"] == {"reason": "told when it was quarantined"}
        load.quarantines[load.lake.uri].table.delete('"offset" = 3')  # type: ignore[attr-defined]
        told = verify(table)
        assert (told["code"], found(told, "absent")) == (1, [[3]])


def test_values_are_not_asked_for_without_a_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_table(str(tmp_path), "load")
    assert main(["verify", str(tmp_path), "--values", "all"]) == 2
    assert "--values all: name the --broker" in capsys.readouterr().err


def test_a_row_group_at_a_time_gives_the_same_and_survives_retention_meanwhile(
    broker: LocalBroker, topic: str, tmp_path: Path, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.spark.load import values

    monkeypatch.setattr(values, "LAKE_COMPARE_BYTES", 1)
    with Load(None, options(broker, topic, tmp_path / "t")) as load:
        for _ in range(3):
            publish(broker, topic, 300)
            caught_up(load)
        assert found(verify(load.lake, "--values", "all"), "compared") == [300] * 3
        rows = values.Comparison._rows

        def deleting(comparison: values.Comparison, *arguments: Any) -> Any:
            monkeypatch.setattr(values.Comparison, "_rows", rows)
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            for future in admin.delete_records([At(topic, 0, 50)]).values():
                future.result(30)
            return rows(comparison, *arguments)

        monkeypatch.setattr(values.Comparison, "_rows", deleting)
        told = verify(load.lake, "--values", "all")
        assert (told["code"], found(told, "compared")) == (0, [250, 300, 300])
