"""The rows of each block, as the parts of the node are now. See `penstock.protocol.telemetry` for the columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from penstock import __version__
from penstock.node.limits import TELEMETRY_GROUPS_MAX, TELEMETRY_PARTITIONS_MAX, TELEMETRY_ROWS_PER_STEP
from penstock.node.telemetry.clients import cut
from penstock.node.telemetry.machine import UNKNOWN, Machine
from penstock.node.telemetry.table import OTHERS_KEY, Name, Values
from penstock.protocol import telemetry
from penstock.protocol.api import ApiKey
from penstock.protocol.telemetry import GROUP_STATES, OTHERS, Block
from penstock.replication.traffic import PartitionCounters

if TYPE_CHECKING:
    from penstock.log.manager import LogManager
    from penstock.log.replica import Replica
    from penstock.metadata.image import MetadataImage
    from penstock.node.connection import Connection
    from penstock.node.controller import ControllerNode
    from penstock.node.coordinator_list import Coordinators
    from penstock.node.dispatcher import Dispatcher
    from penstock.node.fetches import Fetches
    from penstock.node.lifecycle import Lifecycle
    from penstock.node.purgatory import Purgatory
    from penstock.node.replication import Replication
    from penstock.node.scheduler import Scheduler
    from penstock.node.state import NodeState
    from penstock.node.telemetry.telemetry import Telemetry
    from penstock.replication.in_sync_replicas import InSyncReplicas
    from penstock.replication.replicas import Replicas

STATE_NUMBERS = {name: number for number, name in enumerate(GROUP_STATES)}
OTHER_PARTITIONS = (UNKNOWN,) * (len(telemetry.PARTITIONS.columns) - 7)
NO_TRAFFIC = PartitionCounters()
"""Of a replica without counters."""
NO_DEVICE = (UNKNOWN,) * 9
NO_KEY = ("", "", "")


class Observed(Protocol):
    """The parts of a node that are told of; `penstock.node.broker.Broker` is one."""

    controller: ControllerNode
    connections: dict[int, Connection]
    coordinators: Coordinators
    dispatcher: Dispatcher
    fetches: Fetches
    lifecycle: Lifecycle
    logs: LogManager
    purgatory: Purgatory
    replicas: Replicas
    replication: Replication
    scheduler: Scheduler
    state: NodeState
    telemetry: Telemetry

    @property
    def image(self) -> MetadataImage: ...


class Rows(NamedTuple):
    """Some rows of a block: who they are, what they are called, by index, and their values. `renamed`: a name may have
    changed.
    """

    block: Block
    keys: Sequence[Hashable]
    name_of: Callable[[int], Name]
    values: Sequence[Values]
    renamed: bool = False


class WithMembers(Protocol):
    """A group of either type."""

    members: Sized


def rows(node: Observed, machine: Machine, replicas: list[Replica]) -> Iterator[Rows]:
    """All rows but those of other partitions, as many at a time as one step takes; `replicas`: those that have rows."""
    yield broker_row(node, machine)
    yield disk_rows(node.logs, machine)
    yield lane_rows(machine)
    for start in range(0, len(replicas), TELEMETRY_ROWS_PER_STEP):
        yield partition_rows(node, replicas[start : start + TELEMETRY_ROWS_PER_STEP])
    yield client_rows(node)
    yield from group_rows(node.coordinators)


def other_partitions(node: Observed) -> Rows:
    """The row with the sums of replicas that have none of their own, or not any more."""
    values = OTHER_PARTITIONS + counted(node.replicas.traffic.others)
    return Rows(telemetry.PARTITIONS, [OTHERS_KEY], lambda _: (OTHERS, str(UNKNOWN)), [values])


def broker_row(node: Observed, machine: Machine) -> Rows:
    replicas = sum(each.replicas for each in node.logs.table.directories)
    state, now_ms = node.state, node.scheduler.now_ms
    counters = node.dispatcher.exit.counters
    requests: list[int] = []
    for key in (ApiKey.PRODUCE, ApiKey.FETCH):
        found = counters.get(key)
        if found is None:  # a controller
            requests += (0, 0, UNKNOWN)
            continue
        p99_ms = dict(found.quantiles_ms(now_ms)).get(0.99, UNKNOWN)
        requests += (found.requests, found.total_time_ms, round(p99_ms))
    values = (
        node.scheduler.wall.at(now_ms),
        machine.cpu_us,
        machine.resident_bytes,
        machine.cores,
        machine.dirty_bytes,
        node.image.offset,
        int(node.controller.active),
        len(node.connections),
        len(node.purgatory) + len(node.fetches.waiting),
        node.dispatcher.cold_reads,
        replicas,
        max(0, replicas - TELEMETRY_PARTITIONS_MAX),
        *requests,
        node.replication.followers.bytes_in,
    )
    name = str(state.node_id), state.settings.broker_rack or "", __version__
    return Rows(telemetry.BROKER, [state.node_id], lambda _: name, [values])


def disk_rows(logs: LogManager, machine: Machine) -> Rows:
    """The log directories. Asks for a new look at the room in them."""
    directories = logs.table.directories
    values = [
        (
            each.index,
            int(each.error is None),
            int(each.space.full),
            each.space.total_bytes,
            each.space.free_bytes,
            each.space.reserve_bytes,
            each.space.written_bytes,
            each.replicas,
            *machine.devices.get(each.index, NO_DEVICE),
        )
        for each in directories
    ]
    logs.spaces.look_soon()
    return Rows(telemetry.DISKS, [each.index for each in directories], lambda at: (directories[at].path,), values)


def lane_rows(machine: Machine) -> Rows:
    lanes = machine.lanes
    names = [(each.directory,) for each in lanes]
    return Rows(telemetry.LANES, names, names.__getitem__, [tuple(each.values) for each in lanes])


def partition_rows(node: Observed, replicas: Sequence[Replica]) -> Rows:
    led, traffic = node.replicas.led, node.replicas.traffic.counters
    values: list[Values] = []
    for replica in replicas:
        key = (replica.topic, replica.partition)
        partition, counters = led.get(key), traffic.get(key, NO_TRAFFIC)
        if partition is None:
            values.append(unused(node, replica) + counted(counters))
            continue
        log, isr = partition.log, partition.isr
        end_offset, segments = log.log_end_offset, log.segments.all
        values.append(
            (
                replica.directory.index,
                1,
                isr.leader_epoch,
                len(isr.replicas),
                len(isr.committed),
                in_sync_lag(isr, end_offset) if isr.followers else 0,
                UNKNOWN,
                segments[0].size_bytes if len(segments) == 1 and not log.closed else replica.known_bytes,
                log.log_start_offset,
                end_offset,
                partition.high_watermark,
                counters.bytes_in,
                counters.records_in,
                counters.bytes_out,
                counters.records_out,
                counters.replication_bytes_in,
                counters.replication_bytes_out,
                counters.disk_read_bytes,
            )
        )
    return Rows(telemetry.PARTITIONS, replicas, lambda at: (replicas[at].topic, str(replicas[at].partition)), values)


def counted(counters: PartitionCounters) -> Values:
    """The columns of counters."""
    return (
        counters.bytes_in,
        counters.records_in,
        counters.bytes_out,
        counters.records_out,
        counters.replication_bytes_in,
        counters.replication_bytes_out,
        counters.disk_read_bytes,
    )


def in_sync_lag(isr: InSyncReplicas, end_offset: int) -> int:
    """How many records the last of the in-sync replicas lacks; UNKNOWN until each has fetched."""
    lag = 0
    for broker_id, follower in isr.followers.items():
        if broker_id in isr.committed:
            if follower.log_end_offset < 0:
                return UNKNOWN
            lag = max(lag, end_offset - follower.log_end_offset)
    return lag


def unused(node: Observed, replica: Replica) -> Values:
    """The gauges of a replica that follows, or that is led here and which nobody has used yet."""
    topic, index = replica.topic, replica.partition
    registration = node.image.partition(topic, index)
    follower = node.replicas.follower(topic, index)
    log = replica.log or (None if follower is None else follower.log)
    return (
        replica.directory.index,
        int(registration is not None and registration.leader == node.state.node_id),
        UNKNOWN if registration is None else registration.leader_epoch,
        UNKNOWN if registration is None else len(registration.replicas),
        UNKNOWN if registration is None else len(registration.isr),
        UNKNOWN,
        UNKNOWN if follower is None or follower.lag is None else follower.lag,
        replica.known_bytes,
        UNKNOWN if log is None else log.log_start_offset,
        UNKNOWN if log is None else log.log_end_offset,
        replica.high_watermark if follower is None else follower.high_watermark,
    )


def client_rows(node: Observed) -> Rows:
    """The clients, and the sums of those that have no counters of their own, or not any more. In one step: who makes
    room meanwhile must not be in both.
    """
    clients = node.dispatcher.clients
    rows = [*clients, clients.others]
    names = [(*(each.key or NO_KEY), *each.software) for each in rows]
    return Rows(
        telemetry.CLIENTS, [*clients, OTHERS_KEY], names.__getitem__, [each.values for each in rows], renamed=True
    )


def group_rows(coordinators: Coordinators) -> Iterator[Rows]:
    """The groups that are coordinated here, some at a time."""
    left = TELEMETRY_GROUPS_MAX
    for shard in list(coordinators.groups.runtime.each_active()):
        groups = list(shard.machine.state.groups.all())[:left]
        left -= len(groups)
        for start in range(0, len(groups), TELEMETRY_ROWS_PER_STEP):
            some = groups[start : start + TELEMETRY_ROWS_PER_STEP]
            listed = [each.listed(shard.committed_offset) for each in some]
            names = [(cut(each.group_id), each.group_type, cut(each.protocol_type)) for each in listed]
            values = [
                (STATE_NUMBERS.get(each.group_state, 0), len(cast("WithMembers", group).members), shard.index)
                for group, each in zip(some, listed, strict=True)
            ]
            keys = [each.group_id for each in some]
            yield Rows(telemetry.GROUPS, keys, names.__getitem__, values, renamed=True)
