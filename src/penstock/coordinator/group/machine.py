"""The state machine of one partition of the group coordinator.

What is replicated is in maps of its timeline and changes in `replay` alone, but for classic groups: those are soft
state, which their operations change at once; their records only tell of it (see classic/).

Each part of the coordinator adds its lines to the tables below: what to do with a record, by the class of its key; with
a timer, by the first word of its key; when the log is loaded, when the leadership ends, and when metadata changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from random import Random
from typing import Any, ClassVar
from uuid import UUID

from penstock.coordinator.group import maintenance
from penstock.coordinator.group.classic import rebalance
from penstock.coordinator.group.classic import replay as classic_replay
from penstock.coordinator.group.classic.pending import PendingMembers
from penstock.coordinator.group.config import GroupConfig
from penstock.coordinator.group.consumer import leave as consumer_leave
from penstock.coordinator.group.consumer import regexes as consumer_regexes
from penstock.coordinator.group.consumer import replay as consumer_replay
from penstock.coordinator.group.consumer import topics as consumer_topics
from penstock.coordinator.group.groups import Groups
from penstock.coordinator.group.offsets import replay as offset_replay
from penstock.coordinator.group.offsets import stored as offset_stored
from penstock.coordinator.group.offsets.state import Offsets
from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.coordinator.runtime.timers import ShardTimers
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import MetadataImage
from penstock.metadata.timeline import Timeline
from penstock.protocol.message import Message
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey

Replay = Callable[["GroupMachine", Any, Any, int, tuple[int, int]], None]
"""`replay(machine, key, value, offset, producer)`; value None: a tombstone."""
Expired = Callable[["GroupMachine", Any, int], Result[Any]]
"""`expired(machine, key, now_ms)`."""
Notice = Callable[["GroupMachine", int], None]
"""`notice(machine, now_ms)`."""
ImageChanged = Callable[["GroupMachine", MetadataDelta | None, int], None]
"""`changed(machine, delta, now_ms)`; the machine has the new image already."""


class GroupMachine:
    """See the module's head.

    Args:
        index: of the partition of the coordinator's topic. timers: of its shard.
        config: gives the settings as they are now. random: for member ids. image: the committed metadata.

    Attributes:
        timeline, groups, offsets: the replicated state.
        pending: member ids that have been given out, soft state.
        unexpired: groups that are still to be looked at for what has expired.
        topics: what consumer groups know of the topics.
    """

    last_wins: ClassVar[frozenset[int]] = frozenset({OffsetCommitKey.KEY})

    def __init__(
        self,
        index: int,
        timers: ShardTimers,
        *,
        config: Callable[[], GroupConfig],
        random: Random,
        image: MetadataImage,
    ) -> None:
        self.index = index
        self.timers = timers
        self.config = config
        self.random = random
        self.image = image
        self.timeline = Timeline()
        self.groups = Groups(self.timeline)
        self.offsets = Offsets(self.timeline)
        self.pending = PendingMembers(timers)
        self.unexpired: list[str] = []
        self.topics = consumer_topics.Topics(self.timeline)

    def new_id(self) -> UUID:
        """A random id (UUID version 4)."""
        return UUID(int=self.random.getrandbits(128), version=4)

    # What the runtime asks

    def replay(self, record: CoordinatorRecord, offset: int, producer: tuple[int, int]) -> None:
        """Applies a record. One of a kind that this machine has no state for is passed over."""
        replay = REPLAY.get(type(record.key))
        if replay is not None:
            replay(self, record.key, record.value, offset, producer)

    def replay_bytes(self, key: bytes, value: bytes, offset: int) -> bool:
        """Applies an offset as it is stored, if it has the usual form."""
        return offset_stored.replay(self, key, value, offset)

    def replay_end_marker(self, producer: tuple[int, int], committed: bool, offset: int) -> None:
        """A transaction of the producer has ended in this partition."""
        self.offsets.replay_end_marker(producer[0], committed=committed)

    def loaded(self, now_ms: int) -> None:
        """The log is replayed: members get their session timers."""
        for notice in LOADED:
            notice(self, now_ms)

    def unloaded(self, now_ms: int) -> None:
        """This node is not the coordinator any more: whoever waits is told NOT_COORDINATOR."""
        for notice in UNLOADED:
            notice(self, now_ms)

    def expired(self, key: Hashable, now_ms: int) -> Result[Any]:
        """A timer is due."""
        assert isinstance(key, tuple)
        return EXPIRED[key[0]](self, key, now_ms)

    def image_changed(self, image: MetadataImage, delta: MetadataDelta | None, now_ms: int) -> None:
        """New committed metadata. `delta` is what has changed; None: anything may have."""
        self.image = image
        for changed in IMAGE_CHANGED:
            changed(self, delta, now_ms)


REPLAY: Mapping[type[Message], Replay] = {
    **classic_replay.REPLAY,
    **offset_replay.REPLAY,
    **consumer_replay.REPLAY,
}
EXPIRED: Mapping[str, Expired] = {
    **rebalance.EXPIRED,
    **maintenance.EXPIRED,
    **consumer_leave.EXPIRED,
    **consumer_regexes.EXPIRED,
}
LOADED: tuple[Notice, ...] = (rebalance.loaded, consumer_topics.loaded, consumer_leave.loaded, maintenance.loaded)
UNLOADED: tuple[Notice, ...] = (rebalance.unloaded,)
IMAGE_CHANGED: tuple[ImageChanged, ...] = (consumer_topics.image_changed,)
