"""Show, set and delete client quotas: how much users, client ids and addresses may use before they are slowed down.

A quota is set for a user, a client id, or both together; --user-default means every user who has no quota of the own at
that level, --client-id-default likewise. Of the quotas that would bind a client the most specific one counts, for each
limit by itself; `explain` says which one, and why no other. `list` also shows what clients use now, on each broker, and
who is held back by which quota. Limits have Kafka's names: producer_byte_rate and consumer_byte_rate
(bytes a second on each broker), request_percentage (of each broker's time), controller_mutation_rate (partitions
created and deleted a second); for addresses connection_creation_rate (new connections a second on each broker).

examples:
  penstock quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=4194304
  penstock quotas set --user-default --client-id-default request_percentage=50
  penstock quotas set --ip-default connection_creation_rate=20
  penstock quotas list --user alice
  penstock quotas list --throttled
  penstock quotas explain --user alice --client-id web
  penstock quotas delete --user alice
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.common import (
    add_action,
    add_actions,
    add_bootstrap,
    add_flag,
    add_json,
    add_option,
    run_action,
    with_client,
)
from penstock.cli.quota_explained import add_client, explain_action
from penstock.client.limits import CLIENT_QUOTA_USAGES
from penstock.errors import UsageError
from penstock.node.limits import QUOTA_USAGES_PER_ANSWER_MAX
from penstock.quota.levels import (
    CLIENT_ID,
    CLIENT_KEYS,
    CONTROLLER_MUTATION_RATE,
    IP,
    IP_KEYS,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
    QuotaValues,
)

if TYPE_CHECKING:
    from penstock.cli.parser import Parser
    from penstock.client.client import Client

SUMMARY = "show, set and delete client quotas: how much clients may use"
KINDS = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
"""Types of entities by the options that name them."""
FRACTIONS = (REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""The limits that need not be whole numbers."""

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    listing = add_action(actions, "list", list_action, "show quotas, who uses how much of them, who is held back")
    listing.examples("penstock quotas list", "penstock quotas list --user alice", "penstock quotas list --throttled")
    add_flag(listing, "--throttled", "only who is held back now")
    text = "at most N of each broker: who is held back, then who is nearest to a limit"
    add_option(listing, "--top", "N", text, type=int, default=CLIENT_QUOTA_USAGES)
    explaining = add_action(actions, "explain", explain_action, "say which limits count for a client, and why")
    explaining.examples("penstock quotas explain --user alice --client-id web", "penstock quotas explain --ip 10.0.0.7")
    add_client(explaining)
    setting = add_action(actions, "set", set_action, "set limits of a user, client id or address").examples(
        "penstock quotas set --user alice producer_byte_rate=1048576"
    )
    setting.add_argument("limits", nargs="+", metavar="LIMIT=VALUE", help="such as producer_byte_rate=1048576")
    add_flag(setting, "--validate-only", "check only; change nothing")
    deleting = add_action(actions, "delete", delete_action, "delete limits of a user, client id or address").examples(
        "penstock quotas delete --user alice", "penstock quotas delete --ip-default connection_creation_rate"
    )
    deleting.add_argument("limits", nargs="*", metavar="LIMIT", help="limit to delete (default: all that there are)")
    for action in (listing, setting, deleting):
        add_entity(action)
        add_bootstrap(action)
        add_json(action)


def add_entity(action: Parser) -> None:
    """The options that name an entity."""
    for option, noun in (("user", "user"), ("client-id", "client id"), ("ip", "address")):
        add_option(action, f"--{option}", "NAME" if option != "ip" else "ADDRESS", f"{noun} that is meant")
        add_flag(action, f"--{option}-default", f"every {noun} without a quota of its own")


def entity_of(arguments: argparse.Namespace) -> Entity:
    """The entity that was named; empty if none was. Raises UsageError."""
    names: dict[str, str | None] = {}
    for option, kind in KINDS.items():
        name, default = getattr(arguments, option), getattr(arguments, f"{option}_default")
        spelt = option.replace("_", "-")
        if name is not None and default:
            raise UsageError(f"--{spelt} and --{spelt}-default: one of them")
        if name == "":
            raise UsageError(f"--{spelt} needs a name; --{spelt}-default means all others")
        if name is not None or default:
            names[kind] = name
    if IP in names and len(names) > 1:
        raise UsageError("an address has quotas of its own: leave out the user and the client id, or --ip")
    return tuple(sorted(names.items(), key=lambda each: each[0]))


def named_entity(arguments: argparse.Namespace) -> Entity:
    """The entity that was named. Raises UsageError if none was."""
    entity = entity_of(arguments)
    if not entity:
        raise UsageError("whose? --user, --client-id or both, or --ip; with -default for all others")
    return entity


def limits_of(entity: Entity, words: Sequence[str]) -> dict[str, float | None]:
    """The limits that `set` was given. Raises UsageError."""
    from penstock.config.nearest import did_you_mean

    known = IP_KEYS if dict(entity).keys() == {IP} else CLIENT_KEYS
    found: dict[str, float | None] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"{word}: a limit is set by LIMIT=VALUE, such as {known[0]}=1048576")
        if key not in known:
            raise UsageError(f"unknown limit {key}{did_you_mean(key, known)}\n  one of {', '.join(known)}")
        if key in found:
            raise UsageError(f"{key} is there twice")
        found[key] = value_of(key, text)
    return found


def value_of(key: str, text: str) -> float:
    """The value of a limit. Raises UsageError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    whole = key not in FRACTIONS
    if not (math.isfinite(value) and value > 0) or (whole and not value.is_integer()):
        raise UsageError(f"{key}={text}: it must be {'a whole number' if whole else 'a number'} greater than 0")
    return value


def list_action(arguments: argparse.Namespace) -> int:
    """Prints quotas, and what is used of them now."""
    wanted, throttled = entity_of(arguments), arguments.throttled
    if not 1 <= arguments.top <= QUOTA_USAGES_PER_ANSWER_MAX:
        raise UsageError(f"--top {arguments.top}: it must be 1 to {QUOTA_USAGES_PER_ANSWER_MAX}")

    async def job(client: Client) -> int:
        from penstock.cli.output import print_json
        from penstock.cli.quota_usage import print_usages, usages_json
        from penstock.client.quota_usage import quota_usages
        from penstock.client.quotas import list_quotas

        found = [] if throttled else await list_quotas(client, wanted)
        usages = await quota_usages(client, wanted, throttled_only=throttled, at_most=arguments.top)
        if arguments.json:
            quotas = [{"entity": dict(entity), "limits": for_json(values)} for entity, values in found]
            print_json({**({} if throttled else {"quotas": quotas}), "brokers": usages_json(usages)})
            return 0
        if not throttled:
            print_quotas(found)
        if throttled or found or any(answer.usages for answer in usages):
            if not throttled:
                print("\nuse now")
            print_usages(usages, throttled_only=throttled)
        return 0

    return with_client(arguments, job)


def print_quotas(found: Sequence[tuple[Entity, QuotaValues]]) -> None:
    from penstock.cli.output import print_table, printable
    from penstock.client.quotas import entity_words, limit_text

    if not found:
        print("there are no such quotas")
        return
    rows = [
        (printable(entity_words(entity)), printable(key), limit_text(value))
        for entity, values in found
        for key, value in values.items()
    ]
    print_table(("for", "limit", "value"), rows, right=["value"])


def for_json(values: QuotaValues) -> dict[str, Any]:
    """Limits as JSON has them; NaN and infinity, which it has not, in words."""
    return {key: value if math.isfinite(value) else str(value) for key, value in values.items()}


def set_action(arguments: argparse.Namespace) -> int:
    """Sets limits."""
    entity = named_entity(arguments)
    limits = limits_of(entity, arguments.limits)

    async def job(client: Client) -> int:
        from penstock.client.quotas import alter_quotas

        await alter_quotas(client, entity, limits, validate_only=arguments.validate_only)
        tell(arguments, entity, "valid" if arguments.validate_only else "set", list(limits))
        return 0

    return with_client(arguments, job)


def delete_action(arguments: argparse.Namespace) -> int:
    """Deletes limits."""
    entity = named_entity(arguments)

    async def job(client: Client) -> int:
        from penstock.client.quotas import alter_quotas, entity_words, list_quotas

        there = dict(await list_quotas(client, entity)).get(entity) or {}
        missing = [key for key in arguments.limits if key not in there]
        if missing or not there:
            what = ", ".join(missing) or "quota"
            raise UsageError(f"{entity_words(entity)} has no {what}: `penstock quotas list` shows what there is")
        gone = arguments.limits or list(there)
        await alter_quotas(client, entity, dict.fromkeys(gone))
        tell(arguments, entity, "deleted", gone)
        return 0

    return with_client(arguments, job)


def tell(arguments: argparse.Namespace, entity: Entity, what: str, keys: Sequence[str]) -> None:
    """Says what was done."""
    from penstock.cli.output import print_json, printable
    from penstock.client.quotas import entity_words

    if arguments.json:
        print_json({"entity": dict(entity), what: list(keys)})
    else:
        print(printable(f"{', '.join(keys)} of {entity_words(entity)}: {what}"))
