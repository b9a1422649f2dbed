"""Every option of reading with `format("penstock")`, declared once: the parser and the reference are made from this.

`official` is what Spark's own Kafka connector has in its place: the same, nothing, or how it differs.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.spark.read import option_types as types
from penstock.spark.read.option_types import Type

SAME, NONE = "the same", "none"
NOTHING_BEFORE = "there is nothing before the earliest offset"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is text as a user would write it; `stream_default` where a stream differs."""

    name: str
    type: Type
    doc: str
    default: str | None = None
    stream_default: str | None = None
    batch: bool = True
    stream: bool = True
    official: str = SAME


TOPICS = (
    Option("kafka.bootstrap.servers", types.SERVERS, "Brokers to begin with. Required."),
    Option("subscribe", types.TOPICS, "These topics."),
    Option(
        "subscribePattern",
        types.PATTERN,
        "The topics whose whole name matches, internal ones left out. A stream picks up new topics while it runs.",
        official="the same, but Java's regular expressions",
    ),
    Option("assign", types.ASSIGNMENT, "These partitions."),
)
BOUNDS = (
    Option(
        "startingOffsets",
        types.offsets("earliest", "latest"),
        "Where to begin; -2 is the earliest, -1 (streams only) the latest. A stream begins here once: then its "
        "checkpoint counts, and partitions that appear later are read from their start.",
        default="earliest",
        stream_default="latest",
    ),
    Option(
        "startingTimestamp",
        types.TIME,
        "Begin at the first record at or after this; overrides startingOffsetsByTimestamp and startingOffsets.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        types.TIMES,
        "The same, for each partition; overrides startingOffsets.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        types.one_of("error", "latest"),
        "When a partition has no record as late as the time to begin at: fail, or begin at its end.",
        default="error",
    ),
    Option(
        "endingOffsets",
        types.offsets("latest", impossible={-2: NOTHING_BEFORE}),
        "Where to end, not included; -1 is the latest.",
        default="latest",
        stream=False,
    ),
    Option(
        "endingTimestamp",
        types.TIME,
        "End before the first record at or after this; overrides endingOffsetsByTimestamp and endingOffsets.",
        stream=False,
    ),
    Option(
        "endingOffsetsByTimestamp",
        types.TIMES,
        "The same, for each partition; overrides endingOffsets.",
        stream=False,
    ),
    Option(
        "failOnDataLoss",
        types.BOOLEAN,
        "Whether offsets that the brokers no longer have are an error, or passed over with a warning: retention was "
        "faster, a topic was deleted or created anew, an unclean election cut a log.",
        default="true",
        official="the same; a topic created anew is not seen as another one",
    ),
)
ADMISSION = (
    Option(
        "maxOffsetsPerTrigger",
        types.whole(1),
        "Offsets that one microbatch reads at most, shared out in proportion to what waits in each partition; a "
        "partition with something waiting always gets one at least.",
        batch=False,
    ),
    Option(
        "maxBytesPerTrigger",
        types.SIZE,
        "Bytes, as they lie in the log (compressed), that one microbatch reads at most: an estimate from the first "
        "batches that wait in each partition. A partition with something waiting always gets one offset at least.",
        batch=False,
        official=NONE,
    ),
    Option(
        "minOffsetsPerTrigger",
        types.whole(1),
        "A microbatch waits for this many offsets, or until maxTriggerDelay is over. It has no effect under "
        "`Trigger.AvailableNow`, which reads everything.",
        batch=False,
    ),
    Option(
        "maxTriggerDelay",
        types.DURATION,
        "How long minOffsetsPerTrigger may hold back what waits, from one microbatch to the next. The first one after "
        "a start is not held back.",
        default="15m",
        batch=False,
    ),
)
TASKS = (
    Option(
        "minPartitions",
        types.whole(1),
        "At least this many tasks, if there are as many offsets. By default as many as run at once, fewer for a small "
        "read. Large partitions are split, small ones share a task.",
        official="the same, but its least is a task a partition",
    ),
    Option(
        "penstock.parallelism",
        types.whole(1),
        "How many tasks run at once: the cores of all executors. Without it: the cores of the driver's machine or the "
        "partitions that have something to read, whichever are more. Pipelines set it by themselves.",
        official=NONE,
    ),
    Option(
        "maxRecordsPerPartition",
        types.whole(1),
        "Offsets that one task reads at most.",
    ),
)
ROWS = (
    Option("includeHeaders", types.BOOLEAN, "Adds the column `headers`.", default="false"),
    Option(
        "kafka.isolation.level",
        types.one_of("read_uncommitted", "read_committed"),
        "Whether records of open and aborted transactions are read.",
        default="read_uncommitted",
    ),
)
CLIENT = (
    Option(
        "kafka.client.id",
        types.TEXT,
        "How the brokers' logs and quotas call the job.",
        default="penstock-spark",
    ),
    Option(
        "kafka.request.timeout.ms",
        types.whole(1),
        "How long a request may take, a leader that is moving included.",
        default="30000",
    ),
    Option(
        "fetchOffset.numRetries",
        types.whole(0),
        "How often planning asks the brokers again after a failure that may pass.",
        default="3",
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        types.whole(0),
        "How long it waits before it asks again.",
        default="10",
    ),
    Option(
        "penstock.read",
        types.one_of("auto", "broker", "files"),
        "How tasks read: all through the brokers; closed segments straight from their files; or from files where "
        "they can be reached.",
        default="auto",
        official=NONE,
    ),
    Option(
        "penstock.log.dirs",
        types.PATHS,
        "Where log directories of brokers are mounted, for reading from files. Without it: where the brokers say "
        "that they are, if that is on this host.",
        official=NONE,
    ),
)
WITHOUT_EFFECT = (
    Option(
        "groupIdPrefix",
        types.TEXT,
        "No consumer group is joined. `GroupListener` commits a query's offsets to one, for its lag.",
    ),
    Option("kafka.group.id", types.TEXT, "As groupIdPrefix."),
    Option("kafkaConsumer.pollTimeoutMs", types.whole(0), "`kafka.request.timeout.ms` bounds every wait."),
)
GROUPS: tuple[tuple[str, tuple[Option, ...]], ...] = (
    ("Which topics", TOPICS),
    ("From where to where", BOUNDS),
    ("How much a microbatch reads", ADMISSION),
    ("How many tasks", TASKS),
    ("Which rows and columns", ROWS),
    ("Brokers and files", CLIENT),
    ("Accepted, without effect", WITHOUT_EFFECT),
)
OPTIONS: dict[str, Option] = {option.name: option for _, some in GROUPS for option in some}

CONSUMER_TUNING = tuple(
    f"kafka.{name}"
    for name in (
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    )
)
"""Settings that tune the Java consumer. Accepted, because a job that is moved has them, and without effect."""
REFUSED = {
    "kafka.auto.offset.reset": "startingOffsets says where to begin",
    "kafka.enable.auto.commit": "Spark's checkpoint keeps the offsets; GroupListener shows them in a group",
    "kafka.interceptor.classes": "there is no Java consumer that would run them",
    "kafka.key.deserializer": "keys come as bytes; convert them in the query",
    "kafka.value.deserializer": "values come as bytes; convert them in the query",
    "kafka.security.providers": "the client speaks neither TLS nor SASL yet; use a PLAINTEXT listener",
}
"""What the official connector refuses too, and what nothing is there for yet: why, and what to do instead."""
SECURITY_PREFIXES = ("kafka.sasl.", "kafka.ssl.")
NO_SECURITY = "the client speaks neither TLS nor SASL yet; use a PLAINTEXT listener"
SECURITY_PROTOCOL = "kafka.security.protocol"
