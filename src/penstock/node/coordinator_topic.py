"""The topic that a coordinator keeps its state in: which partition a key belongs to, and how the topic is created.

The active controller, here or on another node, creates it when a client first asks for such a coordinator. Source:
AutoTopicCreationManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import topics as topic_control
from penstock.node.coordinator_host import CoordinatorHost
from penstock.node.limits import GROUP_PLACES_ID_MAX, GROUP_PLACES_MAX
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.create_topics_response import CreateTopicsResponse

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.message import Message

logger = logging.getLogger(__name__)


class TopicSpec(NamedTuple):
    """How the topic is created.

    Attributes: serves: what the topic is for, in messages. replication_setting: the setting of its factor.
    """

    name: str
    serves: str
    partition_count: int
    replication_factor: int
    replication_setting: str
    configs: Mapping[str, str]


class CoordinatorTopic:
    """See the module's head. `coordinator`: its name, for messages."""

    def __init__(self, host: CoordinatorHost, coordinator: str, spec: TopicSpec) -> None:
        self.name = spec.name
        self._coordinator = coordinator
        self._host = host
        self._spec = spec
        self._counted_in: MetadataImage | None = None
        self._partition_count = 0
        self._creating: list[Callable[[int], None]] | None = None
        self._why_none = ""

    def partition_of(self, key: str) -> int:
        """The partition of a key, computed from the configured partition count while the topic does not exist."""
        image = self._host.state.image
        if image is not self._counted_in:
            topic = image.topics_by_name.get(self.name)
            found = self._spec.partition_count if topic is None else len(topic.partitions)
            self._partition_count, self._counted_in = found, image
        return partition_for(key, self._partition_count)

    def create(self, then: Callable[[int], None], now_ms: int) -> None:
        """Has the active controller create the topic; calls `then(now_ms)` after its answer, even an error."""
        if self._creating is not None:
            self._creating.append(then)
            return
        self._creating = [then]
        spec = self._spec
        topic = CreatableTopic(
            name=spec.name,
            num_partitions=spec.partition_count,
            replication_factor=spec.replication_factor,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in spec.configs.items()],
        )
        controller = self._host.controller()
        if not controller.active:
            self._host.channel.to_controller(CreateTopicsRequest(topics=[topic]), self._answered, now_ms)
            return
        result = topic_control.create_topics(controller.state, [topic])
        (created,) = result.response
        if not isinstance(created, topic_control.CreatedTopic):
            self._created(why_none(created.code, created.message), now_ms)
            return

        def committed(at_ms: int) -> None:
            self._host.journal.made_by_itself(result.response)
            self._created("", at_ms)

        try:
            controller.append(result.records, committed, lambda code, at_ms: self._created(code.name, at_ms), now_ms)
        except RequestError as error:
            self._created(str(error), now_ms)

    def _answered(self, answer: Message | None, now_ms: int) -> None:
        why = "the controller does not answer"
        if isinstance(answer, CreateTopicsResponse):
            (topic,) = answer.topics
            why = why_none(ErrorCode(topic.error_code), topic.error_message)
        self._created(why, now_ms)

    def _created(self, why_not: str, now_ms: int) -> None:
        waiting, self._creating = self._creating, None
        if why_not and why_not != self._why_none:  # once: clients ask again and again
            spec = self._spec
            logger.warning(
                "%s could not be made, so there are no %s: %s (%s is %d)",
                *(spec.name, spec.serves, why_not, spec.replication_setting, spec.replication_factor),
            )
        self._why_none = why_not
        for then in waiting or ():
            self._host.scheduler.guarded(self._coordinator, f"the making of {self.name}", then, now_ms)


def why_none(code: ErrorCode, message: str | None) -> str:
    """Why there is no topic after an answer to its creation; empty if it exists now, whoever created it."""
    return "" if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) else f"{code.name}: {message}"


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a key, as in Kafka: the absolute value of Java's String.hashCode modulo the partition count."""
    absolute = remembered_hash if len(key) <= GROUP_PLACES_ID_MAX else absolute_hash
    return absolute(key) % partition_count


def absolute_hash(key: str) -> int:
    """The absolute value of Java's String.hashCode; 0 for the smallest int, which has none, as in Kafka."""
    code = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        code = (31 * code + (encoded[position] << 8 | encoded[position + 1])) & 0xFFFFFFFF
    if code >= 0x80000000:
        code = 0 if code == 0x80000000 else 0x100000000 - code
    return code


remembered_hash = lru_cache(GROUP_PLACES_MAX)(absolute_hash)
"""`absolute_hash`, remembered for keys that come again and again."""
