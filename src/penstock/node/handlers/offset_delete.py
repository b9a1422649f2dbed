"""OffsetDelete (key 47): forgets a group's offsets of topics that none of its members subscribes to.

Version 0. The rules are in `coordinator.group.offsets.delete`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from penstock.coordinator.group.offsets.delete import delete_offsets
from penstock.errors import ErrorCode
from penstock.node.handlers.authorization import allowed
from penstock.node.handlers.group_coordinator import check_group, write
from penstock.node.request import Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
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
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.DELETE, ResourceType.GROUP)


def handle(node: Broker, request: Request[OffsetDeleteRequest], now_ms: int) -> Outcome:
    body = request.body
    check_group(node, request, Operation.DELETE, body.group_id)
    refused: list[OffsetDeleteResponseTopic] = []
    accepted: list[OffsetDeleteRequestTopic] = []
    for topic in body.topics:
        found = node.image.topics_by_name.get(topic.name)
        may = allowed(node, request, Operation.READ, ResourceType.TOPIC, topic.name)
        count = 0 if found is None or not may else len(found.partitions)
        good = [each for each in topic.partitions if 0 <= each.partition_index < count]
        bad = [each for each in topic.partitions if not 0 <= each.partition_index < count]
        if good:
            accepted.append(OffsetDeleteRequestTopic(name=topic.name, partitions=good))
        if bad:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if may else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused.append(refused_topic(topic.name, bad, code))
    if not accepted:
        return OffsetDeleteResponse(topics=merged(refused))
    wanted = OffsetDeleteRequest(group_id=body.group_id, topics=accepted)

    def respond(response: OffsetDeleteResponse) -> Message:
        if not response.error_code:
            response.topics = merged(chain(refused, response.topics))
        return response

    return write(
        node, request, body.group_id, lambda shard: delete_offsets(shard, wanted, now_ms), now_ms, respond=respond
    )


def merged(topics: Iterable[OffsetDeleteResponseTopic]) -> list[OffsetDeleteResponseTopic]:
    """The parts of an answer, a topic once."""
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


HANDLERS = (Handler(ApiKey.OFFSET_DELETE, handle, AUTHORIZE),)
