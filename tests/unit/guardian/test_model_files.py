"""Models on disk: what is written is read as it was, and what is wrong is said with its file and row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.skewed_models import Shape, skewed

from penstock.errors import ConfigError
from penstock.guardian.model.reading import read_model
from penstock.guardian.model.rules_file import read_rules, rules_of
from penstock.guardian.model.writing import write_model
from penstock.guardian.plan.model import RESOURCES

Change = Callable[[pa.Table], pa.Table]
SHAPE = Shape(6, 12, disks=2, topics=2)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_model(skewed(SHAPE), tmp_path)
    return tmp_path


def change(directory: Path, name: str, how: Change) -> None:
    path = directory / f"{name}.parquet"
    pq.write_table(how(pq.read_table(path)), path)


def with_value(column: str, row: int, value: object, kind: pa.DataType | None = None) -> Change:
    """A table with another value in one place."""

    def how(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        values[row] = value
        field = table.schema.get_field_index(column)
        return table.set_column(field, column, pa.array(values, kind))

    return how


def without(*columns: str) -> Change:
    return lambda table: table.drop_columns(list(columns))


def test_what_is_written_is_read_as_it_was(directory: Path) -> None:
    model, read = skewed(SHAPE), read_model(directory)
    assert read.unused == read.model.estimates == ()
    assert read.model.digest() == model.digest()


def test_the_order_of_rows_does_not_matter(directory: Path) -> None:
    for name in ("brokers", "disks", "replicas"):
        change(directory, name, lambda table: table.take(np.random.default_rng(1).permutation(table.num_rows)))
    assert read_model(directory).model.digest() == skewed(SHAPE).digest()


def test_what_is_missing_is_estimated_and_said(directory: Path) -> None:
    suffixes = [f"{name}{suffix}" for name in RESOURCES for suffix in ("", "_p95")]
    columns = [f"{role}_{name}" for role in ("leader", "follower") for name in suffixes]
    change(directory, "replicas", without(*columns, "cpu_p95"))
    change(directory, "brokers", without("host", "new", "alive"))
    read, model = read_model(directory).model, skewed(SHAPE)
    assert np.allclose(read.leading[:, :6], model.leading[:, :6])
    assert np.allclose(read.following[:, :6], model.following[:, :6])
    assert np.allclose(read.leading[:, 6], model.leading[:, 0])
    assert [each.split(":")[1] for each in read.estimates] == [
        " medians stand in for 95th percentiles",
        " a follower is taken to cost as a leader what its partition's leader costs now",
        " a leader is taken to cost as a follower what its partition's followers cost on average",
    ]


@pytest.mark.parametrize(
    ("name", "how", "said"),
    [
        (
            "brokers",
            with_value("cpu_capacity", 2, float("nan")),
            "brokers.parquet, row 3: cpu_capacity is nan",
        ),
        ("brokers", with_value("cpu_capacity", 1, 1e-300), "row 2: cpu_capacity is 1e-300; it must be 1e-06 to 1e+18"),
        ("replicas", with_value("bytes", 1, 1e300), "row 2: bytes is 1e+300; it must be 0 to 1e+18 bytes"),
        ("brokers", with_value("net_in_capacity", 0, 0.0), "row 1: net_in_capacity is 0; it must be above 0 bytes/s"),
        (
            "disks",
            with_value("bytes_capacity", 1, -5.0),
            "disks.parquet, row 2: bytes_capacity is -5; it",
        ),
        ("disks", with_value("rate_capacity", 1, float("inf")), "rate_capacity is inf"),
        (
            "brokers",
            with_value("broker", 3, 0, pa.int32()),
            "row 4: broker 0 is there twice; each broker must",
        ),
        ("disks", with_value("dir", 1, "/data/0"), "row 2: /data/0 of broker 0 is there twice"),
        ("disks", with_value("broker", 0, 77, pa.int32()), "row 1: broker 77 is not in brokers.parquet"),
        ("disks", lambda table: table.slice(2), "disks.parquet has no row for broker 0"),
        ("replicas", with_value("broker", 4, 99, pa.int32()), "replicas.parquet, row 5: broker 99 is not in brokers"),
        ("replicas", with_value("dir", 4, "/none"), "has no dir '/none'; disks.parquet has /data/0, /data/1 for it"),
        ("replicas", with_value("net_in", 3, -1.0), "row 4: net_in is -1; it must be 0 or more bytes/s"),
        ("replicas", with_value("leader", 0, False), "topic-000000-0 has 0 leaders; exactly one replica must"),
        ("replicas", with_value("leader", 1, True), "topic-000000-0 has 2 leaders"),
        ("replicas", with_value("position", 1, 0, pa.int16()), "their positions must be 0 to 2, each once"),
        ("replicas", with_value("partition", 0, -1, pa.int32()), "partition is -1; it must be 0 or more"),
        ("replicas", without("cpu"), "replicas.parquet has no column cpu (double, cores)"),
        ("brokers", with_value("broker", 0, None, pa.int32()), "row 1: broker is null; it must be int32"),
        ("replicas", lambda table: table.slice(0, 0), "replicas.parquet has 0 rows"),
        (
            "replicas",
            lambda table: table.set_column(6, "cpu", pa.array([[1.0]] * table.num_rows)),
            "column cpu is list<",
        ),
        (
            "brokers",
            lambda table: table.set_column(0, "broker", pa.array(["a"] * table.num_rows)),
            "column broker is string, it must be int32",
        ),
    ],
)
def test_what_is_wrong_is_said(directory: Path, name: str, how: Change, said: str) -> None:
    change(directory, name, how)
    with pytest.raises(ConfigError) as failure:
        read_model(directory)
    assert said in str(failure.value)


def test_two_replicas_of_a_partition_on_one_broker_are_refused(directory: Path) -> None:
    table = pq.read_table(directory / "replicas.parquet")
    first = table["broker"][0].as_py()
    change(directory, "replicas", with_value("broker", 1, first, pa.int32()))
    with pytest.raises(ConfigError, match="topic-000000-0 has two replicas on broker"):
        read_model(directory)


def test_a_missing_or_broken_file_is_named(directory: Path) -> None:
    (directory / "disks.parquet").write_text("no parquet")
    with pytest.raises(ConfigError, match=r"disks\.parquet cannot be read as Parquet"):
        read_model(directory)
    (directory / "disks.parquet").unlink()
    with pytest.raises(ConfigError, match=r"has no disks\.parquet; a model has brokers\.parquet"):
        read_model(directory)
    with pytest.raises(ConfigError, match="is no directory"):
        read_model(directory / "none")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "the file = []; it must be an object"),
        ({"cordonned": []}, "unknown key cordonned; did you mean cordoned?"),
        ({"cordoned": [99]}, "cordoned: the model has no broker 99"),
        ({"cordoned": 1}, "cordoned = 1; it must be a list"),
        ({"excluded_topics": ["topic-00000"]}, "did you mean topic-00000"),
        ({"capacity": {"cpu": 1.5}}, "capacity.cpu = 1.5; it must be a number above 0, at most 1"),
        ({"capacity": {"cpu": True}}, "capacity.cpu = true"),
        ({"goals": {"within": 2}}, "goals.within = 2; it must be at most 1"),
        ({"racks": "no"}, 'racks = "no"; it must be true or false'),
        ({"replicas_per_broker_max": 0}, "replicas_per_broker_max = 0; it must be a whole number, 1 to 2147483647"),
        ({"replicas_per_broker_max": 10**30}, "must be a whole number, 1 to 2147483647"),
        ({"leaders_per_broker_min": {"topic-000000": 10**30}}, "must be a whole number, 1 to 2147483647"),
        ({"goals": {"bytes_price": 10**400}}, "it must be a number above 0, at most 1e+09"),
        ({"drained": ["1"]}, 'drained: the model has no broker "1"'),
        (
            {"in_flight": [{"topic": "topic-000000", "partition": "0", "replicas": []}]},
            'in_flight: the model has no partition of topic-000000 "0"',
        ),
        ({"capacity": {"cpu": 1e-300}}, "capacity.cpu = 1e-300; it must be at least 1e-06"),
        (
            {"in_flight": [{"topic": "topic-000000", "partition": 0, "replicas": [1, 1]}]},
            "in_flight: topic-000000-0 has a broker twice in [1, 1]",
        ),
        (
            {"in_flight": [{"topic": "topic-000000", "partition": 0, "replicas": [1]}] * 2},
            "in_flight has topic-000000-0 twice",
        ),
        ({"moved": [{"topic": "topic-000000", "partition": 0}]}, "has no broker"),
        ({"moved": [{"topic": "topic-000000", "partition": 0, "broker": 9}]}, "moved: the model has no broker 9"),
        ({"moved": [{"topic": "topic-000000", "partition": 0, "broker": 1, "at": 3}]}, "moved has the unknown key at"),
        ({"pinned": {"x": [1]}}, 'pinned: the model has no topic "x"'),
        ({"in_flight": [{"topic": "topic-000000"}]}, "has no partition"),
    ],
)
def test_a_wrong_rule_is_said(document: object, said: str) -> None:
    with pytest.raises(ConfigError) as failure:
        rules_of(document, skewed(SHAPE))
    assert said in str(failure.value)


def test_rules_that_are_nested_too_deep_are_no_json(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="is no JSON"):
        read_rules(path, skewed(SHAPE))
