"""Faults that are meant for coordinators: a broker that serves groups dies, stops, stands still, or is cut off."""

from __future__ import annotations

from collections.abc import Callable

from simulator.cluster.fault_injection import End, FaultTarget
from simulator.cluster.faults import _cut_off, _dies, _pauses, _stops
from simulator.world.machine import Machine


def coordinator(cluster: FaultTarget) -> Machine | None:
    """A machine that has groups with members."""
    found = [
        machine
        for machine in cluster.running
        if any(shard.machine.state.groups.all() for shard in machine.broker.coordinators.groups.runtime.each_active())
    ]
    return cluster.simulation.random.choice(found) if found else None


def _to_coordinator(cluster: FaultTarget, happens: Callable[[FaultTarget, Machine], End | None]) -> End | None:
    machine = coordinator(cluster)
    return None if machine is None else happens(cluster, machine)


def coordinator_killed(cluster: FaultTarget) -> End | None:
    """kill -9 of a coordinator."""
    return _to_coordinator(cluster, lambda *told: _dies(*told, power_failed=False))


def coordinator_stopped(cluster: FaultTarget) -> End | None:
    """A clean stop of a coordinator."""
    return _to_coordinator(cluster, _stops)


def coordinator_paused(cluster: FaultTarget) -> End | None:
    """SIGSTOP of a coordinator; it goes on as if nothing had been."""
    return _to_coordinator(cluster, _pauses)


def coordinator_cut_off(cluster: FaultTarget) -> End | None:
    """A coordinator does not reach the other nodes, or they not it; clients may reach both sides."""
    return _to_coordinator(cluster, lambda each, machine: _cut_off(each, machine) if len(each.machines) > 1 else None)
