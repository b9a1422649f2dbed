"""The state of the groups of one partition, and what its rules use. It knows no rules itself.

Replicated state is in maps of the timeline and changes only in `replay`, except classic groups: those are soft state,
which their operations change at once; their records only report it (see classic/).
"""

from __future__ import annotations

from random import Random
from uuid import UUID

from penstock.config.group import GroupConfigs
from penstock.coordinator.group.classic.pending import PendingMembers
from penstock.coordinator.group.consumer.pace import SettlingPace
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
        timers: of the partition's shard. random: for member ids. image: the committed metadata. wall: for
        timestamps of commits, states and assignments, and the expiry of offsets. pace: of the groups of all shards that
        are settling.

    Attributes:
        timeline, groups, offsets: the replicated state.
        pending: member ids that have been given out, soft state.
        unexpired: groups that still have to be checked for expired offsets.
        topics: what consumer groups know of the topics.
        ended: the consumer group that was deleted last, and at which offset: the next record may be what it became.
    """

    __slots__ = (
        "ended", "groups", "image", "offsets", "pace", "pending", "random", "settings", "timeline", "timers", "topics",
        "unexpired", "wall",
    )  # fmt: skip

    def __init__(
        self,
        timers: ShardTimers,
        *,
        settings: GroupSettings,
        random: Random,
        image: MetadataImage,
        wall: WallTime,
        pace: SettlingPace,
    ) -> None:
        self.timers = timers
        self.settings = settings
        self.random = random
        self.image = image
        self.wall = wall
        self.pace = pace
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
        return self.settings.of(group_id, self.image)
