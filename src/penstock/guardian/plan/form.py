"""The form of a plan: which keys each part has, and of which types and bounds the values are.

What comes from a file may be anything that JSON can say, and more: Python's reader takes NaN and Infinity, and numbers
without end. Whoever has gone through `check_form` may take the plan apart without any further question: each key is
there and no other, each number is finite and fits into 64 bits. Whether it says what is right is for `verifier` to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

from penstock.guardian.plan.model import DISK_RESOURCES, RESOURCES

INT_MAX = 2**63 - 1
NUMBER_MAX = 1e100
"""Figures; far more than any model gives."""
SHOWN = 40
"""Characters of a wrong value that are shown."""

Check = Callable[[Any], bool]
Fields = Mapping[str, tuple[Check, str]]


class Misfit(Exception):
    """A plan that cannot be applied: what it is about, and why."""


def is_text(value: Any) -> bool:
    return type(value) is str


def is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value <= INT_MAX


def is_number(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-INT_MAX <= value <= INT_MAX)
    return kind is float and isfinite(value) and abs(value) <= NUMBER_MAX


def is_figure(value: Any) -> bool:
    return value is None or is_number(value)


def is_range(value: Any) -> bool:
    return value is None or (type(value) is list and len(value) == 2 and all(map(is_number, value)))


def is_list(value: Any) -> bool:
    return type(value) is list


def is_object(value: Any) -> bool:
    return type(value) is dict


def is_policy(value: Any) -> bool:
    return value is None or (type(value) is dict and value.keys() == {"digest"} and type(value["digest"]) is str)


def list_of(check: Check) -> Check:
    return lambda value: type(value) is list and all(map(check, value))


TEXT = (is_text, "a text")
WHOLE = (is_whole, f"a whole number, 0 to {INT_MAX}")
FIGURE = (is_figure, "a finite number, or null")
NUMBER = (is_number, "a finite number")
LIST = (is_list, "a list")
OBJECT = (is_object, "an object")

PLAN: Fields = {
    "version": WHOLE,
    **dict.fromkeys(("partitions", "leaders", "moves"), LIST),
    **dict.fromkeys(("before", "after"), OBJECT),
    "violations": LIST,
    "estimates": (list_of(is_text), "a list of texts"),
    "rules": OBJECT,
    "policy": (is_policy, "null, or an object with its digest"),
    "seed": WHOLE,
    "digest": TEXT,
}
PARTITION: Fields = {
    "topic": TEXT,
    "partition": WHOLE,
    "replicas": (list_of(is_whole), "a list of brokers' ids"),
    "log_dirs": (list_of(is_text), "a list of paths"),
}
LEADER: Fields = {"topic": TEXT, "partition": WHOLE, "broker": WHOLE}
MOVE: Fields = {
    "id": WHOLE,
    "topic": TEXT,
    "partition": WHOLE,
    "kind": TEXT,
    "from": OBJECT,
    "to": OBJECT,
    "bytes": WHOLE,
    "why": (lambda value: type(value) is str and value != "", "a text that is not empty"),
}
BROKER_END: Fields = {"broker": WHOLE}
DISK_END: Fields = {"broker": WHOLE, "dir": TEXT}
VIOLATION: Fields = {
    "rule": TEXT,
    "place": TEXT,
    "text": TEXT,
    "conflict": (list_of(is_text), "a list of rules"),
}
FIGURES: Fields = {
    "score": NUMBER,
    **dict.fromkeys(("shares", "disk_shares", "capacity"), OBJECT),
    **dict.fromkeys(("brokers", "disks"), LIST),
}
BROKER_COLUMNS = (*RESOURCES, "leaders")
DISK_COLUMNS = tuple(RESOURCES[k] for k in DISK_RESOURCES)
BROKER_FIGURES: Fields = {"broker": WHOLE, **dict.fromkeys(BROKER_COLUMNS, FIGURE), "replicas": WHOLE}
DISK_FIGURES: Fields = {"broker": WHOLE, "dir": TEXT, **dict.fromkeys(DISK_COLUMNS, FIGURE)}
RANGE = (is_range, "the least and the most as a list, or null")


def check_form(plan: Any, capacities: Iterable[str]) -> None:
    """Raises Misfit, which names the part and says what would be right. `capacities`: the keys of `capacity`."""
    check(plan, "the plan", PLAN)
    for part, fields in (("partitions", PARTITION), ("leaders", LEADER), ("violations", VIOLATION)):
        check_all(plan[part], part, fields)
    check_all(plan["moves"], "moves", MOVE)
    leads = [move["kind"] == "leader" for move in plan["moves"]]
    for end in ("from", "to"):
        ends = [move[end] for move in plan["moves"]]
        for leader, fields in ((True, BROKER_END), (False, DISK_END)):
            if all_fit([each for each, lead in zip(ends, leads, strict=True) if lead == leader], fields):
                continue
            for number, (each, lead) in enumerate(zip(ends, leads, strict=True)):
                if lead == leader and not fits(each, fields):
                    check(each, f"moves[{number}].{end}", fields)
    capacity = dict.fromkeys(capacities, NUMBER)
    for when in ("before", "after"):
        found = plan[when]
        check(found, when, FIGURES)
        check(found["shares"], f"{when}.shares", dict.fromkeys(BROKER_COLUMNS, RANGE))
        check(found["disk_shares"], f"{when}.disk_shares", dict.fromkeys(DISK_COLUMNS, RANGE))
        check(found["capacity"], f"{when}.capacity", capacity)
        check_all(found["brokers"], f"{when}.brokers", BROKER_FIGURES)
        check_all(found["disks"], f"{when}.disks", DISK_FIGURES)


def check_all(entries: list[Any], part: str, fields: Fields) -> None:
    """Checks each entry of a list; one by one only where something is wrong."""
    if all_fit(entries, fields):
        return
    for number, entry in enumerate(entries):
        if not fits(entry, fields):
            check(entry, f"{part}[{number}]", fields)


def all_fit(entries: list[Any], fields: Fields) -> bool:
    """Whether all objects have these fields and no others: column by column, a third of the time of one by one."""
    if not set(map(type, entries)) <= {dict} or not set(map(len, entries)) <= {len(fields)}:
        return False
    try:
        columns = {name: [entry[name] for entry in entries] for name in fields}
    except KeyError:
        return False
    return all(column_fits(columns[name], check) for name, (check, _) in fields.items())


def column_fits(column: list[Any], check: Check) -> bool:
    if check is is_text or check is is_object:
        return set(map(type, column)) <= {str if check is is_text else dict}
    if check is is_whole:
        whole = set(map(type, column)) <= {int}
        return whole and (not column or (min(column) >= 0 and max(column) <= INT_MAX))
    return all(map(check, column))


def fits(value: Any, fields: Fields) -> bool:
    """Whether an object has these fields and no others."""
    if type(value) is not dict or value.keys() != fields.keys():
        return False
    return all([check(value[name]) for name, (check, _) in fields.items()])  # noqa: C419 - a list is quicker


def check(value: Any, part: str, fields: Fields) -> None:
    """The same, and says what is wrong. Raises Misfit."""
    if type(value) is not dict:
        raise Misfit(part, f"{part} is {shown(value)}, it must be an object")
    for name in fields:
        if name not in value:
            raise Misfit(part, f"{part} has no {name}")
    for name in value:
        if name not in fields:
            raise Misfit(part, f"{part} has {shown(name)}, which means nothing there")
    for name, (right, words) in fields.items():
        if not right(value[name]):
            raise Misfit(part, f"{part}.{name} is {shown(value[name])}, it must be {words}")


def shown(value: Any) -> str:
    """The beginning of a value, on one line."""
    if type(value) in (list, dict):
        return f"{'a list' if type(value) is list else 'an object'} of {len(value)}"
    if type(value) is int and abs(value) > INT_MAX:
        return "a number beyond 64 bits"
    text = value[: SHOWN + 1] if type(value) is str else value
    text = repr(text)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
