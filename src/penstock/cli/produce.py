"""Append records to a topic: one per line of stdin, or those given by --value.

A missing topic is created if the cluster creates topics automatically.

With --transactional-id, readers with read_committed see all of the input or nothing: an error or Ctrl-C aborts it.
With --transaction-records a transaction ends after every so many records, and only the last one is aborted.

examples:
  echo hello | penstock produce clicks
  penstock produce clicks --value '{"page": "/"}' --key user-7 --header source=web
  penstock produce clicks --key-separator : < records.txt
  penstock produce profiles --key user-7 --null            (a delete marker)
  penstock produce clicks --transactional-id import-7 < records.txt
  penstock produce clicks --transactional-id import-7 --transaction-records 1000 < records.txt
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TextIO

from penstock.cli.common import (
    add_bootstrap,
    add_client_id,
    add_flag,
    add_json,
    add_option,
    add_pairs,
    pair,
    with_client,
)
from penstock.cli.output import counted
from penstock.cli.stopping import unless_terminated
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.producer import Message, Producer
    from penstock.client.transactional import Transactions

SUMMARY = "append records to a topic, from the standard input or the command line"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
READ_BYTES = 256 * 1024
PROGRESS_EVERY_S = 0.5


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="topic to append to")
    add_option(parser, "--value", "TEXT", "record to append, instead of reading stdin; repeatable", action="append")
    add_flag(parser, "--null", "append one record with a null value, instead of reading stdin")
    add_option(parser, "--key", "TEXT", "key of every record")
    add_option(parser, "--key-separator", "TEXT", "separates key and value in each line")
    add_pairs(parser, "--header", "header of every record")
    add_option(parser, "--partition", "N", "partition of every record (default: chosen by the key)", type=int)
    parser.add_argument(
        "--compression", choices=CODECS, default="none", help="compression of the batches (default: none)"
    )
    parser.add_argument(
        "--acks", choices=tuple(ACKS), default="all", help="replicas that must confirm a record (default: all)"
    )
    add_option(parser, "--timestamp", "TIME", "timestamp of every record (default: now)")
    add_option(parser, "--transactional-id", "ID", "append all records in one transaction of this id")
    add_option(parser, "--transaction-records", "N", "commit after every N records instead", type=int)
    add_option(parser, "--transaction-timeout", "TIME", "abort a transaction that takes longer", default="1m")
    add_json(parser)
    add_bootstrap(parser)
    add_client_id(parser)


def run(arguments: argparse.Namespace) -> int:
    """Produces; returns the exit code."""
    job = Job(arguments)
    return with_client(arguments, job.run)


class Job:
    """One run: what all records have in common, and what was sent. Raises UsageError for arguments that conflict."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from penstock.cli.times import duration_ms, timestamp_ms

        self._arguments = arguments
        self._headers = tuple(header(text) for text in arguments.header)
        self._key = None if arguments.key is None else os.fsencode(arguments.key)
        self._separator = None if arguments.key_separator is None else os.fsencode(arguments.key_separator)
        given = None if arguments.timestamp is None else timestamp_ms(arguments.timestamp, "--timestamp")
        self._timestamp_ms = given
        if self._separator is not None and self._key is not None:
            raise UsageError("--key and --key-separator exclude each other")
        if self._separator == b"":
            raise UsageError("--key-separator is empty: it must be what stands between key and value, such as :")
        if arguments.null and arguments.value:
            raise UsageError("--null and --value exclude each other")
        self._timeout_ms = duration_ms(arguments.transaction_timeout, "--transaction-timeout")
        check_transaction(arguments)
        self._values = [self._from_line(os.fsencode(text)) for text in arguments.value or ()]
        self._sent = 0
        self._transactions: Transactions | None = None
        self._pending = 0
        """Records that the present transaction has."""
        self._committed = 0
        self._last_said = time.monotonic()
        self._offsets: dict[int, tuple[int, int]] = {}

    async def run(self, client: Client) -> int:
        from penstock.client.admin import wait_for_topic
        from penstock.client.producer import Producer
        from penstock.client.transactional import Transactions
        from penstock.records.compression import Codec

        topic: str = self._arguments.topic
        partitions = await wait_for_topic(client, topic, create=True, partition=self._arguments.partition)
        check_partition(self._arguments.partition, partitions, topic)
        if self._arguments.transactional_id is not None:
            self._transactions = Transactions(client, self._arguments.transactional_id, timeout_ms=self._timeout_ms)
            await self._transactions.open()
        producer = Producer(
            client,
            topic,
            partitions,
            codec=Codec[self._arguments.compression.upper()],
            acks=ACKS[self._arguments.acks],
            first_partition=time.time_ns() // 1_000_000,
            transactions=self._transactions,
            sent=self._on_sent,
        )
        await producer.open()
        if self._transactions is not None:
            return await unless_terminated(self._in_transactions(producer, self._transactions))
        try:
            await self._send_all(producer)
        except PenstockError as error:
            error.add_note(f"{self._appended()} before that")
            raise
        self._conclude()
        return 0

    async def _in_transactions(self, producer: Producer, transactions: Transactions) -> None:
        """Sends everything in transactions. Whatever ends this early aborts the one that is open."""
        try:
            await self._send_all(producer)
            await self._commit(producer)
        except BaseException as error:
            with suppress(PenstockError):  # whoever has taken the id over has aborted it, otherwise its time does
                await transactions.end(committed=False)
            if isinstance(error, PenstockError):
                error.add_note(f"the transaction is aborted; {self._appended()} before it")
            raise
        self._conclude()

    async def _commit(self, producer: Producer) -> None:
        """Ends the present transaction, if there are any."""
        if self._transactions is None:
            return
        await producer.flush()
        await self._transactions.end(committed=True)
        self._pending = 0
        self._committed = self._sent

    async def _add(self, producer: Producer, message: Message) -> None:
        """Appends a record; commits if it is the last one of a transaction."""
        await producer.add(message)
        self._pending += 1
        if self._pending == self._arguments.transaction_records:
            await self._commit(producer)

    async def _send_all(self, producer: Producer) -> None:
        if self._arguments.null:
            await self._add(producer, self._message(None))
        elif self._values:
            for message in self._values:
                await self._add(producer, message)
        else:
            await self._from_input(producer)
        await producer.flush()

    async def _from_input(self, producer: Producer) -> None:
        """Sends the lines of the standard input as they arrive: the lines of one read go out together."""
        if sys.stdin.isatty():
            print("a record a line; Ctrl-D ends", file=sys.stderr)
        number = 0
        async with aclosing(in_thread(chunks_of_lines(reader_of(sys.stdin)))) as reading:
            async for lines in reading:
                for line in lines:
                    number += 1
                    try:
                        message = self._from_line(line, number)
                    except UsageError:
                        await producer.flush()  # so that it can be said what was appended: all that came before
                        raise
                    await self._add(producer, message)
                await producer.flush()

    def _from_line(self, line: bytes, number: int = 0) -> Message:
        """A record from `value`, or from `key SEPARATOR value`."""
        if self._separator is None:
            return self._message(line)
        key, separator, value = line.partition(self._separator)
        if not separator:
            where = f"line {number}" if number else "--value"
            raise UsageError(f"{where} has no {self._arguments.key_separator!r} between key and value")
        return self._message(value, key)

    def _message(self, value: bytes | None, key: bytes | None = None) -> Message:
        from penstock.client.producer import Message

        now_ms = time.time_ns() // 1_000_000 if self._timestamp_ms is None else self._timestamp_ms
        return Message(value, now_ms, self._key if key is None else key, self._headers, self._arguments.partition)

    def _on_sent(self, batch: object) -> None:
        from penstock.client.producer import Sent

        assert isinstance(batch, Sent)
        self._sent += batch.records
        first, _ = self._offsets.get(batch.partition, (batch.base_offset, 0))
        self._offsets[batch.partition] = (first, batch.base_offset + batch.records - 1)
        now = time.monotonic()
        if sys.stderr.isatty() and not sys.stdin.isatty() and now - self._last_said > PROGRESS_EVERY_S:
            self._last_said = now
            print(f"\r\x1b[K{self._sent:,} records", end="", file=sys.stderr, flush=True)

    def _conclude(self) -> None:
        """Prints what was appended: as JSON on stdout if asked, otherwise in a line on a terminal's stderr."""
        ranges = dict(sorted(self._offsets.items()))
        if self._arguments.json:
            from penstock.cli.output import print_json

            partitions = [
                {"partition": p, "first_offset": first, "last_offset": last} for p, (first, last) in ranges.items()
            ]
            if ACKS[self._arguments.acks] == 0:
                partitions = [{"partition": p} for p in ranges]
            print_json({"topic": self._arguments.topic, "records": self._sent, "partitions": partitions})
        elif sys.stderr.isatty():
            print(f"\r\x1b[K{counted(self._sent, 'record')} to {self._arguments.topic}", file=sys.stderr)

    def _appended(self) -> str:
        """How many records the brokers have confirmed so far; with acks=0 they confirm none."""
        verb, count = "sent" if ACKS[self._arguments.acks] == 0 else "appended", self._sent
        if self._transactions is not None:
            verb, count = "committed", self._committed
        return f"{counted(count, 'record')} {'was' if count == 1 else 'were'} {verb}"


def check_transaction(arguments: argparse.Namespace) -> None:
    """Raises UsageError for options that do not go with transactions, or only with them."""
    if arguments.transactional_id == "":
        raise UsageError("--transactional-id is empty: it must be a name that no other producer uses")
    if arguments.transactional_id is not None and ACKS[arguments.acks] != -1:
        raise UsageError(f"--acks {arguments.acks}: a transaction needs all")
    if arguments.transaction_records is not None and arguments.transactional_id is None:
        raise UsageError("--transaction-records says how long transactions are: --transactional-id is missing")
    if arguments.transaction_records is not None and arguments.transaction_records < 1:
        raise UsageError(f"--transaction-records {arguments.transaction_records}: it must be 1 or more")


def header(text: str) -> tuple[str, bytes]:
    """NAME=VALUE of --header. The value may be any bytes, the name is text. Raises UsageError."""
    name, value = pair(text, "--header")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UsageError(f"--header {os.fsencode(name)!r}: a header's name must be UTF-8") from None
    return name, os.fsencode(value)


def check_partition(wanted: int | None, count: int, topic: str) -> None:
    """Raises UsageError for a partition that the topic does not have."""
    if wanted is not None and not 0 <= wanted < count:
        raise UsageError(f"--partition {wanted}: {topic} has partitions 0 to {count - 1}")


Read = Callable[[int], bytes]


def reader_of(stream: TextIO) -> Read:
    """Reads bytes of a stream as they come; past Python's buffer, whose lock a blocked read would keep at exit."""
    try:
        return functools.partial(os.read, stream.fileno())
    except OSError:  # not a file of the system
        return stream.buffer.read1  # type: ignore[attr-defined,no-any-return]  # BufferedReader and BytesIO have it


def chunks_of_lines(read: Read) -> Iterator[list[bytes]]:
    """Lines without their ends, those of one read together, so that a slow writer's do not wait."""
    rest: list[bytes] = []
    while chunk := read(READ_BYTES):
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            rest.append(tail)
            continue
        whole = b"".join([*rest, head])
        rest = [tail] if tail else []
        yield [line.removesuffix(b"\r") for line in whole.split(b"\n")]
    if rest:
        yield [b"".join(rest)]


async def in_thread(chunks: Iterator[list[bytes]]) -> AsyncGenerator[list[bytes], None]:
    """The same chunks, read by a thread that does not hold up the end of the process when its read never returns."""
    import asyncio
    import threading
    from contextlib import suppress

    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[list[bytes] | OSError | None] = asyncio.Queue()
    wanted = threading.Semaphore(1)  # at most one chunk waits
    stopped = False

    def put(item: list[bytes] | OSError | None) -> None:
        wanted.acquire()
        if not stopped:
            with suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(queue.put_nowait, item)

    def work() -> None:
        try:
            for chunk in chunks:
                put(chunk)
                if stopped:
                    return
        except OSError as error:
            put(error)
        else:
            put(None)

    threading.Thread(target=work, name="penstock-stdin", daemon=True).start()
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, OSError):
                raise item
            yield item
            wanted.release()
    finally:
        stopped = True
        wanted.release()
