"""OffsetFetch (key 9): the positions of a group, or from version 8 on of several; of given topics or of all.

Versions 1-10, flexible from 6; topics by id from 10 on. Who may not describe a topic does not see its offsets. With
`require_stable` the answer waits for what is written before it. The rules are in `coordinator.group.offsets.fetch`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.coordinator.group.offsets.fetch import fetch_offsets
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.authorization import allowed
from penstock.node.handlers.group_coordinator import check_group
from penstock.node.request import LATER, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.coordinator.group.machine import GroupMachine
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.DESCRIBE, ResourceType.GROUP)

ERROR_CODE_FROM = 2
GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
NO_OFFSET = -1

Done = Callable[[OffsetFetchResponseGroup, int], None]


def handle(node: Broker, request: Request[OffsetFetchRequest], now_ms: int) -> Outcome:
    groups = groups_of(request)
    found: list[OffsetFetchResponseGroup | None] = [None] * len(groups)

    def done(number: int, group: OffsetFetchResponseGroup, at_ms: int) -> None:
        found[number] = group
        whole = [each for each in found if each is not None]
        if len(whole) == len(found):
            node.answer(request, respond(request.version, whole), at_ms)

    if not groups:
        return OffsetFetchResponse()
    for number, group in enumerate(groups):
        fetch(node, request, group, partial(done, number), now_ms)
    return LATER


def groups_of(request: Request[OffsetFetchRequest]) -> list[OffsetFetchRequestGroup]:
    """The groups asked for; older versions ask for one."""
    body = request.body
    if request.version >= GROUPS_FROM:
        return list(body.groups)
    topics: list[OffsetFetchRequestTopics] | None = None
    if body.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes) for each in body.topics
        ]
    return [OffsetFetchRequestGroup(group_id=body.group_id, topics=topics)]


def fetch(
    node: Broker,
    request: Request[OffsetFetchRequest],
    group: OffsetFetchRequestGroup,
    done: Done,
    now_ms: int,
) -> None:
    """The answer for one group, now or when it is stable."""
    try:
        check_group(node, request, Operation.DESCRIBE, group.group_id)
        index = node.groups.partition_of(group.group_id)
        refused = set_aside(node, request, group)
        runtime = node.groups.runtime
        if not request.body.require_stable:
            done(
                seen(
                    node,
                    request,
                    runtime.read(index, lambda shard, at: fetch_offsets(shard, group, at, require_stable=False)),
                    refused,
                ),
                now_ms,
            )
            return
    except RequestError as error:
        done(failed(group, error.code), now_ms)
        return

    def operation(shard: GroupMachine) -> Result[OffsetFetchResponseGroup]:
        return Result(fetch_offsets(shard, group, None, require_stable=True))

    def answered(response: OffsetFetchResponseGroup | None, code: ErrorCode, message: str, at_ms: int) -> None:
        if response is None:
            done(failed(group, coordinator_error(code)), at_ms)
        else:
            done(seen(node, request, response, refused), at_ms)

    runtime.write(index, operation, answered, now_ms)


def set_aside(
    node: Broker, request: Request[OffsetFetchRequest], group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Takes the topics out that are not to be looked up, and gives them names; the answers for those taken out."""
    if group.topics is None:
        return []
    refused, wanted = [], []
    for topic in group.topics:
        code = ErrorCode.NONE
        if request.version >= TOPIC_IDS_FROM:
            known = node.image.topics_by_id.get(topic.topic_id)
            topic.name = "" if known is None else known.name
            code = ErrorCode.UNKNOWN_TOPIC_ID if known is None else code
        if not code and not allowed(node, request, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if code:
            refused.append(refused_topic(topic, code))
        else:
            wanted.append(topic)
    group.topics = wanted
    return refused


def seen(
    node: Broker,
    request: Request[OffsetFetchRequest],
    response: OffsetFetchResponseGroup,
    refused: list[OffsetFetchResponseTopics],
) -> OffsetFetchResponseGroup:
    """The coordinator's answer with ids, with what was refused, and without what the asker may not see."""
    if response.error_code:
        return response
    topics = []
    for topic in response.topics:
        if allowed(node, request, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            if request.version >= TOPIC_IDS_FROM:
                known = node.image.topics_by_name.get(topic.name)
                if known is None:
                    continue  # a deleted topic has no id to be named by
                topic.topic_id = known.id
            topics.append(topic)
    response.topics = topics + refused
    return response


def refused_topic(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=code)
            for index in topic.partition_indexes
        ],
    )


def failed(group: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    """A group that cannot be answered. Its topics are kept for versions that have no error of the group."""
    topics = [refused_topic(topic, code) for topic in group.topics or ()]
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code, topics=topics)


def respond(version: int, groups: list[OffsetFetchResponseGroup]) -> Message:
    """The response in the shape of the version."""
    if version >= GROUPS_FROM:
        for group in groups:
            if group.error_code:
                group.topics = []
        return OffsetFetchResponse(groups=groups)
    (only,) = groups
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in only.topics
    ]
    if version >= ERROR_CODE_FROM:
        return OffsetFetchResponse(error_code=only.error_code, topics=[] if only.error_code else topics)
    return OffsetFetchResponse(topics=topics)


def refuse(request: Request[OffsetFetchRequest], code: ErrorCode, message: str) -> Message:
    """Every group answered with the error."""
    known = request.body is not None
    if not known:
        return OffsetFetchResponse(error_code=code)
    return respond(request.version, [failed(group, code) for group in groups_of(request)])


HANDLERS = (Handler(ApiKey.OFFSET_FETCH, handle, AUTHORIZE, refuse),)
