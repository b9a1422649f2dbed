"""What the coordinator knows of the groups of one partition, and what its rules use. It knows no rule itself.

What is replicated is in maps of the timeline and changes in `replay` alone, but for classic groups: those are soft
state, which their operations change at once; their records only tell of it (see classic/).
"""

from __future__ import annotations

from random import Random
from uuid import UUID

from penstock.config.group import GroupConfigs
from penstock.coordinator.group.classic.pending import PendingMembers
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.groups import Groups
from penstock.coordinator.group.offsets.state import Offsets
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.runtime.timers import ShardTimers
from penstock.metadata.image import MetadataImage
from penstock.metadata.timeline import Timeline
from penstock.records.wall import WallTime


class GroupState:
    """See the module's head.

    Args:
        timers: of the partition's shard. random: for member ids. image: the committed metadata. wall: what commits,
        states and assignments are stamped with, and offsets expire by.

    Attributes:
        timeline, groups, offsets: the replicated state.
        pending: member ids that have been given out, soft state.
        unexpired: groups that are still to be looked at for what has expired.
        topics: what consumer groups know of the topics.
        ended: the consumer group whose end was replayed last, and its offset: what follows is what became of it.
    """

    __slots__ = (
        "ended",
        "groups",
        "image",
        "offsets",
        "pending",
        "random",
        "settings",
        "timeline",
        "timers",
        "topics",
        "unexpired",
        "wall",
    )

    def __init__(
        self,
        timers: ShardTimers,
        *,
        settings: GroupSettings,
        random: Random,
        image: MetadataImage,
        wall: WallTime,
    ) -> None:
        self.timers = timers
        self.settings = settings
        self.random = random
        self.image = image
        self.wall = wall
        self.timeline = Timeline()
        self.groups = Groups(self.timeline)
        self.offsets = Offsets(self.timeline)
        self.pending = PendingMembers(timers)
        self.unexpired: list[str] = []
        self.topics = Topics(self.timeline)
        self.ended = ("", -1)

    def new_id(self) -> UUID:
        """A random id (UUID version 4)."""
        return UUID(int=self.random.getrandbits(128), version=4)

    def settings_of(self, group_id: str) -> GroupConfigs:
        """The settings that a group goes by."""
        return self.settings.of(group_id, self.image)
