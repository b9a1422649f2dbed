"""OffsetFetch (key 9): the committed offsets of a group, from version 8 on of several; of given topics or of all.

Versions 1-10, flexible from 6; topics by id from 10 on. A requester who may not describe a topic does not see its
offsets. With `require_stable` the answer waits for earlier writes. The rules are in `coordinator.group.offsets.fetch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from penstock.coordinator.group.offsets.fetch import fetch_offsets
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.node.limits import GROUPS_PER_STEP, PARTITIONS_PER_STEP
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
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
from penstock.security.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC

if TYPE_CHECKING:
    from penstock.coordinator.group.machine import GroupMachine
    from penstock.node.broker import Broker


ERROR_CODE_FROM = 2
GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
NO_OFFSET = -1

Done = Callable[[OffsetFetchResponseGroup, int], None]


def handle(node: Broker, request: Request[OffsetFetchRequest], now_ms: int) -> Stepped[Outcome]:
    groups = groups_of(request)
    if not groups:
        return OffsetFetchResponse()
    answers, pace = Answers(node, request), Pace(GROUPS_PER_STEP)
    for number, group in enumerate(groups):
        answers.groups.append(OffsetFetchResponseGroup(group_id=group.group_id))
        for part in parts(group):
            if pace.is_over():
                yield None
            answers.outstanding += 1
            fetch(node, request, part, partial(answers.take, number), node.scheduler.now_ms)
    answers.all_asked(node.scheduler.now_ms)
    return LATER


class Answers:
    """The coordinators' answers for the groups, collected until all are there. `outstanding` counts unanswered parts of
    groups, and the handler itself.
    """

    __slots__ = ("groups", "node", "outstanding", "request")

    def __init__(self, node: Broker, request: Request[OffsetFetchRequest]) -> None:
        self.node = node
        self.request = request
        self.groups: list[OffsetFetchResponseGroup] = []
        self.outstanding = 1

    def take(self, number: int, part: OffsetFetchResponseGroup, now_ms: int) -> None:
        """Takes the answer for a group, or for a part of its partitions. An error counts for the whole group."""
        group = self.groups[number]
        group.error_code = group.error_code or part.error_code
        topics, last = part.topics, group.topics[-1] if group.topics else None
        if last is not None and topics and (last.name, last.topic_id) == (topics[0].name, topics[0].topic_id):
            last.partitions.extend(topics[0].partitions)  # the rest of a topic that was asked for in parts
            topics = topics[1:]
        group.topics += topics
        self.all_asked(now_ms)

    def all_asked(self, now_ms: int) -> None:
        """Counts one as answered; answers the request after the last."""
        self.outstanding -= 1
        if not self.outstanding:
            self.node.answer(self.request, respond(self.request.version, self.groups), now_ms)


def parts(group: OffsetFetchRequestGroup) -> Iterator[OffsetFetchRequestGroup]:
    """Splits a question into parts of at most PARTITIONS_PER_STEP partitions and as many topics."""
    topics = group.topics
    if topics is None or (
        len(topics) <= PARTITIONS_PER_STEP
        and sum(len(topic.partition_indexes) for topic in topics) <= PARTITIONS_PER_STEP
    ):
        yield group
        return
    part: list[OffsetFetchRequestTopics] = []
    room = PARTITIONS_PER_STEP
    for topic in topics:
        indexes = topic.partition_indexes
        for start in range(0, max(1, len(indexes)), PARTITIONS_PER_STEP):
            some = indexes[start : start + PARTITIONS_PER_STEP]
            if part and (room < len(some) or not room):
                yield part_of(group, part)
                part, room = [], PARTITIONS_PER_STEP
            part.append(OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=some))
            room -= max(1, len(some))
    yield part_of(group, part)


def part_of(group: OffsetFetchRequestGroup, topics: list[OffsetFetchRequestTopics]) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=topics
    )


def groups_of(request: Request[OffsetFetchRequest]) -> list[OffsetFetchRequestGroup]:
    """The requested groups; older versions request one."""
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
    node: Broker, request: Request[OffsetFetchRequest], group: OffsetFetchRequestGroup, done: Done, now_ms: int
) -> None:
    """Fetches the answer for one group, now or once it is stable."""
    try:
        node.gate.check(request, DESCRIBE_GROUP, group.group_id)
        index = node.coordinators.groups.topic.partition_of(group.group_id)
        refused = set_aside(node, request, group)
        runtime = node.coordinators.groups.runtime
        if not request.body.require_stable:
            done(
                seen(
                    node,
                    request,
                    runtime.read(
                        index, lambda machine, at: fetch_offsets(machine.state, group, at, require_stable=False)
                    ),
                    refused,
                ),
                now_ms,
            )
            return
    except RequestError as error:
        done(failed(group, error.code), now_ms)
        return

    def operation(machine: GroupMachine) -> Result[OffsetFetchResponseGroup]:
        return Result(fetch_offsets(machine.state, group, None, require_stable=True))

    def answered(response: OffsetFetchResponseGroup | None, code: ErrorCode, message: str, at_ms: int) -> None:
        if response is None:
            done(failed(group, coordinator_error(code)), at_ms)
        else:
            done(seen(node, request, response, refused), at_ms)

    runtime.write(index, operation, node.dispatcher.later(request, answered), now_ms)


def set_aside(
    node: Broker, request: Request[OffsetFetchRequest], group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Removes topics that are not to be looked up, and returns their answers; gives the others names."""
    if group.topics is None:
        return []
    refused, wanted = [], []
    for topic in group.topics:
        code = ErrorCode.NONE
        if request.version >= TOPIC_IDS_FROM:
            known = node.state.image.topics_by_id.get(topic.topic_id)
            topic.name = "" if known is None else known.name
            code = ErrorCode.UNKNOWN_TOPIC_ID if known is None else code
        if not code and not node.gate.allows(request, DESCRIBE_TOPIC, topic.name):
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
    """The coordinator's answer with ids and refused topics, without topics that the requester may not see."""
    if response.error_code:
        return response
    topics = []
    for topic in response.topics:
        if node.gate.shows(request, DESCRIBE_TOPIC, topic.name):
            if request.version >= TOPIC_IDS_FROM:
                known = node.state.image.topics_by_name.get(topic.name)
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
    """The error for a group. Its topics are kept for versions without an error field for groups."""
    topics = [refused_topic(topic, code) for topic in group.topics or ()]
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code, topics=topics)


def respond(version: int, groups: list[OffsetFetchResponseGroup]) -> Message:
    """The response in the form of the version."""
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


HANDLERS = (Handler(ApiKey.OFFSET_FETCH, handle, refuse),)
