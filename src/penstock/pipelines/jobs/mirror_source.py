"""What the job `mirror` takes from the source: a round of all partitions' next batches, and how far that goes.

Each round is one fetch from each leader, of as many bytes as one transaction is to have: fewer where that takes long,
so that a slow way is no endless row of transactions that were given up. The partition that was read
last is asked for last, so that none keeps the others from their turn. Records that the source has lost are an error
unless they may be; a topic that was made again is another topic, and begins at its start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence

from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, Client, Fetched, Partition
from penstock.client.epochs import cut_at
from penstock.errors import ErrorCode, RequestError
from penstock.pipelines.jobs.mirror_batches import taken
from penstock.pipelines.jobs.mirror_progress import Place, Reached
from penstock.pipelines.jobs.mirror_sending import Pair, Round
from penstock.pipelines.limits import (
    MIRROR_FETCH_BYTES,
    MIRROR_FETCH_FIRST_BYTES,
    MIRROR_FETCH_LEAST_BYTES,
    MIRROR_PAUSE_MS,
    MIRROR_QUICK_MS,
    MIRROR_SLOW_MS,
)
from penstock.records.batch import NO_LEADER_EPOCH, entries
from penstock.records.isolation import AbortedTransactions
from penstock.records.run import SeenEpoch
from penstock.spark.read.plan import DataLossError

logger = logging.getLogger(__name__)
Positions = Mapping[Partition, Reached]
MADE_AGAIN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class TopicsChanged(Exception):
    """A topic was deleted, or made again, since they were looked at; nothing was taken."""


class SourceReader:
    """Reads the source's partitions, from where the target's progress says.

    Args:
        client: connected.
        reached: the progress; those of other topics than those that are read are passed over.
        starting: EARLIEST or LATEST: where the topics of the very first round begin. Later ones begin at their start.
        allow_data_loss: go on with what the source has when it has deleted what was not mirrored yet, or when an
            unclean election cut its log: then what it has in the place of what it lost is mirrored, too.
    """

    def __init__(
        self, client: Client, reached: Mapping[Place, Reached], *, starting: int, allow_data_loss: bool
    ) -> None:
        self._client = client
        self._reached = dict(reached)
        self._starting = EARLIEST if reached else starting
        self._allow_data_loss = allow_data_loss
        self._order: list[Partition] = []
        self._leaderless: list[Partition] = []
        self._bytes = MIRROR_FETCH_FIRST_BYTES
        self._fetch_ms = 0.0

    def sent(self, sent_ms: float) -> None:
        """Told how long sending a round took, takes more or less the next time."""
        took_ms = max(sent_ms, self._fetch_ms)
        if took_ms < MIRROR_QUICK_MS:
            self._bytes = min(2 * self._bytes, MIRROR_FETCH_BYTES)
        elif took_ms > MIRROR_SLOW_MS:
            self._bytes = max(self._bytes // 2, MIRROR_FETCH_LEAST_BYTES)

    async def take(self, pairs: Sequence[Pair]) -> Round:
        """The next round. Raises TopicsChanged, DataLossError, RequestError, UnreachableError."""
        round_, starting = Round(), self._starting
        try:
            await self._take({pair.topic: pair for pair in pairs}, round_)
        except (TopicsChanged, RequestError) as error:
            if isinstance(error, RequestError) and error.code not in MADE_AGAIN:
                raise
            self._starting = starting
            for place in round_.moved:  # these began with this round, of which nobody is told
                del self._reached[place]
            raise TopicsChanged from error
        if round_.lag and not round_.moved:
            await asyncio.sleep(MIRROR_PAUSE_MS / 1000)
        return round_

    async def _take(self, pairs: Mapping[str, Pair], round_: Round) -> None:
        leaders = await self._leaders(pairs.values(), round_)
        positions = await self._positions(pairs, leaders, round_)
        if not positions:
            return
        await self._check_ids(pairs.values())
        at_once = max(MIRROR_FETCH_LEAST_BYTES, self._bytes // len({leaders[key] for key in positions}))
        began = time.monotonic()
        try:
            fetched = await self._client.fetch(
                {key: each.offset for key, each in positions.items()},
                max_wait_ms=0,
                max_bytes=at_once,
                partition_max_bytes=at_once,
                isolation=READ_COMMITTED,
            )
        except RequestError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await self._out_of_range(pairs, positions, round_)
            return
        self._fetch_ms = (time.monotonic() - began) * 1000
        await self._check_ids(pairs.values())
        cuts = await self._cuts(positions, fetched)
        for key, at in cuts.items():
            self._go_on(pairs[key[0]], key[1], at, "its log was cut (an unclean election)", round_)
        for key, got in fetched.items():
            if key not in cuts:
                self._add(pairs[key[0]], key[1], positions[key], got, round_)
                await asyncio.sleep(0)  # batches that are written anew take their time
        some = [key for key in positions if (pairs[key[0]].to, key[1]) in round_.batches]
        self._order = [key for key in positions if key not in set(some)] + some

    async def _leaders(self, pairs: Iterable[Pair], round_: Round) -> Mapping[Partition, int]:
        """The partitions that are asked for, and whom. Raises TopicsChanged for a topic that has fewer than it had.

        One without a leader waits, and holds nobody up; but where a mirror begins with what is latest, it must be
        known of all what that is.
        """
        found: dict[Partition, int] = {}
        for pair in pairs:
            leaders = (await self._client.topic(pair.topic, pair.partitions)).leaders
            if len(leaders) < pair.partitions:
                raise TopicsChanged
            found |= {(pair.topic, partition): leaders[partition] for partition in range(pair.partitions)}
        leaderless = [key for key, leader in found.items() if leader < 0 and self._starting != LATEST]
        if leaderless and leaderless != self._leaderless:
            some = ", ".join(f"{name}-{partition}" for name, partition in leaderless[:5])
            logger.warning("%d partitions of the source have no leader now and wait: %s", len(leaderless), some)
        self._leaderless = leaderless
        round_.lag += len(leaderless)
        return {key: leader for key, leader in found.items() if leader >= 0 or self._starting == LATEST}

    async def _positions(self, pairs: Mapping[str, Pair], wanted: Iterable[Partition], round_: Round) -> Positions:
        """Where each partition goes on, those first that had no records in the last round."""
        new = [(name, p) for name, p in wanted if pairs[name].place(p) not in self._reached]
        if new:
            found = await self._client.offsets(new, self._starting, isolation=READ_COMMITTED)
            await self._check_ids(pairs.values())
            for key, at in found.items():
                self._move(pairs[key[0]], key[1], Reached(at.offset), round_)
        self._starting = EARLIEST
        known = set(wanted)
        ordered = dict.fromkeys([*(key for key in self._order if key in known), *wanted])
        return {key: self._reached[pairs[key[0]].place(key[1])] for key in ordered}

    async def _check_ids(self, pairs: Iterable[Pair]) -> None:
        """Raises TopicsChanged if this client was told meanwhile that a topic is another one now."""
        for pair in pairs:
            if (await self._client.topic(pair.topic)).topic_id != pair.topic_id:
                raise TopicsChanged

    def _move(self, pair: Pair, partition: int, reached: Reached, round_: Round) -> None:
        self._reached[pair.place(partition)] = reached
        round_.moves(pair, partition, reached)

    def _add(self, pair: Pair, partition: int, reached: Reached, fetched: Fetched, round_: Round) -> None:
        """Adds what was fetched of a partition. Raises CorruptRecordError, InvalidRecordError."""
        start, last_epoch = reached
        end = start
        for _, header in entries(fetched.records):
            end = max(end, header.next_offset)
            if header.leader_epoch != NO_LEADER_EPOCH:
                last_epoch = SeenEpoch(header.leader_epoch, end)
        batches = list(taken(fetched.records, start, AbortedTransactions(fetched.aborted)))
        if batches:
            round_.batches[pair.to, partition] = batches
            round_.records += sum(each.records for each in batches)
        round_.lag += max(0, fetched.last_stable_offset - end)
        if end > start:
            self._move(pair, partition, Reached(end, last_epoch), round_)

    async def _cuts(self, positions: Positions, fetched: Mapping[Partition, Fetched]) -> dict[Partition, int]:
        """Where the source's log is another one than that which was mirrored, and from which offset on.

        Asked only where another epoch begins: a leader's own epoch is one history.
        """
        asked = {}
        for key, got in fetched.items():
            last_epoch, start = positions[key].last_epoch, positions[key].offset
            first = next((h.leader_epoch for _, h in entries(got.records) if h.next_offset > start), None)
            if last_epoch is not None and first not in (None, last_epoch.leader_epoch):
                asked[key] = last_epoch
        if not asked:
            return {}
        ends = await self._client.epoch_ends({key: last_epoch.leader_epoch for key, last_epoch in asked.items()})
        found = {key: cut_at(last_epoch, ends[key], fetched[key].log_start_offset) for key, last_epoch in asked.items()}
        return {key: at for key, at in found.items() if at is not None}

    async def _out_of_range(self, pairs: Mapping[str, Pair], positions: Positions, round_: Round) -> None:
        """The source has deleted what was to come next, or lost its end. Raises DataLossError unless that may be."""
        firsts = await self._client.offsets(list(positions), EARLIEST)
        lasts = await self._client.offsets(list(positions), LATEST)
        known = {key: each.last_epoch for key, each in positions.items() if each.last_epoch is not None}
        ends = await self._client.epoch_ends({key: each.leader_epoch for key, each in known.items()})
        await self._check_ids(pairs.values())
        for key, (start, seen) in positions.items():
            first, last = firsts[key].offset, lasts[key].offset
            if first <= start <= last:
                continue
            cut = last if seen is None else cut_at(seen, ends[key], first)
            at = first if start < first else last if cut is None else max(first, min(cut, last))
            self._go_on(pairs[key[0]], key[1], at, f"the source has {first} to {last}", round_)

    def _go_on(self, pair: Pair, partition: int, at: int, why: str, round_: Round) -> None:
        """Notes that a partition goes on elsewhere than where it was. Raises DataLossError unless that is allowed."""
        start = self._reached[pair.place(partition)].offset
        what = f"{pair.topic}-{partition}: the mirror is at {start}, {why}"
        if not self._allow_data_loss:
            raise DataLossError(f"{what}; with allow_data_loss = true it goes on at {at}")
        logger.warning("%s; it goes on at %d", what, at)
        self._move(pair, partition, Reached(at), round_)
        round_.lag += 1
