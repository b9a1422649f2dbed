"""What must hold in a quorum at every step, whatever happens to its nodes, disks and network.

The names are those of the Raft paper (figure 3) where it has one:

- *election safety*: an epoch has at most one leader;
- *leader append-only* is the log's own: a leader's offsets only rise;
- *log matching*: two batches with the same offset and epoch are the same batch, with the same batch before them;
- *leader completeness*: who is elected has every committed batch;
- *state machine safety*: an offset has one committed batch for ever, and all who have applied it are in the same state;
- *votes are durable*: a replica votes for one candidate an epoch, also after a crash;
- *the high watermark only rises*, and nothing below it is cut.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left

from penstock.log.disk import Buffer
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.records.batch import headers
from simulator.world.checks import check

EMPTY_HASH = b"nothing"

BatchSeen = tuple[int, int, int, int]
"""Base offset, next offset, leader epoch, checksum."""


def applied_hash(state: bytes, base_offset: int, epoch: int, crc: int) -> bytes:
    """The state after one more batch."""
    return hashlib.sha256(b"%b %d %d %d" % (state, base_offset, epoch, crc)).digest()


class RaftRules:
    """Sees everything that all nodes do, and raises Violation.

    Attributes:
        committed_end: the offset after the last batch that anybody has said is committed.
        elections: how many leaders there were.
    """

    def __init__(self) -> None:
        self.committed_end = 0
        self.elections = 0
        self.acknowledged_count = 0
        self.truncations = 0
        self._leaders: dict[int, ReplicaKey] = {}
        self._votes: dict[tuple[int, ReplicaKey], ReplicaKey] = {}
        self._batches: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._committed: dict[int, BatchSeen] = {}
        self._ends: list[int] = [0]
        self._hashes: dict[int, bytes] = {0: EMPTY_HASH}
        self._told: dict[tuple[ReplicaKey, int], int] = {}

    def leads(self, key: ReplicaKey, epoch: int) -> None:
        """A replica takes itself for the leader of an epoch."""
        known = self._leaders.setdefault(epoch, key)
        check(known == key, "election safety", f"epoch {epoch} is led by {known.id} and by {key.id}")

    def elected(self, key: ReplicaKey, epoch: int, batches: list[BatchSeen], end: int) -> None:
        """A replica begins to lead, with these batches in its log, which ends there."""
        self.elections += 1
        self.leads(key, epoch)
        rule = "leader completeness"
        for batch in batches:
            known = self._committed.get(batch[0])
            check(known in (None, batch), rule, f"{key.id} leads {epoch} with {batch}, committed was {known}")
        missing = [base for base in self._committed if base >= end]
        check(not missing, rule, f"{key.id} leads epoch {epoch} with a log to {end}, committed is {missing[-3:]}")

    def voted(self, key: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        """A vote leaves a replica."""
        known = self._votes.setdefault((epoch, key), candidate)
        check(known == candidate, "votes are durable", f"{key.id} voted for {known.id} and {candidate.id} in {epoch}")

    def wrote(self, key: ReplicaKey, records: Buffer) -> None:
        """Batches went into a replica's log."""
        before = -1
        for _, header in headers(memoryview(records)):
            place = (header.base_offset, header.leader_epoch)
            content = (header.next_offset, header.crc, before)
            known = self._batches.setdefault(place, content)
            same = known[:2] == content[:2] and (before < 0 or known[2] < 0 or known[2] == before)
            check(same, "log matching", f"{key.id} has another batch at {place}: {content}, not {known}")
            before = header.leader_epoch

    def cut(self, key: ReplicaKey, offset: int) -> None:
        """A replica cuts its log."""
        self.truncations += 1
        told = max((end for (each, _), end in self._told.items() if each == key), default=0)
        check(offset >= told, "nothing committed is cut", f"{key.id} cuts at {offset}, it knew {told} as committed")

    def knows_the_voters(self, key: ReplicaKey, counted: VoterSet, written: VoterSet) -> None:
        """A replica counts the voters that its log names, also after a cut (KIP-853)."""
        check(counted == written, "who votes is what the log says", f"{key} counts {counted} and has written {written}")

    def committed(self, key: ReplicaKey, base_offset: int, next_offset: int, epoch: int, crc: int) -> None:
        """A replica says that this batch is committed."""
        batch = (base_offset, next_offset, epoch, crc)
        rule = "state machine safety"
        if base_offset < self.committed_end:
            known = self._committed.get(base_offset)
            check(known == batch, rule, f"{key.id} commits {batch}, committed was {known}")
            return
        check(base_offset == self.committed_end, rule, f"{key.id} commits {batch} after {self.committed_end}")
        self._committed[base_offset] = batch
        self.committed_end = next_offset
        self._ends.append(next_offset)
        self._hashes[next_offset] = applied_hash(self._hashes[base_offset], base_offset, epoch, crc)

    def applied(self, key: ReplicaKey, offset: int, state: bytes) -> None:
        """A replica's state machine is there: by its log, or by a snapshot."""
        at = bisect_left(self._ends, offset)
        known = at < len(self._ends) and self._ends[at] == offset
        check(known, "state machine safety", f"{key.id} is at {offset}, which is no end of a committed batch")
        same = self._hashes[offset] == state
        check(same, "state machine safety", f"{key.id} has another state at {offset} than others had")

    def reached(self, key: ReplicaKey, applied: int, high_watermark: int) -> None:
        """A replica can read all that is said to be committed."""
        check(applied == high_watermark, "what is committed can be read", f"{key.id}: {applied} of {high_watermark}")

    def told(self, key: ReplicaKey, incarnation: int, high_watermark: int) -> None:
        """A replica's high watermark is there."""
        known = self._told.get((key, incarnation), 0)
        check(high_watermark >= known, "the high watermark only rises", f"{key.id}: {high_watermark} after {known}")
        self._told[key, incarnation] = high_watermark

    def acknowledged(self, last_offset: int) -> None:
        """A client was told that what it wrote is committed."""
        self.acknowledged_count += 1
        below = last_offset < self.committed_end
        check(below, "what is acknowledged is committed", f"{last_offset} of {self.committed_end}")

    def sound(self, key: ReplicaKey, fault: str | None) -> None:
        """No replica may have given up; `fault` is why it has."""
        check(fault is None, "no replica is at odds with the quorum", f"{key.id}: {fault}")
