"""Brokers and controllers in the cluster: registration, fencing, controlled shutdown, and the effects on leaders.

A broker registers fenced, with an incarnation id that it has chosen; its epoch is the offset of its registration. Once
it has read the log up to that it is unfenced and may lead. On a clean stop it first gives up its leaderships. The
decisions on heartbeats are in `heartbeats`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import leadership
from penstock.metadata.features import KRAFT_VERSION, METADATA_VERSION, REGISTERED_FEATURES
from penstock.metadata.image import BrokerRegistration, Endpoint
from penstock.metadata.limits import LEADERSHIP_CHANGES_PER_STEP
from penstock.metadata.result import MetadataMessage, Result
from penstock.protocol.messages.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
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
from penstock.protocol.messages.metadata.unregister_broker_record import UnregisterBrokerRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

FENCE, UNFENCE = 1, -1
RESERVED_DIRECTORIES = range(100)
"""Ids that Kafka keeps for itself: unassigned, lost, migrating, and room for more."""
NO_PREVIOUS_EPOCH = -1
"""What a broker sends that was not stopped cleanly before."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The contents of a broker's registration (KIP-631 BrokerRegistration). `log_dirs` are the ids of its log
    directories; `previous_broker_epoch` is the epoch at its last clean stop, -1 after an unclean one."""

    broker_id: int
    incarnation_id: UUID
    endpoints: Sequence[Endpoint]
    log_dirs: Sequence[UUID]
    rack: str | None = None
    previous_broker_epoch: int = NO_PREVIOUS_EPOCH
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: REGISTERED_FEATURES)


def register_broker(
    controller: Controller, registration: Registration, next_offset: int, *, kraft_version: int = 0
) -> Result[int]:
    """Registers a broker; the response is its epoch. `next_offset` is the offset of the first record to be appended.

    A new incarnation is fenced, and loses leaderships and in-sync replicas that the earlier one may have left behind;
    the same one changes its registration and is otherwise unaffected. The caller must check before whether the earlier
    one still has a session (`heartbeats.Heartbeats.check_registration`).

    Raises RequestError INVALID_REGISTRATION or UNSUPPORTED_VERSION.
    """
    check_directories(controller, registration)
    check_features(controller, registration, kraft_version)
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
        record.cordoned_log_dirs = list(existing.cordoned_log_dirs) or None
        return Result(record.broker_epoch, [record])
    left_behind = records_of_new_incarnation(controller, registration, existing)
    return Result(record.broker_epoch, [*left_behind, record], atomic=False)


def records_of_new_incarnation(
    controller: Controller, registration: Registration, existing: BrokerRegistration | None
) -> Sequence[MetadataMessage]:
    """The changes of partitions that the broker's earlier incarnation led or had in sync (KIP-966)."""
    stopped_cleanly = existing is not None and existing.epoch == registration.previous_broker_epoch
    if controller.elr_enabled and not stopped_cleanly:
        return leadership.unclean_shutdown(controller, registration.broker_id)
    return leadership.departure(controller, registration.broker_id, may_wait=False)


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


def check_features(controller: Controller, registration: Registration, kraft_version: int) -> None:
    """Raises RequestError unless the broker supports every finalized level."""
    if METADATA_VERSION not in registration.features:
        raise RequestError(ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'")
    finalized = {**controller.image.features, KRAFT_VERSION: kraft_version}
    for name in dict.fromkeys([*registration.features, *finalized]):
        level = finalized.get(name, 0)
        lowest, highest = registration.features.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise RequestError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {lowest} and {highest}, inclusive.",
            )


def register_controller(
    controller: Controller,
    controller_id: int,
    incarnation_id: UUID,
    endpoints: Sequence[Endpoint],
    features: Mapping[str, tuple[int, int]] = REGISTERED_FEATURES,
) -> Result[None]:
    """Registers a controller (KIP-919)."""
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
            for name, (lowest, highest) in features.items()
        ],
    )
    return Result(None, [record])


def unfence_broker(controller: Controller, broker_id: int, broker_epoch: int) -> Result[None]:
    """Lets a broker lead, also partitions without a leader whose in-sync replica it has.

    Raises RequestError STALE_BROKER_EPOCH.
    """
    broker = checked(controller, broker_id, broker_epoch)
    records: list[MetadataMessage] = []
    if broker.fenced:
        records.append(change(broker, fenced=UNFENCE))
        if not broker.in_controlled_shutdown:
            records += leadership.arrival(controller, broker_id)
    return Result(None, records, atomic=False)


def fence_broker(controller: Controller, broker_id: int, broker_epoch: int, *, in_steps: bool = False) -> Result[None]:
    """Removes a broker from leaderships and, where others are in sync, from the in-sync replicas.

    With `in_steps`, a broker with many partitions is only fenced: `duties` handles the partitions then.
    """
    broker = checked(controller, broker_id, broker_epoch)
    if broker.fenced:
        return Result(None)
    return Result(None, [*departure(controller, broker_id, in_steps), change(broker, fenced=FENCE)], atomic=False)


def begin_controlled_shutdown(
    controller: Controller, broker_id: int, broker_epoch: int, *, in_steps: bool = False
) -> Result[None]:
    """First step of a clean stop: the broker is marked, and its leaderships move where they can; see `fence_broker`."""
    broker = checked(controller, broker_id, broker_epoch)
    mark = [] if broker.in_controlled_shutdown else [change(broker, in_controlled_shutdown=1)]
    return Result(None, [*mark, *departure(controller, broker_id, in_steps)], atomic=False)


def departure(controller: Controller, broker_id: int, in_steps: bool) -> Sequence[MetadataMessage]:
    """The changes of a broker's partitions, unless they are too many for one step."""
    if in_steps and len(controller.indexes.in_sync_on(broker_id)) > LEADERSHIP_CHANGES_PER_STEP:
        return []
    return leadership.departure(controller, broker_id)


def unregister_broker(controller: Controller, broker_id: int) -> Result[None]:
    """Removes a broker's registration. Its replicas stay assigned to it; nothing waits for them any more.

    Raises RequestError BROKER_ID_NOT_REGISTERED.
    """
    broker = controller.image.brokers.get(broker_id)
    if broker is None:
        raise RequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    indexes = controller.indexes
    keys = list(dict.fromkeys([*indexes.in_sync_on(broker_id), *indexes.eligible_on(broker_id)]))
    records: list[MetadataMessage] = [*leadership.updated(controller, keys, leaving=broker_id)]
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch))
    return Result(None, records, atomic=False)


def change(
    broker: BrokerRegistration,
    *,
    fenced: int = 0,
    in_controlled_shutdown: int = 0,
    log_dirs: Sequence[UUID] = (),
    cordoned_log_dirs: Sequence[UUID] | None = None,
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=list(log_dirs),
        cordoned_log_dirs=None if cordoned_log_dirs is None else list(cordoned_log_dirs),
    )


def checked(controller: Controller, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """The registration of a broker. Raises RequestError STALE_BROKER_EPOCH if it is not registered with this epoch."""
    broker = controller.image.brokers.get(broker_id)
    if broker is None:
        raise RequestError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        raise RequestError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )
    return broker
