"""Has the followers of this node fetch: each leader has numbered fetchers, each with a connection and one fetch at a
time.

A fetcher sends its next fetch at the end of the turn in which the last was answered and its records were written.
Writes that take longer than FOLLOWER_WRITE_WAIT_MS are not waited for; their partitions are left out of fetches until
they are done, and so they are after their next write, as long as each takes that long. So a slow log directory does not
delay the partitions of another.

A follower whose log directory is full is left out until there is room (`penstock.log.space`).

After an error a partition pauses alone; when a whole fetch fails, the fetcher pauses. Pauses begin at FETCH_RETRY_MS
and double up to replica.fetch.backoff.ms: a leader that has not yet heard of its leadership is asked again soon.

Followers do nothing until `begin`: their logs must not be touched before this broker has created its replicas.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode, PenstockError, StorageError
from penstock.log.manager import NotOpen
from penstock.metadata.image import NO_LEADER
from penstock.metadata.names import INTERNAL_TOPICS
from penstock.node.leader_offsets import LeaderOffsets
from penstock.node.limits import FOLLOWER_WRITE_WAIT_MS, FOLLOWERS_OPENED_PER_STEP, THROTTLED_LOOK_MS
from penstock.node.outgoing import Outgoing
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.throttles import ReplicationThrottles
from penstock.node.timers import Timer
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_response import FetchResponse
from penstock.replication.fetcher import BEGIN_ANEW, Fetcher, FetchLimits
from penstock.replication.follower import Follower, State
from penstock.replication.limits import FETCH_RETRY_MS

if TYPE_CHECKING:
    from penstock.replication.replicas import Replicas

logger = logging.getLogger(__name__)


REPLICATION_CHANNEL = "replication"
"""Begins the names of the channels over which replicas are fetched."""


class Followers:
    """The `FollowerDriver` of a node. See the module's head.

    Attributes:
        bytes_in: what followers have fetched and appended.
        due: the fetchers (leader, number) that `send_due` must look at.
    """

    def __init__(
        self,
        state: NodeState,
        scheduler: Scheduler,
        replicas: Replicas,
        outgoing: Outgoing,
        throttles: ReplicationThrottles,
    ) -> None:
        self._state = state
        self._scheduler = scheduler
        self._replicas = replicas
        self._outgoing = outgoing
        self._throttles = throttles
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._fetcher_of: dict[tuple[UUID, int], Fetcher] = {}
        self.due: dict[tuple[int, int], None] = {}
        self._held_until_ms: dict[tuple[int, int], int] = {}
        self._holds: dict[tuple[int, int], Timer] = {}
        self._to_open: dict[tuple[UUID, int], Follower] = {}
        self._opening_in_steps = False
        self._release_due = False
        self._begun = False
        self._offsets = LeaderOffsets(state, scheduler, outgoing)
        self.bytes_in = 0

    def begin(self, now_ms: int) -> None:
        """The replicas of this broker exist and it is registered: followers may open their logs and fetch."""
        if self._begun:
            return
        self._begun = True
        for follower in self._replicas.following():
            if follower.leader_id != NO_LEADER:
                self._to_open[follower.key] = follower
        self._open_some(now_ms)

    def stop(self, now_ms: int) -> None:
        """This node is stopping: nothing is fetched any more."""
        self._begun = False
        self._to_open.clear()
        self.due.clear()
        for fetcher in list(self._fetchers.values()):
            self._end(fetcher, now_ms)
        self._fetcher_of.clear()

    # FollowerDriver

    def follow(self, follower: Follower, now_ms: int) -> None:
        key = follower.key
        if follower.state is State.OPENING:
            self._want_open(follower, now_ms)
        number = (key[0].int + key[1]) % self._state.settings.num_replica_fetchers
        place = (follower.leader_id, number)
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = Fetcher(*place)
        old = self._fetcher_of.get(key)
        if old is not None and old is not fetcher:
            self._leave(old, follower, now_ms)
        self._fetcher_of[key] = fetcher
        fetcher.add(follower)
        self._wake(fetcher)
        if follower.state is State.ASKING:
            self._want_offsets(follower)

    def unfollow(self, follower: Follower, now_ms: int) -> None:
        self._to_open.pop(follower.key, None)
        fetcher = self._fetcher_of.pop(follower.key, None)
        if fetcher is not None:
            self._leave(fetcher, follower, now_ms)

    def follower_moved(self, follower: Follower, now_ms: int) -> None:
        fetcher = self._fetcher_of.get(follower.key)
        if fetcher is None:
            return
        fetcher.moved(follower)
        if follower.state is State.OPENING:
            self._want_open(follower, now_ms)
        elif follower.state is State.ASKING:
            self._want_offsets(follower)
        self._wake(fetcher)

    def follower_retries(self, follower: Follower, delay_ms: int, now_ms: int) -> None:
        delay_ms = min(delay_ms, self._state.settings.replica_fetch_backoff_ms)
        self._scheduler.timers.at(now_ms + delay_ms, follower.retry, duty=True)

    def follower_wrote(self, follower: Follower, size_bytes: int) -> None:
        self.bytes_in += size_bytes
        throttles = self._throttles
        if throttles.follows_throttled(follower):
            throttles.follower.record(size_bytes, self._scheduler.now_ms)

    def high_watermark_moved(self, follower: Follower) -> None:
        self._replicas.high_watermark_moved(follower)

    def follower_failed(self, follower: Follower, error: Exception) -> None:
        if not isinstance(error, PenstockError):
            self._scheduler.bug("operation", f"records of {follower!r}", error)
        elif follower.failures == 0:
            logger.warning("%s-%d from broker %d: %s", follower.topic, follower.index, follower.leader_id, error)

    # Logs

    def _want_open(self, follower: Follower, now_ms: int) -> None:
        if self._begun:
            self._to_open[follower.key] = follower
            if len(self._to_open) == 1:
                self._scheduler.timers.at(now_ms, self._open_some, duty=True)

    def _open_some(self, now_ms: int) -> None:
        """Opens the logs of a few followers now, of many in steps."""
        if not self._opening_in_steps and self._step(now_ms):
            self._opening_in_steps = True
            self._scheduler.do(self._open_in_steps())

    def _open_in_steps(self) -> Iterator[None]:
        while self._step(self._scheduler.now_ms):
            yield
        self._opening_in_steps = False

    def _step(self, now_ms: int) -> bool:
        """Opens as many logs as one step allows. Returns whether more are left."""
        for key in list(islice(self._to_open, FOLLOWERS_OPENED_PER_STEP)):
            self._open(self._to_open.pop(key), now_ms)
        return bool(self._to_open)

    def _open(self, follower: Follower, now_ms: int) -> None:
        if self._replicas.follower(follower.topic, follower.index) is not follower or not self._begun:
            return
        try:
            self._replicas.follower_log(follower, now_ms)
        except NotOpen as not_open:
            self._scheduler.when_open(not_open, lambda at_ms: self._open(follower, at_ms))
        except StorageError:
            follower.broken(now_ms)
        except Exception as error:
            follower.broken(now_ms)
            self._scheduler.bug("operation", f"the opening of {follower!r}", error)

    # Fetches

    def _leave(self, fetcher: Fetcher, follower: Follower, now_ms: int) -> None:
        fetcher.remove(follower)
        if not fetcher.followers and not fetcher.in_flight:
            self._end(fetcher, now_ms)
        else:
            self._wake(fetcher)

    def _end(self, fetcher: Fetcher, now_ms: int) -> None:
        """Forgets a fetcher that has nothing to follow any more; its connection closes once it is idle."""
        place = (fetcher.leader_id, fetcher.number)
        if self._fetchers.get(place) is fetcher:
            del self._fetchers[place]
            self.due.pop(place, None)
            self._held_until_ms.pop(place, None)
            self._disarm(place)

    def _want_offsets(self, follower: Follower) -> None:
        self._offsets.want(follower)
        self.due[(follower.leader_id, 0)] = None

    def _wake(self, fetcher: Fetcher) -> None:
        if not fetcher.in_flight:
            self.due[(fetcher.leader_id, fetcher.number)] = None

    def send_due(self, now_ms: int) -> None:
        """Sends the fetches that can leave now; called at the end of each turn."""
        due, self.due = self.due, {}
        for place in due:
            fetcher = self._fetchers.get(place)
            if fetcher is None or fetcher.in_flight or not self._begun:
                continue
            held_until_ms = self._held_until_ms.get(place, 0)
            if now_ms >= held_until_ms or (not fetcher.writing and not fetcher.failures):
                self._disarm(place)
                fetcher.leave_out_writing()
                self._send(fetcher, now_ms)
        self._offsets.send_due(now_ms)

    def _send(self, fetcher: Fetcher, now_ms: int) -> None:
        peer = self._state.peer(fetcher.leader_id)
        if peer is None:
            fetcher.failures += 1
            self._pause(fetcher, now_ms)
            return
        settings = self._state.settings
        limits = FetchLimits(
            settings.replica_fetch_wait_max_ms,
            settings.replica_fetch_min_bytes,
            settings.replica_fetch_response_max_bytes,
            settings.replica_fetch_max_bytes,
        )
        request = fetcher.build(
            self._state.node_id,
            self._state.broker_epoch,
            limits,
            lambda follower: has_no_room(follower) or self._throttles.waits(follower, now_ms),
        )
        if fetcher.throttled:
            self._release_later(now_ms)
        if request is None:
            if not fetcher.followers:
                self._end(fetcher, now_ms)
            return
        self._outgoing.call(
            peer,
            request,
            timeout_ms=settings.replica_socket_timeout_ms,
            done=lambda answer, reason, at_ms: self._answered(fetcher, answer, at_ms),
            now_ms=now_ms,
            version=self._state.version.fetch_request,
            channel=f"{REPLICATION_CHANNEL} {fetcher.number}",
        )

    def _release_later(self, now_ms: int) -> None:
        """Looks again at throttled partitions when they may be fetched, or earlier, since the rate may change."""
        if not self._release_due:
            self._release_due = True
            free_ms = self._throttles.follower.free_at_ms(now_ms)
            latest_ms = now_ms + THROTTLED_LOOK_MS
            at_ms = min(free_ms, latest_ms) if free_ms > now_ms else latest_ms  # a full directory has no time
            self._scheduler.timers.at(at_ms, self._release, duty=True)

    def _release(self, now_ms: int) -> None:
        self._release_due = False
        for fetcher in self._fetchers.values():
            if fetcher.throttled:
                fetcher.release()
                self._wake(fetcher)

    def _answered(self, fetcher: Fetcher, answer: Message | None, now_ms: int) -> None:
        place = (fetcher.leader_id, fetcher.number)
        if self._fetchers.get(place) is not fetcher:
            return
        if answer is None:
            fetcher.failed()
            self._pause(fetcher, now_ms)
            return
        assert isinstance(answer, FetchResponse)
        code = fetcher.received(answer, now_ms)
        if code is not ErrorCode.NONE and not (code in BEGIN_ANEW and fetcher.failures == 1):
            self._pause(fetcher, now_ms)
            return
        fetcher.failures = 0
        self._hold(place, now_ms + FOLLOWER_WRITE_WAIT_MS if fetcher.writing else 0)
        self._wake(fetcher)

    def _pause(self, fetcher: Fetcher, now_ms: int) -> None:
        """The fetch failed as a whole: delays the next one."""
        backoff_ms = self._state.settings.replica_fetch_backoff_ms
        delay_ms = min(backoff_ms, FETCH_RETRY_MS << min(fetcher.failures - 1, 20))
        self._hold((fetcher.leader_id, fetcher.number), now_ms + delay_ms)

    def _hold(self, place: tuple[int, int], until_ms: int) -> None:
        """Delays the next fetch until this time; if it is delayed for writes, until they are done."""
        self._held_until_ms[place] = until_ms
        self._disarm(place)
        if until_ms:
            self._holds[place] = self._scheduler.timers.at(until_ms, lambda at_ms: self.due.update({place: None}))

    def _disarm(self, place: tuple[int, int]) -> None:
        """Cancels the timer of a hold that has ended; usually there is none, since writes are done within the turn."""
        timer = self._holds.pop(place, None)
        if timer is not None:
            self._scheduler.timers.cancel(timer)


def has_no_room(follower: Follower) -> bool:
    """Whether a follower's log directory is full. Those of the coordinators' topics may use what is in reserve."""
    if follower.log is None:
        return False
    space = follower.log.space
    return space.exhausted if follower.topic in INTERNAL_TOPICS else space.full
