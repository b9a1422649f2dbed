"""Faults that aim at one moment, which others meet once in thousands of seeds.

A scenario that has some lets nothing else happen in a part of its seeds: others would take away what is aimed at.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from penstock.node.quorum_calls import FETCH_CHANNEL
from simulator.cluster.fault_injection import End, FaultTarget
from simulator.cluster.faults import nothing_to_end, starts_again
from simulator.world.machine import RESTART_DELAY_MS, Machine

LATE_BEFORE_MS = 600
"""So long before a follower is behind for too long, the metadata that its leader fetches begins to be late."""
LATE_MS = (1_200, 1_800)
LOOK_MS = 50
LOOK_OFTEN_US = 50
"""No packet is faster: whatever is seen is seen before it has been told to anybody."""
FENCED_MS = 300


def metadata_is_late(cluster: FaultTarget) -> End | None:
    """A leader and its follower lose each other, so that the leader proposes to go on without. Meanwhile the metadata
    that it fetches is late, and the answer to its proposal comes before what that was decided upon."""
    controller = cluster.controller()
    others = [each for each in cluster.running if each is not controller]
    pairs = [(leader, each) for leader in others for each in others if _in_sync(leader, each)]
    if controller is None or not pairs:
        return None
    random, network = cluster.simulation.random, cluster.network
    leader, follower = max(pairs, key=lambda pair: _in_sync(*pair))
    cluster.say(f"{leader.host} loses {follower.host}, and metadata comes to it late")
    network.partition(leader.host, follower.host)
    link = leader.broker.calls.outgoing.link(controller.settings.node_id, FETCH_CHANNEL)

    def wait() -> None:
        if over or not leader.running:
            return
        if not _is_soon_behind(leader, follower):
            cluster.simulation.after_ms(LOOK_MS, wait)
        elif link in leader.dialled:
            socket = leader.dialled[link].socket
            network.stall(socket)
            cluster.simulation.after_ms(random.randint(*LATE_MS), lambda: network.resume(socket))

    def end() -> None:
        over.append(True)
        network.heal(leader.host, follower.host)

    over: list[bool] = []
    wait()
    return end


def _is_soon_behind(leader: Machine, follower: Machine) -> bool:
    """Whether one is in sync with the other, and will soon have been behind for too long."""
    broker_id = follower.settings.node_id
    limit_ms = leader.settings.replica_lag_time_max_ms - LATE_BEFORE_MS
    return any(
        broker_id in each.isr.committed
        and not each.isr.followers[broker_id].is_caught_up(each.log_end_offset, leader.now_ms, limit_ms)
        for each in leader.broker.replicas.leading()
    )


def _in_sync(leader: Machine, follower: Machine) -> int:
    """With how many partitions that one leads the other is in sync."""
    if leader is follower:
        return 0
    broker_id = follower.settings.node_id
    return sum(broker_id in each.isr.committed for each in leader.broker.replicas.leading())


def directory_fails_while_fenced(cluster: FaultTarget) -> End | None:
    """All brokers but one stop, and that one dies. It starts again, but its heartbeats do not arrive until one of its
    directories has failed besides: the first that arrives tells that it is ready, and what it has lost."""
    brokers = [each for each in cluster.running if each.settings.is_broker]
    candidates = [each for each in brokers if len(each.disks) > 1 and not each.settings.is_controller]
    if not candidates or not cluster.whole():
        return None
    last = cluster.simulation.random.choice(candidates)
    others = [each for each in brokers if each is not last]
    cluster.say(f"all stop but {last.host}, which dies and loses a directory when it starts")
    for machine in others:
        machine.shutdown()
    ends: list[End] = [starts_again(machine) for machine in (last, *others)]

    def dies() -> None:
        last.restart_delay_ms = RESTART_DELAY_MS
        last.kill(power_failed=False)
        _when(cluster, ends, lambda: last.running and last.broker.state.broker_epoch >= 0, is_registered)

    def is_registered() -> None:
        ends.append(_hold_heartbeats(cluster, last))
        cluster.simulation.after_ms(FENCED_MS, lambda: _lose_directory(cluster, last) if ends else None)

    def end() -> None:
        while ends:
            ends.pop()()

    _when(cluster, ends, lambda: not any(machine.running for machine in others), dies)
    return end


def _hold_heartbeats(cluster: FaultTarget, machine: Machine) -> End:
    """What a broker tells the controller does not arrive any more, on the connection that there is."""
    outgoing, channel = machine.broker.calls.outgoing, machine.broker.channel
    link = None if channel.controller is None else outgoing.link(channel.controller.node_id, channel.NAME)
    if link not in machine.dialled:
        return nothing_to_end
    far = machine.dialled[link].socket.other
    cluster.network.stall(far)
    return lambda: cluster.network.resume(far)


def _lose_directory(cluster: FaultTarget, machine: Machine) -> None:
    """A directory fails; then all connections break, and what was on its way is gone."""

    def breaks() -> None:
        cluster.network.break_connections(machine.host)

    if machine.running:
        failed, error = machine.disks[-1].directory, OSError(errno.EIO, "it cannot be read")
        machine.do(lambda broker: broker.logs.read_failed(failed, error, broker.now_ms))
        cluster.simulation.after_ms(1, breaks)


def _when(cluster: FaultTarget, lasts: object, holds: Callable[[], bool], then: Callable[[], None]) -> None:
    """Does something as soon as something holds, while the fault lasts."""
    if lasts and holds():
        then()
    elif lasts:
        cluster.simulation.after_us(LOOK_OFTEN_US, lambda: _when(cluster, lasts, holds, then))
