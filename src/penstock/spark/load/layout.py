"""How a load's new table is laid out: by what its files are apart, how rows are sorted, which columns are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.spark.lake import clustering
from penstock.spark.lake.clustering import Cluster
from penstock.spark.lake.derived import LATE, Derived, settings_of
from penstock.spark.lake.records import DATE, RECORD_SCHEMA, TIMESTAMP
from penstock.spark.lake.table import LakeTable
from penstock.spark.load.options import LoadOptions


@dataclass(frozen=True, slots=True)
class Layout:
    """What options ask of a table: names of its partition columns, the columns that are made, the order of rows."""

    partition_by: tuple[str, ...]
    derived: tuple[Derived, ...]
    cluster: Cluster | None

    @classmethod
    def of(cls, options: LoadOptions) -> Layout:
        """Raises ConfigError for what cannot be read."""
        wanted = [*(["day(timestamp)"] if options.partition_by_date else ()), *options.partition_by]
        made, by = [], []
        for text in wanted:
            if "(" not in text and text != DATE:
                by.append(text)
                continue
            each = Derived("day", TIMESTAMP) if text == DATE else Derived.parse(text)
            if each.function == LATE:
                raise ConfigError(f"{text!r}: late is made by event_time and late_after_ms; partition by late")
            made.append(each)
            by.append(each.name)
        if options.event_time is not None and options.late_after_ms is not None:
            made.append(Derived(LATE, options.event_time, options.late_after_ms))
        cluster = Cluster(tuple(options.cluster_by), options.z_order) if options.cluster_by else None
        return cls(tuple(dict.fromkeys(by)), tuple(dict.fromkeys(made)), cluster)

    @property
    def own(self) -> tuple[str, ...]:
        """The names of the columns that are made."""
        return tuple(each.name for each in self.derived)

    @property
    def needs(self) -> set[str]:
        """The columns that values must have for it."""
        named = {*self.partition_by, *(self.cluster.columns if self.cluster else ())} - set(self.own)
        return (named | {each.source for each in self.derived}) - set(RECORD_SCHEMA.names)

    @property
    def settings(self) -> dict[str, str]:
        """The properties of a table by which later runs and maintenance know it again."""
        order = {} if self.cluster is None else {clustering.PROPERTY: str(self.cluster)}
        return settings_of(self.derived) | order

    def columns(self, columns: pa.Schema) -> pa.Schema:
        """The columns of a new table: those of the records, and those that are made. Raises ConfigError."""
        for each in self.derived:
            each.check(columns)
        whole = pa.schema([*columns, *(pa.field(each.name, each.type) for each in self.derived)])
        check_partitioning(whole, self.partition_by)
        if self.cluster is not None:
            self.cluster.check(whole, self.partition_by)
        return whole

    def check(self, lake: LakeTable) -> None:
        """Raises ConfigError if a table that was there before is laid out otherwise, which cannot be changed, or as no
        load can."""
        if strange := [name for name in lake.partition_by if name not in lake.columns.names]:
            raise ConfigError(
                f"the table at {lake.uri} is partitioned by {strange[0]}, a transform: load into a table that is "
                "partitioned by columns"
            )
        check_partitioning(lake.columns, lake.partition_by)
        if self.partition_by and self.partition_by != lake.partition_by:
            by = ", ".join(lake.partition_by)
            how = f"partitioned by {by}, and not by" if by else "not partitioned by"
            raise ConfigError(f"the table at {lake.uri} is {how} {', '.join(self.partition_by)}: it cannot be made so")
        for each in self.derived:
            if lake.derived.get(each.name) != str(each):
                raise ConfigError(
                    f"the table at {lake.uri} has no column {each.name} that is {each}: it cannot be made so"
                )
        if self.cluster is not None and lake.cluster_by != str(self.cluster):
            raise ConfigError(
                f"the table at {lake.uri} is not clustered by {self.cluster}, but by {lake.cluster_by or 'nothing'}: "
                "its loads cannot change that; `penstock lake maintain --cluster-by` can"
            )


def check_partitioning(columns: pa.Schema, partition_by: Sequence[str]) -> None:
    """Raises ConfigError for columns by which files cannot be apart."""
    types = pa.types
    for name in partition_by:
        if name not in columns.names:
            hint = did_you_mean(name, columns.names)
            raise ConfigError(f"a table cannot be partitioned by {name}{hint}: declare the column in the schema")
        kind = columns.field(name).type
        if not any(has(kind) for has in (types.is_string, types.is_integer, types.is_date, types.is_boolean)):
            raise ConfigError(
                f"a table cannot be partitioned by {name}, {kind}: by text, whole numbers, dates or booleans, or by "
                "day() or hour() of a time"
            )
