"""Brokers in the cluster: registration, fencing, controlled shutdown, directories, and what follows for leaders.

A broker registers fenced, with an incarnation id of its own making; its epoch is the offset of the registration's
record. Once it has caught up it is unfenced and may lead. On a clean stop it first gives up its leaderships.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.features import REGISTERED_FEATURES
from penstock.metadata.image import BrokerRegistration, Endpoint
from penstock.metadata.partitions import elect
from penstock.metadata.result import MetadataMessage, Result
from penstock.protocol.messages.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.protocol.messages.metadata.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from penstock.protocol.messages.metadata.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

FENCE, UNFENCE = 1, -1
RESERVED_DIRECTORIES = range(100)
"""Ids that Kafka keeps for itself: unassigned, lost, migrating, and room for more."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker registers with (KIP-631 BrokerRegistration). `log_dirs` are the ids of its log directories;
    `previous_broker_epoch` is the epoch at its last clean stop, -1 after an unclean one."""

    broker_id: int
    incarnation_id: UUID
    endpoints: Sequence[Endpoint]
    log_dirs: Sequence[UUID]
    rack: str | None = None
    previous_broker_epoch: int = -1
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: REGISTERED_FEATURES)


def register_broker(controller: Controller, registration: Registration, next_offset: int) -> Result[int]:
    """Registers a broker; the response is its epoch. `next_offset` is the offset of the first record to be appended.

    Raises RequestError INVALID_REGISTRATION or UNSUPPORTED_VERSION.
    """
    check_directories(controller, registration)
    check_features(controller, registration)
    existing = controller.image.brokers.get(registration.broker_id)
    record = RegisterBrokerRecord(
        broker_id=registration.broker_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=next_offset,
        end_points=[
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in registration.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in registration.features.items()
        ],
        rack=registration.rack,
        log_dirs=sorted(registration.log_dirs),
    )
    if existing is not None and existing.incarnation_id == registration.incarnation_id:
        record.broker_epoch = existing.epoch
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
    return Result(record.broker_epoch, [record])


def check_directories(controller: Controller, registration: Registration) -> None:
    problem = None
    if not registration.log_dirs:
        problem = "No directories specified in request"
    elif any(directory.int in RESERVED_DIRECTORIES for directory in registration.log_dirs):
        problem = "Reserved directory ID in request"
    elif len(set(registration.log_dirs)) != len(registration.log_dirs):
        problem = "Duplicate directory ID in request"
    else:
        for broker in controller.image.brokers.values():
            for directory in registration.log_dirs:
                if broker.id != registration.broker_id and directory in broker.log_dirs:
                    problem = f"Broker {broker.id} is already registered with directory {directory}"
    if problem is not None:
        raise RequestError(ErrorCode.INVALID_REGISTRATION, problem)


def check_features(controller: Controller, registration: Registration) -> None:
    """Every finalized level must be one that the broker supports."""
    for name, level in controller.image.features.items():
        lowest, highest = registration.features.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise RequestError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {lowest} and {highest}, inclusive.",
            )


def register_controller(
    controller: Controller, controller_id: int, incarnation_id: UUID, endpoints: Sequence[Endpoint]
) -> Result[None]:
    """Registers a controller (KIP-919), unless it is registered just like this."""
    record = RegisterControllerRecord(
        controller_id=controller_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in REGISTERED_FEATURES.items()
        ],
    )
    return Result(None, [record])


def unfence_broker(controller: Controller, broker_id: int, broker_epoch: int) -> Result[None]:
    """Lets a broker lead; partitions without a leader that it is in sync with get it.

    Raises RequestError STALE_BROKER_EPOCH or BROKER_ID_NOT_REGISTERED.
    """
    broker = checked(controller, broker_id, broker_epoch)
    records: list[MetadataMessage] = []
    if broker.fenced:
        records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=UNFENCE))
        acceptable = active_or(controller, broker_id)
        records += changes_of_leaders(controller, acceptable, lambda isr, leader: leader < 0)
    return Result(None, records)


def fence_broker(controller: Controller, broker_id: int, broker_epoch: int) -> Result[None]:
    """Takes a broker out of leadership and, where others are in sync, out of the in-sync replicas."""
    broker = checked(controller, broker_id, broker_epoch)
    if broker.fenced:
        return Result(None)
    records = leave(controller, broker_id)
    records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=FENCE))
    return Result(None, records)


def begin_controlled_shutdown(controller: Controller, broker_id: int, broker_epoch: int) -> Result[None]:
    """First step of a clean stop: the broker is marked, and its leaderships move where they can."""
    broker = checked(controller, broker_id, broker_epoch)
    if broker.in_controlled_shutdown:
        return Result(None)
    mark = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, in_controlled_shutdown=1)
    return Result(None, [mark, *leave(controller, broker_id)])


def leave(controller: Controller, broker_id: int) -> list[MetadataMessage]:
    acceptable = active_except(controller, broker_id)
    return list(
        changes_of_leaders(
            controller, acceptable, lambda isr, leader: broker_id in isr or leader == broker_id, broker_id
        )
    )


def changes_of_leaders(
    controller: Controller,
    acceptable: Callable[[int], bool],
    concerned: Callable[[tuple[int, ...], int], bool],
    leaving: int | None = None,
) -> list[PartitionChangeRecord]:
    """The changes of all concerned partitions, in the order of their topics' ids."""
    records = []
    for topic in controller.image.topics_by_id.values():
        unclean = None
        for index, partition in enumerate(topic.partitions):
            if concerned(partition.isr, partition.leader):
                if unclean is None:
                    unclean = controller.topic_config(topic.name).unclean_leader_election_enable
                record = elect(topic, index, acceptable, leaving=leaving, unclean=unclean)
                if record is not None:
                    records.append(record)
    return records


def active_or(controller: Controller, broker_id: int) -> Callable[[int], bool]:
    """Brokers that may lead, and the one that is about to."""
    brokers = controller.image.brokers
    return lambda each: each == broker_id or (each in brokers and brokers[each].active)


def active_except(controller: Controller, broker_id: int) -> Callable[[int], bool]:
    """Brokers that may lead, without the one that is about to go."""
    brokers = controller.image.brokers
    return lambda each: each != broker_id and each in brokers and brokers[each].active


def checked(controller: Controller, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """The registration of a broker. Raises RequestError if it is not registered with this epoch."""
    broker = controller.image.brokers.get(broker_id)
    if broker is None:
        raise RequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {broker_id} found.")
    if broker.epoch != broker_epoch:
        raise RequestError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
        )
    return broker


def assign_directories(
    controller: Controller, broker_id: int, broker_epoch: int, assignments: Mapping[tuple[UUID, int], UUID]
) -> Result[dict[tuple[UUID, int], ErrorCode]]:
    """Records which log directory a broker keeps its replicas in (KIP-858 AssignReplicasToDirs).

    `assignments` maps (topic id, partition) to the directory's id.
    """
    broker = checked(controller, broker_id, broker_epoch)
    answers: dict[tuple[UUID, int], ErrorCode] = {}
    records: list[MetadataMessage] = []
    for (topic_id, index), directory in assignments.items():
        topic = controller.image.topics_by_id.get(topic_id)
        if topic is None:
            answers[topic_id, index] = ErrorCode.UNKNOWN_TOPIC_ID
        elif index >= len(topic.partitions) or broker_id not in topic.partitions[index].replicas:
            answers[topic_id, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif directory not in broker.log_dirs:
            answers[topic_id, index] = ErrorCode.LOG_DIR_NOT_FOUND
        else:
            answers[topic_id, index] = ErrorCode.NONE
            partition = topic.partitions[index]
            directories = list(partition.directories) or [UUID(int=0)] * len(partition.replicas)
            position = partition.replicas.index(broker_id)
            if directories[position] != directory:
                directories[position] = directory
                records.append(PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=directories))
    return Result(answers, records)
