"""Metadata (key 3): the brokers, and topics with the leaders of their partitions.

Versions 0-13, flexible from 9. No topics means all of them in version 0, none in later ones, where null means all. From
version 12 topics may be asked for by id. A topic that does not exist is created when auto.create.topics.enable and the
request say so: the answer waits for it to be committed and has it, where Kafka answers UNKNOWN_TOPIC_OR_PARTITION
first. A partition without a leader is LEADER_NOT_AVAILABLE, and to who asks for its topic also one whose leader seems
to have died just now (`node.suspects`); a leader without this listener LISTENER_NOT_FOUND (below version 6
LEADER_NOT_AVAILABLE too).

Clients ask for the same topics again and again, so encoded answers are kept for as long as the image stays the same.
The answer for all topics is made in steps, from the image of the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.config.limits import METADATA_ANSWER_KEPT_TOPICS_MAX, METADATA_ANSWERS_KEPT_MAX
from penstock.errors import ErrorCode, RequestError
from penstock.metadata import topics as topic_control
from penstock.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from penstock.metadata.names import check_topic_name, is_internal
from penstock.node.handlers.authorization import allowed, authorized_operations
from penstock.node.request import AGAIN, LATER, Handler, Message, Outcome, Request
from penstock.protocol import frames
from penstock.protocol.api import ApiKey
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.DESCRIBE, ResourceType.TOPIC)
"""Open to all: topics that who asks may not describe are refused one by one, or left out of a listing."""

TOPIC_IDS_FROM = 12
PARTITIONS_PER_STEP = 1000
"""Partitions of a listing that are described before others have their turn, give or take a topic."""
CORRELATION_ID_END = 8
"""A frame begins with its length and the correlation id; what follows is the same for all who ask the same."""


def handle(node: Broker, request: Request[MetadataRequest], now_ms: int) -> Outcome:
    body = request.body
    wants_all = body.topics is None or (request.version == 0 and not body.topics)
    names = None if wants_all else wanted_names(node, request)
    if names is not None:
        create = [name for name in names if may_create(node, request, name)]
        if create and create_then_answer(node, request, create, names, now_ms):
            return LATER
    return answer(node, request, names, now_ms)


def wanted_names(node: Broker, request: Request[MetadataRequest]) -> list[str]:
    """The topics asked for by name, or by id if any id is given, each once."""
    wanted = request.body.topics or []
    for topic in wanted:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            raise RequestError(ErrorCode.INVALID_REQUEST, "A topic was asked for without a name and without an id")
        if request.version < TOPIC_IDS_FROM and topic.name is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {request.version}")
        if request.version < TOPIC_IDS_FROM and topic.topic_id != ZERO_UUID:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {request.version}"
            )
    ids = [topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID]
    if ids:
        found = (node.image.topics_by_id.get(topic_id) for topic_id in ids)
        return list(dict.fromkeys(topic.name for topic in found if topic is not None))
    return list(dict.fromkeys(topic.name for topic in wanted if topic.name is not None))


def may_create(node: Broker, request: Request[MetadataRequest], name: str) -> bool:
    """Whether a topic that was asked for is to be created now."""
    return (
        request.body.allow_auto_topic_creation
        and name not in node.image.topics_by_name
        and node.settings.auto_create_topics_enable
        and (node.controller.active or node.channel.elsewhere)
        and (
            allowed(node, request, Operation.CREATE, ResourceType.CLUSTER)
            or allowed(node, request, Operation.CREATE, ResourceType.TOPIC, name)
        )
    )


def create_then_answer(
    node: Broker, request: Request[MetadataRequest], create: Sequence[str], names: Sequence[str], now_ms: int
) -> bool:
    """Creates topics, here or by the active controller, and answers then; a client asks again for what this broker has
    not heard of by then. False when there is nothing to create after all.
    """
    wanted = [CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in create]
    body = request.body

    def finish(at_ms: int) -> None:
        request.body = body
        response = answer(node, request, names, at_ms)
        if response is not LATER:
            node.answer(request, response, at_ms)

    if not node.controller.active:
        node.channel.to_controller(CreateTopicsRequest(topics=wanted), lambda created, at_ms: finish(at_ms), now_ms)
        return True
    records = topic_control.create_topics(node.controller.state, wanted).records
    if not records:
        return False
    try:
        node.controller.append(records, finish, lambda code, at_ms: finish(at_ms), now_ms)
    except RequestError:
        return False
    return True


def answer(node: Broker, request: Request[MetadataRequest], names: Sequence[str] | None, now_ms: int) -> Outcome:
    """The response, LATER when it went out as it was encoded before, or AGAIN after a step towards all topics."""
    suspects = node.suspects.brokers(now_ms)
    if suspects and names is not None:
        return without_leaders(build(node, request, names), suspects)
    key = cache_key(request, names)
    cached_image, frames_by_key = node.metadata_cache
    if cached_image is not node.image or len(frames_by_key) >= METADATA_ANSWERS_KEPT_MAX:
        frames_by_key = {}
        node.metadata_cache = (node.image, frames_by_key)
    kept = frames_by_key.get(key) if key is not None else None
    if kept is None:
        if names is None and not list_some(node, request):
            return AGAIN
        response = build(node, request, names)
        if key is None:
            return response
        chunks = frames.encode_response(request.api, request.version, 0, response)
        frame = b"".join(chunk for chunk in chunks if isinstance(chunk, bytes | bytearray | memoryview))
        kept = (frame[:4], frame[CORRELATION_ID_END:])
        if names is not None or request.state.image is node.image:
            frames_by_key[key] = kept
    length, rest = kept
    frame = length + request.correlation_id.to_bytes(4, "big", signed=True) + rest
    node.dispatcher.answer_encoded(request, [frame], now_ms)
    return LATER


def without_leaders(response: MetadataResponse, suspects: frozenset[int]) -> MetadataResponse:
    """The response, with the partitions that these brokers lead as being without a leader."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.leader_id in suspects:
                partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE
                partition.leader_id = -1
    return response


class Listing:
    """All topics of one image on their way into a response."""

    __slots__ = ("image", "remaining", "topics")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.remaining = iter(image.topics_by_name.values())
        self.topics: list[MetadataResponseTopic] = []


def list_some(node: Broker, request: Request[MetadataRequest]) -> bool:
    """Describes the next topics, in `request.state`. Whether that was the last of them."""
    if request.state is None:
        request.state = Listing(node.image)
    listing: Listing = request.state
    partitions = 0
    for topic in listing.remaining:
        if allowed(node, request, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            listing.topics.append(described(node, request, topic, listing.image))
            partitions += len(topic.partitions)
            if partitions >= PARTITIONS_PER_STEP:
                return False
    return True


def cache_key(request: Request[MetadataRequest], names: Sequence[str] | None) -> tuple[object, ...] | None:
    """What an answer depends on beside the image; None for one that is not worth keeping."""
    body = request.body
    if names is not None and len(names) > METADATA_ANSWER_KEPT_TOPICS_MAX:
        return None
    if body.topics and any(topic.topic_id != ZERO_UUID for topic in body.topics):
        return None
    flags = (body.include_cluster_authorized_operations, body.include_topic_authorized_operations)
    return (request.version, request.listener, request.principal, flags, None if names is None else tuple(names))


def build(node: Broker, request: Request[MetadataRequest], names: Sequence[str] | None) -> MetadataResponse:
    """The response: the topics named, from the image of now, or all that `list_some` has listed."""
    body, image = request.body, node.image
    if names is None:
        image, topics = request.state.image, request.state.topics
    else:
        topics = unknown_ids(image, body) if body.topics else []
        topics += [named(node, request, name) for name in names]
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in image.brokers.values()
            if not broker.fenced and (endpoint := broker.endpoint(request.listener)) is not None
        ],
        cluster_id=node.cluster_id,
        controller_id=controller_id(node),
        topics=topics,
    )
    if body.include_cluster_authorized_operations:
        may = allowed(node, request, Operation.DESCRIBE, ResourceType.CLUSTER)
        response.cluster_authorized_operations = (
            authorized_operations(node, request, ResourceType.CLUSTER) if may else 0
        )
    return response


def controller_id(node: Broker) -> int:
    """Whom clients send changes to: any broker will do, since brokers forward; -1 while this one is not up."""
    own = node.image.brokers.get(node.node_id)
    return -1 if own is None or own.fenced else node.node_id


def unknown_ids(image: MetadataImage, body: MetadataRequest) -> list[MetadataResponseTopic]:
    """Answers for ids that no topic has."""
    ids = dict.fromkeys(topic.topic_id for topic in body.topics or () if topic.topic_id != ZERO_UUID)
    return [
        MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        for topic_id in ids
        if topic_id not in image.topics_by_id
    ]


def named(node: Broker, request: Request[MetadataRequest], name: str) -> MetadataResponseTopic:
    """A topic that was asked for."""
    if not allowed(node, request, Operation.DESCRIBE, ResourceType.TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = node.image.topics_by_name.get(name)
    if topic is not None:
        return described(node, request, topic, node.image)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except RequestError as error:
        code = error.code
    return MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def described(
    node: Broker, request: Request[MetadataRequest], topic: TopicImage, image: MetadataImage
) -> MetadataResponseTopic:
    """A topic that exists."""
    described_topic = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions_of(image, topic, request.listener, request.version),
    )
    if request.body.include_topic_authorized_operations:
        described_topic.topic_authorized_operations = authorized_operations(
            node, request, ResourceType.TOPIC, topic.name
        )
    return described_topic


def partitions_of(
    image: MetadataImage, topic: TopicImage, listener: str, version: int
) -> list[MetadataResponsePartition]:
    """All partitions of a topic as clients see them. Those with the same replicas share what follows from that."""
    states: dict[tuple[object, ...], PartitionState] = {}
    found = []
    for index, partition in enumerate(topic.partitions):
        alike = (partition.leader, partition.replicas, partition.isr, partition.directories)
        state = states.get(alike)
        if state is None:
            state = states[alike] = state_of(image, partition, listener, version)
        code, leader_id, replicas, isr, offline = state
        found.append(
            MetadataResponsePartition(
                error_code=code,
                partition_index=index,
                leader_id=leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=replicas,
                isr_nodes=isr,
                offline_replicas=offline,
            )
        )
    return found


class PartitionState(NamedTuple):
    """Who has a partition, and the error that tells clients why it cannot be used."""

    code: ErrorCode
    leader_id: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


def state_of(image: MetadataImage, partition: PartitionRegistration, listener: str, version: int) -> PartitionState:
    """The state of a partition for clients of a listener."""
    leads = is_reachable(image, partition.leader, listener)
    replicas, isr = list(partition.replicas), list(partition.isr)
    code = ErrorCode.NONE
    if not leads:
        code = ErrorCode.LEADER_NOT_AVAILABLE
        if version >= 6 and partition.leader in image.brokers:
            code = ErrorCode.LISTENER_NOT_FOUND
    if version == 0:
        alive = [broker_id for broker_id in replicas if is_reachable(image, broker_id, listener)]
        isr = [broker_id for broker_id in isr if is_reachable(image, broker_id, listener)]
        if code is ErrorCode.NONE and len(alive) + len(isr) < len(replicas) + len(partition.isr):
            code = ErrorCode.REPLICA_NOT_AVAILABLE
        replicas = alive
    leader_id = partition.leader if leads else -1
    return PartitionState(code, leader_id, replicas, isr, offline_replicas(image, partition, listener))


def is_reachable(image: MetadataImage, broker_id: int, listener: str) -> bool:
    """Whether a broker is up and has this listener."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and broker.endpoint(listener) is not None


def offline_replicas(image: MetadataImage, partition: PartitionRegistration, listener: str) -> list[int]:
    """The replicas whose broker is not up, or has lost the directory that they lie in."""
    offline = []
    for broker_id in partition.replicas:
        directory = partition.directory(broker_id)
        broker = image.brokers.get(broker_id)
        lost = broker is not None and directory is not None and is_lost(directory.int, directory in broker.log_dirs)
        if lost or not is_reachable(image, broker_id, listener):
            offline.append(broker_id)
    return offline


def is_lost(directory: int, is_registered: bool) -> bool:
    """Whether a replica's directory is gone. Ids that stand for "not assigned" and "unknown" are not."""
    unassigned, lost, migrating = range(3)
    return directory == lost or (directory not in (unassigned, migrating) and not is_registered)


def refuse(request: Request[MetadataRequest], code: ErrorCode, message: str) -> Message:
    """Every topic answered with the error."""
    nameless = None if request.version >= TOPIC_IDS_FROM else ""
    topics: Iterable[MetadataResponseTopic] = (
        MetadataResponseTopic(
            error_code=code, name=nameless if topic.name is None else topic.name, topic_id=topic.topic_id
        )
        for topic in (request.body.topics if request.body is not None else None) or ()
    )
    return MetadataResponse(topics=list(topics), error_code=code)


HANDLERS = (Handler(ApiKey.METADATA, handle, AUTHORIZE, refuse),)
