"""The groups that use a topic, so that a change of one topic costs nothing to the groups of others."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.metadata.timeline import Timeline, TimelineMap


class GroupsByTopic:
    """Replicated state like what it is derived from: a revert of that reverts it, too. Topics without groups are not
    in it."""

    __slots__ = ("_timeline", "_topics")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._topics: TimelineMap[str, TimelineMap[str, None]] = TimelineMap(timeline)

    def __len__(self) -> int:
        return len(self._topics)

    def add(self, topic: str, group_id: str) -> None:
        """The group uses the topic from now on."""
        groups = self._topics.get(topic)
        if groups is None:
            groups = self._topics[topic] = TimelineMap(self._timeline)
        groups[group_id] = None

    def remove(self, topic: str, group_id: str) -> None:
        """The group no longer uses a topic, if it did."""
        groups = self._topics.get(topic)
        if groups is not None:
            groups.pop(group_id)
            if not len(groups):
                self._topics.pop(topic)

    def of(self, topic: str) -> Iterator[str]:
        """The groups that use a topic. They must not change meanwhile."""
        yield from self._topics.get(topic) or ()
