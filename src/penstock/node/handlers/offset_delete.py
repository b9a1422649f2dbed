"""OffsetDelete (key 47): deletes a group's offsets of topics that none of its members subscribes to.

Version 0. The group is looked up even if no topic is left: its own errors come first. The rules are in
`coordinator.group.offsets.delete`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from penstock.coordinator.group.offsets.delete import delete_offsets
from penstock.errors import ErrorCode
from penstock.node.handlers.group_coordinator import write
from penstock.node.request import Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped
from penstock.protocol.api import ApiKey
from penstock.protocol.limits import ELEMENTS_PER_STEP
from penstock.protocol.message import Message
from penstock.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.security.rights import DELETE_GROUP, READ_TOPIC

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[OffsetDeleteRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    node.gate.check(request, DELETE_GROUP, body.group_id)
    refused: list[OffsetDeleteResponseTopic] = []
    accepted: list[OffsetDeleteRequestTopic] = []
    pace = Pace()
    for topic in body.topics:
        for start in range(0, max(1, len(topic.partitions)), ELEMENTS_PER_STEP):
            if pace.is_over() or start:
                yield None
            some = topic.partitions[start : start + ELEMENTS_PER_STEP]
            sort_out(node, request, OffsetDeleteRequestTopic(name=topic.name, partitions=some), accepted, refused)
    wanted = OffsetDeleteRequest(group_id=body.group_id, topics=accepted)

    def respond(response: OffsetDeleteResponse) -> Message:
        if not response.error_code:
            gone = [
                f"{topic.name}-{each.partition_index}"
                for topic in response.topics
                for each in topic.partitions
                if not each.error_code
            ]
            node.journal.offsets_deleted(request, body.group_id, gone)
            response.topics = merged(chain(refused, response.topics))
        return response

    return write(
        node,
        request,
        body.group_id,
        lambda machine: delete_offsets(machine.state, wanted, now_ms),
        now_ms,
        respond=respond,
    )


def sort_out(
    node: Broker,
    request: Request[OffsetDeleteRequest],
    topic: OffsetDeleteRequestTopic,
    accepted: list[OffsetDeleteRequestTopic],
    refused: list[OffsetDeleteResponseTopic],
) -> None:
    """Adds the partitions of a topic to those for the coordinator, or refuses them."""
    name, partitions = topic.name, topic.partitions
    found = node.state.image.topics_by_name.get(name)
    may = node.gate.allows(request, READ_TOPIC, name)
    count = 0 if found is None or not may else len(found.partitions)
    good = [each for each in partitions if 0 <= each.partition_index < count]
    bad = [each for each in partitions if not 0 <= each.partition_index < count]
    if good:
        accepted.append(OffsetDeleteRequestTopic(name=name, partitions=good))
    if bad:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if may else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused.append(refused_topic(name, bad, code))


def merged(topics: Iterable[OffsetDeleteResponseTopic]) -> list[OffsetDeleteResponseTopic]:
    """The topics of all parts of an answer, each topic once."""
    whole: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in topics:
        known = whole.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions.extend(topic.partitions)
    return list(whole.values())


def refused_topic(
    name: str, partitions: list[OffsetDeleteRequestPartition], code: ErrorCode
) -> OffsetDeleteResponseTopic:
    """Partitions of a topic answered with the error."""
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code) for each in partitions
        ],
    )


HANDLERS = (Handler(ApiKey.OFFSET_DELETE, handle),)
