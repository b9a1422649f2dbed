"""When the consumer groups of a partition look at their topics again: when metadata has changed that they depend on."""

from __future__ import annotations

from penstock.coordinator.group.base import Group
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.state import GroupState
from penstock.metadata.delta import MetadataDelta


def loaded(state: GroupState, now_ms: int) -> None:
    """Compares the image that regular expressions were evaluated with to the present one."""
    state.topics.created_offset = state.image.offset


def image_changed(state: GroupState, delta: MetadataDelta | None, now_ms: int) -> None:
    """Groups that subscribe to a topic that has changed look at their topics at the next heartbeat."""
    topics = state.topics
    if topics.created_offset == -1 or delta is None or any(topic.created for topic in delta.topics.values()):
        topics.created_offset = state.image.offset
    if delta is None or delta.brokers:
        topics.forget_all()
    if delta is None:
        for group in state.groups.all():
            look_again(group)
        return
    for topic_id in delta.deleted_topics:
        topics.forget(topic_id)
    names = {changed.name: None for changed in delta.topics.values()}
    names.update({deleted.name: None for deleted in delta.deleted_topics.values()})
    for name in names:
        for group_id in topics.groups.of(name):
            look_again(state.groups.find(group_id))


def look_again(group: Group | None) -> None:
    """The group looks at its topics at the next heartbeat."""
    if isinstance(group, ConsumerGroup):
        group.refreshed_epoch = None
