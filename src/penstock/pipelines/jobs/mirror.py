"""The job `mirror`: topics into another cluster, byte for byte, each record once.

It does not go through Spark's rows: record batches are given to the other cluster compressed as they are, with only
their headers changed (`mirror_batches`). Keys, values, headers, timestamps and partitions are kept; offsets are the
other cluster's own.

    mirror_topics     which topics; makes, enlarges and configures them at the target
    mirror_source     a round: what all partitions have next, up to so many bytes
    mirror_sending    the round and how far it goes, in one transaction of the target
    mirror_progress   how far each partition is: a compacted topic of the target, so nothing is kept here

While a round is being sent the next one is fetched. After an error, or a crash at any point, the mirror takes its
transactional id over again, which aborts what was open, and goes on from the progress that the target then has: each
record is there once for readers with `read_committed`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.client.client import EARLIEST, LATEST, Client
from penstock.client.property_files import client_properties
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.errors import ConfigError, UnreachableError
from penstock.pipelines.job import REQUIRED, Job, Option
from penstock.pipelines.jobs.mirror_progress import Kept
from penstock.pipelines.jobs.mirror_sending import Pair, Round, Step, Target
from penstock.pipelines.jobs.mirror_source import SourceReader, TopicsChanged
from penstock.pipelines.jobs.mirror_topics import Choice, Topics
from penstock.pipelines.limits import MIRROR_CONFIGS_MS, MIRROR_TOPICS_MS
from penstock.pipelines.step import Did
from penstock.spark.write.exactly_once import NAME

if TYPE_CHECKING:
    from penstock.pipelines.context import Context

logger = logging.getLogger(__name__)


class Mirror:
    """The step: takes what each partition has, up to a fetch, and gives it to the other cluster.

    Args:
        addresses: bootstrap addresses of the source and of the target.
        choice: the topics.
        mirror_id: of the mirror at the target; the same after each restart.
        starting: EARLIEST or LATEST, where the very first run begins.
        allow_data_loss: see SourceReader.
        interval_ms: from step to step when there is nothing left to do.
        topics_ms: how often topics are looked for.
        reached: told of what was done at the target.
        securities: TLS and login at the source and at the target.
    """

    def __init__(
        self,
        addresses: tuple[str, str],
        choice: Choice,
        mirror_id: str,
        *,
        starting: int = EARLIEST,
        allow_data_loss: bool = False,
        interval_ms: int = 1000,
        topics_ms: int = MIRROR_TOPICS_MS,
        reached: Callable[[Step], None] = lambda step: None,
        securities: tuple[ClientSecurity, ClientSecurity] = (UNSECURED, UNSECURED),
    ) -> None:
        self.interval_ms = interval_ms
        self._addresses, self._choice, self._mirror_id = addresses, choice, mirror_id
        self._starting, self._allow_data_loss = starting, allow_data_loss
        self._topics_s = topics_ms / 1000
        self._reached = reached
        self._securities = securities
        self._runner = asyncio.Runner()
        self._clients: list[Client] = []
        self._topics: Topics | None = None
        self._reader: SourceReader | None = None
        self._target: Target | None = None
        self._kept = Kept()
        self._pairs: Sequence[Pair] = ()
        self._look_at = self._configs_at = 0.0
        self._ahead: asyncio.Task[Round] | None = None

    def step(self) -> Did | None:
        """One round. Raises RequestError, UnreachableError, DataLossError, SinkError, CorruptRecordError."""
        began = time.monotonic()
        count, lag = self._runner.run(self._step())
        return Did(count, lag, time.monotonic() - began) if count or lag else None

    def close(self) -> None:
        self._runner.run(self._disconnect())
        self._runner.close()

    async def _disconnect(self) -> None:
        await self._forget()
        for client in self._clients:
            client.close()
        self._clients.clear()

    async def _step(self) -> tuple[int, int]:
        try:
            if self._target is None:
                await self._open()
            assert self._target is not None
            ahead, self._ahead = self._ahead, None
            try:
                round_ = await (ahead or self._take())
            except TopicsChanged:
                self._look_at = 0.0
                return 0, 1
            if round_.lag:
                self._ahead = asyncio.create_task(self._take())
            began = time.monotonic()
            await self._target.send(round_)
            if round_.moved and self._reader is not None:
                self._reader.sent((time.monotonic() - began) * 1000)
        except BaseException:
            await self._forget()
            raise
        return round_.records, round_.lag

    async def _open(self) -> None:
        source, target = await self._connected()
        opening = Target(target, self._mirror_id, kept=self._kept, reached=self._reached)
        reached = await opening.open()
        self._reader = SourceReader(source, reached, starting=self._starting, allow_data_loss=self._allow_data_loss)
        self._topics = Topics(source, target, self._choice)
        self._look_at = 0.0
        self._target = opening

    async def _connected(self) -> tuple[Client, Client]:
        both = list(zip(self._addresses, ("source", "target"), self._securities, strict=True))
        for address, which, security in both[len(self._clients) :]:
            try:
                self._clients.append(await Client(address, client_id="penstock-mirror", security=security).__aenter__())
            except UnreachableError as error:
                raise UnreachableError(f"the {which} of the mirror: {error}") from None
        source, target = self._clients
        return source, target

    async def _take(self) -> Round:
        """The next round, of the topics that there are."""
        assert self._topics is not None
        assert self._reader is not None
        now = time.monotonic()
        if now >= self._look_at:
            self._pairs = await self._looked(self._topics, configs=now >= self._configs_at)
            self._look_at = now + self._topics_s
        return await self._reader.take(self._pairs)

    async def _looked(self, topics: Topics, *, configs: bool) -> Sequence[Pair]:
        pairs = await topics.look(configs=configs)
        if configs:
            self._configs_at = time.monotonic() + MIRROR_CONFIGS_MS / 1000
        before = {pair.topic: pair for pair in self._pairs}
        for pair in pairs:
            known = before.pop(pair.topic, None)
            if known is None:
                logger.info("%s is mirrored into %s", pair.topic, pair.to)
            elif known.place(0) != pair.place(0):
                side = "source" if known.topic_id != pair.topic_id else "target"
                logger.warning("%s was made again at the %s: it is mirrored from its start", pair.topic, side)
        for gone in before:
            logger.warning("%s is not there any more: it is mirrored no longer", gone)
        return pairs

    async def _forget(self) -> None:
        """What is known of the target's progress may be wrong: it is read again."""
        self._target = None
        if self._ahead is not None:
            self._ahead.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._ahead
            self._ahead = None


def run(context: Context) -> Sequence[Mirror]:
    """Makes the step."""
    options = context.options
    security = UNSECURED
    if (path := options["to_command_config"]) is not None:
        _, security = client_properties(path)
    choice = Choice(options["topics"], options["topic_pattern"], options["prefix"], options["configs"])
    mirror = Mirror(
        (context.bootstrap, options["to"]),
        choice,
        options["id"] or context.name,
        starting=EARLIEST if options["starting"] == "earliest" else LATEST,
        allow_data_loss=options["allow_data_loss"],
        interval_ms=context.interval_ms,
        securities=(context.security, security),
    )
    return [mirror]


def check(options: Mapping[str, Any]) -> list[str]:
    """What is wrong with the options together."""
    problems = []
    if not options["topics"] and options["topic_pattern"] is None:
        problems.append("topics or topic_pattern must say what is mirrored")
    if options["topic_pattern"] is not None:
        try:
            re.compile(options["topic_pattern"])
        except re.error as error:
            problems.append(f"topic_pattern is no regular expression: {error}")
    if options["id"] and not NAME.fullmatch(options["id"]):
        problems.append("id must be 1 to 200 letters, digits, dots, dashes, underscores")
    if (path := options["to_command_config"]) is not None:
        try:
            client_properties(path)
        except ConfigError as error:
            problems.append(f"to_command_config: {error}")
    return problems


JOB = Job(
    run,
    (
        Option("topics", list, [], "Topics to mirror.", reads=True, example=["clicks"]),
        Option("topic_pattern", str, None, "Regular expression of whole topic names; new topics are mirrored too."),
        Option("to", str, REQUIRED, "The other cluster, HOST:PORT separated by commas.", example="127.0.0.1:9192"),
        Option(
            "to_command_config",
            str,
            None,
            "Client properties of the other cluster, if it is secured: security.protocol, ssl.*, sasl.*.",
            path=True,
        ),
        Option("prefix", str, "", "Put before the topics' names at the other cluster."),
        Option(
            "configs", bool, True, "Give the other cluster's topics the configs of these, now and when they change."
        ),
        Option("id", str, None, "Of the mirror at the other cluster, where its progress is (default: its name)."),
        Option("starting", str, "earliest", "Where the first run begins.", choices=("earliest", "latest")),
        Option(
            "allow_data_loss", bool, False, "Go on when the source deleted what was to come, or lost what was mirrored."
        ),
    ),
    doc="Mirrors topics into another cluster byte for byte, each record once, however often it is killed.",
    check=check,
)
