"""How `penstock quotas list` shows what clients use now, and who is held back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from penstock.cli.output import print_table, printable
from penstock.cli.times import duration_text
from penstock.client.quota_usage import BrokerUsages, Usage
from penstock.client.quotas import entity_words, limit_text
from penstock.quota.explained import SETTINGS
from penstock.quota.levels import BY_SETTING, CONTROLLER_MUTATION_RATE, REQUEST_PERCENTAGE

HEAD = ("broker", "user", "client id", "address", "limit", "used", "of", "share", "held back", "by the quota of")
NAMES = ("user", "client id", "address")
"""Columns that are left out if no line has anything there."""
TO_THE_RIGHT = ("broker", "used", "of", "share")
DIGITS = {REQUEST_PERCENTAGE: 2, CONTROLLER_MUTATION_RATE: 2}
"""Digits of a rate behind the point; others have none."""
NOBODY, NO_NAME, SEVERAL = "-", '""', "(several)"


def print_usages(answers: Sequence[BrokerUsages], *, throttled_only: bool) -> None:
    """Prints what all brokers say: who is held back first, then who is nearest to a limit."""
    usages = sorted(
        (usage for answer in answers for usage in answer.usages),
        key=lambda usage: (usage.held_back_ms > 0, share_of(usage)),
        reverse=True,
    )
    if usages:
        rows = [row(usage) for usage in usages]
        shown = [place for place, name in enumerate(HEAD) if name not in NAMES or is_told(rows, place)]
        print_table([HEAD[place] for place in shown], [[each[place] for place in shown] for each in rows], TO_THE_RIGHT)
    elif any(answer.failure is None for answer in answers):
        print("nobody is held back" if throttled_only else "nobody with a quota is doing anything")
    for line in notes(answers):
        print(line)


def is_told(rows: Sequence[Sequence[str]], place: int) -> bool:
    """Whether a column has anything but nobody."""
    return any(each[place] != NOBODY for each in rows)


def row(usage: Usage) -> tuple[str, ...]:
    """The line of a usage."""
    digits = DIGITS.get(usage.key, 0)
    names = [NOBODY if name is None else printable(name) or NO_NAME for name in names_of(usage)]
    return (
        str(usage.broker),
        *names,
        usage.key,
        f"{usage.used:.{digits}f}",
        limit_text(usage.limit),
        f"{share_of(usage):.0%}",
        held_back_text(usage),
        printable(quota_text(usage)),
    )


def names_of(usage: Usage) -> tuple[str | None, str | None, str | None]:
    return usage.user if usage.level else SEVERAL, usage.client_id, usage.address


def share_of(usage: Usage) -> float:
    return usage.used / usage.limit if usage.limit > 0 else 0.0


def held_back_text(usage: Usage) -> str:
    """Whether its clients wait, how much longer, and since when."""
    if not usage.held_back_ms:
        return "-"
    return f"for {duration_text(usage.held_back_ms)}, {duration_text(usage.throttled_for_ms)} more"


def quota_text(usage: Usage) -> str:
    """Whose limit it is: `default user (level 6)`."""
    if not usage.level:
        return "those beyond penstock.quota.entities.max"
    if usage.level == BY_SETTING:
        return f"{SETTINGS.get(usage.key, 'a setting')} (setting)"
    return f"{entity_words(usage.entity)} (level {usage.level})"


def notes(answers: Sequence[BrokerUsages]) -> Iterator[str]:
    """What the table does not have."""
    for answer in answers:
        if answer.failure is not None:
            yield f"broker {answer.broker}: {answer.failure}"
        elif answer.matching > len(answer.usages):
            shown = f"{len(answer.usages):,} of {answer.matching:,}"
            yield f"broker {answer.broker}: {shown}, those nearest to their limits; --top shows more"
    told = [answer for answer in answers if answer.failure is None]
    if told and len(told) == len(answers) and not any(answer.measures_mutations for answer in told):
        yield "partitions made and deleted are measured by the active controller, which is no broker: its metrics tell"


def usages_json(answers: Sequence[BrokerUsages]) -> list[dict[str, Any]]:
    """Brokers with what they say, for --json."""
    return [
        {**asdict(answer), "usages": [{**asdict(each), "entity": dict(each.entity)} for each in answer.usages]}
        for answer in answers
    ]
