"""Options of writing DataFrames to a lake table, and the query that a checkpoint is of."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.errors import ConfigError
from penstock.spark.frames.options import parse, query_of
from penstock.spark.lake.batches import QueryBatch


def test_options_are_read_in_any_case() -> None:
    told = parse(
        {
            "PATH": "s3://lake/clicks/",
            "tableformat": "Iceberg",
            "partitionby": "date, country",
            "mergeschema": "TRUE",
            "storage.AWS_REGION": "here",
            "catalog.uri": "sqlite:///c.db",
            "txnappid": "job",
            "txnversion": "7",
        }
    )
    assert (told.path, told.table_format, told.partition_by) == ("s3://lake/clicks", "iceberg", ("date", "country"))
    assert told.merge_schema
    assert told.batch == QueryBatch("job", 7)
    assert told.storage_options == {"aws_region": "here", "catalog.uri": "sqlite:///c.db"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"place is missing: .save\(PATH\)"),
        ({"path": "ftp://lake"}, "a table cannot be at ftp://lake"),
        ({"path": "t", "tableFormt": "delta"}, r"unknown option tableFormt; did you mean tableFormat\?"),
        ({"path": "t", "tableFormat": "hudi"}, "tableFormat = 'hudi' must be one of delta, iceberg, auto"),
        ({"path": "t", "mergeSchema": "yes"}, "mergeSchema = 'yes' must be one of true, false"),
        ({"path": "t", "partitionBy": "a,,b"}, "partitionBy = 'a,,b' must be columns"),
        ({"path": "t", "partitionBy": "a,a"}, "partitionBy = 'a,a' must be columns"),
        ({"path": "t", "txnAppId": "job"}, "txnAppId and txnVersion belong together"),
        ({"path": "t", "txnAppId": "job", "txnVersion": "-1"}, "txnVersion = '-1' must be a whole number"),
        ({"path": "t", "txnAppId": "job", "txnVersion": str(1 << 63)}, "must be a whole number"),
        ({"path": "t", "txnAppId": " ", "txnVersion": "1"}, "txnAppId is empty"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(options)


def test_a_stream_numbers_its_batches_itself() -> None:
    with pytest.raises(ConfigError, match=r"txnVersion is for df\.write"):
        parse({"path": "t", "txnVersion": "1"}, stream=True)


def test_a_query_is_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"f2c5"}')
    assert query_of(parse({"path": "t", "checkpointLocation": f"file://{tmp_path}"}, stream=True)) == "f2c5"


@pytest.mark.parametrize("content", [None, "", "{}", '{"id":null}', "[]", "\xff"])
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "metadata").write_text(content, encoding="latin-1")
    with pytest.raises(ConfigError, match="is no checkpoint of a query"):
        query_of(parse({"path": "t", "checkpointLocation": str(tmp_path)}, stream=True))


def test_a_checkpoint_must_be_told_and_within_reach() -> None:
    with pytest.raises(ConfigError, match="option checkpointLocation is missing"):
        query_of(parse({"path": "t"}, stream=True))
    with pytest.raises(ConfigError, match=r"ftp://c cannot be read here: use a path, or a URI of s3"):
        query_of(parse({"path": "t", "checkpointLocation": "ftp://c"}, stream=True))
