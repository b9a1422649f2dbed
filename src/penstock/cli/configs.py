"""Show and change configs of topics, brokers, groups and client metrics subscriptions while they run.

A broker's name is its id. `--entity brokers` without --name means the defaults of all brokers.

examples:
  penstock configs describe --entity topics --name clicks
  penstock configs alter --entity topics --name clicks --add retention.ms=86400000 --delete segment.ms
  penstock configs alter --entity brokers --add log.retention.ms=604800000
  penstock configs alter --entity groups --name invoices --add consumer.session.timeout.ms=60000
  penstock configs alter --entity client-metrics --name latencies --add metrics=org.apache.kafka.producer.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.common import (
    add_action,
    add_actions,
    add_bootstrap,
    add_flag,
    add_json,
    add_option,
    pair,
    run_action,
    with_client,
)
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.admin import Change, Config, Resource
    from penstock.client.client import Client

SUMMARY = "show and change configs of topics, brokers, groups and client metrics while they run"
ENTITIES = ("topics", "brokers", "groups", "client-metrics")

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    describe = add_action(
        actions,
        "describe",
        describe_action,
        "show the configs of a topic, broker, group or subscription",
    ).examples(
        "penstock configs describe --entity topics --name clicks",
        "penstock configs describe --entity brokers --name 1 --all --documentation",
    )
    describe.add_argument("names", nargs="*", metavar="CONFIG", help="show only these configs")
    add_flag(describe, "--all", "include configs at their defaults")
    add_flag(describe, "--documentation", "explain each config")
    add_json(describe)
    alter = add_action(
        actions, "alter", alter_action, "change configs of a topic, broker, group or subscription"
    ).examples("penstock configs alter --entity topics --name clicks --add retention.ms=86400000 --delete segment.ms")
    add_option(alter, "--add", "NAME=VALUE", "set a config; repeatable", action="append", default=[])
    add_option(alter, "--delete", "NAME", "reset a config to its default; repeatable", action="append", default=[])
    add_flag(alter, "--validate-only", "check only; change nothing")
    for action in (describe, alter):
        action.add_argument(
            "--entity",
            metavar="KIND",
            choices=ENTITIES,
            default="topics",
            help=f"kind of entity: {', '.join(ENTITIES)} (default: topics)",
        )
        action.add_argument("--name", default="", help="topic, broker id, group or subscription")
        add_bootstrap(action)


def resource_of(arguments: argparse.Namespace) -> Resource:
    """The topic, broker, group or client metrics subscription that is meant. Raises UsageError."""
    from penstock.client.admin import Resource, ResourceType

    if arguments.entity == "client-metrics":
        if not arguments.name:
            raise UsageError("which client metrics subscription? --name NAME")
        return Resource(ResourceType.CLIENT_METRICS, arguments.name)
    if arguments.entity != "brokers":
        kind = arguments.entity.removesuffix("s")
        if not arguments.name:
            raise UsageError(f"which {kind}? --name {kind.upper()}")
        return Resource(ResourceType[kind.upper()], arguments.name)
    if arguments.name and not arguments.name.isdecimal():
        raise UsageError(f"--name {arguments.name}: a broker is named by its id, such as 1")
    return Resource(ResourceType.BROKER, arguments.name)


def describe_action(arguments: argparse.Namespace) -> int:
    """Prints configs: those that were changed, or those asked for, or all."""
    resource = resource_of(arguments)

    async def job(client: Client) -> int:
        from penstock.client.admin import describe_configs

        await check_broker(client, resource)
        names = arguments.names or None
        found = await describe_configs(client, resource, names, documentation=arguments.documentation)
        missing = [name for name in arguments.names if name not in {config.name for config in found}]
        if missing:
            raise UsageError(f"unknown config {', '.join(missing)}: --all lists them")
        shown = [config for config in found if arguments.all or names or is_changed(config)]
        print_configs(shown, arguments)
        return 0

    return with_client(arguments, job)


async def check_broker(client: Client, resource: Resource) -> None:
    """Raises UsageError when there is no broker of that id."""
    if resource.node_id is not None:
        await client.refresh([])
        if resource.node_id not in client.brokers:
            known = ", ".join(map(str, sorted(client.brokers)))
            raise UsageError(f"there is no broker {resource.node_id}: there are {known}")


def is_changed(config: Config) -> bool:
    """Whether a config has been set explicitly."""
    from penstock.config.setting import Source

    return config.source != Source.DEFAULT_CONFIG


def print_configs(shown: list[Config], arguments: argparse.Namespace) -> None:
    from penstock.cli.output import print_json, print_table
    from penstock.config.setting import Source

    if arguments.json:
        entries = [
            {
                "name": config.name,
                "value": config.value,
                "source": Source(config.source).name,
                "read_only": config.read_only,
                "sensitive": config.sensitive,
                **({"documentation": config.documentation} if arguments.documentation else {}),
            }
            for config in shown
        ]
        print_json(entries)
    elif not shown:
        print("nothing was changed; --all shows the defaults")
    else:
        rows = [
            (
                config.name,
                "(secret)" if config.sensitive else "(none)" if config.value is None else config.value,
                Source(config.source).name.lower().replace("_", " "),
                *((config.documentation or "",) if arguments.documentation else ()),
            )
            for config in shown
        ]
        print_table(("config", "value", "set by", *(("meaning",) if arguments.documentation else ())), rows)


def alter_action(arguments: argparse.Namespace) -> int:
    resource, changes = resource_of(arguments), changes_of(arguments)

    async def job(client: Client) -> int:
        from penstock.client.admin import alter_configs, described

        await check_broker(client, resource)
        await alter_configs(client, resource, changes, validate_only=arguments.validate_only)
        print(f"{'would change' if arguments.validate_only else 'changed'} {described(resource)}")
        return 0

    return with_client(arguments, job)


def changes_of(arguments: argparse.Namespace) -> list[Change]:
    """--add and --delete as changes. Raises UsageError when there are none, or one config has two."""
    from penstock.client.admin import Change, ConfigOperation

    changes = [added(text) for text in arguments.add]
    changes += [Change(name, ConfigOperation.DELETE, None) for name in arguments.delete]
    if not changes:
        raise UsageError("nothing to change: --add NAME=VALUE or --delete NAME")
    names = [change.name for change in changes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{', '.join(twice)}: given twice")
    return changes


def added(text: str) -> Change:
    from penstock.client.admin import Change, ConfigOperation

    name, value = pair(text, "--add")
    return Change(name, ConfigOperation.SET, value)
