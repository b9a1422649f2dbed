"""All counts in one Delta table, and in the same commits how far the logs are counted.

A row is the number of records of a topic and bucket at a place, from one part of it: a topic's id, a producer's
session. The table is the checkpoint: a commit puts the rows of some days in the place of those that were there, and
moves positions, which are application transactions. So a crash anywhere repeats a look and counts nothing twice, and
of two copies of an audit one fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from penstock.pipelines.limits import AUDIT_COMMITS_PER_CLEANING
from penstock.spark.lake.records import LakeConflictError

UTC_US = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("day", pa.date32()),
        ("bucket", UTC_US),
        ("topic", pa.string()),
        ("tier", pa.string()),
        ("part", pa.string()),
        ("records", pa.int64()),
        ("changed", UTC_US),
    ]
)
APPLICATION = "penstock-audit/"
SINCE = "since"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Key(NamedTuple):
    """What a count is of."""

    tier: str
    topic: str
    part: str
    bucket_ms: int

    @property
    def day(self) -> date:
        return moment(self.bucket_ms).date()


@dataclass(frozen=True, slots=True)
class Count:
    """How many records, and when that was first known."""

    records: int
    changed_ms: int


def moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def _ms(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


class CountsTable:
    """The table at a path or URI, made if it is missing. Raises PenstockError, DeltaError."""

    def __init__(self, path: str, *, create: bool = True) -> None:
        self._path = path
        self._commits = 0
        try:
            self._table = DeltaTable(path)
        except TableNotFoundError:
            if not create:
                raise
            self._table = DeltaTable.create(path, schema=SCHEMA, partition_by=["day"], mode="ignore")
        self._cleaned: date | None = None

    def refresh(self) -> None:
        self._table.update_incremental()

    def position(self, name: str) -> int | None:
        """How far something is counted."""
        version = self._table.transaction_version(APPLICATION + name)
        return None if version is None else int(version)

    def rows(self, since_ms: int = 0) -> pa.Table:
        """All rows of buckets from a day on."""
        return self._table.to_pyarrow_table(filters=[("day", ">=", moment(since_ms).date())])

    def counts(self, days: Iterable[date]) -> dict[Key, Count]:
        """The counts of some days."""
        wanted = set(days)
        return counts_of(self._table.to_pyarrow_table(filters=[("day", "in", wanted)])) if wanted else {}

    def commit(self, days: Mapping[Key, Count], positions: Mapping[str, int]) -> None:
        """Puts counts in the place of all that the table has of their days, and moves positions.

        `days` has all counts of the days that it has any of, and `Count(0, …)` for a day's last one that goes.

        Raises LakeConflictError if another copy of the audit has committed since the last refresh.
        """
        properties = CommitProperties(
            app_transactions=[Transaction(APPLICATION + name, at) for name, at in positions.items()]
        )
        kept = {key: count for key, count in days.items() if count.records}
        rows = pa.Table.from_pylist(
            [
                {
                    "day": key.day, "bucket": moment(key.bucket_ms), "topic": key.topic, "tier": key.tier,
                    "part": key.part, "records": count.records, "changed": moment(count.changed_ms),
                }
                for key, count in sorted(kept.items())
            ],
            schema=SCHEMA,
        )  # fmt: skip
        replaced = sorted({key.day.isoformat() for key in days})
        try:
            if replaced:
                some = ", ".join(f"'{day}'" for day in replaced)
                write_deltalake(
                    self._table, rows, mode="overwrite", predicate=f"day in ({some})", commit_properties=properties
                )
            else:
                self._table.create_write_transaction([], "append", SCHEMA, ["day"], commit_properties=properties)
        except CommitFailedError as error:
            raise LakeConflictError(f"another copy of the audit writes to {self._path}: {error}") from None
        self._commits += 1
        self.refresh()

    def clean(self, first: date) -> None:
        """Deletes the rows of days before the first, once a day; now and then files that were replaced a week ago."""
        with suppress(DeltaError, OSError):  # the next time does it
            if self._cleaned != first:
                self._table.delete(f"day < '{first.isoformat()}'")
                self._cleaned = first
                self.refresh()
            if self._commits >= AUDIT_COMMITS_PER_CLEANING:
                self._table.vacuum(dry_run=False)
                self._commits = 0


def counts_of(rows: pa.Table) -> dict[Key, Count]:
    """Rows of the table as counts."""
    names = ("tier", "topic", "part", "bucket", "records", "changed")
    columns = (rows.column(name).to_pylist() for name in names)
    return {
        Key(tier, topic, part, _ms(bucket)): Count(records, _ms(changed))
        for tier, topic, part, bucket, records, changed in zip(*columns, strict=True)
    }
