"""List, create, describe, extend, delete and watch topics.

examples:
  penstock topics list
  penstock topics create clicks --partitions 6 --config retention.ms=86400000
  penstock topics describe clicks --json
  penstock topics alter clicks --partitions 12
  penstock topics delete clicks orders
  penstock topics tail clicks --lag
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.common import (
    add_action,
    add_actions,
    add_bootstrap,
    add_flag,
    add_json,
    add_option,
    add_pairs,
    pairs,
    run_action,
    with_client,
)
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.admin import Config
    from penstock.client.client import Client
    from penstock.protocol.messages.metadata_response import MetadataResponseTopic

SUMMARY = "list, create, describe, extend, delete and watch topics"
DYNAMIC_TOPIC_CONFIG = 1

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    from penstock.cli.topic_tail import register as register_tail

    actions = add_actions(parser)
    list_ = add_action(actions, "list", list_action, "list topics").examples(
        "penstock topics list", "penstock topics list --json --internal"
    )
    add_flag(list_, "--internal", "include internal topics")
    add_flag(list_, "--sizes", "include bytes on disk, summed over replicas")
    register_create(actions)
    describe = add_action(
        actions, "describe", describe_action, "show partitions, leaders, replicas, offsets and configs of topics"
    ).examples("penstock topics describe clicks")
    describe.add_argument("topics", nargs="+", metavar="TOPIC", help="topics to describe")
    alter = add_action(actions, "alter", alter_action, "add partitions").examples(
        "penstock topics alter clicks --partitions 12"
    )
    alter.add_argument("topic", metavar="TOPIC", help="topic to extend")
    add_option(alter, "--partitions", "N", "total number of partitions afterwards", type=int, required=True)
    add_assignment(alter, "of the new partitions")
    delete = add_action(actions, "delete", delete_action, "delete topics and all their data").examples(
        "penstock topics delete clicks orders"
    )
    delete.add_argument("topics", nargs="+", metavar="TOPIC", help="topics to delete")
    tail = register_tail(actions)
    for action in (list_, describe, tail):
        add_json(action)
    for action in (list_, describe, alter, delete, tail):
        add_bootstrap(action)


def register_create(actions: Any) -> None:
    create = add_action(actions, "create", create_action, "create a topic").examples(
        "penstock topics create clicks --partitions 6",
        "penstock topics create profiles --config retention.ms=-1 --config segment.ms=3600000",
    )
    create.add_argument("topic", metavar="TOPIC", help="name of the topic")
    add_option(
        create, "--partitions", "N", "number of partitions (default: the broker's num.partitions)", type=int, default=-1
    )
    add_option(
        create, "--replication-factor", "N", "replicas of each partition (default: the broker's)", type=int, default=-1
    )
    add_pairs(create, "--config", "config of the topic")
    add_flag(create, "--if-not-exists", "succeed without a change if the topic exists")
    add_flag(create, "--validate-only", "check only; change nothing")
    add_assignment(create, "of each partition, instead of the two numbers")
    add_json(create)
    add_bootstrap(create)


def add_assignment(parser: argparse.ArgumentParser, of_what: str) -> None:
    add_option(
        parser, "--replica-assignment", "1:2,2:3", f"broker ids {of_what}: replicas by colon, partitions by comma"
    )


def list_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        from penstock.cli.output import print_json, print_table, size_text
        from penstock.client.admin import describe_topics, partition_sizes

        topics = [each for each in await describe_topics(client) if arguments.internal or not each.is_internal]
        sizes: dict[str | None, int] = {}
        if arguments.sizes:
            for (name, _), size_bytes in (await partition_sizes(client, client.brokers)).items():
                sizes[name] = sizes.get(name, 0) + size_bytes
        if arguments.json:
            print_json([summary(each, sizes.get(each.name, 0) if arguments.sizes else None) for each in topics])
        elif arguments.sizes:
            rows = [(each.name, len(each.partitions), size_text(sizes.get(each.name, 0))) for each in topics]
            print_table(("topic", "partitions", "size"), rows, right=("partitions", "size"))
        else:
            for each in topics:
                print(each.name)
        return 0

    return with_client(arguments, job)


def summary(topic: MetadataResponseTopic, size_bytes: int | None) -> dict[str, Any]:
    """A topic in one JSON object, without its partitions."""
    value: dict[str, Any] = {
        "name": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
    }
    return value if size_bytes is None else {**value, "size_bytes": size_bytes}


def create_action(arguments: argparse.Namespace) -> int:
    configs = pairs(arguments.config, "--config")
    assignment = parse_assignment(arguments.replica_assignment)

    async def job(client: Client) -> int:
        from penstock.cli.output import print_json
        from penstock.client.admin import create_topic, wait_for_topic
        from penstock.errors import ErrorCode, RequestError

        try:
            made = await create_topic(
                client,
                arguments.topic,
                partitions=arguments.partitions,
                replication_factor=arguments.replication_factor,
                assignment=assignment,
                configs=configs,
                validate_only=arguments.validate_only,
            )
        except RequestError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and arguments.if_not_exists:
                return 0
            raise
        if not arguments.validate_only:
            await wait_for_topic(client, made.name, expected=max(1, made.partitions))
        if arguments.json:
            print_json(
                {
                    "name": made.name,
                    "id": str(made.topic_id),
                    "partitions": made.partitions,
                    "replication_factor": made.replication_factor,
                }
            )
        else:
            verb = "would create" if arguments.validate_only else "created"
            print(f"{verb} {made.name}: partitions {made.partitions}, replication factor {made.replication_factor}")
        return 0

    return with_client(arguments, job)


def parse_assignment(text: str | None) -> list[list[int]]:
    """`1:2,2:3` as broker ids a partition. Raises UsageError."""
    if text is None:
        return []
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise UsageError(f"--replica-assignment {text}: it must be broker ids such as 1:2,2:3") from None


def describe_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        from penstock.cli.output import print_json
        from penstock.client.admin import describe_topics

        topics = await describe_topics(client, arguments.topics)
        described = []
        for topic in topics:
            assert topic.name is not None
            described.append((topic, await offsets(client, topic), await configs_of(client, topic.name)))
        if arguments.json:
            print_json([topic_json(*each) for each in described])
            return 0
        for place, each in enumerate(described):
            if place:
                print()
            print_topic(*each)
        return 0

    return with_client(arguments, job)


Ranges = dict[int, tuple[int, int]]


async def configs_of(client: Client, name: str) -> list[Config] | None:
    """A topic's configs; None for who may describe the topic and not its configs, as consumers and producers may."""
    from penstock.client.admin import Resource, ResourceType, describe_configs
    from penstock.errors import ErrorCode, RequestError

    try:
        return await describe_configs(client, Resource(ResourceType.TOPIC, name))
    except RequestError as error:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        return None


async def offsets(client: Client, topic: MetadataResponseTopic) -> Ranges:
    """First and end offset by partition; partitions without a leader are left out."""
    from penstock.client.client import EARLIEST, LATEST

    assert topic.name is not None
    keys = [(topic.name, each.partition_index) for each in topic.partitions if each.leader_id >= 0]
    first, end = await client.offsets(keys, EARLIEST), await client.offsets(keys, LATEST)
    return {key[1]: (first[key].offset, end[key].offset) for key in keys}


def topic_json(topic: MetadataResponseTopic, ranges: Ranges, configs: Sequence[Config] | None) -> dict[str, Any]:
    """A topic as JSON; configs are null for who may not see them."""
    partitions = []
    for each in topic.partitions:
        first, end = ranges.get(each.partition_index, (None, None))
        partitions.append(
            {
                "partition": each.partition_index,
                "leader": each.leader_id,
                "leader_epoch": each.leader_epoch,
                "replicas": each.replica_nodes,
                "in_sync_replicas": each.isr_nodes,
                "offline_replicas": each.offline_replicas,
                "log_start_offset": first,
                "end_offset": end,
            }
        )
    values = changed = None
    if configs is not None:
        values = {config.name: config.value for config in configs}
        changed = [config.name for config in configs if config.source == DYNAMIC_TOPIC_CONFIG]
    return {**summary(topic, None), "partitions": partitions, "configs": values, "changed_configs": changed}


def print_topic(topic: MetadataResponseTopic, ranges: Ranges, configs: Sequence[Config] | None) -> None:
    from penstock.cli.output import BOLD, paint, print_table

    changed = [f"{config.name}={config.value}" for config in configs or () if config.source == DYNAMIC_TOPIC_CONFIG]
    print(f"{paint(topic.name or '', BOLD)}  id {topic.topic_id}  partitions {len(topic.partitions)}")
    if configs is None:
        print("configs: not allowed to see them (DESCRIBE_CONFIGS)")
    else:
        print(f"configs: {', '.join(changed) if changed else 'all as the broker has them'}")
    rows = []
    for each in topic.partitions:
        first, end = ranges.get(each.partition_index, (-1, -1))
        leader = each.leader_id if each.leader_id >= 0 else "none"
        replicas, in_sync = numbers(each.replica_nodes), numbers(each.isr_nodes)
        rows.append(
            (each.partition_index, leader, replicas, in_sync, first if first >= 0 else "-", end if end >= 0 else "-")
        )
    print_table(
        ("partition", "leader", "replicas", "in sync", "first offset", "end offset"),
        rows,
        right=("partition", "leader", "first offset", "end offset"),
    )


def numbers(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def alter_action(arguments: argparse.Namespace) -> int:
    assignment = parse_assignment(arguments.replica_assignment)

    async def job(client: Client) -> int:
        from penstock.cli.output import counted
        from penstock.client.admin import create_partitions, wait_for_topic

        await create_partitions(client, arguments.topic, arguments.partitions, assignment=assignment)
        await wait_for_topic(client, arguments.topic, expected=arguments.partitions)
        print(f"{arguments.topic} has {counted(arguments.partitions, 'partition')}")
        return 0

    return with_client(arguments, job)


def delete_action(arguments: argparse.Namespace) -> int:
    """Deletes topics; 1 if one could not be."""

    async def job(client: Client) -> int:
        from penstock.cli.main import say_error
        from penstock.client.admin import delete_topics

        outcome = await delete_topics(client, arguments.topics)
        for name, error in outcome.items():
            if error is None:
                print(f"deleted {name}")
            else:
                say_error(str(error))
        return 1 if any(outcome.values()) else 0

    return with_client(arguments, job)
