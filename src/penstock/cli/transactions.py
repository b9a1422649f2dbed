"""Inspect transactions, find those that hang, end one.

examples:
  penstock transactions list --state ongoing --longer-than 5m
  penstock transactions describe copier
  penstock transactions hanging
  penstock transactions abort --topic clicks --partition 0 --start-offset 4711
  penstock transactions abort --transactional-id copier
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from penstock.cli.common import add_action, add_actions, add_bootstrap, add_json, add_option, run_action, with_client
from penstock.errors import RequestError, UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client, Partition
    from penstock.client.transactions import ListedTransaction, OwnedTransaction, TransactionState

SUMMARY = "inspect transactions, find those that hang, end one"
STATES = {
    name.lower(): name
    for name in (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareEpochFence",
        "Dead",
    )
}
"""States as they are typed, and as Kafka calls them."""

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    from penstock.cli.transaction_abort import register as register_abort

    actions = add_actions(parser)
    list_ = add_action(actions, "list", list_action, "list transactional ids and the state of their last transaction")
    list_.examples(
        "penstock transactions list",
        "penstock transactions list --state ongoing --longer-than 5m",
        "penstock transactions list --match 'orders-.*' --json",
    )
    add_option(
        list_,
        "--state",
        "STATE",
        f"only in this state, one of {', '.join(STATES)}; repeatable",
        action="append",
        default=[],
        type=str.lower,
        choices=STATES,
    )
    add_option(list_, "--longer-than", "TIME", "only transactions that have been under way for longer, such as 5m")
    add_option(list_, "--match", "PATTERN", "only transactional ids that this regular expression matches as a whole")
    describe = add_action(
        actions, "describe", describe_action, "show a transactional id's producer, its transaction and its partitions"
    ).examples("penstock transactions describe copier", "penstock transactions describe copier --json")
    describe.add_argument("ids", nargs="+", metavar="ID", help="transactional ids to describe")
    hanging = add_action(
        actions, "hanging", hanging_action, "find transactions open in partitions that no coordinator will ever end"
    ).examples(
        "penstock transactions hanging",
        "penstock transactions hanging --topic clicks:0-3 --longer-than 1h",
        "penstock transactions hanging --broker 2 --json",
    )
    add_option(
        hanging, "--topic", "TOPIC", "only this topic, or partitions of it as TOPIC:0,2-4; repeatable", action="append"
    )
    add_option(hanging, "--broker", "ID", "only partitions with a replica on this broker, as it sees them", type=int)
    add_option(
        hanging, "--longer-than", "TIME", "only those whose producer has written nothing for longer", default="15m"
    )
    for reading in (list_, describe, hanging):
        add_json(reading)
    for action in (list_, describe, hanging, register_abort(actions)):
        add_bootstrap(action)


def list_action(arguments: argparse.Namespace) -> int:
    from penstock.cli.times import duration_ms

    longer_than_ms = -1
    if arguments.longer_than is not None:
        longer_than_ms = duration_ms(arguments.longer_than, "--longer-than")

    async def job(client: Client) -> int:
        from penstock.client.transactions import list_transactions
        from penstock.errors import ErrorCode

        try:
            found = await list_transactions(
                client,
                states=[STATES[name] for name in arguments.state],
                longer_than_ms=longer_than_ms,
                pattern=arguments.match,
            )
        except RequestError as error:
            if error.code is not ErrorCode.INVALID_REGULAR_EXPRESSION:
                raise
            raise UsageError(f"--match {arguments.match}: the brokers take it for no regular expression") from None
        print_list(arguments, found)
        return 0

    return with_client(arguments, job)


def print_list(arguments: argparse.Namespace, found: list[ListedTransaction]) -> None:
    from penstock.cli.output import print_json, print_table

    if arguments.json:
        print_json([asdict(each) for each in found])
    elif found:
        rows = [(each.transactional_id, each.state, each.producer_id, each.coordinator) for each in found]
        head = ("transactional id", "state", "producer", "coordinator")
        print_table(head, rows, right=("producer", "coordinator"))
    else:
        filtered = arguments.state or arguments.match is not None or arguments.longer_than is not None
        print("no such transactional ids" if filtered else "there are no transactional ids yet")


def describe_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        from penstock.cli.main import say_error
        from penstock.cli.output import print_json
        from penstock.client.transactions import describe_transaction
        from penstock.errors import ErrorCode

        found, code = [], 0
        for transactional_id in arguments.ids:
            try:
                found.append(await describe_transaction(client, transactional_id))
            except RequestError as error:
                if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise
                say_error(str(error))
                code = 1
        now_ms = time.time_ns() // 1_000_000
        if arguments.json:
            print_json([state_json(each, now_ms) for each in found])
            return code
        for number, state in enumerate(found):
            if number:
                print()
            print_state(state, now_ms)
        return code

    return with_client(arguments, job)


def state_json(state: TransactionState, now_ms: int) -> dict[str, Any]:
    """A transactional id as one JSON object."""
    return {
        **asdict(state),
        "started_ms": state.started_ms if state.started_ms >= 0 else None,
        "duration_ms": now_ms - state.started_ms if state.under_way else None,
        "partitions": [partition_name(each) for each in state.partitions],
    }


def print_state(state: TransactionState, now_ms: int) -> None:
    """A transactional id for people: a heading, its producer, and which partitions wait for a marker."""
    from penstock.cli.groups import owned
    from penstock.cli.output import BOLD, GREEN, YELLOW, paint
    from penstock.cli.times import duration_text, timestamp_text

    colour = YELLOW if state.under_way else GREEN
    began = ""
    if state.under_way:
        began = f" for {duration_text(now_ms - state.started_ms)}, since {timestamp_text(state.started_ms)}"
    elif state.started_ms >= 0:
        began = f", begun {timestamp_text(state.started_ms)}"
    print(f"{paint(state.transactional_id, BOLD)}: {paint(state.state, colour)}{began}")
    print(
        f"  producer {state.producer_id}, epoch {state.producer_epoch}, timeout {duration_text(state.timeout_ms)}, "
        f"coordinator {state.coordinator}"
    )
    if state.partitions:
        print(f"  partitions {owned(state.partitions)}")


def hanging_action(arguments: argparse.Namespace) -> int:
    from penstock.cli.times import duration_ms

    older_than_ms = duration_ms(arguments.longer_than, "--longer-than")

    async def job(client: Client) -> int:
        from penstock.cli.main import say_error
        from penstock.client.transactions import find_hanging

        partitions, leaderless = await searched(client, arguments)
        now_ms = time.time_ns() // 1_000_000
        found = await find_hanging(
            client, partitions, older_than_ms=older_than_ms, now_ms=now_ms, node_id=arguments.broker
        )
        print_hanging(arguments, found, now_ms)
        if leaderless:
            say_error(f"not searched, since they have no leader: {', '.join(map(partition_name, leaderless))}")
        return 1 if leaderless else 0

    return with_client(arguments, job)


async def searched(client: Client, arguments: argparse.Namespace) -> tuple[list[Partition], list[Partition]]:
    """The partitions to search: those asked for, and apart from them those of all topics that have no leader now.

    Raises UsageError for a broker or a partition that is none.
    """
    from penstock.cli.group_reset import named
    from penstock.client.admin import describe_topics

    wanted = set(await named(client, arguments.topic)) if arguments.topic else None
    found: list[Partition] = []
    leaderless: list[Partition] = []
    for topic in await describe_topics(client, None if wanted is None else sorted({name for name, _ in wanted})):
        for each in topic.partitions:
            place = (topic.name or "", each.partition_index)
            if wanted is not None and place not in wanted:
                continue
            if arguments.broker is not None and arguments.broker not in each.replica_nodes:
                continue
            (leaderless if each.leader_id < 0 and arguments.broker is None else found).append(place)
    if arguments.broker is not None and arguments.broker not in client.brokers:
        raise UsageError(f"--broker {arguments.broker}: the cluster has brokers {', '.join(map(str, client.brokers))}")
    return found, leaderless


def print_hanging(arguments: argparse.Namespace, found: list[OwnedTransaction], now_ms: int) -> None:
    """Hanging transactions: where, whose, for how long; and the command that ends the first of them."""
    from penstock.cli.output import print_json, print_table
    from penstock.cli.times import duration_text

    if arguments.json:
        print_json([hanging_json(each, now_ms) for each in found])
        return
    if not found:
        print(f"no transaction hangs for longer than {arguments.longer_than}")
        return
    rows = [
        (
            partition_name(each.open.partition),
            each.open.start_offset,
            each.open.producer_id,
            each.open.producer_epoch,
            duration_text(now_ms - each.open.last_timestamp_ms),
            "nobody's" if each.owner is None else each.owner.transactional_id,
        )
        for each in found
    ]
    head = ("partition", "start offset", "producer", "epoch", "last record", "transactional id")
    print_table(head, rows, right=("start offset", "producer", "epoch", "last record"))
    print(f"\n{abort_command(found[0])} ends the first of them")


def abort_command(hanging: OwnedTransaction) -> str:
    """The command that ends a hanging transaction."""
    topic, index = hanging.open.partition
    where = f"--topic {topic} --partition {index} --start-offset {hanging.open.start_offset}"
    return f"penstock transactions abort {where}"


def hanging_json(hanging: OwnedTransaction, now_ms: int) -> dict[str, Any]:
    """A hanging transaction as one JSON object."""
    topic, index = hanging.open.partition
    return {
        "topic": topic,
        "partition": index,
        "start_offset": hanging.open.start_offset,
        "producer_id": hanging.open.producer_id,
        "producer_epoch": hanging.open.producer_epoch,
        "coordinator_epoch": hanging.open.coordinator_epoch,
        "last_timestamp_ms": hanging.open.last_timestamp_ms,
        "silent_ms": now_ms - hanging.open.last_timestamp_ms,
        "transactional_id": None if hanging.owner is None else hanging.owner.transactional_id,
    }


def partition_name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
