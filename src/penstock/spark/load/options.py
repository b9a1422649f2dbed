"""What a load is told: which topics, from where, in which form, into which tables."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.client.client import EARLIEST, READ_COMMITTED
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.errors import ConfigError
from penstock.spark.limits import LOAD_INLINE_OFFSETS, LOAD_LATE_MAX_MS, LOAD_OFFSETS_PER_JOB

FORMATS = ("raw", "json", "avro")
TABLE_FORMATS = ("delta", "iceberg")
READS = ("auto", "broker", "files")
NEW_FIELDS = ("add", "quarantine")
QUARANTINE_SUFFIX = "_quarantine"
RELOAD = "/reload-"
"""In the name of a pipeline that a reload makes for each stretch of offsets that it fills in; no other name has it."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What to load, from where, to where.

    Attributes:
        bootstrap: brokers to begin with.
        topics: by name; empty with `topic_pattern`.
        table: the table's path or URI; with `table_per_topic`, the directory that holds one table a topic.
        pipeline: who loads. A partition of a topic has one pipeline in a table.
        starting: where the first run begins: EARLIEST, LATEST or epoch milliseconds. It is written into the table, so
            that later runs go on from there; partitions that a topic gets later begin at their start.
        fail_on_data_loss: whether offsets that the brokers no longer have stop the load; else they are a recorded gap.
        skip_corrupt: leaves a broken batch out and records its offsets as a gap; else it stops the load.
        isolation: READ_COMMITTED or READ_UNCOMMITTED.
        offsets_per_job: offsets that one job takes on at most.
        timeout_ms: for the brokers to answer.
        client_id: as the brokers see it.
        topic_pattern: regular expression of whole topic names; new topics are loaded from their start.
        format: what the values are: "raw" bytes, "json" or "avro".
        schema: columns of a JSON value as Spark writes them ("page string, ms bigint"); None: found in the data.
        new_fields: what becomes of a JSON field or Avro field that the table has no column for: "add" one, or
            "quarantine" the record.
        schema_registry: URL of the schema registry that Avro values name their schema in.
        table_format: "delta" or "iceberg".
        table_per_topic: one table a topic, named as the topic, below `table`.
        partition_by: by what a new table's files are apart: columns, and `day(COLUMN)` or `hour(COLUMN)` of an event's
            time, which become columns.
        partition_by_date: the same as `day(timestamp)` in the first place: a column `date`, in UTC.
        cluster_by: columns by which a new table's rows are sorted within row groups.
        z_order: whether compaction sorts by all of these alike.
        event_time: the column that says when an event was, for `late_after_ms`.
        late_after_ms: gives a new table a column `late`: whether an event was so much earlier than its record's
            timestamp.
        storage_options: of the object store and the catalog, as `lake.open.open_table` takes them.
        from_ms, until_ms: with one of them the load is a reload: it fills in what the table lacks of the offsets
            between these times (epoch milliseconds; until None: the end as it is now), and ends.
        quarantine: the table of records that do not fit; None: beside the table, with `_quarantine` behind its name.
        read: "broker", "files" (closed segments on this host or a mount) or "auto".
        log_dirs: where log directories of brokers are mounted, for reading files.
        inline_offsets: jobs of at most so many offsets run in the driver, without the fixed cost of a Spark job.
        security: TLS and login at the brokers.
        group: the consumer group that shows how far the load is; None: PIPELINE-TABLE; empty: none.
    """

    bootstrap: str
    topics: Sequence[str]
    table: str
    pipeline: str
    starting: int = EARLIEST
    fail_on_data_loss: bool = True
    skip_corrupt: bool = False
    isolation: int = READ_COMMITTED
    offsets_per_job: int = LOAD_OFFSETS_PER_JOB
    timeout_ms: int = 30_000
    client_id: str = "penstock-load"
    topic_pattern: str | None = None
    format: str = "raw"
    schema: str | None = None
    new_fields: str = "add"
    schema_registry: str | None = None
    table_format: str = "delta"
    table_per_topic: bool = False
    partition_by: Sequence[str] = ()
    partition_by_date: bool = False
    cluster_by: Sequence[str] = ()
    z_order: bool = False
    event_time: str | None = None
    late_after_ms: int | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict)
    from_ms: int | None = None
    until_ms: int | None = None
    quarantine: str | None = None
    read: str = "auto"
    log_dirs: Sequence[str] = ()
    inline_offsets: int = LOAD_INLINE_OFFSETS
    group: str | None = None
    security: ClientSecurity = UNSECURED

    def __post_init__(self) -> None:
        """Raises ConfigError for invalid options, with what would be right."""
        for name, allowed in (
            ("format", FORMATS),
            ("table_format", TABLE_FORMATS),
            ("read", READS),
            ("new_fields", NEW_FIELDS),
        ):
            _one_of(name, getattr(self, name), allowed)
        self._check_topics()
        self._check_format()
        self._check_layout()
        if RELOAD in self.pipeline or not self.pipeline:
            raise ConfigError(f"pipeline = {self.pipeline!r}: it must not be empty or contain {RELOAD!r}")
        if self.from_ms is not None and self.until_ms is not None and self.from_ms >= self.until_ms:
            raise ConfigError("from must be before until")
        for name in ("offsets_per_job", "timeout_ms"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}: it must be at least 1")

    def _check_topics(self) -> None:
        if bool(self.topics) == (self.topic_pattern is not None):
            raise ConfigError("a load has either topics or topic_pattern")
        try:
            re.compile(self.topic_pattern or "")
        except re.error as error:
            raise ConfigError(f"topic_pattern = {self.topic_pattern!r} is no regular expression: {error}") from None

    def _check_format(self) -> None:
        if self.schema is not None and self.format != "json":
            raise ConfigError("schema is for format = json; Avro has its own in the registry, raw has none")
        if self.schema is not None:
            from penstock.spark.load.formats.ddl import parse_ddl  # and with it pyarrow

            parse_ddl(self.schema)
        if self.format == "avro" and not self.schema_registry:
            raise ConfigError("format = avro needs schema_registry, the registry's URL")
        if self.format != "avro" and self.schema_registry:
            raise ConfigError("schema_registry is for format = avro")

    def _check_layout(self) -> None:
        if (self.event_time is None) != (self.late_after_ms is None):
            raise ConfigError("event_time and late_after_ms go together: which column, and how many ms are late")
        if self.late_after_ms is not None and not 0 < self.late_after_ms <= LOAD_LATE_MAX_MS:
            raise ConfigError(f"late_after_ms = {self.late_after_ms}: it must be 1 to {LOAD_LATE_MAX_MS}")
        if self.z_order and len(self.cluster_by) < 2:
            raise ConfigError("z_order needs two or more columns in cluster_by")

    @property
    def is_reload(self) -> bool:
        """Whether it fills in what lies between two times, and ends."""
        return self.from_ms is not None or self.until_ms is not None

    @property
    def group_id(self) -> str:
        """The consumer group whose offsets are the table's ends; empty for none."""
        if self.group is not None:
            return self.group
        name = self.table.rstrip("/").rpartition("/")[2]
        return name if name == self.pipeline else f"{self.pipeline}-{name}"


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value in allowed:
        return
    near = difflib.get_close_matches(value, allowed, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ConfigError(f"{name} = {value!r}: it must be {', '.join(allowed[:-1])} or {allowed[-1]}{hint}")
