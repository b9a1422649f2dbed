"""The leader: changes on their way into the log.

A change is decided on the state with everything appended so far, replayed at once, and answered when it is committed;
so is a refusal that hangs on what is not committed yet. When the leadership is lost what was not committed is dropped:
the states before it are still there. Who waits is told that the outcome is not known; asked again with the same request
id, whoever leads then finds out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import NamedTuple, Protocol
from uuid import UUID

from penstock.errors import RequestError, StorageError
from penstock.guardian.core import calls, permitted
from penstock.guardian.core.calls import Call, Known, Reply, refusal
from penstock.guardian.core.committed import Committed
from penstock.guardian.core.limits import GUARDIAN_APPENDS_MAX
from penstock.guardian.core.records import FEATURE_LEVEL, GuardianRecord, encode_records
from penstock.guardian.core.sight import Sight
from penstock.guardian.core.state import GuardianState, replay
from penstock.protocol.messages.guardian.guardian_level_record import GuardianLevelRecord
from penstock.records.builder import BatchBuilder

Answered = Callable[[Reply, int], None]
"""`answered(reply, now_ms)`."""
LOST = "the leader has changed: whether the change was made is not known; ask again with the same request id"
NOT_LEADING = "this node does not lead"
DONE = Reply(calls.OK, {})
"""What is answered to who writes by itself."""


class Log(Protocol):
    """The log, as its leader uses it."""

    @property
    def epoch(self) -> int: ...

    @property
    def next_offset(self) -> int:
        """The offset of the record that is appended next."""

    @property
    def waits_for_room(self) -> bool:
        """Whether nothing can be committed before there is room on the disk."""

    def check_append(self, size_bytes: int) -> None:
        """Raises RequestError or StorageError for a batch that the log would refuse."""

    def append(self, batch: BatchBuilder, now_ms: int) -> None: ...

    def bug(self, what: str, error: Exception) -> None: ...


class Appended(NamedTuple):
    """The state after a batch that is not committed yet."""

    last_offset: int
    epoch: int
    state: GuardianState


@dataclass(slots=True)
class Waiting:
    """Who waits until everything through `last_offset` is committed."""

    last_offset: int
    reply: Reply
    answered: Answered


class Leader:
    """See the module's head. Attributes: `active`, whether this node leads, with everything committed applied."""

    def __init__(self, log: Log, committed: Committed, random: Random, nonces: Random) -> None:
        self.active = False
        self._nonces = nonces
        self._log = log
        self._committed = committed
        self._random = random
        self._appended: deque[Appended] = deque()
        self._waiting: deque[Waiting] = deque()

    @property
    def state(self) -> GuardianState:
        """The state with everything appended."""
        return self._appended[-1].state if self._appended else self._committed.state

    def claim(self, now_ms: int) -> None:
        """This node leads, and has applied everything committed. An empty log gets its feature level."""
        assert not self._appended, "nothing is left of an earlier leadership"
        self.active = True
        self._committed.following = False
        if not self.state.feature_level:
            self._append([GuardianLevelRecord(feature_level=FEATURE_LEVEL)], now_ms)

    def control_appended(self, last_offset: int, epoch: int) -> None:
        """The quorum has appended a batch of its own."""
        self._appended.append(Appended(last_offset, epoch, self.state))

    def committed(self, high_watermark: int, now_ms: int) -> None:
        """Everything below the offset is committed: readers see it, and answers leave."""
        while self._appended and self._appended[0].last_offset < high_watermark:
            batch = self._appended.popleft()
            self._committed.apply(batch.state, batch.last_offset, batch.epoch)
        while self._waiting and self._waiting[0].last_offset < high_watermark:
            waiting = self._waiting.popleft()
            self._tell(partial(waiting.answered, waiting.reply, now_ms))

    def renounce(self, now_ms: int) -> None:
        """The leadership is lost: what is not committed is dropped."""
        self.active = False
        self._committed.following = True
        self._appended.clear()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            self._tell(partial(each.answered, refusal(calls.UNAVAILABLE, LOST), now_ms))

    def change(
        self, call: Call, answered: Answered, sight: Sight, wall_ms: int, now_ms: int, *, holds_lease: bool
    ) -> None:
        """Makes a change, or refuses it; `answered` is called once, perhaps before this returns.

        `holds_lease`: this leader may answer from what it knows. Without that it appends, which it may; but what it
        would refuse, or has made before, it cannot tell any more.
        """
        refused = self._cannot()
        if refused is not None:
            answered(refused, now_ms)
            return
        decided = permitted.decide(Known(self.state, sight, wall_ms, self._nonces.randbytes), call, self._new_id)
        reply = decided.reply
        if decided.records:
            try:
                self._append(decided.records, now_ms)
            except (RequestError, StorageError) as error:
                status = calls.TOO_LARGE if isinstance(error, RequestError) else calls.NO_STORAGE
                answered(refusal(status, str(error)), now_ms)
                return
        elif not self._appended:
            answered(reply if holds_lease else refusal(calls.UNAVAILABLE, NOT_LEADING), now_ms)
            return
        self._waiting.append(Waiting(self._appended[-1].last_offset, reply, answered))

    def write(self, records: Sequence[GuardianRecord], answered: Answered, now_ms: int) -> None:
        """Appends records of what this node does by itself; `answered` with OK when they, and all before them, are
        committed, and with a refusal when they are lost, or cannot be written. Perhaps before this returns.
        """
        refused = self._cannot()
        if refused is None and records:
            try:
                self._append(records, now_ms)
            except (RequestError, StorageError) as error:
                refused = refusal(calls.TOO_LARGE, str(error))
        if refused is not None or not self._appended:
            answered(refused or DONE, now_ms)
        else:
            self._waiting.append(Waiting(self._appended[-1].last_offset, DONE, answered))

    def _cannot(self) -> Reply | None:
        """Why no change can be made now."""
        if not self.active:
            return refusal(calls.UNAVAILABLE, NOT_LEADING)
        if len(self._waiting) >= GUARDIAN_APPENDS_MAX:
            return refusal(calls.TOO_MANY, f"{GUARDIAN_APPENDS_MAX} changes wait for the log")
        if self._log.waits_for_room:
            return refusal(calls.NO_STORAGE, "the disk of the leader is full")
        return None

    def _append(self, records: Sequence[GuardianRecord], now_ms: int) -> None:
        """Replays and appends a batch. Raises RequestError or StorageError, and has done nothing then."""
        log = self._log
        batch = BatchBuilder(base_offset=log.next_offset, leader_epoch=log.epoch)
        for value in encode_records(records):
            batch.append(now_ms, None, value)
        log.check_append(batch.size_bytes)
        state = replay(self.state, records)
        self._appended.append(Appended(batch.base_offset + batch.record_count - 1, log.epoch, state))
        log.append(batch, now_ms)

    def _new_id(self) -> UUID:
        """A new id of a cluster."""
        while True:
            new = UUID(int=self._random.getrandbits(128), version=4)
            if new not in self.state.clusters:
                return new

    def _tell(self, tell: Callable[[], None]) -> None:
        """Tells one who waits; an exception ends only that call."""
        try:
            tell()
        except Exception as error:
            self._log.bug("a change that was made", error)
