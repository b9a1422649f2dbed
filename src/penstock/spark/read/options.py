"""Options of `format("penstock")`: the official Kafka connector's names and meanings, checked before anything runs.

Spark hands options over case-insensitively; an option that does not exist is an error with the nearest name, because a
misspelt `startingOffset` that is silently ignored loads the wrong data. `option_table` declares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from penstock.client.client import LATEST, READ_COMMITTED, READ_UNCOMMITTED
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.spark.read.option_table import (
    CONSUMER_TUNING,
    OPTIONS,
    REFUSED,
)
from penstock.spark.read.option_types import Type
from penstock.spark.read.value_options import ValueOptions, value_options
from penstock.spark.security import is_security, security_of

Offsets = Literal["earliest", "latest"] | dict[str, dict[int, int]]
Timestamps = int | dict[str, dict[int, int]]

ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
CHOICES = ("assign", "subscribe", "subscribePattern")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A checked set of options. Exactly one of `assign`, `subscribe`, `pattern` is set.

    `starting` and `ending` are "earliest", "latest" or offsets a topic and partition (-2 earliest, -1 latest);
    `starting_ms` and `ending_ms`, epoch milliseconds for all or a topic and partition, win over them. The four of
    admission (`max_offsets` to `max_delay_ms`) are a stream's.
    """

    bootstrap: str
    assign: dict[str, tuple[int, ...]] | None
    subscribe: tuple[str, ...] | None
    pattern: str | None
    starting: Offsets
    ending: Offsets
    starting_ms: Timestamps | None
    ending_ms: Timestamps | None
    late_start_is_error: bool
    max_offsets: int | None
    max_bytes: int | None
    min_offsets: int | None
    max_delay_ms: int
    min_partitions: int | None
    parallelism: int | None
    max_records_per_task: int | None
    include_headers: bool
    fail_on_data_loss: bool
    isolation: int
    client_id: str
    timeout_ms: int
    retries: int
    retry_interval_ms: int
    read: str
    log_dirs: tuple[str, ...]
    value: ValueOptions | None = None
    security: ClientSecurity = UNSECURED

    def chooses(self, topic: str, partition: int) -> bool:
        """Whether the options choose a partition, if it exists."""
        if self.assign is not None:
            return partition in self.assign.get(topic, ())
        if self.subscribe is not None:
            return topic in self.subscribe
        return re.fullmatch(self.pattern or "", topic) is not None


def parse(options: Mapping[str, str], *, stream: bool = False) -> ReadOptions:
    """Checks the options of a read. Raises ConfigError naming the option, what it has and what it may have.

    Args:
        options: as Spark hands them over, names in any case.
        stream: whether they are of `readStream`; some options are for one kind of read only.
    """
    given = recognised(options)
    _check_kind(given, stream)
    _check_together(given)
    value = _values(given, stream)
    if not stream:
        _check_batch_start(value["startingOffsets"])
        _check_times(value["startingTimestamp"], value["endingTimestamp"])
    return ReadOptions(
        bootstrap=value["kafka.bootstrap.servers"],
        assign=value["assign"],
        subscribe=value["subscribe"],
        pattern=value["subscribePattern"],
        starting=value["startingOffsets"],
        ending=value["endingOffsets"],
        starting_ms=_first(value["startingTimestamp"], value["startingOffsetsByTimestamp"]),
        ending_ms=_first(value["endingTimestamp"], value["endingOffsetsByTimestamp"]),
        late_start_is_error=value["startingOffsetsByTimestampStrategy"] == "error",
        max_offsets=value["maxOffsetsPerTrigger"],
        max_bytes=value["maxBytesPerTrigger"],
        min_offsets=value["minOffsetsPerTrigger"],
        max_delay_ms=value["maxTriggerDelay"],
        min_partitions=value["minPartitions"],
        parallelism=value["penstock.parallelism"],
        max_records_per_task=value["maxRecordsPerPartition"],
        include_headers=value["includeHeaders"],
        fail_on_data_loss=value["failOnDataLoss"],
        isolation=ISOLATION_LEVELS[value["kafka.isolation.level"]],
        client_id=value["kafka.client.id"],
        timeout_ms=value["kafka.request.timeout.ms"],
        retries=value["fetchOffset.numRetries"],
        retry_interval_ms=value["fetchOffset.retryIntervalMs"],
        read=value["penstock.read"],
        log_dirs=value["penstock.log.dirs"] or (),
        value=value_options(given, value),
        security=security_of(options),
    )


def typed_values(options: Mapping[str, str]) -> ValueOptions | None:
    """How values are typed, if they are: what the columns depend on besides headers. Raises ConfigError."""
    given = recognised(options)
    return value_options(given, _values(given, stream=False))


def includes_headers(options: Mapping[str, str]) -> bool:
    """Whether rows have headers. Raises ConfigError for an unknown option."""
    name = "includeHeaders"
    option = OPTIONS[name]
    return bool(_read(name, option.type, recognised(options).get(name, option.default or "")))


def recognised(options: Mapping[str, str]) -> dict[str, str]:
    """The declared options by their proper spelling. Raises ConfigError for one that is unknown or refused."""
    spelling = {name.lower(): name for name in OPTIONS}
    given = {}
    for name, value in options.items():
        lower = name.lower()
        if lower in spelling:
            given[spelling[lower]] = value
        elif lower in REFUSED:
            raise ConfigError(f"option {name} is not possible: {REFUSED[lower]}")
        elif lower not in CONSUMER_TUNING and not is_security(lower):
            raise ConfigError(f"unknown option {name}{did_you_mean(name, OPTIONS)}")
    return given


def _check_kind(given: Mapping[str, str], stream: bool) -> None:
    """Raises ConfigError for an option that is of the other kind of read."""
    for name in given:
        if stream and not OPTIONS[name].stream:
            raise ConfigError(f"option {name} is for batch reads only: a stream (readStream) has no end")
        if not stream and not OPTIONS[name].batch:
            raise ConfigError(f"option {name} is for streams (readStream) only: a batch read has no triggers")


def _check_together(given: Mapping[str, str]) -> None:
    """Raises ConfigError for options that are missing or exclude each other."""
    if "kafka.bootstrap.servers" not in given:
        raise ConfigError('option kafka.bootstrap.servers is missing: "host:port", several separated by commas')
    chosen = [name for name in CHOICES if name in given]
    if len(chosen) != 1:
        said = " and ".join(chosen) or "none"
        raise ConfigError(f"exactly one of {', '.join(CHOICES)} is needed, not {said}")
    if "maxTriggerDelay" in given and "minOffsetsPerTrigger" not in given:
        raise ConfigError("option maxTriggerDelay has no meaning without minOffsetsPerTrigger, which it bounds")
    if "minOffsetsPerTrigger" in given and "maxOffsetsPerTrigger" in given:
        low, high = (OPTIONS[name].type for name in ("minOffsetsPerTrigger", "maxOffsetsPerTrigger"))
        at_least = _read("minOffsetsPerTrigger", low, given["minOffsetsPerTrigger"])
        at_most = _read("maxOffsetsPerTrigger", high, given["maxOffsetsPerTrigger"])
        if at_least > at_most:
            raise ConfigError(
                f"option minOffsetsPerTrigger = {at_least} must not be above maxOffsetsPerTrigger = {at_most}"
            )


def _check_batch_start(starting: Offsets) -> None:
    if starting == "latest":
        raise ConfigError("option startingOffsets = latest has no meaning in a batch read: there is nothing after it")
    for topic, partitions in starting.items() if isinstance(starting, dict) else ():
        for partition, offset in partitions.items():
            if offset == LATEST:
                raise ConfigError(
                    f"option startingOffsets has -1 (latest) for {topic}-{partition}, which has no meaning in a batch "
                    "read: there is nothing after it"
                )


def _check_times(starting_ms: int | None, ending_ms: int | None) -> None:
    if starting_ms is not None and ending_ms is not None and ending_ms < starting_ms:
        raise ConfigError(f"option endingTimestamp = {ending_ms} is before startingTimestamp = {starting_ms}")


def _values(given: Mapping[str, str], stream: bool) -> dict[str, Any]:
    """The value of every option, None where it has neither a text nor a default."""
    values = {}
    for name, option in OPTIONS.items():
        default = option.stream_default if stream and option.stream_default is not None else option.default
        text = given.get(name, default)
        values[name] = None if text is None else _read(name, option.type, text)
    return values


def _read(name: str, kind: Type, text: str) -> Any:
    try:
        return kind.read(text)
    except ValueError as error:
        given = "" if kind.is_secret else f" = {text!r}"
        raise ConfigError(f"option {name}{given} {error}") from None


def _first(*values: Timestamps | None) -> Timestamps | None:
    return next((value for value in values if value is not None), None)
