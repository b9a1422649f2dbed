"""What tests found, as rows of a Delta table: for dashboards, for a pipeline's page, and for whoever asks later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.pipelines.limits import TEST_RESULT_FILES_MAX, TEST_RESULTS_OVERDUE_S, TEST_RESULTS_SHOWN

PASS, WARN, FAIL, ERROR, SKIPPED = "pass", "warn", "fail", "error", "skipped"
BAD = (FAIL, ERROR)
RUN = "run"
"""In place of a test: the model itself, which failed or was left out, or ran well for the first time since."""


@dataclass(frozen=True, slots=True)
class Result:
    """One test of a node, or whether a model ran.

    Attributes:
        time: when it was known.
        pipeline: whose it is.
        step: the source or model.
        test: its name, or RUN.
        status: one of PASS, WARN, FAIL, ERROR (the test itself failed, or the model) and SKIPPED.
        failures: rows, or keys, that failed.
        sample: some of them as JSON.
        message: a sentence for a person, if there is something to say.
        seconds: how long it took.
    """

    time: datetime
    pipeline: str
    step: str
    test: str
    status: str
    failures: int = 0
    sample: str = ""
    message: str = ""
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """As a terminal shows it."""
        count = f", {self.failures:,} failures" if self.failures else ""
        return f"{self.step} {self.test}: {self.status}{count}{': ' if self.message else ''}{self.message}"


def now() -> datetime:
    return datetime.now(UTC)


def write_results(
    path: str, results: Sequence[Result], storage_options: Mapping[str, str], *, keep_days: int = 0
) -> None:
    """Adds results to the table, which is made if it is missing; deletes those of the same pipeline that are older than
    `keep_days`, if that is not 0."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake
    from deltalake.exceptions import DeltaError

    if not results:
        return
    text = pa.string()
    types = {"time": pa.timestamp("us", "UTC"), "failures": pa.int64(), "seconds": pa.float64()}
    schema = pa.schema([(name, types.get(name, text)) for name in Result.__slots__])
    rows = pa.Table.from_pylist([asdict(each) for each in results], schema=schema)
    options = dict(storage_options)
    write_deltalake(path, rows, mode="append", storage_options=options)
    table = DeltaTable(path, storage_options=options)
    with suppress(DeltaError, OSError):  # another process does it, or the next run; the results are there
        deleted = bool(keep_days) and _delete_before(table, results[0].pipeline, now() - timedelta(days=keep_days))
        compacted = len(table.file_uris()) > TEST_RESULT_FILES_MAX
        if compacted:
            table.optimize.compact()
        if deleted or compacted:
            table.vacuum(dry_run=False)


def _delete_before(table: Any, pipeline: str, until: datetime) -> bool:
    """Deletes a pipeline's results of before a time, if some are overdue."""
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=True))
    oldest = actions.column("min.time").to_pylist() if "min.time" in actions.column_names else []
    overdue = until - timedelta(seconds=TEST_RESULTS_OVERDUE_S)
    if not any(each is None or each < overdue for each in oldest):
        return False
    at = until.isoformat(timespec="microseconds")
    table.delete(f"pipeline = {_literal(pipeline)} and time < '{at}'")
    return True


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def last_results(path: str, pipeline: str, storage_options: Mapping[str, str]) -> list[Result]:
    """The newest result of each test of a pipeline, as far as the newest rows tell; none if there is no table."""
    from penstock.pipelines.jobs.tables import rows_of

    rows = rows_of(path, storage_options, filters=[("pipeline", "=", pipeline)])
    if rows is None:
        return []
    newest: dict[tuple[str, str], Any] = {}
    for row in rows.sort_by([("time", "descending")]).slice(0, TEST_RESULTS_SHOWN).to_pylist():
        newest.setdefault((row["step"], row["test"]), row)
    return [Result(**row) for row in newest.values()]
