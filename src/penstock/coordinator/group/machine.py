"""The state machine of one partition of the group coordinator, as its shard sees it: the state, and the rules over it.

Each part of the coordinator adds its lines to the tables below: what to do with a record, by the class of its key; with
a timer, by the first word of its key; when the log is loaded, when the leadership ends, and when metadata changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from penstock.coordinator.group import maintenance
from penstock.coordinator.group.classic import rebalance
from penstock.coordinator.group.classic import replay as classic_replay
from penstock.coordinator.group.consumer import leave as consumer_leave
from penstock.coordinator.group.consumer import regexes as consumer_regexes
from penstock.coordinator.group.consumer import replay as consumer_replay
from penstock.coordinator.group.consumer import target_runs as consumer_target_runs
from penstock.coordinator.group.consumer import topic_changes as consumer_topic_changes
from penstock.coordinator.group.offsets import replay as offset_replay
from penstock.coordinator.group.offsets import stored as offset_stored
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.coordinator.runtime.shard import Stored
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import MetadataImage
from penstock.protocol.message import Message
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey

Replay = Callable[[GroupState, Any, Any, int, tuple[int, int]], None]
"""`replay(state, key, value, offset, producer)`; value None: a tombstone."""
Expired = Callable[[GroupState, Any, int], Result[Any]]
"""`expired(state, key, now_ms)`."""
Notice = Callable[[GroupState, int], None]
"""`notice(state, now_ms)`."""
ImageChanged = Callable[[GroupState, MetadataDelta | None, int], None]
"""`changed(state, delta, now_ms)`; the state has the new image already."""


class GroupMachine:
    """See the module's head. Operations are functions of the `state`, which change nothing replicated."""

    last_wins: ClassVar[frozenset[int]] = frozenset({OffsetCommitKey.KEY})

    __slots__ = ("state", "timeline")

    def __init__(self, state: GroupState) -> None:
        self.state = state
        self.timeline = state.timeline

    def replay(self, record: CoordinatorRecord, offset: int, producer: tuple[int, int]) -> None:
        """Applies a record. One of a kind that there is no state for is passed over."""
        replay = REPLAY.get(type(record.key))
        if replay is not None:
            replay(self.state, record.key, record.value, offset, producer)

    def replay_stored(self, records: Sequence[Stored]) -> int:
        """Applies offsets as they are stored, up to one that does not have the usual form; how many."""
        return offset_stored.replay(self.state, records)

    def replay_end_marker(self, producer: tuple[int, int], committed: bool, offset: int) -> None:
        """A transaction of the producer has ended in this partition."""
        self.state.offsets.replay_end_marker(producer[0], committed=committed)

    def loaded(self, now_ms: int) -> None:
        """The log is replayed: members get their session timers."""
        for notice in LOADED:
            notice(self.state, now_ms)

    def unloaded(self, now_ms: int) -> None:
        """Ends what waits here with NOT_COORDINATOR: this node is no longer the coordinator."""
        for notice in UNLOADED:
            notice(self.state, now_ms)

    def expired(self, key: Hashable, now_ms: int) -> Result[Any]:
        """A timer is due."""
        assert isinstance(key, tuple)
        return EXPIRED[key[0]](self.state, key, now_ms)

    def image_changed(self, image: MetadataImage, delta: MetadataDelta | None, now_ms: int) -> None:
        """New committed metadata. `delta` is what has changed; None: anything may have."""
        self.state.image = image
        for changed in IMAGE_CHANGED:
            changed(self.state, delta, now_ms)


REPLAY: Mapping[type[Message], Replay] = {**classic_replay.REPLAY, **offset_replay.REPLAY, **consumer_replay.REPLAY}
EXPIRED: Mapping[str, Expired] = {
    **rebalance.EXPIRED,
    **maintenance.EXPIRED,
    **consumer_leave.EXPIRED,
    **consumer_regexes.EXPIRED,
    **consumer_target_runs.EXPIRED,
}
LOADED: tuple[Notice, ...] = (
    rebalance.loaded,
    consumer_topic_changes.loaded,
    consumer_leave.loaded,
    maintenance.loaded,
)
UNLOADED: tuple[Notice, ...] = (rebalance.unloaded,)
IMAGE_CHANGED: tuple[ImageChanged, ...] = (consumer_topic_changes.image_changed,)
