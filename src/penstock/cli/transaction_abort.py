"""`penstock transactions abort`: ends one transaction, as a whole by its transactional id, or if it hangs, in one
partition.

A marker written by hand into one partition of a transaction that is under way would abort a part of it. So a partition
is touched only if no coordinator is about to end the transaction there.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from penstock.cli.common import Actions, add_action, add_flag, add_option, with_client
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client, Partition
    from penstock.client.transactions import OpenTransaction


def register(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    abort = add_action(
        actions, "abort", abort_action, "abort a transaction: a hanging one in its partition, any other by its id"
    ).examples(
        "penstock transactions abort --topic clicks --partition 0 --start-offset 4711",
        "penstock transactions abort --transactional-id copier --yes",
    )
    what = abort.add_mutually_exclusive_group(required=True)
    add_option(what, "--topic", "TOPIC", "abort a hanging transaction in --partition of this topic")
    add_option(
        what, "--transactional-id", "ID", "abort what this id has under way, in all partitions; fences its producer"
    )
    add_option(abort, "--partition", "N", "partition of --topic", type=int)
    add_option(abort, "--start-offset", "N", "where it begins, as `transactions hanging` shows it", type=int)
    old = abort.add_argument_group("instead of --start-offset, if the brokers are older than 3.0")
    for name in ("producer-id", "producer-epoch", "coordinator-epoch"):
        add_option(old, f"--{name}", "N", f"{name.replace('-', ' ')}, from the producer's snapshot", type=int)
    add_flag(abort, "--yes", "do not ask for confirmation")
    return abort


def abort_action(arguments: argparse.Namespace) -> int:
    check(arguments)

    async def job(client: Client) -> int:
        if arguments.transactional_id is not None:
            await abort_whole(client, arguments)
        else:
            await abort_hanging(client, arguments)
        return 0

    return with_client(arguments, job)


def check(arguments: argparse.Namespace) -> None:
    """Raises UsageError for options that do not go together."""
    old = (arguments.producer_id, arguments.producer_epoch, arguments.coordinator_epoch)
    if arguments.transactional_id is not None:
        if any(each is not None for each in (arguments.partition, arguments.start_offset, *old)):
            raise UsageError("--transactional-id names the whole transaction: nothing else goes with it")
    elif arguments.partition is None:
        raise UsageError("which partition of --topic? --partition says it")
    elif arguments.start_offset is not None:
        if any(each is not None for each in old):
            raise UsageError("--start-offset says which transaction: a producer's id and epochs do not go with it")
    elif any(each is None for each in old):
        raise UsageError(
            "which transaction? --start-offset says it, or for brokers before 3.0 all of --producer-id, "
            "--producer-epoch and --coordinator-epoch"
        )


async def abort_whole(client: Client, arguments: argparse.Namespace) -> None:
    """Ends what a transactional id has under way."""
    from penstock.cli.output import counted
    from penstock.cli.times import duration_text
    from penstock.client.transactions import describe_transaction, end_transaction

    name: str = arguments.transactional_id
    before = await describe_transaction(client, name)
    if not before.under_way:
        print(f"{name} has no transaction under way: {before.state}")
        return
    took = duration_text(time.time_ns() // 1_000_000 - before.started_ms)
    confirm(
        arguments,
        f"{name}: {before.state} for {took}, {counted(len(before.partitions), 'partition')} to end; its producer "
        f"{before.producer_id} will be fenced",
    )
    await end_transaction(client, name)
    after = await describe_transaction(client, name)
    print(f"ended: {name} is {after.state}, producer {after.producer_id}, epoch {after.producer_epoch}")


async def abort_hanging(client: Client, arguments: argparse.Namespace) -> None:
    """Ends a hanging transaction in one partition."""
    from penstock.cli.group_reset import named
    from penstock.cli.times import duration_text
    from penstock.client.client import LATEST, READ_COMMITTED
    from penstock.client.transactions import abort_in_partition

    (place,) = await named(client, [f"{arguments.topic}:{arguments.partition}"])
    name = f"{place[0]}-{place[1]}"
    if arguments.start_offset is None:
        producer_id, epoch = arguments.producer_id, arguments.producer_epoch
        coordinator_epoch, what = arguments.coordinator_epoch, f"{name}: what producer {producer_id} has open"
    else:
        found = await hanging_at(client, place, arguments.start_offset)
        producer_id, epoch, coordinator_epoch = found.producer_id, found.producer_epoch, found.coordinator_epoch
        silent = duration_text(time.time_ns() // 1_000_000 - found.last_timestamp_ms)
        what = f"{name}: transaction of producer {producer_id} from offset {found.start_offset} on, silent for {silent}"
    confirm(arguments, what)
    await abort_in_partition(client, place, producer_id, epoch, coordinator_epoch)
    stable = (await client.offsets([place], LATEST, isolation=READ_COMMITTED))[place].offset
    print(f"aborted: the last stable offset of {name} is {stable} now")


async def hanging_at(client: Client, partition: Partition, start_offset: int) -> OpenTransaction:
    """The hanging transaction that begins there. Raises UsageError if there is none, or its coordinator will end it."""
    from penstock.client.transactions import open_transactions, owned

    name = f"{partition[0]}-{partition[1]}"
    for each in await owned(client, await open_transactions(client, [partition])):
        if each.open.start_offset != start_offset:
            continue
        if each.hanging:
            return each.open
        assert each.owner is not None
        raise UsageError(
            f"{name}: the transaction from {start_offset} on does not hang: {each.owner.transactional_id} is "
            f"{each.owner.state}\n  `penstock transactions abort --transactional-id {each.owner.transactional_id}` "
            "aborts it in all of its partitions"
        )
    raise UsageError(
        f"{name}: no transaction begins at {start_offset}\n  `penstock transactions hanging --topic "
        f"{partition[0]}:{partition[1]} --longer-than 0s` lists those that hang"
    )


def confirm(arguments: argparse.Namespace, what: str) -> None:
    """Asks whether to abort, unless --yes is given. Raises UsageError without a terminal, or if the answer is no."""
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{what}\n  --yes says that it is to be aborted")
    print(f"{what}. Abort? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was changed")
