"""`penstock verify` and `penstock load` on the command line: exit codes, JSON, errors in one line."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from uuid import UUID

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.cli.main import main
from penstock.spark.lake.open import open_table
from penstock.spark.lake.records import RECORD_SCHEMA, DataFile, Gap, Statistics, TopicPartition

CLICKS = TopicPartition("clicks", UUID(int=1), 0)


def lake_of(directory: Path, offsets: list[int], gaps: list[Gap]) -> None:
    """A table that a load has filled from 0 to 10 with these offsets."""
    rows = [
        {"topic": "clicks", "topicId": str(CLICKS.topic_id), "partition": 0, "offset": offset, "value": b"v"}
        for offset in offsets
    ]
    path = directory / "part.parquet"
    table = pa.Table.from_pylist([{"timestamp": 0, "timestampType": 0, **row} for row in rows], schema=RECORD_SCHEMA)
    pq.write_table(table, path)
    statistics = Statistics()
    statistics.add(table)
    file = DataFile(path.name, path.stat().st_size, len(offsets), statistics.low, statistics.high)
    open_table(str(directory), "load").commit([file], {CLICKS: 0}, {CLICKS: 10}, gaps)


def test_a_clean_table_is_0_and_says_what_has_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake_of(tmp_path, [0, 1, 2, 3, 6, 7, 8, 9], [Gap(CLICKS, 4, 5, "control"), Gap(CLICKS, 5, 6, "corrupt")])
    assert main(["verify", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "clean: 8 rows in 1 partition, no offset missing, none twice" in said
    assert "offsets without a record: 1 control, 1 corrupt" in said


def test_a_table_with_a_hole_and_a_double_is_1_and_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake_of(tmp_path, [0, 1, 2, 2, 3, 6, 7, 8, 9], [])
    assert main(["verify", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "clicks-0: missing 4-5" in said
    assert "clicks-0: double 2" in said


def test_a_row_at_an_offset_that_was_loaded_as_a_gap_is_1_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake_of(tmp_path, list(range(10)), [Gap(CLICKS, 4, 5, "control")])
    assert main(["verify", str(tmp_path)]) == 1
    assert "clicks-0: 1 row at offsets that were loaded as having no record: 4" in capsys.readouterr().out


def test_json_has_the_verdict_of_each_partition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake_of(tmp_path, list(range(9)), [])
    assert main(["verify", str(tmp_path), "--json", "--topic", "clicks"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["clean"], told["version"]) == (False, 1)
    assert told["partitions"][0]["missing_ranges"] == [[9, 10]]


def test_a_topic_that_the_table_has_not_is_not_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake_of(tmp_path, list(range(10)), [])
    assert main(["verify", str(tmp_path), "--topic", "orders"]) == 1
    assert "nothing to verify" in capsys.readouterr().out


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    return captured.err


def test_a_directory_without_a_table_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "nowhere")]) == 1
    assert one_line(capsys) == f"error: there is no Delta table at {tmp_path / 'nowhere'}\n"


def test_a_broker_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake_of(tmp_path, list(range(10)), [])
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        assert main(["verify", str(tmp_path), "--broker", f"127.0.0.1:{nobody.getsockname()[1]}"]) == 1
    assert "127.0.0.1" in one_line(capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["load"], "name the topics (or --subscribe-pattern) and the table: penstock load TOPIC... --table TABLE"),
        (["load", "clicks"], "and the table: penstock load"),
        (["load", "clicks", "--table", "t", "--starting", "tomorrow"], "--starting"),
    ],
)
def test_a_load_that_is_asked_wrongly_is_told_what_is_right(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) != 0
    assert message in one_line(capsys)


def test_the_spark_settings_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "--explain"]) == 0
    assert "spark.driver.memory" in capsys.readouterr().out
