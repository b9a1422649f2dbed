"""`penstock quotas explain`: which limits count for one client, at which level each is set, and why no other counts."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.common import add_bootstrap, add_json, add_option, with_client
from penstock.errors import UsageError
from penstock.quota.explained import SETTINGS, Level, Why, counting, explained, explained_address
from penstock.quota.levels import BY_SETTING, CLIENT_KEYS, IP, IP_KEYS, Entity, QuotaValues, group_of

if TYPE_CHECKING:
    from penstock.client.client import Client

Quotas = dict[Entity, QuotaValues]
ANONYMOUS = "ANONYMOUS"
"""The user of clients that have not logged in."""


def add_client(action: argparse.ArgumentParser) -> None:
    """The options of the action."""
    add_option(action, "--user", "NAME", f"who has logged in (default: {ANONYMOUS}, who has not)")
    add_option(action, "--client-id", "NAME", "what the client calls itself (default: nothing)")
    add_option(action, "--ip", "ADDRESS", "address that it connects from")
    add_bootstrap(action)
    add_json(action)


def explain_action(arguments: argparse.Namespace) -> int:
    """Explains the limits of one client."""
    if arguments.user is arguments.client_id is arguments.ip is None:
        raise UsageError("which client? --user, --client-id and --ip say it, or some of them")
    if arguments.user == "":
        raise UsageError(f"--user needs a name; who has not logged in is {ANONYMOUS}")

    async def job(client: Client) -> int:
        from penstock.client.quota_usage import setting_defaults
        from penstock.client.quotas import list_quotas

        quotas = dict(await list_quotas(client))
        user, client_id = arguments.user or ANONYMOUS, arguments.client_id or ""
        limits: dict[str, list[Level]] = {}
        if arguments.user is not None or arguments.client_id is not None:
            settings = await setting_defaults(client)
            limits = {key: explained(quotas, user, client_id, key, settings.get(key)) for key in CLIENT_KEYS}
        if arguments.ip is not None:
            limits |= {key: of_address(quotas, arguments.ip, key) for key in IP_KEYS}
        if arguments.json:
            print_explained_json(limits, user, client_id, arguments.ip)
        else:
            print_explained(limits, user, client_id, arguments.ip)
        return 0

    return with_client(arguments, job)


def of_address(quotas: Quotas, text: str, key: str) -> list[Level]:
    """The levels of a limit on an address, however quotas write it. Raises UsageError if it is none."""
    from penstock.config.addresses import canonical_address

    address = canonical_address(text)
    if address is None:
        raise UsageError(f"--ip {text}: it must be an address, such as 10.0.0.7")
    names = {}
    for entity in quotas:
        name = dict(entity).get(IP)
        if name is not None and canonical_address(name) == address:
            names[address] = name
    return explained_address(quotas, names, address, key)


def print_explained(limits: Mapping[str, list[Level]], user: str, client_id: str, address: str | None) -> None:
    """Prints each limit that may be set, and its levels."""
    from penstock.cli.output import print_table, printable

    for number, (key, levels) in enumerate(limits.items()):
        if number:
            print()
        print(printable(sentence(key, levels, user, client_id, address)))
        rows = [
            (str(each.number), printable(of_level(key, each)), value_text(each), reason(each, levels))
            for each in levels
        ]
        print_table(("level", "for", "limit", ""), rows, right=["level", "limit"])


def sentence(key: str, levels: Sequence[Level], user: str, client_id: str, address: str | None) -> str:
    """What counts, in a sentence."""
    counts = counting(list(levels))
    if counts is None:
        return f"{key}: unlimited"
    if counts.entity and counts.entity[0][0] == IP:
        return f"{key}: {value_text(counts)} for address {address}, level {counts.number}"
    of_user, of_client = group_of(counts.entity, user, client_id)
    parts = [f"user {of_user}"] * bool(of_user) + [f"client id {of_client}"] * bool(of_client)
    shared = ", ".join(parts) or "no client id"
    return f"{key}: {value_text(counts)}, level {counts.number}, shared by all with {shared}"


def of_level(key: str, level: Level) -> str:
    from penstock.client.quotas import entity_words

    return f"setting {SETTINGS[key]}" if level.number == BY_SETTING else entity_words(level.entity)


def value_text(level: Level) -> str:
    """What is set at a level."""
    from penstock.client.quotas import limit_text

    if level.number != BY_SETTING:
        return "-" if level.value is None else limit_text(level.value)
    by_value: dict[float, list[int]] = {}
    for broker, value in (level.by_broker or {}).items():
        by_value.setdefault(value, []).append(broker)
    texts = [f"{limit_text(value)} on broker {', '.join(map(str, brokers))}" for value, brokers in by_value.items()]
    return "; ".join(texts) or "-"


def reason(level: Level, levels: Sequence[Level]) -> str:
    """Why a level counts, or does not."""
    if level.why is Why.NOT_SET:
        return "sets nothing"
    if level.why is Why.COUNTS:
        bounds = level.value is None or level.value < math.inf  # NaN is above nothing either
        return "counts: the most specific that is set" if bounds else "counts, and limits nothing"
    counts = counting(list(levels))
    assert counts is not None, "something is more specific"
    return f"does not count: level {counts.number} is more specific"


def print_explained_json(limits: Mapping[str, list[Level]], user: str, client_id: str, address: str | None) -> None:
    from penstock.cli.output import print_json

    def number(value: float | None) -> float | str | None:
        return value if value is None or math.isfinite(value) else str(value)

    def of(key: str, levels: list[Level]) -> dict[str, Any]:
        counts = counting(levels)
        told: dict[str, Any] = {"limit": key, "level": None, "value": None}
        if counts is not None:
            told |= {"level": counts.number, "value": number(counts.value), "entity": dict(counts.entity)}
            if key in CLIENT_KEYS:
                of_user, of_client = group_of(counts.entity, user, client_id)
                told["shared_by"] = {"user": of_user, "client-id": of_client}
        told["levels"] = [
            {"level": each.number, "entity": dict(each.entity), "value": number(each.value), "why": each.why.value}
            | ({} if each.by_broker is None else {"by_broker": dict(each.by_broker)})
            for each in levels
        ]
        return told

    print_json(
        {
            "user": user,
            "client-id": client_id,
            "address": address,
            "limits": [of(key, levels) for key, levels in limits.items()],
        }
    )
