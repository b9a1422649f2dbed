"""What a plan is: the replicas of each partition in order, of which the first is the preferred leader.

Plans are written and read in the JSON of kafka-reassign-partitions. `spread` makes them for all brokers, `one_broker`
for one that is emptied or filled; what need not move stays.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.errors import UsageError

Partition = tuple[str, int]
Replicas = tuple[int, ...]
Racks = Mapping[int, str | None]
Plan = Mapping[Partition, Replicas]
Replica = tuple[str, int, int]
"""Topic, index and broker."""
LogDirs = Mapping[Replica, str]
"""The path of the log directory of each replica that is to lie in a certain one."""
VERSION = 1
ANY_DIRECTORY = "any"
"""What a plan has in place of a path where the broker chooses."""


def parse_plan(text: str, source: str) -> dict[Partition, Replicas]:
    """Reads a plan. Raises UsageError naming `source`, the partition, and what it should be like."""
    plan: dict[Partition, Replicas] = {}
    for place, entry in enumerate(entries_of(text, source)):
        key, replicas = parse_entry(entry, f"{source}, partitions[{place}]")
        if key in plan:
            raise UsageError(f"{source}: {key[0]}-{key[1]} is there twice")
        plan[key] = replicas
    if not plan:
        raise UsageError(f"{source} names no partition")
    return plan


def parse_log_dirs(text: str, source: str) -> dict[Replica, str]:
    """The log directories that a plan names. Raises UsageError as `parse_plan`."""
    found: dict[Replica, str] = {}
    for place, entry in enumerate(entries_of(text, source)):
        (topic, index), replicas = parse_entry(entry, f"{source}, partitions[{place}]")
        for broker_id, path in zip(replicas, entry.get("log_dirs", ()), strict=False):
            if path != ANY_DIRECTORY:
                found[topic, index, broker_id] = path
    return found


def entries_of(text: str, source: str) -> list[Any]:
    """The partitions of a plan, still to be parsed. Raises UsageError."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source} is not JSON: {error}") from None
    entries = value.get("partitions") if isinstance(value, dict) else None
    if not isinstance(entries, list) or value.get("version", VERSION) != VERSION:
        example = '{"version": 1, "partitions": [{"topic": "clicks", "partition": 0, "replicas": [1, 2]}]}'
        raise UsageError(f"{source} is not a plan: it must be like {example}")
    return entries


def parse_entry(entry: Any, where: str) -> tuple[Partition, Replicas]:
    """Parses one partition of a plan. Raises UsageError."""
    wanted = (("topic", str), ("partition", int), ("replicas", list))
    for name, type_ in wanted:
        if not isinstance(entry, dict) or type(entry.get(name)) is not type_:
            raise UsageError(f"{where} must have topic, partition and replicas; {name} is missing or of another kind")
    replicas = tuple(entry["replicas"])
    partition = f"{entry['topic']}-{entry['partition']}"
    if not replicas or any(type(each) is not int or each < 0 for each in replicas):
        raise UsageError(f"{where}: replicas of {partition} must be broker ids, at least one")
    if len(set(replicas)) < len(replicas):
        raise UsageError(f"{where}: a broker is there twice among the replicas of {partition}")
    log_dirs = entry.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
    if not isinstance(log_dirs, list) or len(log_dirs) != len(replicas):
        raise UsageError(f"{where}: log_dirs of {partition} must be a list with one for each of the replicas")
    if not all(isinstance(each, str) and (each == ANY_DIRECTORY or each.startswith("/")) for each in log_dirs):
        raise UsageError(f"{where}: log_dirs of {partition} must be paths that begin with /, or any")
    return (entry["topic"], entry["partition"]), replicas


def plan_json(plan: Mapping[Partition, Sequence[int]], log_dirs: LogDirs | None = None) -> dict[str, Any]:
    """A plan as kafka-reassign-partitions reads it; with `log_dirs` where directories are to be taken."""
    entries = []
    for name, index in sorted(plan):
        replicas = list(plan[name, index])
        entry: dict[str, Any] = {"topic": name, "partition": index, "replicas": replicas}
        paths = [(log_dirs or {}).get((name, index, each), ANY_DIRECTORY) for each in replicas]
        if any(path != ANY_DIRECTORY for path in paths):
            entry["log_dirs"] = paths
        entries.append(entry)
    return {"version": VERSION, "partitions": entries}


def changed(before: Plan, after: Plan) -> dict[Partition, Replicas]:
    """The part of a plan that differs from the present assignment."""
    return {key: replicas for key, replicas in after.items() if before.get(key) != replicas}


def least_loaded(load: Counter[int], chosen: Sequence[int], racks: Racks) -> int:
    """The broker for one more replica: if possible in a rack without one, then the one with the fewest replicas."""
    used = {racks.get(each) for each in chosen}
    free = [each for each in load if each not in chosen]
    found = min(free, key=lambda each: (racks.get(each) in used, load[each], each))
    load[found] += 1
    return found


def rack_count(replicas: Iterable[int], racks: Racks) -> int:
    """Over how many racks replicas lie."""
    return len({racks.get(each) for each in replicas})


def first(replicas: Replicas, broker: int) -> Replicas:
    """The replicas with a broker as the first, the others in their order."""
    return (broker, *(each for each in replicas if each != broker))
