"""The settings of groups: the broker's, overridden by those of a group that has configs of its own (KIP-848).

Texts are parsed, and limited to the broker's bounds, when settings or configs have changed; a heartbeat looks them up.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.config.group import GroupConfigs
from penstock.config.server import Settings
from penstock.metadata.image import ConfigResource, MetadataImage


class GroupSettings:
    """See the module's head. `broker` gives the broker's settings as they are now."""

    __slots__ = ("_has_overrides", "_of_all", "_of_group", "_read_from", "broker")

    def __init__(self, broker: Callable[[], Settings]) -> None:
        self.broker = broker
        self._read_from: tuple[object, object] = (None, None)
        self._of_all: GroupConfigs
        self._has_overrides = True
        self._of_group: dict[str, GroupConfigs] = {}

    def of(self, group_id: str, image: MetadataImage) -> GroupConfigs:
        """The configs in effect for one group."""
        settings, configs = self.broker(), image.configs
        if self._read_from[0] is not settings or self._read_from[1] is not configs:
            self._read_from = settings, configs
            self._of_all = GroupConfigs.effective(settings, {})
            self._of_group.clear()
            first, _ = next(configs.items((ConfigResource.GROUP, "")), ((ConfigResource.UNKNOWN, ""), None))
            self._has_overrides = first[0] == ConfigResource.GROUP
        if not self._has_overrides:
            return self._of_all
        overrides = configs.get((ConfigResource.GROUP, group_id))
        if overrides is None:
            return self._of_all
        found = self._of_group.get(group_id)
        if found is None:
            found = self._of_group[group_id] = GroupConfigs.effective(settings, overrides)
        return found
