"""The groups of a partition of the coordinator, by id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from penstock.coordinator.group.base import Group
from penstock.errors import ErrorCode, RequestError
from penstock.metadata.timeline import Timeline, TimelineMap

G = TypeVar("G", bound=Group)


class Groups:
    """Replicated state: a revert brings back groups that were removed, and removes those that were made."""

    __slots__ = ("_groups",)

    def __init__(self, timeline: Timeline) -> None:
        self._groups: TimelineMap[str, Group] = TimelineMap(timeline)

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def find(self, group_id: str, *, at: int | None = None) -> Group | None:
        """The group, now or at a kept offset of the timeline; None if there is no such group."""
        return self._groups.get(group_id, at=at)

    def get(self, group_id: str, *, at: int | None = None) -> Group:
        """The group. Raises RequestError GROUP_ID_NOT_FOUND."""
        group = self._groups.get(group_id, at=at)
        if group is None:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def find_of(self, kind: type[G], group_id: str) -> G | None:
        """The group if it is of a kind; None if there is no such group, or it is of another."""
        group = self._groups.get(group_id)
        return group if isinstance(group, kind) else None

    def get_of(self, kind: type[G], group_id: str, *, at: int | None = None) -> G:
        """The group of a kind. Raises RequestError GROUP_ID_NOT_FOUND, also for a group of another kind."""
        group = self.get(group_id, at=at)
        if not isinstance(group, kind):
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind.TYPE} group.")
        return group

    def put(self, group: Group) -> None:
        """Adds a group, or replaces the one of its id."""
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> None:
        """Removes a group; one that is not there is no error."""
        self._groups.pop(group_id)

    def all(self, *, at: int | None = None) -> Iterator[Group]:
        """All groups, now or at a kept offset. Groups must not be added or removed during the iteration."""
        for _, group in self._groups.items(at=at):
            yield group
