"""What becomes of the files of a job that fails: whatever the store lets us delete, and never another error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.spark.lake.destination import Destination  # noqa: E402
from penstock.spark.lake.files import DataFileWriter  # noqa: E402
from penstock.spark.load.files import Files  # noqa: E402
from penstock.spark.load.jobs import JobError, gather  # noqa: E402
from penstock.spark.load.work import JobPlan, TargetPlan  # noqa: E402

COLUMNS = pa.schema([pa.field("offset", pa.int64())])
ROWS = pa.record_batch([[1, 2, 3]], schema=COLUMNS)
ERROR = json.dumps({"error": "clicks-1: the batch at offsets 4 to 5 is broken"})


def plan(directory: Path) -> JobPlan:
    return JobPlan({}, False, {"name": "raw"}, [TargetPlan(Destination(str(directory)), COLUMNS)], {"clicks": 0})


def written(directory: Path) -> str:
    """A file of a task that succeeded, as the task tells of it."""
    files = Files(Destination(str(directory)), COLUMNS)
    files.write(ROWS)
    (file,) = files.close()
    told = {name: getattr(file, name) for name in file.__slots__}
    return json.dumps({"file": told, "target": 0, "quarantine": False})


@pytest.mark.parametrize("first", [True, False])
def test_the_files_of_tasks_that_succeeded_beside_one_that_failed_are_deleted(tmp_path: Path, first: bool) -> None:
    lines = [written(tmp_path), ERROR]
    with pytest.raises(JobError, match="offsets 4 to 5"):
        gather(plan(tmp_path), lines if first else lines[::-1])
    assert not list(tmp_path.iterdir())


def test_files_that_the_store_does_not_delete_are_left_to_vacuum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the failed deletion would be told of, as a traceback, in the place of what went wrong."""

    def refused(self: Destination, path: str) -> None:
        raise OSError("no answer")

    lines = [written(tmp_path), ERROR]
    task = Files(Destination(str(tmp_path)), COLUMNS)
    task.write(ROWS)
    compaction = DataFileWriter(Destination(str(tmp_path)), COLUMNS)
    compaction.write(ROWS)
    monkeypatch.setattr(Destination, "delete", refused)
    task.abort()
    compaction.abort()
    with pytest.raises(JobError, match="offsets 4 to 5"):
        gather(plan(tmp_path), lines)
    assert len(list(tmp_path.iterdir())) == 3
