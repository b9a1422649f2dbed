"""Generate a synthetic stream with known contents: a clickstream with crawlers planted in it.

The same seed and start give the same records, however fast they are read. Event time starts at --start and runs --speed
times as fast as real time. --rate counts visitors' records per second of event time; crawlers come on top. --truth
records who the crawlers were, to judge a detector by.

examples:
  penstock generate clicks --rate 500 --topic clicks
  penstock generate clicks --rate 100 --seed 7 --speed 60 --start 1h --seconds 3600 --topic clicks --truth truth.json
  penstock generate clicks --count 1000000 --start 2026-01-31 --to clicks.json
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock.cli.common import (
    add_action,
    add_actions,
    add_bootstrap,
    add_client_id,
    add_option,
    check_modules,
    run_action,
    with_client,
)
from penstock.cli.stopping import Stopping, stopped_by_signals
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.pipelines.generate.clicks import Planted
    from penstock.pipelines.generate.sending import Sending

SUMMARY = "generate a synthetic clickstream, with crawlers planted in it"
PARTITIONS = 4
PROGRESS_EVERY_S = 0.5
STOP_LOOK_S, STOP_LOOKS = 0.2, 10
"""What is on its way after a signal has so many times that long to be acknowledged; then it is given up."""
RATE_MAX, USERS_MAX, PAGES_MAX, CRAWLERS_MAX, SPEED_MAX = 10_000_000, 5_000_000, 1_000_000, 100, 1_000_000

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    clicks = add_action(
        actions, "clicks", generate_clicks, "views, clicks, searches and logins of a site's visitors"
    ).examples(
        "penstock generate clicks --rate 500 --topic clicks",
        "penstock generate clicks --seconds 600 --start 2026-01-31 --to clicks.json --truth truth.json",
    )
    add_option(clicks, "--rate", "N", "visitors' records per second", type=number(0.1, RATE_MAX), default=100.0)
    add_option(clicks, "--seed", "S", "seed; equal seeds make equal streams", type=int, default=0)
    end = clicks.add_mutually_exclusive_group()
    add_option(end, "--seconds", "T", "stop after T seconds of event time (default: until Ctrl-C)", type=number(1, 1e9))
    add_option(end, "--count", "N", "stop after N records", type=number(1, 1e12))
    add_option(clicks, "--start", "TIME", "event time of the first record (default: now)")
    add_option(
        clicks, "--speed", "X", "speed of event time, as a multiple of real time, or max (default: 1; max with --to)"
    )
    to = clicks.add_mutually_exclusive_group()
    to.add_argument("--topic", help="topic to write to (default: clicks)")
    add_option(to, "--to", "FILE", "write lines to FILE instead; - is stdout")
    add_option(clicks, "--partitions", "N", "partitions of a new topic", type=number(1, 1000), default=PARTITIONS)
    add_option(clicks, "--users", "N", "number of visitors", type=number(1, USERS_MAX), default=20_000)
    add_option(clicks, "--pages", "N", "pages of the site", type=number(10, PAGES_MAX), default=1_000)
    add_option(
        clicks, "--crawlers", "N", "crawlers of each kind per ten minutes", type=number(0, CRAWLERS_MAX), default=1
    )
    add_option(
        clicks, "--malformed", "SHARE", "share of values that are cut short, 0 to 1", type=number(0, 1), default=0.0
    )
    truth = clicks.add_mutually_exclusive_group()
    add_option(truth, "--truth", "FILE", "write the crawlers to FILE at the end, one JSON object per line")
    add_option(truth, "--truth-topic", "TOPIC", "write the crawlers to a topic at the end")
    add_bootstrap(clicks)
    add_client_id(clicks)


def number(low: float, high: float) -> Any:
    """A type of argument: a number from `low` to `high`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text} is not a number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not between {low:,g} and {high:,g}")
        return value

    return parse


def generate_clicks(arguments: argparse.Namespace) -> int:
    check_modules("generating", ("numpy", "pyarrow"), "kernels")
    with stopped_by_signals() as stop, contextlib.ExitStack() as stack:
        job = Job(arguments, stop)
        if arguments.truth is not None:
            job.truth_file = stack.enter_context(open(arguments.truth, "wb"))
        if arguments.to is None or arguments.truth_topic is not None:
            return with_client(arguments, job.to_topic)
        return job.to_file()


class Job:
    """One run of the command. Raises UsageError for arguments that contradict each other."""

    def __init__(self, arguments: argparse.Namespace, stop: Stopping) -> None:
        from penstock.cli.times import timestamp_ms
        from penstock.pipelines.generate.clicks import Clicks, Mix

        mix = Mix(
            rate=arguments.rate,
            seed=arguments.seed,
            users=int(arguments.users),
            pages=int(arguments.pages),
            crawlers=int(arguments.crawlers),
            malformed=arguments.malformed,
        )
        if mix.seed < 0:
            raise UsageError(f"--seed {mix.seed}: it must not be negative")
        self.clicks = Clicks(mix, timestamp_ms(arguments.start or "now", "--start"))
        self.truth_file: BinaryIO | None = None
        self._arguments, self._stop, self._terminal = arguments, stop, sys.stderr.isatty()
        self._speed = speed_of(arguments.speed, fast=arguments.to is not None)
        self._began = self._said = time.monotonic()
        self._records = 0

    def to_file(self) -> int:
        """Lines to the file or the standard output."""
        from penstock.pipelines.generate.sending import write_lines

        path = self._arguments.to
        with contextlib.nullcontext(sys.stdout.buffer) if path == "-" else open(path, "wb") as file:
            for rows in self._seconds():
                write_lines(rows, self.clicks, file)
        self._conclude()
        return 0

    async def to_topic(self, client: Client) -> int:
        """Records to the topic, which is made if it is missing."""
        from penstock.pipelines.generate.sending import Sending

        if self._arguments.to is not None:
            self.to_file()
        else:
            topic = self._arguments.topic or "clicks"
            partitions = await topic_of(client, topic, int(self._arguments.partitions))
            sending = Sending(client, self.clicks, topic, partitions)
            for rows in self._seconds():
                await self._send(sending, rows)
            self._conclude(times_text(sending.times_ms))
        if self._arguments.truth_topic is not None:
            await send_truth(client, self._arguments.truth_topic, self.clicks.truth())
        return 0

    async def _send(self, sending: Sending, rows: Any) -> None:
        """Sends the records of a second. A signal ends it soon, even if a quota has it wait for minutes."""
        import asyncio

        task = asyncio.ensure_future(sending.send(rows))
        looks_left = STOP_LOOKS
        while not task.done() and looks_left:
            await asyncio.wait([task], timeout=STOP_LOOK_S)
            looks_left -= self._stop.is_set()
        if not task.done():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def _seconds(self) -> Iterator[Any]:
        """The records to write, second by second, up to the requested end."""
        from penstock.pipelines.generate.sending import Pace

        arguments, pace = self._arguments, Pace(self._speed)
        for second, rows in enumerate(self.clicks.seconds(), 1):
            pace.second(self._stop)
            if self._stop.is_set():
                return
            some = rows if arguments.count is None else rows[: int(arguments.count) - self._records]
            if len(some):
                yield some
            self._records += len(some)
            self._progress()
            if self._records == arguments.count or second == arguments.seconds:
                return

    def _progress(self) -> None:
        now = time.monotonic()
        if self._terminal and now - self._said >= PROGRESS_EVERY_S:
            self._said = now
            print(f"\r\x1b[K{self._figures()}", end="", file=sys.stderr, flush=True)

    def _conclude(self, times: str = "") -> None:
        """Prints what was written, and `times` that it took, and writes the truth."""
        from penstock.pipelines.generate.sending import truth_lines

        planted = self.clicks.truth()
        if self.truth_file is not None:
            self.truth_file.writelines(line + b"\n" for line in truth_lines(planted))
        start = "\r\x1b[K" if self._terminal else ""
        print(f"{start}{self._figures()}{times}, {len(planted)} crawlers' addresses planted", file=sys.stderr)

    def _figures(self) -> str:
        seconds = max(1e-3, time.monotonic() - self._began)
        return f"{self._records:,} records in {seconds:.1f} s, {self._records / seconds:,.0f}/s"


def times_text(times_ms: Sequence[float]) -> str:
    """How long requests took: half of them at most so long, and 99 in 100."""
    if not times_ms:
        return ""
    import numpy as np

    half, most = np.percentile(times_ms, (50, 99))
    return f", requests took {half:.1f} ms (99 %: {most:.1f} ms)"


def speed_of(text: str | None, *, fast: bool) -> float:
    """Times the clock; 0 is without waiting. Raises UsageError."""
    if text is None:
        return 0.0 if fast else 1.0
    if text == "max":
        return 0.0
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed <= SPEED_MAX:
        raise UsageError(f"--speed {text}: it must be max or a number up to {SPEED_MAX:,}, such as 60")
    return speed


async def topic_of(client: Client, name: str, partitions: int) -> int:
    """Makes the topic if it is missing; returns how many partitions it has."""
    from penstock.client.admin import create_topic, wait_for_topic
    from penstock.errors import ErrorCode

    (found,) = (await client.refresh([name])).topics
    if found.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return await wait_for_topic(client, name)
    await create_topic(client, name, partitions=partitions)
    return await wait_for_topic(client, name, expected=partitions)


async def send_truth(client: Client, topic: str, planted: list[Planted]) -> None:
    """The ground truth as records keyed by address."""
    from penstock.client.producer import Message, Producer
    from penstock.pipelines.generate.sending import truth_lines

    producer = Producer(client, topic, await topic_of(client, topic, 1))
    await producer.open()
    now_ms = time.time_ns() // 1_000_000
    for each, line in zip(planted, truth_lines(planted), strict=True):
        await producer.add(Message(line, now_ms, each.client.encode()))
    await producer.flush()
