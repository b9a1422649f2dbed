"""The job `mirror`: topics into another cluster, byte for byte, resumable.

It does not go through Spark's rows: a record batch that can be taken as it is, compressed as it is, is given to the
other cluster with only its header changed, which costs no decoding. Keys, values, headers, timestamps and partitions
are kept; offsets are the other cluster's own. Batches that cannot be taken whole are written anew, record by record:

- where compaction left gaps (a producer's batch may have none), or the cleaner noted a delete horizon;
- where the time is the append time: the records get it as their own, so that it stays;
- where only a part of the batch is wanted.

Tombstones and empty keys are records like others. Transaction markers and what was aborted are left out.

How far each partition is stands in a small file, `mirror.json`, in the pipeline's directory, written after the
other cluster has acknowledged. So a crash loses nothing, but what was acknowledged and not yet noted is sent again: at
least once after a crash, exactly once otherwise (`mirror_sending`). A topic that was deleted and created again is
mirrored from its start.
The file also has the leader epoch of the last batch, by which a log is known that an unclean election cut.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, Client, Fetched, Partition
from penstock.client.epochs import cut_at
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.pipelines.job import REQUIRED, Job, Option
from penstock.pipelines.jobs.mirror_sending import Sending, Taken
from penstock.pipelines.limits import MIRROR_FETCH_BYTES
from penstock.pipelines.step import Did
from penstock.records.batch import (
    CRC,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
    check_crc,
    computed_crc,
    entries,
)
from penstock.records.builder import BatchBuilder
from penstock.records.isolation import AbortedTransactions
from penstock.records.reader import records
from penstock.records.run import SeenEpoch
from penstock.spark.read.plan import DataLossError

if TYPE_CHECKING:
    from penstock.pipelines.context import Context

logger = logging.getLogger(__name__)
PROGRESS = "mirror.json"


def as_produced(view: memoryview, header: BatchHeader, position: int) -> bytearray:
    """A whole batch as its producer would have sent it: no offset, no epochs, no transaction."""
    batch = bytearray(view[position : position + header.size_bytes])
    HEADER.pack_into(
        batch, 0, 0, header.size_bytes - LOG_OVERHEAD_BYTES, NO_LEADER_EPOCH, header.magic, 0,
        header.attributes & ~TRANSACTIONAL_FLAG, header.last_offset_delta,
        header.base_timestamp_ms, header.max_timestamp_ms,
        NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, header.record_count,
    )  # fmt: skip
    CRC.pack_into(batch, CRC_POSITION, computed_crc(batch, 0, len(batch)))
    assert len(batch) > HEADER_BYTES
    return batch


def taken(view: memoryview, start: int, aborted: AbortedTransactions) -> Iterator[Taken]:
    """The batches of a fetch that hold records from offset `start` on, fit to be produced.

    Raises CorruptRecordError, InvalidRecordError for a batch that is broken: it is not passed on.
    """
    for position, header in entries(view):
        if aborted(view, position, header) or header.is_control or header.next_offset <= start:
            continue
        if not header.record_count:  # emptied by the cleaner, kept for its producer's state
            continue
        dense = header.record_count == header.last_offset_delta + 1
        own_time = header.timestamp_type is TimestampType.CREATE_TIME
        if dense and own_time and header.base_offset >= start and not header.attributes & DELETE_HORIZON_FLAG:
            yield Taken(as_produced(view, header, position), header.record_count)
            continue
        check_crc(view, position, header)
        builder = BatchBuilder(codec=header.compression)
        for record in records(view, header, position):
            if record.offset >= start:
                builder.append(record.timestamp_ms, record.key, record.value, record.headers)
        if builder.record_count:
            yield Taken(builder.build(), builder.record_count)


class Reached(NamedTuple):
    """How far a partition is: the next offset of the source, and the leader epoch of the last batch seen before it."""

    offset: int
    last_epoch: SeenEpoch | None = None

    @classmethod
    def of(cls, told: Any) -> Self:
        """As the file tells it; those of before it told epochs have the offset alone."""
        if isinstance(told, int):
            return cls(told)
        offset, last_epoch = told
        return cls(int(offset), None if last_epoch is None else SeenEpoch(*last_epoch))


class Progress:
    """How far each partition is, in a small file that is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next: dict[str, dict[int, Reached]] = {}
        if path.exists():
            try:
                stored = json.loads(path.read_bytes())
                self._next = {
                    topic: {int(p): Reached.of(told) for p, told in ends.items()} for topic, ends in stored.items()
                }
            except (ValueError, AttributeError, TypeError) as error:
                raise PenstockError(f"{path} is damaged ({error}): remove it to mirror from the start again") from None

    def next(self, topic: str, topic_id: Any, partition: int) -> Reached | None:
        """How far a partition is; None if nothing was ever taken."""
        return self._next.get(f"{topic} {topic_id}", {}).get(partition)

    def advance(self, topic: str, topic_id: Any, partition: int, reached: Reached) -> None:
        """Notes how far a partition is; `save` makes it last."""
        self._next.setdefault(f"{topic} {topic_id}", {})[partition] = reached

    def save(self) -> None:
        """Writes the file: at a crash it is the old or the new one."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump(self._next, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


class Mirror:
    """The step: takes what each partition has, up to a fetch, and gives it to the other cluster.

    Args:
        addresses: bootstrap addresses of the source and of the target.
        topics: names at the source, and what they are called at the target.
        progress: where it is kept.
        starting: EARLIEST or LATEST, where a partition begins that has no progress.
        allow_data_loss: go on with what the source has when it has deleted what was not mirrored yet, or when an
            unclean election cut its log: then what it has in the place of what it lost is mirrored, too.
    """

    def __init__(
        self,
        addresses: tuple[str, str],
        topics: Mapping[str, str],
        progress: Progress,
        *,
        starting: int = EARLIEST,
        allow_data_loss: bool = False,
        interval_ms: int = 1000,
    ) -> None:
        self.interval_ms = interval_ms
        self._topics, self._progress, self._starting = topics, progress, starting
        self._addresses, self._allow_data_loss = addresses, allow_data_loss
        self._runner = asyncio.Runner()
        self._clients: tuple[Client, Client] | None = None
        self._sending: Sending | None = None

    def step(self) -> Did | None:
        """One fetch of each partition. Raises RequestError, UnreachableError."""
        began = time.monotonic()
        count, lag = self._runner.run(self._step())
        return Did(count, lag, time.monotonic() - began) if count or lag else None

    def close(self) -> None:
        if self._clients is not None:
            self._runner.run(self._disconnect(self._clients))
        self._runner.close()

    async def _disconnect(self, clients: Sequence[Client]) -> None:
        for client in clients:
            client.close()

    async def _step(self) -> tuple[int, int]:
        source, target = await self._connected()
        reached = await self._positions(source, target)
        try:
            fetched = await source.fetch(
                {key: each.offset for key, each in reached.items()},
                max_wait_ms=0,
                partition_max_bytes=MIRROR_FETCH_BYTES,
                isolation=READ_COMMITTED,
            )
        except RequestError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await self._out_of_range(source, reached)
            return 0, 1
        cuts = await self._cuts(source, reached, fetched)
        for key, at in cuts.items():
            await self._go_on(source, key, reached[key].offset, at, "its log was cut (an unclean election)")
        left = {key: each for key, each in fetched.items() if key not in cuts}
        passing = (self._pass_on(source, key, reached[key], each) for key, each in left.items())
        outcomes = await asyncio.gather(*passing, return_exceptions=True)  # what is under way comes to its end
        done = [each for each in outcomes if not isinstance(each, BaseException)]
        if cuts or any(moved for _, _, moved in done):
            self._progress.save()
        for each in outcomes:
            if isinstance(each, BaseException):
                raise each
        return sum(count for count, _, _ in done), sum(lag for _, lag, _ in done) + len(cuts)

    async def _cuts(
        self, source: Client, reached: Mapping[Partition, Reached], fetched: Mapping[Partition, Fetched]
    ) -> dict[Partition, int]:
        """Where the source's log is another one than that which was mirrored, and from which offset on.

        Asked only where another epoch begins: a leader's own epoch is one history.
        """
        asked = {}
        for key, got in fetched.items():
            last_epoch, start = reached[key].last_epoch, reached[key].offset
            first = next((h.leader_epoch for _, h in entries(got.records) if h.next_offset > start), None)
            if last_epoch is not None and first not in (None, last_epoch.leader_epoch):
                asked[key] = last_epoch
        if not asked:
            return {}
        ends = await source.epoch_ends({key: last_epoch.leader_epoch for key, last_epoch in asked.items()})
        found = {key: cut_at(last_epoch, ends[key], fetched[key].log_start_offset) for key, last_epoch in asked.items()}
        return {key: at for key, at in found.items() if at is not None}

    async def _connected(self) -> tuple[Client, Client]:
        if self._clients is None:
            source, target = (Client(address, client_id="penstock-mirror") for address in self._addresses)
            self._clients = await source.__aenter__(), await target.__aenter__()
            self._sending = Sending(target)
        return self._clients

    async def _positions(self, source: Client, target: Client) -> dict[Partition, Reached]:
        """Where each partition goes on; makes topics at the target, and more partitions, as the source has them."""
        positions: dict[Partition, Reached] = {}
        unknown = []
        for topic, mirrored in self._topics.items():
            state = await source.topic(topic)
            await prepared(target, mirrored, len(state.leaders))
            for partition in range(len(state.leaders)):
                at = self._progress.next(topic, state.topic_id, partition)
                if at is None:
                    unknown.append((topic, partition))
                else:
                    positions[topic, partition] = at
        if unknown:
            for key, found in (await source.offsets(unknown, self._starting, isolation=READ_COMMITTED)).items():
                positions[key] = Reached(found.offset)
                await self._note(source, key, positions[key])
            self._progress.save()  # else a crash now would let `latest` begin later than it did
        return positions

    async def _note(self, source: Client, key: Partition, reached: Reached) -> None:
        topic, partition = key
        self._progress.advance(topic, (await source.topic(topic)).topic_id, partition, reached)

    async def _out_of_range(self, source: Client, reached: Mapping[Partition, Reached]) -> None:
        """The source has deleted what was to come next, or lost its end. Raises DataLossError unless that may be."""
        firsts = await source.offsets(list(reached), EARLIEST)
        lasts = await source.offsets(list(reached), LATEST)
        known = {key: each.last_epoch for key, each in reached.items() if each.last_epoch is not None}
        ends = await source.epoch_ends({key: each.leader_epoch for key, each in known.items()})
        for key, (start, seen) in reached.items():
            first, last = firsts[key].offset, lasts[key].offset
            if first <= start <= last:
                continue
            cut = last if seen is None else cut_at(seen, ends[key], first)
            at = first if start < first else last if cut is None else max(first, min(cut, last))
            await self._go_on(source, key, start, at, f"the source has {first} to {last}")
        self._progress.save()

    async def _go_on(self, source: Client, key: Partition, start: int, at: int, why: str) -> None:
        """Notes that a partition goes on elsewhere than where it was. Raises DataLossError unless that is allowed."""
        what = f"{key[0]}-{key[1]}: the mirror is at {start}, {why}"
        if not self._allow_data_loss:
            raise DataLossError(f"{what}; with allow_data_loss = true it goes on at {at}")
        logger.warning("%s; it goes on at %d", what, at)
        await self._note(source, key, Reached(at))

    async def _pass_on(
        self, source: Client, key: Partition, reached: Reached, fetched: Fetched
    ) -> tuple[int, int, bool]:
        """Gives the target what was fetched of a partition; (records, lag left, whether it moved)."""
        assert self._sending is not None
        topic, partition = key
        start, last_epoch = reached
        end = start
        for _, header in entries(fetched.records):
            end = max(end, header.next_offset)
            if header.leader_epoch != NO_LEADER_EPOCH:
                last_epoch = SeenEpoch(header.leader_epoch, end)
        batches = list(taken(fetched.records, start, AbortedTransactions(fetched.aborted)))
        await self._sending.send(self._topics[topic], partition, batches)
        await self._note(source, key, Reached(end, last_epoch))
        return sum(each.records for each in batches), max(0, fetched.last_stable_offset - end), end > start


async def prepared(target: Client, topic: str, partitions: int) -> None:
    """Makes the topic at the target, or more partitions of it, if need be. Raises RequestError, PenstockError."""
    from penstock.client.admin import create_partitions, create_topic, wait_for_topic

    try:
        have = len((await target.topic(topic)).leaders)
    except RequestError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        await create_topic(target, topic, partitions=partitions)
        await wait_for_topic(target, topic, expected=partitions)
        return
    if have < partitions:
        await create_partitions(target, topic, partitions)
        await wait_for_topic(target, topic, expected=partitions)


def run(context: Context) -> Sequence[Mirror]:
    """Makes the step."""
    options = context.options
    topics = {topic: options["prefix"] + topic for topic in options["topics"]}
    mirror = Mirror(
        (context.bootstrap, options["to"]),
        topics,
        Progress(context.directory / PROGRESS),
        starting=EARLIEST if options["starting"] == "earliest" else LATEST,
        allow_data_loss=options["allow_data_loss"],
        interval_ms=context.interval_ms,
    )
    return [mirror]


JOB = Job(
    run,
    (
        Option("topics", list, REQUIRED, "Topics to mirror.", reads=True, example=["clicks"]),
        Option("to", str, REQUIRED, "The other cluster, HOST:PORT separated by commas.", example="127.0.0.1:9192"),
        Option("prefix", str, "", "Put before the topics' names at the other cluster."),
        Option("starting", str, "earliest", "Where the first run begins.", choices=("earliest", "latest")),
        Option(
            "allow_data_loss", bool, False, "Go on when the source deleted what was to come, or lost what was mirrored."
        ),
    ),
    doc="Mirrors topics into another cluster byte for byte. At least once after a crash, exactly once otherwise.",
)
