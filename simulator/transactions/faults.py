"""Faults that are meant for who coordinates transactions, and for who leads what they write."""

from __future__ import annotations

from penstock.node.groups import OFFSETS_TOPIC
from simulator.cluster.fault_injection import End, FaultTarget
from simulator.cluster.faults import _cut_off, _dies, _pauses, _stops
from simulator.transactions.load import INBOX, LEDGER, TRANSACTION_TOPIC
from simulator.world.machine import Machine

LOOK_US, LOOKS_MAX = 500, 2_000
"""For an end that can be interrupted."""


def _leader(cluster: FaultTarget, topics: tuple[str, ...]) -> Machine | None:
    """A machine that leads a partition of one of these topics."""
    found = [
        machine
        for machine in cluster.running
        if any(partition.topic in topics for partition in machine.broker.replicas.leading())
    ]
    return cluster.simulation.random.choice(found) if found else None


def _coordinator(cluster: FaultTarget) -> Machine | None:
    return _leader(cluster, (TRANSACTION_TOPIC,))


def transaction_coordinator_killed(cluster: FaultTarget) -> End | None:
    """kill -9 of a coordinator."""
    machine = _coordinator(cluster)
    return None if machine is None else _dies(cluster, machine, power_failed=False)


def end_interrupted(cluster: FaultTarget) -> End | None:
    """kill -9 of a coordinator in the moment in which it has decided an end, and some partitions lack their marker."""
    ends: list[End] = []
    over = False

    def look(left: int) -> None:
        if over or not left:
            return
        found = [machine for machine in cluster.running if _ends(machine)]
        if found:
            ends.append(_dies(cluster, cluster.simulation.random.choice(found), power_failed=False))
        else:
            cluster.simulation.after_us(LOOK_US, lambda: look(left - 1))

    def end() -> None:
        nonlocal over
        over = True
        for each in ends:
            each()

    look(LOOKS_MAX)
    return end


def _ends(machine: Machine) -> bool:
    """Whether it coordinates a transaction that is about to end."""
    shards = machine.broker.coordinators.transactions.runtime.each_active()
    return any(shard.machine.state.endings for shard in shards)


def transaction_coordinator_stopped(cluster: FaultTarget) -> End | None:
    """A clean stop of a coordinator."""
    return _stops(cluster, _coordinator(cluster))


def transaction_coordinator_paused(cluster: FaultTarget) -> End | None:
    """SIGSTOP of a coordinator; it goes on as if nothing had been."""
    return _pauses(cluster, _coordinator(cluster))


def transaction_coordinator_cut_off(cluster: FaultTarget) -> End | None:
    """A coordinator does not reach the other nodes, or they not it; clients may reach both sides."""
    machine = _coordinator(cluster)
    return None if machine is None or len(cluster.machines) < 2 else _cut_off(cluster, machine)


def written_leader_killed(cluster: FaultTarget) -> End | None:
    """kill -9 of who leads a partition that transactions write."""
    machine = _leader(cluster, (INBOX, LEDGER, OFFSETS_TOPIC))
    return None if machine is None else _dies(cluster, machine, power_failed=False)


def written_leader_paused(cluster: FaultTarget) -> End | None:
    """SIGSTOP of who leads a partition that transactions write."""
    return _pauses(cluster, _leader(cluster, (INBOX, LEDGER, OFFSETS_TOPIC)))
