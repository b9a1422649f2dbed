"""What `penstock import` does: it prepares the topic, imports the partitions, several at once, and verifies them."""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from penstock.cli.common import pairs
from penstock.cli.import_passes import Checksum, OffsetMap, Pass
from penstock.cli.output import counted, size_text
from penstock.cli.progress import Lines
from penstock.errors import ErrorCode, RequestError, StorageError, UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.importing import PartitionImport, Target
    from penstock.log.disk import Disk
    from penstock.log.legacy import LegacyLog
    from penstock.records.legacy.formats import LegacyRecord

CREATED_WITH = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "9223372036854775807",
    "message.timestamp.before.max.ms": "9223372036854775807",
}
"""Configs of a topic that an import creates: nothing is deleted by its old time, and no time is refused."""
PROGRESS_EVERY_S = 0.5
DRY_RUN_STEP = 20_000
"""Records between two looks at whether progress is to be shown."""


class Part:
    """One partition: where from, where to, and how far."""

    def __init__(self, disk: Disk, topic: str, partition: int, log: LegacyLog, offsets: MapFile) -> None:
        self.name = f"{topic}-{partition}"
        self.partition = partition
        self.log = log
        self._disk = disk
        self._topic = topic
        self._offsets = offsets
        self.last_pass: Pass | None = None
        self.work: PartitionImport | None = None
        self.verified: bool | None = None

    def open(self) -> Iterator[LegacyRecord]:
        """Begins a pass."""
        write = self._offsets.begin(self.partition)
        prefix = f"{self._topic},{self.partition}"
        offsets = None if write is None else OffsetMap(prefix, write.write, by_position=self.log.is_kafka07)
        self.last_pass = Pass(self._disk, self.log, offsets)
        return iter(self.last_pass)

    def end(self) -> None:
        """No pass is begun any more."""
        self._offsets.end(self.partition)

    @property
    def result(self) -> Pass:
        assert self.last_pass is not None
        return self.last_pass

    def line(self) -> str:
        """How far it is, in a line."""
        if self.last_pass is None:
            return f"{self.name}: waits"
        report = self.last_pass.report
        percent = 100 * report.read_bytes // max(self.log.size_bytes, 1)
        read = f"{percent}% of {size_text(self.log.size_bytes)} read"
        if self.work is None:
            return f"{self.name}: {counted(report.records, 'record')}, {read}"
        if self.work.found is None:
            return f"{self.name}: passes over {counted(report.records, 'record')} that the topic has, {read}"
        return f"{self.name}: {counted(self.work.position, 'record')} in the topic, {read}"


class Job:
    """One run. `parts` has what became of each partition."""

    def __init__(
        self, arguments: argparse.Namespace, disk: Disk, chosen: Sequence[tuple[int, LegacyLog]], offsets: MapFile
    ) -> None:
        self._arguments = arguments
        self._lines = Lines()
        self.parts = [Part(disk, arguments.topic, partition, log, offsets) for partition, log in chosen]

    def read_only(self) -> None:
        """Only reads, and shows progress."""
        import time

        shown = time.monotonic()
        for part in self.parts:
            for number, _ in enumerate(part.open()):
                if not number % DRY_RUN_STEP and time.monotonic() > shown + PROGRESS_EVERY_S:
                    self._show()
                    shown = time.monotonic()
            part.end()
        self._show(last=True)

    async def run(self, client: Client) -> int:
        """Imports all partitions. Raises PenstockError when one could not be; the others were ended all the same."""
        import asyncio

        from penstock.client.limits import IMPORT_PARTITIONS_MAX

        targets = await self._targets(client)
        turns = asyncio.Semaphore(IMPORT_PARTITIONS_MAX)

        async def import_one(part: Part, target: Target) -> None:
            async with turns:
                await self._import(client, part, target)

        progress = asyncio.create_task(self._progress())
        try:
            pairs = zip(self.parts, targets, strict=True)
            outcomes = await asyncio.gather(*(import_one(*pair) for pair in pairs), return_exceptions=True)
        finally:
            progress.cancel()
        self._show(last=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            for error in failures[1:]:
                failures[0].add_note(str(error))
            if not isinstance(failures[0], UsageError):
                failures[0].add_note("what was appended stays; run the same import again to go on")
            raise failures[0]
        return 0

    async def _import(self, client: Client, part: Part, target: Target) -> None:
        from penstock.client.importing import PartitionImport

        part.work = PartitionImport(client, target, part.open)
        try:
            await part.work.run()
        finally:
            part.end()
        if self._arguments.verify:
            part.verified = await checksum_of(client, target, part.work.position) == part.result.checksum.text()

    async def _targets(self, client: Client) -> list[Target]:
        """The topic as it is to be, made if it is missing. Raises UsageError."""
        from penstock.client.admin import Resource, ResourceType, create_topic, describe_configs, wait_for_topic
        from penstock.client.importing import Target
        from penstock.client.limits import CLIENT_BATCH_BYTES
        from penstock.records.compression import Codec

        topic: str = self._arguments.topic
        wanted = max(part.partition for part in self.parts) + 1
        try:
            count = await wait_for_topic(client, topic)
        except RequestError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            configs = {**CREATED_WITH, **pairs(self._arguments.config, "--config")}
            check_configs(topic, configs, allow_retention=self._arguments.allow_retention)
            replicas = self._arguments.replication_factor
            await create_topic(client, topic, partitions=wanted, replication_factor=replicas, configs=configs)
            count = await wait_for_topic(client, topic, expected=wanted)
        if count < wanted:
            raise UsageError(
                f"{topic} has partitions 0 to {count - 1}, and {self._arguments.directory} has {wanted - 1}:"
                f" `penstock topics alter {topic} --partitions {wanted}` adds what is missing"
            )
        described = await describe_configs(client, Resource(ResourceType.TOPIC, topic))
        values = {config.name: config.value or "" for config in described}
        check_configs(topic, values, allow_retention=self._arguments.allow_retention)
        topic_id = (await client.topic(topic)).topic_id
        codec = None if self._arguments.compression is None else Codec[self._arguments.compression.upper()]
        largest = min(CLIENT_BATCH_BYTES, int(values.get("max.message.bytes") or CLIENT_BATCH_BYTES))
        return [Target(topic, topic_id, part.partition, codec, largest) for part in self.parts]

    async def _progress(self) -> None:
        import asyncio

        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            self._show()

    def _show(self, *, last: bool = False) -> None:
        under_way = [part for part in self.parts if last or part.last_pass is None or not part.last_pass.ended]
        self._lines.show([part.line() for part in under_way], last=last)


def check_configs(topic: str, values: Mapping[str, str], *, allow_retention: bool) -> None:
    """Raises UsageError for a topic in which not all records would stay as they are."""
    if "compact" in values.get("cleanup.policy", ""):
        raise UsageError(
            f"{topic} is compacted, and what is compacted away could not be told from what is missing; import with"
            f" cleanup.policy=delete, and then:\n  penstock configs alter --name {topic} --add cleanup.policy=compact"
        )
    if values.get("message.timestamp.type", "CreateTime") != "CreateTime":
        raise UsageError(
            f"{topic} has message.timestamp.type={values['message.timestamp.type']}: times would not be kept"
        )
    limited = [name for name in ("retention.ms", "retention.bytes") if values.get(name, "-1") != "-1"]
    if limited and not allow_retention:
        says = " and ".join(f"{name}={values[name]}" for name in limited)
        adds = " ".join(f"--add {name}=-1" for name in limited)
        raise UsageError(
            f"{topic} has {says}, which may delete old records as soon as they are imported; switch it off with\n"
            f"  penstock configs alter --name {topic} {adds}\n  or say --allow-retention"
        )


async def checksum_of(client: Client, target: Target, end: int) -> str:
    """The checksum of a partition's records from 0 to before `end`, as the brokers have them.

    Raises StorageError when there are not exactly so many.
    """
    from penstock.client.consumer import read_records

    checksum = Checksum()
    count = 0
    partition = target.partition
    async for _, record in read_records(client, target.topic, {partition: 0}, ends={partition: end}):
        if record.offset != count:
            raise StorageError(f"{target} has offset {record.offset} where {count} should be")
        checksum.add(record.timestamp_ms, record.key, record.value)
        count += 1
    return checksum.text()


class MapFile:
    """The file of --offset-map, if it is wanted: a part for each partition, put together at the end.

    The parts are in the directory FILE.partial, which one run has at a time. What a killed run left there is removed by
    the next one.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._directory = f"{path}.partial"
        self._lock = -1
        self._open: dict[int, IO[str]] = {}

    def __enter__(self) -> Self:
        """Raises UsageError if another run is writing the file, or it cannot be one."""
        if self._path is None:
            return self
        if os.path.isdir(self._path):
            raise UsageError(f"--offset-map {self._path}: it is a directory")
        with suppress(FileExistsError):
            os.mkdir(self._directory)
        self._lock = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise UsageError(f"--offset-map {self._path}: another import is writing it") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._path is None:
            return
        for file in self._open.values():
            with suppress(OSError):  # a full disk, which was said
                file.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        os.close(self._lock)

    def _name(self, partition: int) -> str:
        return f"{self._directory}/{partition}"

    def begin(self, partition: int) -> IO[str] | None:
        """Begins a partition's part, anew if it had one; None if no map is wanted."""
        if self._path is None:
            return None
        self.end(partition)
        file = self._open[partition] = open(self._name(partition), "w")  # noqa: SIM115  # closed in `end`
        return file

    def end(self, partition: int) -> None:
        """Nothing more comes for a partition's part; a directory may have more partitions than files can be open."""
        if (file := self._open.pop(partition, None)) is not None:
            file.close()

    def finish(self, partitions: Sequence[int]) -> None:
        """Makes the file of its parts, which have ended. It has its name only when it is whole."""
        if self._path is None:
            return
        whole = f"{self._directory}/whole"
        with open(whole, "w") as out:
            out.write("topic,partition,old_offset,new_offset,records\n")
            for partition in partitions:
                with open(self._name(partition)) as part:
                    shutil.copyfileobj(part, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(whole, self._path)
