"""Lake tables in an S3-style object store: tasks write straight to it, commits are atomic there too."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

from support.lake_tables import CLICKS, load, only, raced, rows, written

from penstock.cli.main import main
from penstock.errors import ConfigError, PenstockError
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.maintenance import Maintenance
from penstock.spark.lake.open import open_table
from penstock.spark.lake.records import RECORD_SCHEMA, with_date
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verify import verify

BUCKET = "s3://lake"


@pytest.fixture
def options(endpoint: str, tmp_path: Path) -> dict[str, str]:
    import urllib.request

    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/lake", method="PUT")).close()
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


def opened(options: dict[str, str], table_format: str, tmp_path: Path, pipeline: str = "test") -> LakeTable:
    more = {} if table_format == "delta" else {"catalog.uri": f"sqlite:///{tmp_path / 'catalog.db'}"}
    return open_table(
        f"{BUCKET}/clicks",
        pipeline,
        format=table_format,
        columns=with_date(RECORD_SCHEMA),
        partition_by=["date"],
        storage_options={**options, **more},
    )


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_table_in_a_store_is_loaded_proven_and_maintained(
    options: dict[str, str], table_format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = opened(options, table_format, tmp_path)
    for start in range(0, 80, 20):
        load(lake, start, start + 20, [(start, start + 1, "control")])
    verdict = only(verify(lake))
    assert (verdict.clean, verdict.rows, verdict.gaps) == (True, 76, {"control": 4})
    done = Maintenance(lake, target_bytes=1 << 20, keep_hours=0).run()
    assert int(done["compact"]["files_merged"]) >= 4
    again = opened(options, table_format, tmp_path)
    assert again.end(CLICKS) == 80
    assert only(verify(again)).clean
    load(again, 80, 90)
    words = [word for name, value in again.storage_options.items() for word in ("--storage-option", f"{name}={value}")]  # type: ignore[attr-defined]
    assert main(["verify", f"{BUCKET}/clicks", "--table-format", table_format, *words]) == 0
    assert "clean: 86 rows" in capsys.readouterr().out


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_of_writers_that_race_in_a_store_one_commits(
    options: dict[str, str], table_format: str, tmp_path: Path
) -> None:
    opened(options, table_format, tmp_path)
    copies = [opened(options, table_format, tmp_path) for _ in range(3)]
    files = [written(copy, rows(range(10))) for copy in copies]
    assert raced(copies, files) == 1
    verdict = only(verify(opened(options, table_format, tmp_path)))
    assert (verdict.clean, verdict.rows) == (True, 10)


def test_a_destination_travels_as_text_and_writes_reads_lists_and_deletes(options: dict[str, str]) -> None:
    there = Destination.from_json(Destination(f"{BUCKET}/files", options, ("date",)).to_json())
    with there.open("a/one.bin") as file:
        file.write(b"12345")
    assert there.read("a/one.bin") == b"12345"
    assert there.size_bytes("a/one.bin") == 5
    assert [(each.path, each.size_bytes) for each in there.list("")] == [("a/one.bin", 5)]
    there.delete("a/one.bin")
    assert there.read("a/one.bin") is None
    there.delete("a/one.bin")


def test_a_store_that_cannot_be_is_refused_by_name(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="cannot be at ftp://lake/clicks"):
        open_table("ftp://lake/clicks", "test")
    with pytest.raises(ConfigError, match=r"needs a catalog: set catalog\.uri"):
        open_table(f"{BUCKET}/clicks", "test", format="iceberg", storage_options=options)
    with pytest.raises(PenstockError, match="nowhere"):
        open_table("s3://nowhere/clicks", "test", create=False, storage_options=options)
