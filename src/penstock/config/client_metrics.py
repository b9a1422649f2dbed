"""The configs of a client metrics subscription (resource type CLIENT_METRICS, KIP-714): which clients push what, and
how often.

    metrics=org.apache.kafka.producer.request.latency,org.apache.kafka.consumer.
    interval.ms=60000
    match=client_software_name=apache-kafka-java,client_id=orders-.*

An element of `match` is the name of something that a client is known by, `=`, and a regular expression that has to
match all of it; a client has to match every element. The expressions are RE2's, so none takes long, whatever a client
calls itself; Kafka's are Java's. There is no comma in one, since commas stand between elements.
Source: ClientMetricsConfigs of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.linear_regex import InvalidRegexError, compile_linear
from penstock.config.setting import Group, Setting
from penstock.config.values import HOUR_MS, INT, LIST, MINUTE_MS, KiB, ValueType, parse_list, print_list
from penstock.errors import ConfigError, ErrorCode, RequestError

CLIENT_INSTANCE_ID = "client_instance_id"
CLIENT_ID = "client_id"
CLIENT_SOFTWARE_NAME = "client_software_name"
CLIENT_SOFTWARE_VERSION = "client_software_version"
CLIENT_SOURCE_ADDRESS = "client_source_address"
CLIENT_SOURCE_PORT = "client_source_port"
KNOWN_BY = (
    CLIENT_INSTANCE_ID,
    CLIENT_ID,
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS,
    CLIENT_SOURCE_PORT,
)
"""What `match` may ask about a client."""
ALL_METRICS = "*"
"""As an element of `metrics`: all that the client has."""
INTERVAL_MIN_MS, INTERVAL_MAX_MS = 100, HOUR_MS
MATCH_PROGRAM_BYTES = 256 * KiB
"""Memory of a regular expression of `match`, compiled. A larger one is not valid."""
MATCH_CHARACTERS_MAX = 1_000
"""Characters of such an expression. A longer one is not valid."""


def parse_distinct(text: str) -> tuple[str, ...]:
    """A list whose elements count once, as Kafka reads it; none is empty."""
    found = tuple(dict.fromkeys(parse_list(text)))
    if "" in found:
        raise ValueError("has an empty element")
    return found


DISTINCT: ValueType[tuple[str, ...]] = ValueType(LIST.name, LIST.describe_id, parse_distinct, print_list)


class ClientMetricsConfigs(Group):
    """The configs of one subscription; make them with `resolve`."""

    metrics = Setting[tuple[str, ...]]("metrics", DISTINCT, default=()).documented(
        "Prefixes of the names of metrics that clients push, with commas between; * for all metrics. Empty: none."
    )
    interval_ms = Setting("interval.ms", INT, default=5 * MINUTE_MS).documented(
        "How often a client pushes: from 100 ms to 1 hour."
    )
    match = Setting[tuple[str, ...]]("match", DISTINCT, default=()).documented(
        "Which clients: elements NAME=EXPRESSION with commas between, all of which have to match. The names are "
        f"{', '.join(KNOWN_BY)}; an expression is a regular expression of RE2 for the whole value. Empty: all clients."
    )

    @classmethod
    def resolve(cls, overrides: Mapping[str, str]) -> ClientMetricsConfigs:
        """The configs of a subscription with `overrides` (name to text).

        Raises RequestError, INVALID_REQUEST, for an unknown name or an interval out of bounds, and ConfigError for any
        other value that cannot be. So does Kafka, in the same order.
        """
        values: dict[str, Any] = {setting.attribute: setting.default for setting in cls.declared()}
        for name in overrides:
            if name not in CLIENT_METRICS_SETTINGS:
                raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
        for setting in CLIENT_METRICS_SETTINGS.values():
            if setting.name in overrides:
                values[setting.attribute] = setting.parse(overrides[setting.name])
        found = cls(values)
        if not INTERVAL_MIN_MS <= found.interval_ms <= INTERVAL_MAX_MS:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {found.interval_ms} for interval.ms, interval must be between {INTERVAL_MIN_MS} and "
                f"{INTERVAL_MAX_MS} (1 hour)",
            )
        found.patterns()
        return found

    def patterns(self) -> dict[str, Any]:
        """The compiled expressions of `match`, by what they ask about. Raises ConfigError for an element that is none.

        Of several about the same, the last counts.
        """
        found: dict[str, Any] = {}
        for element in self.match:
            parts = element.split("=")
            while parts and not parts[-1]:
                parts.pop()  # as Java's split
            if len(parts) != 2 or parts[0].strip() not in KNOWN_BY:
                raise ConfigError(
                    f"Illegal client matching pattern: {element}: it must be such as client_id=orders-.*, with one of "
                    f"{', '.join(KNOWN_BY)}"
                )
            expression = parts[1].strip()
            if len(expression) > MATCH_CHARACTERS_MAX:
                what = f"longer than {MATCH_CHARACTERS_MAX} characters"
                raise ConfigError(f"Illegal client matching pattern: {element[:100]}...: {what}")
            try:
                found[parts[0].strip()] = compile_linear(expression, MATCH_PROGRAM_BYTES)
            except InvalidRegexError as wrong:
                raise ConfigError(f"Illegal client matching pattern: {element}: {wrong}") from None
        return found


CLIENT_METRICS_SETTINGS: Mapping[str, Setting[Any]] = ClientMetricsConfigs.by_name()
