"""The rules of a plan as a person writes them: a JSON file, checked against the model.

Every key is optional. `capacity`: {cpu, net, disk_rate, bytes}, shares of capacities. `goals`: {within, bytes_price,
topic_price}. `racks`, `hosts`: whether to spread over them. `replicas_per_broker_max`. `excluded_topics`,
`excluded_brokers`, `cordoned`, `drained`: lists. `pinned`: brokers by topic. `leaders_per_broker_min`: numbers by
topic. `in_flight`: partitions as `kafka-reassign-partitions` has them. `moved`: {topic, partition, broker} of replicas
that have moved lately. `kept`: {topic, partition} of partitions that stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.guardian.plan.model import Model
from penstock.guardian.plan.rules import Capacity, Flight, Goals, Kept, Moved, Rules

CAPACITY_MAX = 1.0
CAPACITY_MIN = 1e-6
WITHIN_MAX = 1.0
NUMBER_MAX = 1e9
"""Prices; far more than anything is worth, and nothing that is counted with it becomes infinite."""
COUNT_MAX = 2**31 - 1


def read_rules(path: Path | None, model: Model) -> Rules:
    """The rules of a file, or those without one. Raises ConfigError that names the key and what would be right."""
    if path is None:
        return Rules()
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}") from None
    try:
        return rules_of(document, model)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def rules_of_plan(path: Path | None, plan: Any, model: Model) -> Rules:
    """The rules of a file, or without one those that a plan names. Raises ConfigError."""
    if path is None and isinstance(plan, dict) and "rules" in plan:
        return rules_of(plan["rules"], model)
    return read_rules(path, model)


def rules_of(document: Any, model: Model) -> Rules:
    """The rules of a JSON document. Raises ConfigError."""
    given = checked(document, "the file", [each.name for each in fields(Rules)])
    topics, brokers = set(model.topics), set(model.brokers.ids.tolist())
    readers: dict[str, Callable[[Any, str], Any]] = {
        "capacity": capacity,
        "goals": goals,
        "racks": lambda value, name: typed(value, name, bool, "true or false"),
        "hosts": lambda value, name: typed(value, name, bool, "true or false"),
        "replicas_per_broker_max": lambda value, name: None if value is None else count(value, name),
        "excluded_topics": lambda value, name: tuple(
            known(each, topics, name, "topic") for each in listed(value, name)
        ),
        "excluded_brokers": lambda value, name: broker_ids(value, brokers, name),
        "cordoned": lambda value, name: broker_ids(value, brokers, name),
        "drained": lambda value, name: broker_ids(value, brokers, name),
        "pinned": lambda value, name: by_topic(value, name, topics, lambda ids, at: broker_ids(ids, brokers, at)),
        "leaders_per_broker_min": lambda value, name: by_topic(value, name, topics, count),
        "in_flight": lambda value, name: flights(value, name, model, brokers),
        "moved": lambda value, name: tuple(moved(each, model, brokers) for each in listed(value, name)),
        "kept": lambda value, name: tuple(kept(each, model) for each in listed(value, name)),
    }
    return Rules(**{name: readers[name](value, name) for name, value in given.items()})


def capacity(value: Any, name: str) -> Capacity:
    found = numbers(value, name, Capacity, CAPACITY_MAX)
    for key, share in found.items():
        if share < CAPACITY_MIN:
            raise ConfigError(f"{name}.{key} = {share:g}; it must be at least {CAPACITY_MIN:g}")
    return Capacity(**found)


def goals(value: Any, name: str) -> Goals:
    found = Goals(**numbers(value, name, Goals, NUMBER_MAX))
    if found.within > WITHIN_MAX:
        raise ConfigError(f"{name}.within = {found.within:g}; it must be at most {WITHIN_MAX:g}")
    return found


def by_topic(value: Any, name: str, topics: set[str], read: Callable[[Any, str], Any]) -> dict[str, Any]:
    """An object with a value for each of some topics."""
    given = typed(value, name, dict, "an object with a key for each topic")
    return {known(topic, topics, name, "topic"): read(each, f"{name}.{topic}") for topic, each in given.items()}


def checked(value: Any, name: str, allowed: Iterable[str]) -> Mapping[str, Any]:
    """An object that has only keys that are allowed."""
    mapping: Mapping[str, Any] = typed(value, name, dict, "an object")
    allowed = list(allowed)
    for key in mapping:
        if key not in allowed:
            near = did_you_mean(key, allowed)
            raise ConfigError(f"{name} has the unknown key {key}{near or '; it may have ' + ', '.join(allowed)}")
    return mapping


def typed(value: Any, name: str, kind: type, right: str) -> Any:
    if not isinstance(value, kind):
        raise ConfigError(f"{name} = {json.dumps(value)}; it must be {right}")
    return value


def numbers(value: Any, name: str, kind: type, most: float) -> dict[str, float]:
    """An object of positive numbers, one for each field of a class."""
    found = {}
    for key, number in checked(value, name, [each.name for each in fields(kind)]).items():
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not 0 < number <= most:
            right = f"a number above 0, at most {most:g}"
            raise ConfigError(f"{name}.{key} = {json.dumps(number)}; it must be {right}")
        found[key] = float(number)
    return found


def count(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= COUNT_MAX:
        raise ConfigError(f"{name} = {json.dumps(value)}; it must be a whole number, 1 to {COUNT_MAX}")
    return value


def listed(value: Any, name: str) -> list[Any]:
    found: list[Any] = typed(value, name, list, "a list")
    return found


def known(value: Any, names: Any, name: str, what: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str) or value not in names:
        near = did_you_mean(value, (each for each in names if isinstance(each, str))) if isinstance(value, str) else ""
        raise ConfigError(f"{name}: the model has no {what} {json.dumps(value)}{near}")
    return value


def broker_ids(value: Any, brokers: set[int], name: str) -> tuple[int, ...]:
    return tuple(known(each, brokers, name, "broker") for each in listed(value, name))


def flights(value: Any, name: str, model: Model, brokers: set[int]) -> tuple[Flight, ...]:
    """The partitions that are being moved, each once."""
    found = tuple(flight(each, model, brokers) for each in listed(value, name))
    seen: set[tuple[str, int]] = set()
    for each in found:
        if (each.topic, each.partition) in seen:
            raise ConfigError(f"{name} has {each.topic}-{each.partition} twice")
        seen.add((each.topic, each.partition))
    return found


def flight(value: Any, model: Model, brokers: set[int]) -> Flight:
    """A partition that is being moved. `log_dirs` says nothing here: room is kept on all disks of a broker."""
    entry = checked(value, "in_flight", ("topic", "partition", "replicas", "log_dirs"))
    topic, number = partition(entry, "in_flight", "replicas", model)
    replicas = broker_ids(entry["replicas"], brokers, "in_flight")
    if len(set(replicas)) < len(replicas):
        raise ConfigError(f"in_flight: {topic}-{number} has a broker twice in {list(replicas)}")
    return Flight(topic, number, replicas)


def moved(value: Any, model: Model, brokers: set[int]) -> Moved:
    """A replica that has moved lately. Where it is no longer, nothing comes of it."""
    entry = checked(value, "moved", ("topic", "partition", "broker"))
    topic, number = partition(entry, "moved", "broker", model)
    return Moved(topic, number, known(entry["broker"], brokers, "moved", "broker"))


def kept(value: Any, model: Model) -> Kept:
    """A partition that stays as it is."""
    return Kept(*partition(checked(value, "kept", ("topic", "partition")), "kept", "partition", model))


def partition(entry: Mapping[str, Any], name: str, further: str, model: Model) -> tuple[str, int]:
    """Topic and number of an entry that has both and something further."""
    for key in ("topic", "partition", further):
        if key not in entry:
            raise ConfigError(f"{name}: {json.dumps(entry)} has no {key}")
    topic = known(entry["topic"], model.topics, name, "topic")
    numbers_of = set(model.number[model.topic == model.topics.index(topic)].tolist())
    return topic, known(entry["partition"], numbers_of, name, f"partition of {topic}")
