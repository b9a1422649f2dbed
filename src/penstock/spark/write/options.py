"""Options of `df.write.format("penstock")`: the official connector's, and Kafka's producer settings after `kafka.`.

The producer is librdkafka's, which shares most of the Java producer's names. What Java calls differently is renamed
here, what has no meaning is refused with what to do instead, and what nobody knows gets the nearest name. Values are
checked before anything runs: by kind here (librdkafka takes "10k" for 10), by bounds in librdkafka.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.security import NAMES, UNSECURED, ClientSecurity
from penstock.config.nearest import did_you_mean
from penstock.config.values import Password
from penstock.errors import ConfigError
from penstock.spark.limits import SINK_QUEUE_BYTES, SINK_QUEUE_RECORDS
from penstock.spark.security import is_security, security_of
from penstock.spark.write.exactly_once import DELIVERY_TIMEOUT_MS, MAX_BLOCK_MS, SWITCH, ExactlyOnce, parse_exactly_once
from penstock.spark.write.exactly_once import OPTIONS as EXACTLY_ONCE_OPTIONS

BOOTSTRAP = "kafka.bootstrap.servers"
OWN = (BOOTSTRAP, "topic", "includeHeaders", "penstock.timestamps", *EXACTLY_ONCE_OPTIONS)
OF_SPARK = ("checkpointlocation", "queryname")
"""What Spark itself hands to a streaming sink beside the sink's options; lower case."""
TRANSACTION_TIMEOUT = "transaction.timeout.ms"

WHOLE_NUMBERS = frozenset(
    """
    batch.num.messages batch.size compression.level connections.max.idle.ms delivery.timeout.ms
    max.in.flight.requests.per.connection max.in.flight message.copy.max.bytes message.max.bytes
    message.send.max.retries message.timeout.ms metadata.max.age.ms queue.buffering.max.kbytes
    queue.buffering.max.messages reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries
    retry.backoff.max.ms retry.backoff.ms socket.connection.setup.timeout.ms socket.receive.buffer.bytes
    socket.send.buffer.bytes socket.timeout.ms statistics.interval.ms sticky.partitioning.linger.ms
    topic.metadata.refresh.interval.ms buffer.memory max.request.size max.block.ms send.buffer.bytes
    receive.buffer.bytes socket.connection.setup.timeout.max.ms
    transaction.timeout.ms
    """.split()  # noqa: SIM905 - this many read better as words
)
TEXTS = frozenset(
    """
    acks broker.address.family client.dns.lookup client.id client.rack compression.codec compression.type debug
    enable.gapless.guarantee enable.idempotence enable.ssl.certificate.verification linger.ms metadata.broker.list
    partitioner queue.buffering.max.ms request.required.acks sasl.kerberos.keytab sasl.kerberos.principal
    sasl.kerberos.service.name sasl.mechanism sasl.mechanisms sasl.oauthbearer.config sasl.password sasl.username
    security.protocol socket.keepalive.enable socket.nagle.disable ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.endpoint.identification.algorithm
    ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password
    """.split()  # noqa: SIM905 - names in a row are easier to keep in order
)
JAVA_NAMES = {
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
"""Settings that mean the same under another name."""
COMPRESSION_LEVELS = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
LIBRDKAFKAS = frozenset(
    """
    enable.ssl.certificate.verification sasl.kerberos.keytab sasl.kerberos.principal sasl.mechanisms
    sasl.oauthbearer.config sasl.password sasl.username ssl.ca.location ssl.ca.pem ssl.certificate.location
    ssl.certificate.pem ssl.key.location ssl.key.pem
    """.split()  # noqa: SIM905 - names in a row are easier to keep in order
)
"""Names of security that librdkafka has and Kafka has not. Where one is given, all that is about security goes to
librdkafka as it is."""
SECRETS = ("sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "sasl.oauthbearer.config")
"""Settings of librdkafka's that no error and no printed options may show."""
REFUSED = {
    "key.serializer": "keys are written as they are; cast the column",
    "value.serializer": "values are written as they are; cast the column",
    "partitioner.class": "records go where Kafka's default partitioner sends them, or where a column `partition` says",
    "partitioner.ignore.keys": "a column `partition` says where records go",
    "interceptor.classes": "Java classes cannot be used here",
    "metric.reporters": "Java classes cannot be used here",
    "transactional.id": "the sink writes at least once; for transactions set penstock.exactly.once",
}

JAVAS = frozenset(f"kafka.{name}" for name in NAMES if name not in TEXTS)
"""Options of security under names that only Kafka has."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """A checked set of options.

    Attributes:
        topic: where all rows go; None: where the column `topic` says.
        include_headers: whether a column `headers` is written.
        timestamps: whether a column `timestamp` becomes the records' time; the producer's clock otherwise.
        max_block_ms: how long a task waits for a topic's metadata.
        producer: librdkafka's settings, sorted by name, without those of `security`.
        security: TLS and login as Kafka's names say it; a task makes librdkafka's settings of it.
        exactly_once: how rows are written in transactions; None: at least once, without.
    """

    topic: str | None
    include_headers: bool
    timestamps: bool
    max_block_ms: int
    producer: tuple[tuple[str, str], ...]
    exactly_once: ExactlyOnce | None = None
    security: ClientSecurity = UNSECURED

    @property
    def bootstrap(self) -> str:
        """The brokers to begin with."""
        return dict(self.producer)["bootstrap.servers"]


def parse(options: Mapping[str, str]) -> WriteOptions:
    """Checks the options of a write. Raises ConfigError naming the option, what it has and what it may have."""
    given = _recognised(options)
    if not given.get(BOOTSTRAP):
        raise ConfigError(f'option {BOOTSTRAP} is missing: "host:port", several separated by commas')
    if "topic" in given and not given["topic"].strip():
        raise ConfigError("option topic is empty; leave it out to let the column `topic` say where rows go")
    spark = {name.lower(): value for name, value in options.items() if name.lower() in OF_SPARK}
    security, given = _secured(given)
    exactly_once = parse_exactly_once(given, spark)
    settings = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    if exactly_once is None and TRANSACTION_TIMEOUT in settings:
        raise ConfigError(f"option kafka.{TRANSACTION_TIMEOUT} has a meaning only with penstock.exactly.once = true")
    return WriteOptions(
        topic=given["topic"].strip() if "topic" in given else None,
        include_headers=_boolean(given, "includeHeaders", True),
        timestamps=_boolean(given, "penstock.timestamps", False),
        max_block_ms=int(settings.pop("max.block.ms", MAX_BLOCK_MS)),
        producer=tuple(sorted(_producer(settings).items())),
        exactly_once=exactly_once,
        security=security,
    )


def _secured(given: dict[str, str]) -> tuple[ClientSecurity, dict[str, str]]:
    """What the options say about security under Kafka's names, and the others. Raises ConfigError."""
    names = [name for name in given if name.removeprefix("kafka.") in LIBRDKAFKAS]
    if not names:
        return security_of(given), {name: value for name, value in given.items() if not is_security(name)}
    if given.get(SWITCH, "false").lower() == "true":
        raise ConfigError(
            f"option {names[0]} is librdkafka's and cannot be used with {SWITCH} = true: kafka.sasl.jaas.config and"
            " kafka.ssl.truststore.location are Kafka's names"
        )
    for name in given:
        if name in JAVAS:
            raise ConfigError(f"options {names[0]} and {name} exclude each other: use Kafka's names or librdkafka's")
    return UNSECURED, given


def _recognised(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their proper spelling, the producer's checked as far as can be without librdkafka."""
    spelling = {name.lower(): name for name in OWN}
    given = {}
    for name, value in options.items():
        lower = name.lower()
        if lower in OF_SPARK:
            continue
        if lower in spelling:
            given[spelling[lower]] = value
        elif lower.startswith("kafka."):
            given[lower] = _checked(lower.removeprefix("kafka."), value)
        else:
            raise ConfigError(f"unknown option {name}{did_you_mean(name, [*OWN, *known()])}")
    return given


def known() -> list[str]:
    """The producer's options, with `kafka.` before them, sorted."""
    return sorted(f"kafka.{name}" for name in {*WHOLE_NUMBERS, *TEXTS, *NAMES})


def unknown_setting(name: str) -> ConfigError:
    """The error for a producer setting that librdkafka does not know."""
    return ConfigError(f"unknown option kafka.{name}{did_you_mean(f'kafka.{name}', known())}")


def _checked(name: str, value: str) -> str:
    if name in REFUSED:
        raise ConfigError(f"option kafka.{name} cannot be used: {REFUSED[name]}")
    if name in SECRETS:
        return Password(value.strip())
    if name in WHOLE_NUMBERS and not re.fullmatch(r"-?[0-9]+", value.strip()):
        raise ConfigError(f"option kafka.{name} = {value!r} must be a whole number")
    return value.strip()


def _boolean(given: Mapping[str, str], name: str, default: bool) -> bool:
    value = given.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise ConfigError(f"option {name} = {given[name]!r} must be one of true, false")
    return value == "true"


def _producer(settings: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings: the Java producer's defaults where the two differ, then what the user gave."""
    chosen = {
        "client.id": "penstock-spark",
        "delivery.timeout.ms": str(DELIVERY_TIMEOUT_MS),
        "partitioner": "murmur2_random",  # what Java's producer does: librdkafka's own default hashes keys otherwise
        "queue.buffering.max.kbytes": str(SINK_QUEUE_BYTES // 1024),
        "queue.buffering.max.messages": str(SINK_QUEUE_RECORDS),
    }
    for name, value in settings.items():
        if name == "buffer.memory":
            chosen["queue.buffering.max.kbytes"] = str(max(int(value) // 1024, 1))
        elif name in COMPRESSION_LEVELS:
            if settings.get("compression.type", "none") == name.split(".")[1]:
                chosen["compression.level"] = value
        else:
            chosen[JAVA_NAMES.get(name, name)] = value
    weaker = settings.get("acks", "all") not in ("all", "-1") or settings.get("retries") == "0"
    chosen.setdefault("enable.idempotence", "false" if weaker else "true")  # as Java: never an error by default
    return chosen
