"""Print the records of a topic: all of them, a range by offset or time, or new ones as they arrive.

Without --group it reads all partitions and commits nothing. With --group it joins a consumer group, shares the
partitions with the other members, and commits what it has printed. Without --follow it exits after printing the records
present at startup.

examples:
  penstock consume clicks
  penstock consume clicks --follow --offset latest
  penstock consume clicks --partition 0 --offset 1000 --max 10 --print key,offset,timestamp,headers
  penstock consume clicks --group reports --follow
  penstock consume clicks --from 2026-01-31T08:00Z --until 15m --json
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.cli.common import (
    add_bootstrap,
    add_client_id,
    add_flag,
    add_isolation,
    add_option,
    isolation_of,
    with_client,
)
from penstock.cli.stopping import unless_terminated
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.records.reader import Record

SUMMARY = "print the records of a topic: by partition, offset or time, or as they arrive"
COLUMNS = ("key", "partition", "offset", "timestamp", "headers")
FLUSH_EVERY_S = 0.05
Write = Callable[[str, int, "Record"], bytes]


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="topic to read")
    add_option(parser, "--partition", "N", "only this partition; repeatable (default: all)", type=int, action="append")
    begin = parser.add_mutually_exclusive_group()
    add_option(begin, "--offset", "N|earliest|latest", "where to start", default="earliest")
    add_option(begin, "--from", "TIME", "start at the first record at or after TIME", dest="since")
    add_option(parser, "--group", "GROUP", "read as a member of this group; --offset applies only to a new group")
    parser.add_argument(
        "--group-protocol",
        choices=("classic", "consumer"),
        help="how to be a member of --group (default: consumer, or classic where the brokers or the group need it)",
    )
    add_option(parser, "--until", "TIME", "stop before the first record at or after TIME")
    add_option(parser, "--max", "N", "stop after N records", type=int)
    add_flag(parser, "--follow", "wait for new records until Ctrl-C")
    add_option(
        parser,
        "--print",
        "WHAT",
        f"columns to print before the value, some of {','.join(COLUMNS)}",
        dest="columns",
        default="",
    )
    add_option(parser, "--separator", "TEXT", "separates what --print adds (default: a tab)", default="\t")
    add_flag(parser, "--json", "print one JSON object per record")
    add_isolation(parser)
    add_bootstrap(parser)
    add_client_id(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints records; returns the exit code."""
    write = writer_of(arguments)
    if arguments.follow and arguments.until:
        raise UsageError("--follow and --until exclude each other")
    if arguments.max is not None and arguments.max < 0:
        raise UsageError(f"--max {arguments.max}: it must be 0 or more")

    if arguments.group is not None and (arguments.partition or arguments.since or arguments.until):
        raise UsageError("--group decides what is read: --partition, --from and --until do not go with it")
    if arguments.group is not None and arguments.offset not in ("earliest", "latest"):
        raise UsageError(f"--offset {arguments.offset}: with --group it must be earliest or latest")
    if arguments.group is None and arguments.group_protocol is not None:
        raise UsageError("--group-protocol says how to be a member of --group, which is missing")

    async def job(client: Client) -> int:
        if arguments.group is not None:
            return await unless_terminated(consume_as_member(client, arguments, write))
        await consume(client, arguments, write)
        return 0

    return with_client(arguments, job)


async def consume(client: Client, arguments: argparse.Namespace, write: Write) -> None:
    """Reads from where to begin to where to end, and prints."""
    from contextlib import aclosing

    from penstock.client.consumer import read_records

    isolation = isolation_of(arguments)
    starts, ends = await ranges_of(client, arguments, isolation)
    left = sys.maxsize if arguments.max is None else arguments.max
    if not left:
        return
    out = sys.stdout.buffer
    flushed = time.monotonic()
    stop_at = None if arguments.follow else ends
    async with aclosing(read_records(client, arguments.topic, starts, ends=stop_at, isolation=isolation)) as reading:
        async for partition, record in reading:
            out.write(write(arguments.topic, partition, record))
            left -= 1
            now = time.monotonic()
            if arguments.follow or now - flushed > FLUSH_EVERY_S:
                flushed = now
                out.flush()
            if not left:
                break
    out.flush()


async def consume_as_member(client: Client, arguments: argparse.Namespace, write: Write) -> None:
    """Reads what the group assigns to this member, prints it and commits it."""
    from penstock.client.client import EARLIEST, LATEST
    from penstock.client.member import Member

    isolation = isolation_of(arguments)
    _, ends = await ranges_of(client, arguments, isolation)
    left = sys.maxsize if arguments.max is None else arguments.max
    start = LATEST if arguments.offset == "latest" else EARLIEST
    out = sys.stdout.buffer
    joining = Member(
        client,
        arguments.group,
        [arguments.topic],
        start=start,
        isolation=isolation,
        protocol=arguments.group_protocol,
    )
    async with joining as member:
        while left:
            found = await member.poll(left)
            for topic, partition, record in found:
                out.write(write(topic, partition, record))
            out.flush()
            left -= len(found)
            await member.commit()
            here = member.positions
            # a partition that the topic has got since had nothing then
            if not arguments.follow and here and all(at >= ends.get(index, 0) for (_, index), at in here.items()):
                break


Offsets = dict[int, int]


async def ranges_of(client: Client, arguments: argparse.Namespace, isolation: int) -> tuple[Offsets, Offsets]:
    """First offset and end (exclusive) by partition. Raises UsageError for what does not exist."""
    from penstock.cli.times import timestamp_ms
    from penstock.client.admin import wait_for_topic
    from penstock.client.client import EARLIEST, LATEST

    topic: str = arguments.topic
    count = await wait_for_topic(client, topic, create=False)
    keys = [(topic, partition) for partition in chosen(arguments.partition, count, topic)]
    first = {p: at.offset for (_, p), at in (await client.offsets(keys, EARLIEST)).items()}
    end = {p: at.offset for (_, p), at in (await client.offsets(keys, LATEST, isolation=isolation)).items()}

    async def at_time(text: str, option: str) -> Offsets:
        found = await client.offsets(keys, timestamp_ms(text, option))
        return {p: at.offset if at.offset >= 0 else end[p] for (_, p), at in found.items()}

    if arguments.since is not None:
        start = await at_time(arguments.since, "--from")
    elif arguments.offset in ("earliest", "latest"):
        start = first if arguments.offset == "earliest" else end
    else:
        start = dict.fromkeys(first, offset_of(arguments.offset))
        for partition, offset in start.items():
            if not first[partition] <= offset <= end[partition]:
                has = f"{first[partition]} to {end[partition]}"
                raise UsageError(f"{topic}-{partition} has offsets {has} (the next one), not {offset}")
    if arguments.until is not None:
        until = await at_time(arguments.until, "--until")
        end = {partition: min(end[partition], until[partition]) for partition in end}
    return dict(start), end


def offset_of(text: str) -> int:
    """An offset. Raises UsageError."""
    if not text.isdecimal():
        raise UsageError(f"--offset {text}: it must be a number, earliest or latest")
    return int(text)


def chosen(wanted: list[int] | None, count: int, topic: str) -> list[int]:
    """The partitions asked for, or all. Raises UsageError for one that does not exist."""
    for partition in wanted or ():
        if not 0 <= partition < count:
            raise UsageError(f"{topic} has partitions 0 to {count - 1}, not {partition}")
    return sorted(set(wanted)) if wanted else list(range(count))


def writer_of(arguments: argparse.Namespace) -> Write:
    """A function that makes the bytes to print for a record. Raises UsageError for an unknown column."""
    if arguments.json:
        return json_line
    columns = [name for name in arguments.columns.split(",") if name]
    for name in columns:
        if name not in COLUMNS:
            more = "; the value always follows them" if name == "value" else ""
            raise UsageError(f"--print {name}: it must be some of {','.join(COLUMNS)}{more}")
    separator = os.fsencode(arguments.separator)

    def line(topic: str, partition: int, record: Record) -> bytes:
        cells = [cell(name, partition, record) for name in columns]
        return separator.join([*cells, text_of(record.value)]) + b"\n"

    return line


def cell(name: str, partition: int, record: Record) -> bytes:
    """One column before the value."""
    from penstock.cli.times import timestamp_text

    if name == "key":
        return text_of(record.key)
    if name == "timestamp":
        return timestamp_text(record.timestamp_ms).encode()
    if name == "headers":
        headers = [key.encode() + b"=" + text_of(value) for key, value in record.headers]
        return b",".join(headers) or b"-"
    return str(partition if name == "partition" else record.offset).encode()


def text_of(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def json_line(topic: str, partition: int, record: Record) -> bytes:
    """A record as one JSON object; bytes that are not UTF-8 are `{"base64": "..."}`."""
    value = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": json_value(record.key),
        "value": json_value(record.value),
        "headers": [[name, json_value(data)] for name, data in record.headers],
    }
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def json_value(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
