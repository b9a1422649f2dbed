"""The changes between two images without records: a snapshot has replaced the log in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

from penstock.metadata.client_quotas import quota_changes
from penstock.metadata.delegation_tokens import differences
from penstock.metadata.delta import MetadataDelta, TopicDelta
from penstock.metadata.image import EMPTY, MetadataImage, TopicImage
from penstock.protocol.acls import Acl

Key = TypeVar("Key")
Value = TypeVar("Value")


def difference(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
    """The delta on top of `old` that makes `new`. Costs what both images contain."""
    delta = MetadataDelta(old)
    delta.features = {name: level or 0 for name, level in changes(old.features, new.features).items()}
    delta.brokers = changes(old.brokers, new.brokers)
    delta.controllers = changes(old.controllers, new.controllers)
    for topic in old.topics_by_id.values():
        if topic.id not in new.topics_by_id:
            delta.deleted_topics[topic.id] = topic
    for topic in new.topics_by_id.values():
        before = old.topics_by_id.get(topic.id)
        changed = TopicDelta(before or TopicImage(topic.name, topic.id, ()), created=before is None)
        known = changed.image.partitions
        changed.partitions = {
            index: partition
            for index, partition in enumerate(topic.partitions)
            if index >= len(known) or known[index] != partition
        }
        if changed.created or changed.partitions:
            delta.topics[topic.id] = changed
    for resource in dict.fromkeys([*old.configs, *new.configs]):
        overrides = new.configs.get(resource) or EMPTY
        if overrides != (old.configs.get(resource) or EMPTY):
            delta.configs[resource] = overrides
    delta.acls = acl_changes(old, new)
    delta.client_quotas = quota_changes(old.client_quotas, new.client_quotas)
    if new.next_producer_id != old.next_producer_id:
        delta.next_producer_id = new.next_producer_id
    before_credentials = old.scram_credentials
    for key in dict.fromkeys([*before_credentials, *new.scram_credentials]):
        credential = new.scram_credentials.get(key)
        if credential != before_credentials.get(key):
            delta.scram_credentials[key] = credential
    delta.delegation_tokens = differences(old.delegation_tokens, new.delegation_tokens)
    return delta


def acl_changes(old: MetadataImage, new: MetadataImage) -> dict[UUID, Acl | None]:
    """The ACLs that are new or other than before by their ids, and None for those that are gone."""
    before, after = old.acls.by_id, new.acls.by_id
    found: dict[UUID, Acl | None] = {UUID(int=each): None for each in before if after.get(each) is None}
    found.update({UUID(int=each): acl for each, acl in after.items() if before.get(each) != acl})
    return found


def changes(old: Mapping[Key, Value], new: Mapping[Key, Value]) -> dict[Key, Value | None]:
    """The values that are new or other than before, and None for keys that are gone."""
    found: dict[Key, Value | None] = {key: value for key, value in new.items() if old.get(key) != value}
    found.update({key: None for key in old if key not in new})
    return found
