"""Which topics a mirror copies, and what the target's topics are made like.

Now and then the source is asked for all its topics: new ones that fit are made at the target with the source's
partitions and configs, grown ones grow there too, and configs that were changed are changed there. Replication is the
target's own, and so are the configs that speak of the cluster rather than of the records (`NOT_COPIED`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from penstock.client.admin import (
    Change,
    ConfigOperation,
    Resource,
    ResourceType,
    alter_configs,
    create_partitions,
    create_topic,
    describe_configs,
    refused,
    wait_for_topic,
)
from penstock.client.client import Client
from penstock.client.limits import CLIENT_CONFIG_RESOURCES
from penstock.config.setting import Source
from penstock.errors import ConfigError, ErrorCode, RequestError
from penstock.log.names import COORDINATOR_TOPICS
from penstock.pipelines.jobs.mirror_progress import PROGRESS
from penstock.pipelines.jobs.mirror_sending import Pair
from penstock.spark.write.markers import MARKERS

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
OWN = "__"
"""What a cluster keeps of itself, of its tiered segments, or of its sinks and mirrors means nothing elsewhere, and
would be believed there."""
KEPT = COORDINATOR_TOPICS | {PROGRESS, MARKERS}
"""Topics at the target that only their owners write to, enlarge and configure."""
NOT_COPIED = frozenset(
    """
    follower.replication.throttled.replicas leader.replication.throttled.replicas message.timestamp.type
    message.timestamp.before.max.ms message.timestamp.after.max.ms min.insync.replicas unclean.leader.election.enable
    remote.storage.enable
    """.split()  # noqa: SIM905 - this many read better as words
)
"""MirrorMaker leaves these alone too, but for the last: the target may have no store to tier to."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which topics: `names`, which must exist, and those whose whole name fits `pattern`; `prefix` comes before their
    names at the target. `configs`: whether configs are copied."""

    names: Sequence[str] = ()
    pattern: str | None = None
    prefix: str = ""
    configs: bool = True

    def fits(self, name: str, *, internal: bool, same_cluster: bool) -> bool:
        """Whether the pattern takes a topic; none of the cluster's own, nor, within one cluster, of the mirror's."""
        if self.pattern is None or internal or name.startswith(OWN) or (same_cluster and name.startswith(self.prefix)):
            return False
        return re.fullmatch(self.pattern, name) is not None


class Topics:
    """The topics of one mirror, on both sides.

    Args:
        source, target: connected.
        choice: which ones.
    """

    def __init__(self, source: Client, target: Client, choice: Choice) -> None:
        self._source, self._target, self._choice = source, target, choice

    async def look(self, *, configs: bool) -> list[Pair]:
        """The topics as they are now, after the target's were made, enlarged and, with `configs`, configured like them.

        Raises RequestError for a name that there is no topic of, ConfigError for a mirror of a topic into itself, or
        into one in which the target keeps its own state.
        """
        found = await self._chosen()
        check_ids(found, "source")
        theirs = {name: self._choice.prefix + name for name in found}
        for name, to in theirs.items():
            if to in KEPT:
                raise ConfigError(f"topic {name} cannot be mirrored into {to}, in which the target keeps its own state")
        there = await topics_of(self._target, list(theirs.values()))
        missing = [name for name, to in theirs.items() if to not in there]
        if missing:
            await self._make(missing, found)
            there |= await topics_of(self._target, [theirs[name] for name in missing])
        check_ids(there, "target")
        theirs = {name: to for name, to in theirs.items() if to in there}  # others next time
        for name, to in theirs.items():
            if there[to].partitions < found[name].partitions:
                await create_partitions(self._target, to, found[name].partitions)
                await wait_for_topic(self._target, to, expected=found[name].partitions)
        if configs and self._choice.configs:
            await self._configure({name: to for name, to in theirs.items() if name not in missing})
        return [
            Pair(name, found[name].topic_id, found[name].partitions, to, there[to].topic_id)
            for name, to in theirs.items()
        ]

    async def _chosen(self) -> dict[str, Known]:
        choice = self._choice
        found = await topics_of(self._source, None if choice.pattern else choice.names)
        if self._target.cluster_id is None:
            await self._target.refresh([])
        same = self._source.cluster_id == self._target.cluster_id
        if same and not choice.prefix:
            raise ConfigError("source and target are the same cluster: `prefix` must tell the topics apart")
        for name in choice.names:
            if name not in found:
                raise RequestError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}: the source has none that can be read now"
                )
        return {
            name: topic
            for name, topic in found.items()
            if name in choice.names or choice.fits(name, internal=topic.is_internal, same_cluster=same)
        }

    async def _make(self, names: Sequence[str], found: Mapping[str, Known]) -> None:
        configs: Mapping[str, Mapping[str, str]] = {}
        if self._choice.configs:
            configs = await self._wanted(names)
            names = [name for name in names if name in configs]  # of one that is gone the configs are not known
        for name in names:
            to, partitions = self._choice.prefix + name, found[name].partitions
            given = configs.get(name, {})
            try:
                await create_topic(self._target, to, partitions=partitions, configs=given)
            except RequestError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            await wait_for_topic(self._target, to, expected=partitions)

    async def _wanted(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """What topics of the source have of their own, without what the target, which may be of another version, does
        not know."""
        some = await describe_configs(self._target, Resource(ResourceType.TOPIC, PROGRESS))
        known = frozenset(each.name for each in some)
        return {
            name: {key: value for key, value in given.items() if key in known}
            for name, given in (await own_configs(self._source, names)).items()
        }

    async def _configure(self, theirs: Mapping[str, str]) -> None:
        wanted = await self._wanted(list(theirs))
        have = await own_configs(self._target, list(theirs.values()))
        for name, to in theirs.items():
            if name not in wanted or to not in have:  # gone, or the broker asked has not heard of it
                continue
            want, has = wanted[name], have[to]
            changes = [Change(key, SET, value) for key, value in want.items() if has.get(key) != value]
            changes += [Change(key, DELETE, None) for key in has if key not in want]
            if changes:
                await alter_configs(self._target, Resource(ResourceType.TOPIC, to), changes)


@dataclass(frozen=True, slots=True)
class Known:
    """A topic as the metadata have it."""

    topic_id: UUID
    partitions: int
    is_internal: bool


async def topics_of(client: Client, names: Sequence[str] | None) -> dict[str, Known]:
    """Topics by name (None: all of them), without those that do not exist or cannot be read now."""
    return {
        topic.name: Known(topic.topic_id, len(topic.partitions), topic.is_internal)
        for topic in (await client.refresh(names)).topics
        if topic.name and topic.error_code == ErrorCode.NONE
    }


def check_ids(topics: Mapping[str, Known], side: str) -> None:
    """Raises ConfigError for topics without an id: the progress of one could not be told from that of another."""
    for name, topic in topics.items():
        if not topic.topic_id.int:
            raise ConfigError(f"topic {name} of the {side} has no id; a mirror needs brokers from Kafka 2.8 on")


async def own_configs(client: Client, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """What topics have of their own of the configs that are copied; those that are gone are left out."""
    from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

    found: dict[str, dict[str, str]] = {}
    for first in range(0, len(topics), CLIENT_CONFIG_RESOURCES):
        wanted = [
            DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=None)
            for name in topics[first : first + CLIENT_CONFIG_RESOURCES]
        ]
        for got in (await client.send(DescribeConfigsRequest(resources=wanted))).results:
            if got.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            refused(got.error_code, got.error_message, f"topic {got.resource_name}")
            found[got.resource_name] = {
                each.name: each.value
                for each in got.configs
                if each.config_source == Source.DYNAMIC_TOPIC_CONFIG
                and each.value is not None
                and each.name not in NOT_COPIED
            }
    return found
