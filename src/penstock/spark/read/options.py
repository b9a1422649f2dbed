"""Options of `format("penstock")`: the official Kafka connector's names and meanings, checked before anything runs.

Spark hands options over case-insensitively; an option that does not exist is an error with the nearest name, because a
misspelt `startingOffset` that is silently ignored loads the wrong data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError

Offsets = Literal["earliest", "latest"] | dict[str, dict[int, int]]
Timestamps = int | dict[str, dict[int, int]]

KNOWN = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.isolation.level",
    "kafka.request.timeout.ms",
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "includeHeaders",
    "failOnDataLoss",
)
ISOLATION_LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A checked set of options. Exactly one of `assign`, `subscribe`, `pattern` is set.

    `starting` and `ending` are "earliest", "latest" or offsets a topic and partition (-2 earliest, -1 latest);
    `starting_ms` and `ending_ms`, epoch milliseconds for all or a topic and partition, win over them.
    """

    bootstrap: str
    assign: dict[str, list[int]] | None
    subscribe: list[str] | None
    pattern: str | None
    starting: Offsets
    ending: Offsets
    starting_ms: Timestamps | None
    ending_ms: Timestamps | None
    late_start_is_error: bool
    min_partitions: int | None
    include_headers: bool
    fail_on_data_loss: bool
    isolation: int
    client_id: str
    timeout_ms: int


def parse(options: Mapping[str, str]) -> ReadOptions:
    """Checks the options of a batch read. Raises ConfigError naming the option, what it has and what it may have."""
    given = _recognised(options)
    if not given.get("kafka.bootstrap.servers"):
        raise ConfigError('option kafka.bootstrap.servers is missing: "host:port", several separated by commas')
    chosen = [name for name in ("assign", "subscribe", "subscribePattern") if name in given]
    if len(chosen) != 1:
        raise ConfigError(f"exactly one of assign, subscribe, subscribePattern is needed, not {chosen or 'none'}")
    strategy = _one_of(given, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    isolation = _one_of(given, "kafka.isolation.level", tuple(ISOLATION_LEVELS), "read_uncommitted")
    topics = [name.strip() for name in given["subscribe"].split(",")] if "subscribe" in given else None
    if topics is not None and not all(topics):
        raise ConfigError(f"option subscribe = {given['subscribe']!r} has an empty topic name")
    starting = _offsets(given, "startingOffsets", "earliest")
    ending = _offsets(given, "endingOffsets", "latest")
    if starting == "latest":
        raise ConfigError("option startingOffsets = latest has no meaning in a batch read: there is nothing after it")
    if ending == "earliest":
        raise ConfigError("option endingOffsets = earliest has no meaning in a batch read: there is nothing before it")
    return ReadOptions(
        bootstrap=given["kafka.bootstrap.servers"],
        assign=_assignment(given),
        subscribe=topics,
        pattern=_pattern(given),
        starting=starting,
        ending=ending,
        starting_ms=_timestamps(given, "startingTimestamp", "startingOffsetsByTimestamp"),
        ending_ms=_timestamps(given, "endingTimestamp", "endingOffsetsByTimestamp"),
        late_start_is_error=strategy == "error",
        min_partitions=_integer(given, "minPartitions", 1),
        include_headers=_boolean(given, "includeHeaders", False),
        fail_on_data_loss=_boolean(given, "failOnDataLoss", True),
        isolation=ISOLATION_LEVELS[isolation],
        client_id=given.get("kafka.client.id", "penstock-spark"),
        timeout_ms=_integer(given, "kafka.request.timeout.ms", 1) or 30_000,
    )


def _recognised(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their proper spelling."""
    spelling = {name.lower(): name for name in KNOWN}
    given = {}
    for name, value in options.items():
        proper = spelling.get(name.lower())
        if proper is None:
            raise ConfigError(f"unknown option {name}{did_you_mean(name, KNOWN)}")
        given[proper] = value
    return given


def _one_of(given: Mapping[str, str], name: str, values: tuple[str, ...], default: str) -> str:
    value = given.get(name, default).lower()
    if value not in values:
        raise ConfigError(f"option {name} = {given[name]!r} must be one of {', '.join(values)}")
    return value


def _boolean(given: Mapping[str, str], name: str, default: bool) -> bool:
    return _one_of(given, name, ("true", "false"), str(default).lower()) == "true"


def _integer(given: Mapping[str, str], name: str, at_least: int) -> int | None:
    if name not in given:
        return None
    try:
        value = int(given[name])
    except ValueError:
        raise ConfigError(f"option {name} = {given[name]!r} must be a whole number") from None
    if value < at_least:
        raise ConfigError(f"option {name} = {value} must be at least {at_least}")
    return value


def _pattern(given: Mapping[str, str]) -> str | None:
    text = given.get("subscribePattern")
    if text is not None:
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError(f"option subscribePattern = {text!r} is no regular expression: {error}") from None
    return text


def _offsets(given: Mapping[str, str], name: str, default: Literal["earliest", "latest"]) -> Offsets:
    text = given.get(name, default).strip()
    if text.lower() in ("earliest", "latest"):
        return "earliest" if text.lower() == "earliest" else "latest"
    offsets = _by_partition(name, text)
    impossible = LATEST if name == "startingOffsets" else EARLIEST
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if offset < EARLIEST or offset == impossible:
                raise ConfigError(f"option {name}: {offset} for {topic}-{partition} is no offset that can be used here")
    return offsets


def _timestamps(given: Mapping[str, str], name: str, by_partition: str) -> Timestamps | None:
    if name in given:
        return _integer(given, name, 0)
    return _by_partition(by_partition, given[by_partition]) if by_partition in given else None


def _by_partition(name: str, text: str) -> dict[str, dict[int, int]]:
    """{"topic": {"0": 23, "1": -1}} with whole numbers."""
    wanted = f'option {name} must look like {{"topic": {{"0": 23, "1": 5}}}}'
    try:
        parsed = json.loads(text)
        return {
            str(topic): {int(partition): _whole(value) for partition, value in partitions.items()}
            for topic, partitions in parsed.items()
        }
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"{wanted}, not {text!r} ({error})") from None


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _assignment(given: Mapping[str, str]) -> dict[str, list[int]] | None:
    if "assign" not in given:
        return None
    try:
        parsed = json.loads(given["assign"])
        return {str(topic): sorted({_whole(p) for p in partitions}) for topic, partitions in parsed.items()}
    except (ValueError, AttributeError, TypeError) as error:
        text = given["assign"]
        raise ConfigError(f'option assign must look like {{"topic": [0, 1]}}, not {text!r} ({error})') from None
