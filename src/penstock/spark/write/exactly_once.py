"""The options of the transactional sink: `penstock.exactly.once` and what goes with it.

Its producer is ours and not librdkafka's, since it sends batches that others have built. So it takes fewer settings: a
producer setting that would have no effect is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from penstock.config.topic import TopicConfig
from penstock.errors import ConfigError
from penstock.records.compression import Codec
from penstock.spark.limits import SINK_BATCH_BYTES

SWITCH = "penstock.exactly.once"
SINK_ID, STAGING, REPLACES, WRITE_ID = (
    "penstock.sink.id",
    "penstock.staging",
    "penstock.sink.replaces",
    "penstock.write.id",
)
OPTIONS = (SWITCH, SINK_ID, STAGING, REPLACES, WRITE_ID)
NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
TRANSACTION_TIMEOUT_MS = 60_000
MAX_BLOCK_MS, REQUEST_TIMEOUT_MS, DELIVERY_TIMEOUT_MS = 60_000, 30_000, 120_000
"""The Java producer's defaults of transaction.timeout.ms, max.block.ms, request.timeout.ms and delivery.timeout.ms."""
CODEC = "lz4"
"""What rows are compressed with unless compression.type says otherwise: they are written twice and sent once."""
IN_CHECKPOINT = "penstock-staged"
"""The directory of a query's checkpoint that its rows are staged in."""
CHECKPOINT = "checkpointlocation"
OWN_SETTINGS = frozenset(
    """
    bootstrap.servers client.id compression.type compression.gzip.level compression.lz4.level compression.zstd.level
    batch.size max.block.ms request.timeout.ms delivery.timeout.ms transaction.timeout.ms acks enable.idempotence
    """.split()  # noqa: SIM905 - this many read better as words
)
FIXED = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
}
"""Settings that may be given with these values only."""
LEVELS = {
    Codec.GZIP: TopicConfig.compression_gzip_level,
    Codec.LZ4: TopicConfig.compression_lz4_level,
    Codec.ZSTD: TopicConfig.compression_zstd_level,
}
"""The levels that each codec has; a producer's are a topic's."""


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """How a sink writes each row once.

    Attributes:
        sink_id: of the sink, the same after each restart.
        staging: the directory of staged rows.
        replaces: the query that this one goes on for; None if there is none.
        write_id: of a write, so that it is not repeated; None: each write is a new one.
        client_id: how brokers call the driver.
        codec, level: how records are compressed.
        batch_bytes: the records of a batch before they are compressed.
        transaction_timeout_ms: how long the driver may take to send a microbatch.
        max_block_ms: how long it looks for brokers and coordinators that answer.
        request_timeout_ms: how long a broker may take to answer that it has a batch.
        delivery_timeout_ms: how long a batch that was refused for now is sent again.
    """

    sink_id: str
    staging: str
    replaces: str | None
    write_id: str | None
    client_id: str
    codec: Codec
    level: int | None
    batch_bytes: int
    transaction_timeout_ms: int
    max_block_ms: int
    request_timeout_ms: int
    delivery_timeout_ms: int

    @property
    def transactional_id(self) -> str:
        """Whose transactions the sink's are."""
        return f"penstock-sink-{self.sink_id}"


def parse_exactly_once(given: Mapping[str, str], spark: Mapping[str, str]) -> ExactlyOnce | None:
    """The options of a sink, if `penstock.exactly.once` is true; `spark` has what Spark hands over, in lower case.

    Raises ConfigError.
    """
    switch = given.get(SWITCH, "false").lower()
    if switch not in ("true", "false"):
        raise ConfigError(f"option {SWITCH} = {given[SWITCH]!r} must be one of true, false")
    if switch == "false":
        for name in OPTIONS[1:]:
            if name in given:
                raise ConfigError(f"option {name} has a meaning only with {SWITCH} = true")
        return None
    settings = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    _check(settings)
    if "topic" not in given:
        raise ConfigError(f"option topic is missing: with {SWITCH} = true all rows go to one topic, which it names")
    codec = _codec(settings.get("compression.type", CODEC))
    levels = {each: _level(settings, each) for each in LEVELS}
    timeouts = _timeouts(settings)
    return ExactlyOnce(
        sink_id=_named(given, SINK_ID, "the sink needs a name that stays the same when the query starts again"),
        staging=_staging(given, spark),
        replaces=_named(given, REPLACES) if REPLACES in given else None,
        write_id=_named(given, WRITE_ID) if WRITE_ID in given else None,
        client_id=settings.get("client.id", "penstock-spark"),
        codec=codec,
        level=levels.get(codec),
        batch_bytes=_number("batch.size", settings.get("batch.size", str(SINK_BATCH_BYTES)), 1, 1 << 30),
        transaction_timeout_ms=timeouts["transaction.timeout.ms"],
        max_block_ms=timeouts["max.block.ms"],
        request_timeout_ms=timeouts["request.timeout.ms"],
        delivery_timeout_ms=timeouts["delivery.timeout.ms"],
    )


def _check(settings: Mapping[str, str]) -> None:
    """Refuses producer settings that the sink does not have."""
    for name, value in sorted(settings.items()):
        if name not in OWN_SETTINGS:
            raise ConfigError(f"option kafka.{name} cannot be used with {SWITCH} = true")
        allowed = FIXED.get(name)
        if allowed is not None and value.lower() not in allowed:
            raise ConfigError(f"option kafka.{name} = {value!r} must be {allowed[0]} with {SWITCH} = true")


def _named(given: Mapping[str, str], option: str, why: str = "") -> str:
    value = given.get(option)
    if value is None:
        raise ConfigError(f"option {option} is missing: {why}")
    if not NAME.fullmatch(value):
        raise ConfigError(f"option {option} = {value!r} must be 1 to 200 letters, digits, dots, dashes, underscores")
    return value


def _staging(given: Mapping[str, str], spark: Mapping[str, str]) -> str:
    if STAGING in given:
        return local_directory(given[STAGING], STAGING)
    if CHECKPOINT in spark:
        return f"{local_directory(spark[CHECKPOINT], 'checkpointLocation')}/{IN_CHECKPOINT}"
    raise ConfigError(
        f"option {STAGING} is missing: a directory that the driver and all executors share. A stream may set"
        " checkpointLocation instead, and rows are staged there"
    )


def _codec(name: str) -> Codec:
    for codec in Codec:
        if codec.kafka_name == name.lower():
            return codec
    known = ", ".join(codec.kafka_name for codec in Codec)
    raise ConfigError(f"option kafka.compression.type = {name!r} must be one of {known}")


def _level(settings: Mapping[str, str], codec: Codec) -> int | None:
    """The level for a codec, None if none is given. Raises ConfigError for one that the codec does not have."""
    setting = LEVELS[codec]
    given = settings.get(setting.name)
    if given is None:
        return None
    try:
        return setting.parse(given)
    except ConfigError:
        raise ConfigError(f"option kafka.{setting.name} = {given!r} must be {setting.wanted()}") from None


def _timeouts(settings: Mapping[str, str]) -> dict[str, int]:
    """The producer's times in milliseconds, by name. Raises ConfigError."""
    defaults = {
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "max.block.ms": MAX_BLOCK_MS,
        "request.timeout.ms": REQUEST_TIMEOUT_MS,
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
    }
    times = {name: _number(name, settings.get(name, str(value)), 1, 2**31 - 1) for name, value in defaults.items()}
    delivery, request = times["delivery.timeout.ms"], times["request.timeout.ms"]
    if delivery < request and "delivery.timeout.ms" in settings:
        raise ConfigError(
            f"option kafka.delivery.timeout.ms = {delivery} must not be below kafka.request.timeout.ms = {request}"
        )
    times["delivery.timeout.ms"] = max(delivery, request)  # as Java: a default gives way
    return times


def _number(name: str, value: str, least: int, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", value) or not least <= int(value) <= most:
        raise ConfigError(f"option kafka.{name} = {value!r} must be a whole number from {least} to {most}")
    return int(value)


def local_directory(location: str, option: str) -> str:
    """The path of a directory given as a path or a `file:` URL. Raises ConfigError for any other."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file") or parts.netloc:
        raise ConfigError(
            f"option {option} = {location!r} is no directory to stage rows in: set penstock.staging to one that the"
            " driver and all executors share, as a path or a file: URL"
        )
    return os.path.abspath(unquote(parts.path) if parts.scheme else location)
