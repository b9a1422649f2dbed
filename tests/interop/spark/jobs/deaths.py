"""Rounds of input for each job, what its tables hold then, and drivers that die around a commit.

As a script: runs a job until caught up; its process group is killed `before` or `after` one of its commits, or `never`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from penstock.pipelines.context import Context
from penstock.pipelines.job import Job
from penstock.pipelines.jobs import activity, operations, security
from penstock.pipelines.jobs.tables import rows_of
from penstock.spark.lake.delta import DeltaLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
RUNS_MAX = 5
Rows = list[dict[str, Any]]


def record(seconds: float, **fields: Any) -> bytes:
    return json.dumps({"time_ms": START_MS + int(seconds * 1000), **fields}).encode()


def seconds_of(time: datetime) -> int:
    return int(time.replace(tzinfo=UTC).timestamp()) - START_MS // 1000


@dataclass(frozen=True, slots=True)
class Case:
    """A job on trial.

    Attributes:
        job: the job.
        options: that it has.
        input: the records of a round.
        tables: what its tables hold after some rounds, and what they should hold.
        commits: how many commits a round has at least.
    """

    job: Job
    options: Mapping[str, Any]
    input: Callable[[int], list[bytes]]
    tables: Callable[[Callable[[str], Rows], int], tuple[Any, Any]]
    commits: int


def clicks(number: int) -> list[bytes]:
    """One of page 0, two of page 1, three of page 2, in the first half of a minute."""
    pages = [page for page in range(3) for _ in range(page + 1)]
    return [
        record(60 * number + at, client="c", user="u", country="DE", page=f"/{page}") for at, page in enumerate(pages)
    ]


def activity_tables(table: Callable[[str], Rows], rounds: int) -> tuple[Any, Any]:
    found = Counter({
        (seconds_of(row["minute"]), row["dimension"], row["name"]): row["requests"] for row in table("counts")
    })  # fmt: skip
    wanted = Counter({
        **{(60 * n, "page", f"/{page}"): page + 1 for n in range(rounds) for page in range(3)},
        **{(60 * n, kind, name): 6 for n in range(rounds) for kind, name in (("user", "u"), ("country", "DE"))},
    })  # fmt: skip
    ranked = {(seconds_of(row["window_end"]), row["rank"]): (row["page"], row["requests"]) for row in table("popular")}
    places = {(60 * (n + 1), rank): (f"/{3 - rank}", 4 - rank) for n in range(rounds) for rank in (1, 2, 3)}
    return (len(table("counts")), found, ranked), (len(wanted), wanted, places)


def requests(number: int) -> list[bytes]:
    """Windows of 10 s with a client that is always busy, so that each has an alert, and one that rests in each fourth;
    and another client, which closes the window.
    """
    busy = 0 if number % 4 == 3 else 20 + number
    sent = [record(10 * number + at / 4, client="always", page="/") for at in range(16)]
    sent += [record(10 * number + at / 4, client="bad", page="/") for at in range(busy)]
    return [*sent, record(10 * number + 11, client="good", page="/")]


def security_tables(table: Callable[[str], Rows], rounds: int) -> tuple[Any, Any]:
    found = [(r["client"], seconds_of(r["began"]), seconds_of(r["until"]), r["requests"]) for r in table("alerts")]
    wanted: list[tuple[str, int, int, int]] = [("always", 0, 10 * rounds, 16)]
    for number in range(rounds):
        if number % 4 == 3:
            continue
        began = wanted.pop()[1] if number % 4 else 10 * number
        wanted.append(("bad", began, 10 * number + 10, 20 + number))
    return sorted(found), wanted


def readings(number: int) -> list[bytes]:
    """Six values beyond the limit in a minute, one in each 10 s; no value is far from those before."""
    return [
        record(60 * number + 10 * at, host="h", kind="cpu", core=0, busy_percent=91 + (number + at) % 5)
        for at in range(6)
    ]


def operations_tables(table: Callable[[str], Rows], rounds: int) -> tuple[Any, Any]:
    values = [[91 + (n + at) % 5 for at in range(6)] for n in range(rounds)]
    found = [
        sorted((seconds_of(r["start"]), r["count"], r["sum"]) for r in table("rollups") if r["seconds"] == seconds)
        for seconds in (10, 60)
    ]
    (line,), (alert,) = table("summary"), table("alerts")
    flat = [value for some in values for value in some]
    wanted = [
        [(10 * at, 1, value) for at, value in enumerate(flat)],
        [(60 * n, 6, sum(some)) for n, some in enumerate(values)],
    ]
    last = 60 * rounds
    return (
        (found, line["count"], line["max"], seconds_of(alert["began"]), seconds_of(alert["until"])),
        (wanted, len(flat), max(flat), 0, last),
    )


CASES: Mapping[str, Case] = {
    "activity": Case(
        activity.JOB,
        {"sessions": False, "popular": 3, "popular_seconds": 60, "popular_slide_seconds": 60, "late_seconds": 3600},
        clicks,
        activity_tables,
        2,
    ),
    "security": Case(
        security.JOB,
        {"window_seconds": 10, "slide_seconds": 10, "late_seconds": 0, "rate": 1.0, "rate_requests": 15,
         "rate_seconds": 10, "regular_requests": 1000},
        requests,
        security_tables,
        1,
    ),
    "operations": Case(
        operations.JOB, {"change_deviations": 0.0, "late_seconds": 3600}, readings, operations_tables, 3
    ),
}  # fmt: skip


def run(spark: SparkSession, name: str, bootstrap: str, directory: Path, topic: str) -> list[Exception]:
    """Runs a job until it is caught up; returns what its queries failed with."""
    case = CASES[name]
    reads = {"topics": [topic]} if name == "operations" else {"topic": topic}
    given = {option.name: option.default for option in case.job.options} | dict(case.options) | reads
    queries: Any = case.job.run(Context(spark, "test", bootstrap, given, directory, once=True))
    failed: list[Exception] = []
    for query in queries:
        try:
            query.awaitTermination()
        except Exception as error:
            failed.append(error)
    return failed


def run_until(ended: Callable[[list[Exception]], bool], once: Callable[[], list[Exception]]) -> None:
    """Runs a job again, as whatever supervises it would: on a busy machine Spark's own processes may fail as well."""
    for _ in range(RUNS_MAX):
        failed = once()
        if ended(failed):
            return
    raise AssertionError(failed)


def check(name: str, directory: Path, rounds: int) -> None:
    """Asserts that the tables of a job hold exactly what its input of some rounds says, and took each batch once."""

    def table(of: str) -> Rows:
        rows = rows_of(str(directory / "tables" / of))
        return [] if rows is None else rows.to_pylist()

    found, wanted = CASES[name].tables(table, rounds)
    assert found == wanted
    for path in (directory / "tables").iterdir():
        history = [entry["penstock.batch"] for entry in DeltaTable(str(path)).history() if "penstock.batch" in entry]
        assert len(set(history)) == len(history) > 0, history


def dying(at: int, point: str, die: Callable[[], None]) -> Callable[..., bool]:
    """What `DeltaLake.replace` becomes, so that one of its calls dies: `after` the commit, or `before` it."""
    replace, calls = DeltaLake.replace, []

    def deadly(*parts: Any) -> bool:
        calls.append(1)
        number = len(calls)
        if number == at and point == "before":
            die()
        done = replace(*parts)
        if number == at and point == "after":
            die()
        return done

    return deadly


if __name__ == "__main__":
    from penstock.spark.session import session

    job, where, commit, brokers, home, subject = sys.argv[1:]
    if where != "never":
        DeltaLake.replace = dying(  # type: ignore[method-assign]  # it dies in the middle
            int(commit), where, lambda: os.killpg(0, signal.SIGKILL)
        )
    started = session("a driver that is killed", master="local[2]")
    run_until(lambda failed: not failed, lambda: run(started, job, brokers, Path(home), subject))
    sys.exit("it was not killed" if where != "never" else 0)
