"""The job `load`: topics into lake tables, exactly once. What `penstock load` does, declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.errors import ConfigError
from penstock.pipelines.context import Context
from penstock.pipelines.job import Job, Option
from penstock.spark.limits import LOAD_OFFSETS_PER_JOB
from penstock.spark.load.load import Load, Outcome
from penstock.spark.load.options import FORMATS, NEW_FIELDS, READS, TABLE_FORMATS, LoadOptions

TABLE_OPTIONS = (
    Option("topics", list, None, "Topics to load.", reads=True, example=["clicks"]),
    Option("topic_pattern", str, None, "Regular expression of whole topic names instead; new topics are loaded too."),
    Option("table", str, None, "The table's directory or URI; created if missing.", path=True, example="lake/clicks"),
    Option("table_format", str, "delta", "The table's format.", choices=TABLE_FORMATS),
    Option("table_per_topic", bool, False, "One table per topic, named after it, below `table`."),
    Option("partition_by_date", bool, False, "Partition a new table by day (UTC), in a column `date`."),
    Option(
        "partition_by",
        list,
        [],
        "Partition a new table by columns, or `day(COLUMN)`, `hour(COLUMN)` of an event's time.",
    ),
    Option("cluster_by", list, [], "Sort the rows of a new table's files by these columns."),
    Option("z_order", bool, False, "Let compaction sort by all columns of `cluster_by` alike."),
    Option("event_time", str, None, "The column that says when an event was, for `late_after_ms`."),
    Option(
        "late_after_ms",
        int,
        None,
        "Add a column `late`: whether an event is so much older than its record.",
        at_least=1,
    ),
    Option("format", str, "raw", "Format of the values.", choices=FORMATS),
    Option("schema", str, None, "Columns of JSON values in Spark's syntax (default: inferred from the data)."),
    Option("schema_registry", str, None, "URL of the schema registry for Avro values."),
    Option("new_fields", str, "add", "Fields without a column: add a column, or quarantine the record.", NEW_FIELDS),
    Option("quarantine", str, None, "Table for rejected records (default: TABLE_quarantine).", path=True),
    Option("group", str, None, "Consumer group that shows the load's lag; empty: none (default: PIPELINE-TABLE)."),
)
SHARED_OPTIONS = (
    Option("starting", str, "earliest", "Where the first run starts: earliest, latest or a time."),
    Option(
        "fail_on_data_loss",
        bool,
        True,
        "Stop when records are gone, by retention or an unclean election; if false, note which.",
    ),
    Option("skip_corrupt", bool, False, "Skip corrupt batches, and record their offsets as a gap."),
    Option("offsets_per_job", int, LOAD_OFFSETS_PER_JOB, "Maximum offsets per job, for each table.", at_least=1),
    Option(
        "inline_offsets",
        int,
        0,
        "Jobs of at most so many offsets run in the driver, without the cost of a Spark job; 0: all on Spark.",
        at_least=0,
    ),
    Option(
        "read", str, "auto", "Where closed segments are read from; auto: from files where they can be reached.", READS
    ),
    Option("log_dirs", list, [], "Where the brokers' log directories are mounted, for reading files."),
    Option("storage_options", Mapping, {}, "Options of the object store and the catalog: [options.storage_options]."),
)
TABLES = Option(
    "tables",
    dict,
    None,
    "Several tables instead of one, each with its own topics, format and so on.",
    fields=TABLE_OPTIONS,
)
STARTING = {"earliest": EARLIEST, "latest": LATEST}
ISOLATION = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}


class LoadStep:
    """One table's load: a step is one job of it."""

    def __init__(self, context: Context, options: LoadOptions) -> None:
        self.interval_ms = context.interval_ms
        self._load = Load(context.spark, options)

    def step(self) -> Outcome | None:
        """Runs one bounded job, which loads new records into the table in one commit."""
        return self._load.run_job()

    def close(self) -> None:
        """Closes the connections to the brokers."""
        self._load.__exit__(None, None, None)


def run(context: Context) -> Sequence[LoadStep]:
    steps: list[LoadStep] = []
    try:
        for options in loads_of(context.options, context.name, context.bootstrap, context.kafka, context.security):
            steps.append(LoadStep(context, options))
    except BaseException:
        for step in steps:
            step.close()
        raise
    return steps


def loads_of(
    options: Mapping[str, Any],
    pipeline: str,
    bootstrap: str,
    kafka: Mapping[str, str] | None = None,
    security: ClientSecurity = UNSECURED,
) -> list[LoadOptions]:
    """The options of each table's load. Raises ConfigError for options that contradict each other."""
    kafka = kafka or {}
    alone = {option.name: options[option.name] for option in TABLE_OPTIONS}
    tables = options["tables"] or []
    if bool(tables) == (alone["table"] is not None):
        raise ConfigError("either table or [[options.tables]] says where the records go")
    if tables and (alone["topics"] or alone["topic_pattern"]):
        raise ConfigError("topics belong into each of [[options.tables]] where there are several tables")
    if any(not each["table"] for each in tables):
        raise ConfigError("each of [[options.tables]] needs a table")
    shared = {option.name: options[option.name] for option in SHARED_OPTIONS}
    shared["starting"] = starting_point(shared["starting"])
    isolation = ISOLATION[kafka.get("kafka.isolation.level", "read_committed")]
    client: dict[str, Any] = {"isolation": isolation, "security": security}
    if "kafka.request.timeout.ms" in kafka:
        client["timeout_ms"] = int(kafka["kafka.request.timeout.ms"])
    if "kafka.client.id" in kafka:
        client["client_id"] = kafka["kafka.client.id"]
    return [
        LoadOptions(
            bootstrap=bootstrap, pipeline=pipeline, **client, **shared, **{**each, "topics": each["topics"] or []}
        )
        for each in tables or [alone]
    ]


def starting_point(text: str) -> int:
    """EARLIEST, LATEST or epoch milliseconds. Raises ConfigError."""
    if text in STARTING:
        return STARTING[text]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"starting is {text!r}: it must be earliest, latest or a time like 2026-01-31T08:00Z"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def check(options: Mapping[str, Any]) -> list[str]:
    """The faults of options that are valid one by one."""
    try:
        loads_of(options, "check", "127.0.0.1:9092")
    except ConfigError as error:
        return [str(error)]
    return []


JOB = Job(
    run,
    (*TABLE_OPTIONS, *SHARED_OPTIONS, TABLES),
    doc="""Loads topics into Delta or Iceberg tables, exactly once. The table is the checkpoint: stop the pipeline at
    any time, by any means, and start it again; nothing is lost or doubled. `penstock verify` proves it.""",
    check=check,
)
