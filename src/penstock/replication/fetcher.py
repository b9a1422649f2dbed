"""The follower's side of an incremental fetch session (KIP-227): what one connection fetches from one leader.

The first fetch names every partition that is ready. Later fetches name the *dirty* ones: partitions whose position has
changed, that have become ready (they join), or that are no longer ready (they are forgotten, since the leader would
repeat the last answer). So a fetch costs what has changed, not how many partitions there are. Of very many that join it
names some; the next one, which then waits for no records, names the rest. If the leader gives no session, each fetch
has to name all.

One fetch is under way at a time. `build` makes the next, `received` or `failed` ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from penstock.protocol.messages.fetch_response import FetchResponse
from penstock.replication.fetch_session import INITIAL_EPOCH, INVALID_SESSION_ID, next_epoch
from penstock.replication.follower import Follower, Position, State
from penstock.replication.limits import FOLLOWED_PER_FETCH_MAX, LEFT_OUT_WAIT_MS

Key = tuple[UUID, int]

BEGIN_ANEW = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""The leader has forgotten the session: the next fetch names everything, at once."""

ANSWERED = Position(leader_epoch=-1, fetch_offset=-1, last_fetched_epoch=-1, log_start_offset=-1)
"""What a session has of a partition whose answer was not, or not yet, taken in: it is named again whatever it asks for
then. To ask for the same again is to have lost an answer, and the leader would not repeat it by itself."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """replica.fetch.wait.max.ms, .min.bytes, .response.max.bytes and .max.bytes (of one partition)."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024


class Fetcher:
    """The followers of one leader that share a connection.

    Attributes:
        leader_id, number: which connection; a leader may have several fetchers.
        followers: by (topic id, index).
        in_flight: a fetch is under way.
        writing: followers whose writes the next fetch waits for, as long as that is short: those of the last answer.
        left_out: followers with writes that no fetch waits for, and the number of the answer that each is of.
        late: followers whose last write was not done when the next answer came: their next one is not waited for.
        failures: fetches in a row without a usable answer.
        throttled: followers that the last fetch left out since they have had too much lately.
    """

    def __init__(self, leader_id: int, number: int) -> None:
        self.leader_id = leader_id
        self.number = number
        self.followers: dict[Key, Follower] = {}
        self.in_flight = False
        self.writing: dict[Key, None] = {}
        self.left_out: dict[Key, int] = {}
        self.late: dict[Key, None] = {}
        self._answers = 0
        self.failures = 0
        self.throttled: dict[Key, None] = {}
        self._session_id = INVALID_SESSION_ID
        self._session_epoch = INITIAL_EPOCH
        self._no_sessions = False
        self._session: dict[Key, Position] = {}
        self._dirty: dict[Key, None] = {}

    def __repr__(self) -> str:
        return f"Fetcher({self.leader_id}, {self.number}, {len(self.followers)} partitions)"

    @property
    def idle(self) -> bool:
        """Whether there is nothing to fetch, and nothing to tell the leader."""
        return not self.followers and not self._session and not self._dirty

    def add(self, follower: Follower) -> None:
        """Adds a partition, to be fetched whenever it is ready."""
        self.followers[follower.key] = follower
        self.moved(follower)

    def remove(self, follower: Follower) -> None:
        """Removes a partition that is no longer followed."""
        if self.followers.get(follower.key) is follower:
            del self.followers[follower.key]
            self.writing.pop(follower.key, None)
            self.left_out.pop(follower.key, None)
            self.late.pop(follower.key, None)
            self.throttled.pop(follower.key, None)
            self._dirty[follower.key] = None

    def moved(self, follower: Follower) -> None:
        """The follower's position or state has changed."""
        key = follower.key
        self._dirty[key] = None
        if follower.state is not State.WRITING:
            self.writing.pop(key, None)
            if self.left_out.pop(key, None) == self._answers:
                self.late.pop(key, None)
        elif key in self.late:
            self.left_out[key] = self._answers
        else:
            self.writing[key] = None

    def leave_out_writing(self) -> None:
        """No fetch waits any longer for the writes that are under way."""
        for key in self.writing:
            self.left_out[key] = self._answers
            self.late[key] = None
        self.writing.clear()

    def release(self) -> None:
        """Throttled followers may be fetched again."""
        self._dirty.update(self.throttled)
        self.throttled.clear()

    # One fetch

    def build(
        self,
        replica_id: int,
        replica_epoch: int,
        limits: FetchLimits,
        waits: Callable[[Follower], bool] = lambda follower: False,
    ) -> FetchRequest | None:
        """The next fetch, which is under way from now on; None if there is nothing to ask for.

        A follower for which `waits` is true is left out until `release`.
        """
        assert not self.in_flight, f"{self} has a fetch under way"
        if self._session_epoch == INITIAL_EPOCH:
            self._session.clear()
            self._dirty = dict.fromkeys(self.followers)
        topics: dict[UUID, FetchTopic] = {}
        forgotten: dict[UUID, ForgottenTopic] = {}
        dirty, self._dirty = self._dirty, {}
        room = len(dirty) if self._no_sessions else FOLLOWED_PER_FETCH_MAX
        for key in dirty:
            follower = self.followers.get(key)
            if follower is not None and follower.ready and waits(follower):
                self.throttled[key] = None
            if follower is not None and follower.ready and key not in self.throttled:
                if key in self._session:
                    self._mention(topics, follower, limits)
                elif room:
                    room -= 1
                    self._mention(topics, follower, limits)
                else:
                    self._dirty[key] = None
            elif self._session.pop(key, None) is not None:
                found = forgotten.get(key[0])
                if found is None:
                    found = forgotten[key[0]] = ForgottenTopic(topic_id=key[0])
                found.partitions.append(key[1])
        if not self._session and not forgotten:
            return None
        self.in_flight = True
        return FetchRequest(
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch),
            max_wait_ms=self._max_wait_ms(limits),
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    def _max_wait_ms(self, limits: FetchLimits) -> int:
        """How long the fetch may wait for records: those that could not be in it should be in the next one soon."""
        if self._dirty:
            return 0
        return min(limits.max_wait_ms, LEFT_OUT_WAIT_MS) if self.left_out else limits.max_wait_ms

    def _mention(self, topics: dict[UUID, FetchTopic], follower: Follower, limits: FetchLimits) -> None:
        """Puts a partition into the request, unless the session has it with this position."""
        key, position = follower.key, follower.position
        if self._session.get(key) == position:
            return
        self._session[key] = position
        topic = topics.get(key[0])
        if topic is None:
            topic = topics[key[0]] = FetchTopic(topic_id=key[0])
        topic.partitions.append(
            FetchPartition(
                partition=key[1],
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.fetch_offset,
                last_fetched_epoch=position.last_fetched_epoch,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=limits.partition_max_bytes,
            )
        )

    def received(self, response: FetchResponse, now_ms: int) -> ErrorCode:
        """Passes the answer to the followers. Returns the error of the whole fetch: pause, unless in BEGIN_ANEW."""
        self.in_flight = False
        self._answers += 1
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            self._begin_anew(keep=code not in BEGIN_ANEW)
            self.failures += 1
            return code
        self.failures = 0
        self._no_sessions = response.session_id == INVALID_SESSION_ID
        if self._no_sessions:
            self._begin_anew(keep=False)
        else:
            self._session_id = response.session_id
            self._session_epoch = next_epoch(self._session_epoch)
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                follower, asked = self.followers.get(key), self._session.get(key)
                if follower is not None and asked is not None:
                    follower.fetched(asked, data, now_ms)
                    if not follower.ready:
                        self._session[key] = ANSWERED
        return code

    def failed(self) -> None:
        """Handles a fetch without an answer: the session's state is unknown, so the next fetch closes it and begins
        another.
        """
        self.in_flight = False
        self.failures += 1
        self._begin_anew(keep=True)

    def _begin_anew(self, *, keep: bool) -> None:
        """The next fetch names everything; `keep` the session's id for it, so that the leader closes that session."""
        if not keep:
            self._session_id = INVALID_SESSION_ID
        self._session_epoch = INITIAL_EPOCH
        self._dirty.update(dict.fromkeys(self.followers))
