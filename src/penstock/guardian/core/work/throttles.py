"""What holds copies back: Kafka's own throttles (KIP-73, KIP-113), set before the copies begin, and taken away
after them.

Brokers get rates, topics the replicas that they hold for: leaders are held back in what they give to new replicas, and
those in what they ask for. Each config is in the log before it is set, with what was there: nothing, a value of the
broker's own, or entries of others in a topic's list. Whoever leads takes away exactly what is Guardian's:

- A rate goes back to the value of before. If it is not what Guardian has set, somebody else has set it since: it stays,
  and when Guardian's own changes, it is what was there before. A change that was meant may not have come to the broker:
  until that is known, the rates of before that are Guardian's, too.
- Of a list Guardian's entries are taken out, and the list with the last of them. Entries of others stay, and one that
  was there before Guardian wanted it is not Guardian's.

Rates of others hold: where a lower one was set at the broker, ours is not higher. Layers below (the cluster's default,
the broker's file) show again when the broker's own value goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.errors import ErrorCode
from penstock.guardian.core.work.plans import BROKER, COPYING_MOVES, TOPIC, Limit, Move, Plan
from penstock.protocol.messages.describe_configs_response import DescribeConfigsResponse
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
DISK_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = (LEADER_RATE, FOLLOWER_RATE, DISK_RATE)
LISTS = (LEADERS, FOLLOWERS)
EVERYTHING = "*"
"""The entry of a list that holds for all replicas."""
CHANGED_BY = 0.2
CHANGED_AGAIN_MS = 10_000
"""A rate is set anew where it differs by a fifth, and so long after the last time."""
MEANT_MAX = 16
"""Rates that were meant for a broker and are remembered until one is in place; of more the oldest are forgotten."""
RATE_DIGITS_MAX = 19
"""Of a rate; Kafka has none with more."""
DYNAMIC_TOPIC, DYNAMIC_BROKER = 1, 2
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Place = tuple[str, str, str]
"""BROKER or TOPIC, its name, and the config."""


def wanted_limits(moves: Iterable[tuple[Plan, Move]], auto_rate: int) -> dict[Place, str]:
    """The throttles that moves want which copy, or are about to. `auto_rate`: bytes a second of plans without a rate
    of their own, that go by what does not hurt others.
    """
    rates: dict[tuple[str, str], int] = {}
    lists: dict[tuple[str, str], list[str]] = {}

    def slow(broker: int, setting: str, rate: int) -> None:
        place = str(broker), setting
        rates[place] = min(rate, rates.get(place, rate))

    for plan, move in moves:
        rate = auto_rate if plan.rate_bytes < 0 else plan.rate_bytes
        if not rate:
            continue
        for broker, _ in move.shifting:
            slow(broker, DISK_RATE, rate)
        if move.adding:
            for broker in [each for each in move.before if not plan.gives_up(move, each)]:
                slow(broker, LEADER_RATE, rate)
                lists.setdefault((move.topic, LEADERS), []).append(f"{move.partition}:{broker}")
            for broker in move.adding:
                slow(broker, FOLLOWER_RATE, rate)
                lists.setdefault((move.topic, FOLLOWERS), []).append(f"{move.partition}:{broker}")
    found = {(BROKER, *place): str(rate) for place, rate in rates.items()}
    return found | {(TOPIC, *place): joined(entries) for place, entries in lists.items()}


def copying(plans: Iterable[Plan]) -> list[tuple[Plan, Move]]:
    """The moves that copy by the log."""
    return [(plan, move) for plan in plans for move in plan.moves if move.state in COPYING_MOVES]


def joined(entries: Iterable[str]) -> str:
    """Entries of a list, each once, in an order."""
    return ",".join(sorted(dict.fromkeys(entries)))


def entries_of(value: str | None) -> list[str]:
    """The entries of a list."""
    return [each for each in (value or "").split(",") if each]


def far_enough(old: str, new: str) -> bool:
    """Whether a rate differs by so much that it is worth setting."""
    before, after = int(old), int(new)
    return abs(after - before) >= CHANGED_BY * before


class Present(NamedTuple):
    """A config as it is: the value of its own level, None for none."""

    value: str | None


def present_of(answer: DescribeConfigsResponse, kind: str) -> tuple[dict[Place, Present], set[str]]:
    """What an answer says of each config, and the names of what is not there (a topic that was deleted)."""
    own = DYNAMIC_BROKER if kind == BROKER else DYNAMIC_TOPIC
    found: dict[Place, Present] = {}
    missing = set()
    for result in answer.results:
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            missing.add(result.resource_name)
        if result.error_code:
            continue
        for setting in RATES if kind == BROKER else LISTS:
            found[kind, result.resource_name, setting] = Present(None)
        for each in result.configs:
            value = each.value if each.config_source == own else None
            for synonym in each.synonyms:
                if synonym.source == own:
                    value = synonym.value
            found[kind, result.resource_name, each.name] = Present(value)
    return found, missing


def limit_for(place: Place, wanted: str, present: Present, journalled: Limit | None) -> tuple[str | None, str]:
    """What was there before Guardian, and what of the config is to be Guardian's own."""
    before = present.value if journalled is None else journalled.before
    if place[2] in RATES:
        ours = entries_of(journalled.value) if journalled is not None else []
        if present.value is not None and present.value not in ours:
            before = present.value
        foreign = number_of(before)
        own = str(min(int(wanted), foreign) if foreign else int(wanted))
        kept = [each for each in ours if each != own and (each == present.value or each in ours[-MEANT_MAX:])]
        return before, ",".join((*kept, own))
    there = entries_of(present.value)
    ours = entries_of(journalled.value) if journalled is not None else []
    if EVERYTHING in there:
        return before, joined(ours)
    new = [each for each in entries_of(wanted) if each not in there and each not in ours]
    return before, joined([*ours, *new])


def number_of(value: str | None) -> int:
    """A rate that was set at a broker; 0 for what is none."""
    text = value or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= RATE_DIGITS_MAX else 0


class Change(NamedTuple):
    """A config to alter: how, and to what."""

    place: Place
    operation: int
    value: str | None


def to_set(limit: Limit, present: Present) -> list[Change]:
    """What puts a limit in place. Entries that are Guardian's and not wanted any more go in the same step."""
    place = (limit.kind, limit.name, limit.setting)
    if limit.setting in RATES:
        return [] if present.value == limit.newest else [Change(place, SET, limit.newest)]
    there, wanted = entries_of(present.value), entries_of(limit.wanted)
    if EVERYTHING in there:
        return []
    new = [each for each in entries_of(limit.value) if each in wanted and each not in there]
    old = [each for each in entries_of(limit.value) if each not in wanted and each in there]
    if new and old:
        return [Change(place, SET, joined([*(each for each in there if each not in old), *new]))]
    if new:
        return [Change(place, APPEND, joined(new))]
    return [Change(place, SUBTRACT, joined(old))] if old else []


def own_after(limit: Limit, present: Present, *, settled: bool) -> str:
    """What of a config is Guardian's once it is in place. `settled`: what was not there before can be believed: an
    entry that is not wanted any more, and was not there, is done with.
    """
    if limit.setting in RATES:
        return limit.newest
    there, wanted = entries_of(present.value), entries_of(limit.wanted)
    return joined(each for each in entries_of(limit.value) if each in wanted or each in there or not settled)


def to_restore(limit: Limit, present: Present) -> list[Change]:
    """What takes a limit away, see the module's head; nothing where nothing of it is to be seen."""
    place = (limit.kind, limit.name, limit.setting)
    if limit.setting in RATES:
        if present.value not in entries_of(limit.value) or present.value == limit.before:
            return []
        return [Change(place, DELETE, None) if limit.before is None else Change(place, SET, limit.before)]
    there, ours = entries_of(present.value), entries_of(limit.value)
    left = [each for each in there if each not in ours]
    if not there:  # an empty list of nobody's is what taking out the last entry leaves
        return [Change(place, DELETE, None)] if present.value is not None and limit.before is None else []
    if not left:
        return [Change(place, DELETE, None)]
    return [Change(place, SUBTRACT, joined(each for each in ours if each in there))] if left != there else []


def alteration(changes: Iterable[Change]) -> IncrementalAlterConfigsRequest:
    """All of them in one request."""
    kinds = {BROKER: 4, TOPIC: 2}
    found: dict[tuple[str, str], list[AlterableConfig]] = {}
    for (kind, name, setting), operation, value in changes:
        found.setdefault((kind, name), []).append(
            AlterableConfig(name=setting, config_operation=operation, value=value)
        )
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=kinds[kind], resource_name=name, configs=configs)
            for (kind, name), configs in found.items()
        ]
    )


def by_resource(places: Iterable[Place]) -> Mapping[tuple[str, str], list[str]]:
    """Of each broker and topic, the configs."""
    found: dict[tuple[str, str], list[str]] = {}
    for kind, name, setting in places:
        found.setdefault((kind, name), []).append(setting)
    return found
