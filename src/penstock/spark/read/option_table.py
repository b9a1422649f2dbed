"""Every option of reading with `format("penstock")`, declared once: the parser and the reference are made from this.

`official` is what Spark's own Kafka connector has in its place: the same, nothing, or how it differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.spark.read import option_types as types
from penstock.spark.read import value_options as values
from penstock.spark.read.option_types import Type

SAME, NONE = "the same", "none"
NOTHING_BEFORE = "there is nothing before the earliest offset"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is text as a user would write it; `stream_default` where a stream differs."""

    name: str
    type: Type
    default: str | None = None
    stream_default: str | None = None
    batch: bool = True
    stream: bool = True
    official: str = SAME
    doc: str = ""

    def documented(self, doc: str) -> Option:
        """The same with its meaning, as the reference has it."""
        return replace(self, doc=doc)


TOPICS = (
    Option("kafka.bootstrap.servers", types.SERVERS).documented("Brokers to begin with. Required."),
    Option("subscribe", types.TOPICS).documented("These topics."),
    Option("subscribePattern", types.PATTERN, official="the same, but Java's regular expressions").documented(
        "The topics whose whole name matches, internal ones left out. A stream picks up new topics while it runs."
    ),
    Option("assign", types.ASSIGNMENT).documented("These partitions."),
)
BOUNDS = (
    Option(
        "startingOffsets", types.offsets("earliest", "latest"), default="earliest", stream_default="latest"
    ).documented(
        "Where to begin; -2 is the earliest, -1 (streams only) the latest. A stream begins here once: then its "
        "checkpoint counts, and partitions that appear later are read from their start."
    ),
    Option("startingTimestamp", types.TIME).documented(
        "Begin at the first record at or after this; overrides startingOffsetsByTimestamp and startingOffsets."
    ),
    Option("startingOffsetsByTimestamp", types.TIMES).documented(
        "The same, for each partition; overrides startingOffsets."
    ),
    Option("startingOffsetsByTimestampStrategy", types.one_of("error", "latest"), default="error").documented(
        "When a partition has no record as late as the time to begin at: fail, or begin at its end."
    ),
    Option(
        "endingOffsets", types.offsets("latest", impossible={-2: NOTHING_BEFORE}), default="latest", stream=False
    ).documented("Where to end, not included; -1 is the latest."),
    Option("endingTimestamp", types.TIME, stream=False).documented(
        "End before the first record at or after this; overrides endingOffsetsByTimestamp and endingOffsets."
    ),
    Option("endingOffsetsByTimestamp", types.TIMES, stream=False).documented(
        "The same, for each partition; overrides endingOffsets."
    ),
    Option(
        "failOnDataLoss",
        types.BOOLEAN,
        default="true",
        official="the same; a topic created anew is not seen as another one",
    ).documented(
        "Whether offsets that the brokers no longer have are an error, or passed over with a warning: retention was "
        "faster, a topic was deleted or created anew, an unclean election cut a log."
    ),
)
ADMISSION = (
    Option("maxOffsetsPerTrigger", types.whole(1), batch=False).documented(
        "Offsets that one microbatch reads at most, shared out in proportion to what waits in each partition; a "
        "partition with something waiting always gets one at least."
    ),
    Option("maxBytesPerTrigger", types.SIZE, batch=False, official=NONE).documented(
        "Bytes, as they lie in the log (compressed), that one microbatch reads at most: an estimate from the first "
        "batches that wait in each partition. A partition with something waiting always gets one offset at least."
    ),
    Option("minOffsetsPerTrigger", types.whole(1), batch=False).documented(
        "A microbatch waits for this many offsets, or until maxTriggerDelay is over. It has no effect under "
        "`Trigger.AvailableNow`, which reads everything."
    ),
    Option("maxTriggerDelay", types.DURATION, default="15m", batch=False).documented(
        "How long minOffsetsPerTrigger may hold back what waits, from one microbatch to the next. The first one after "
        "a start is not held back."
    ),
)
TASKS = (
    Option("minPartitions", types.whole(1), official="the same, but its least is a task a partition").documented(
        "At least this many tasks, if there are as many offsets. By default as many as run at once, fewer for a small "
        "read. Large partitions are split, small ones share a task."
    ),
    Option("penstock.parallelism", types.whole(1), official=NONE).documented(
        "How many tasks run at once: the cores of all executors. Without it: the cores of the driver's machine or the "
        "partitions that have something to read, whichever are more. Pipelines set it by themselves."
    ),
    Option("maxRecordsPerPartition", types.whole(1)).documented("Offsets that one task reads at most."),
)
ROWS = (
    Option("includeHeaders", types.BOOLEAN, default="false").documented("Adds the column `headers`."),
    Option(
        "kafka.isolation.level", types.one_of("read_uncommitted", "read_committed"), default="read_uncommitted"
    ).documented("Whether records of open and aborted transactions are read."),
)
VALUES = (
    Option(values.FORMAT, types.one_of(*values.FORMATS), official=NONE).documented(
        "Makes `value` a typed column. `json`: objects; `avro`: bare, or in Confluent's framing with a registry; "
        "`jsonschema`: JSON in that framing; `protobuf`: in that framing, or bare with a descriptor set."
    ),
    Option(values.SCHEMA, types.TEXT, official=NONE).documented(
        "The fields: for JSON as DDL, `page string, ms bigint` (or by `.schema(...)`); for Avro the reader's schema. "
        "Wins over the registry."
    ),
    Option(
        values.MODE, types.one_of(values.PERMISSIVE, values.FAILFAST), default="permissive", official=NONE
    ).documented(
        "What becomes of a value that does not fit: null, with the reason in `value_error` and the bytes in "
        "`value_raw`; or the read fails with its offset."
    ),
    Option(values.DESCRIPTORS, types.TEXT, official=NONE).documented(
        "For bare Protobuf: the path of the descriptor set that `protoc --include_imports --descriptor_set_out` wrote, "
        "where the driver runs."
    ),
    Option(values.MESSAGE, types.TEXT, official=NONE).documented(
        "For Protobuf: the full name of the message, `shop.Order`; by default the first of the schema."
    ),
    Option(values.REGISTRY_URL, types.URL, official=NONE).documented(
        "The schema registry; `http://user:password@host` has credentials. Spark's plans hide it."
    ),
    Option(values.SUBJECT, types.TEXT, official=NONE).documented(
        "The subject whose schema the column has; by default `TOPIC-value`, if one topic is read."
    ),
    Option(values.VERSION, types.VERSION, default="latest", official=NONE).documented(
        "Its version: `latest` is fixed when `load()` is called."
    ),
)
CLIENT = (
    Option("kafka.client.id", types.TEXT, default="penstock-spark").documented(
        "How the brokers' logs and quotas call the job."
    ),
    Option("kafka.request.timeout.ms", types.whole(1), default="30000").documented(
        "How long a request may take, a leader that is moving included."
    ),
    Option("fetchOffset.numRetries", types.whole(0), default="3").documented(
        "How often planning asks the brokers again after a failure that may pass."
    ),
    Option("fetchOffset.retryIntervalMs", types.whole(0), default="10").documented(
        "How long it waits before it asks again."
    ),
    Option("penstock.read", types.one_of("auto", "broker", "files"), default="auto", official=NONE).documented(
        "How tasks read: all through the brokers; closed segments straight from their files; or from files where "
        "they can be reached."
    ),
    Option("penstock.log.dirs", types.PATHS, official=NONE).documented(
        "Where log directories of brokers are mounted, for reading from files. Without it: where the brokers say "
        "that they are, if that is on this host."
    ),
)
WITHOUT_EFFECT = (
    Option("groupIdPrefix", types.TEXT).documented(
        "No consumer group is joined. `GroupListener` commits a query's offsets to one, for its lag."
    ),
    Option("kafka.group.id", types.TEXT).documented("As groupIdPrefix."),
    Option("kafkaConsumer.pollTimeoutMs", types.whole(0)).documented("`kafka.request.timeout.ms` bounds every wait."),
)
GROUPS: tuple[tuple[str, tuple[Option, ...]], ...] = (
    ("Which topics", TOPICS),
    ("From where to where", BOUNDS),
    ("How much a microbatch reads", ADMISSION),
    ("How many tasks", TASKS),
    ("Which rows and columns", ROWS),
    ("Typed values", VALUES),
    ("Brokers and files", CLIENT),
    ("Accepted, without effect", WITHOUT_EFFECT),
)
OPTIONS: dict[str, Option] = {option.name: option for _, some in GROUPS for option in some}

CONSUMER_TUNING = tuple(
    f"kafka.{name}"
    for name in (
        "allow.auto.create.topics", "auto.commit.interval.ms", "check.crcs", "client.dns.lookup", "client.rack",
        "connections.max.idle.ms", "default.api.timeout.ms", "enable.metrics.push", "exclude.internal.topics",
        "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.instance.id", "group.protocol",
        "group.remote.assignor", "heartbeat.interval.ms", "max.partition.fetch.bytes", "max.poll.interval.ms",
        "max.poll.records", "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
        "metrics.sample.window.ms", "partition.assignment.strategy", "receive.buffer.bytes", "reconnect.backoff.max.ms",
        "reconnect.backoff.ms", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
    )
)  # fmt: skip
"""Settings that tune the Java consumer. Accepted, because a job that is moved has them, and without effect."""
REFUSED = {
    "kafka.auto.offset.reset": "startingOffsets says where to begin",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets; GroupListener shows them in a group",
    "kafka.interceptor.classes": "there is no Java consumer that would run them",
    "kafka.key.deserializer": "keys come as bytes; convert them in the query",
    "kafka.value.deserializer": "values come as bytes, or typed with penstock.value.format",
}
"""What the official connector refuses too, and what nothing is there for yet: why, and what to do instead."""
