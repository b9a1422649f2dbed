"""The kinds of faults that a simulated cluster suffers, each for a while, at places out of the seed."""

from __future__ import annotations

from penstock.raft.topic import METADATA
from simulator.cluster.fault_injection import DOWN_MS, End, FaultTarget
from simulator.world.checks import check
from simulator.world.machine import EVENT_US, Machine
from simulator.world.network import Quality

PAUSE_MS = (50, 5_000)
LONG_PAUSE_MS = (5_000, 20_000)
SLOW_EVENT_US = 2_000
SLOW_LINK = Quality(latency_us=(10_000, 120_000), bytes_per_s=200_000)
ROOM_BYTES_MAX = 30_000
MORE_THAN_RESERVE_BYTES_MAX = 3_000
RESERVED = "checkpoints and the metadata log find the room that is kept for them"
CRASH_AFTER_CHANGES_MAX = 200
FAIL_AFTER_FSYNCS_MAX = 40
STOPPED_AFTER_MS_MAX = 500
FAIL_AFTER_CHANGES_MAX = 100


def nothing_to_end() -> None:
    """The end of what ends by itself."""


def starts_again(machine: Machine) -> End:
    """What starts a machine that is down."""

    def end() -> None:
        if not machine.running:
            machine.start()

    return end


# Machines


def kill(cluster: FaultTarget) -> End | None:
    """kill -9; the process comes back after a while."""
    return _down(cluster, power_failed=False)


def power_loss(cluster: FaultTarget) -> End | None:
    """A machine goes dark; what it had not synced is dropped or torn."""
    return _down(cluster, power_failed=True)


def power_loss_of_one(cluster: FaultTarget) -> End | None:
    """A machine goes dark while all others have what it has: nothing that was acknowledged may need its disk."""
    return _down(cluster, power_failed=True) if cluster.whole() else None


def power_loss_of_all(cluster: FaultTarget) -> End | None:
    """Every machine goes dark at the same moment."""
    ends = [_dies(cluster, machine, power_failed=True) for machine in cluster.running]

    def end() -> None:
        for each in ends:
            each()

    return end if ends else None


def controller_killed(cluster: FaultTarget) -> End | None:
    """kill -9 of the active controller, or its machine goes dark, with whatever it was asked for under way."""
    machine = cluster.controller()
    return None if machine is None else _dies(cluster, machine, power_failed=cluster.simulation.random.random() < 0.3)


def _down(cluster: FaultTarget, *, power_failed: bool) -> End | None:
    machine = cluster.one()
    return None if machine is None else _dies(cluster, machine, power_failed=power_failed)


def _dies(cluster: FaultTarget, machine: Machine, *, power_failed: bool) -> End:
    machine.restart_delay_ms = None
    cluster.say(f"{'power loss' if power_failed else 'kill -9'} of {machine.host}")
    machine.kill(power_failed=power_failed)
    return starts_again(machine)


def stop(cluster: FaultTarget) -> End | None:
    """A clean stop, and a start a while after it has succeeded."""
    return _stops(cluster, cluster.one())


def controller_stopped(cluster: FaultTarget) -> End | None:
    """A clean stop of the active controller."""
    return _stops(cluster, cluster.controller())


def _stops(cluster: FaultTarget, machine: Machine | None) -> End | None:
    if machine is None or machine.broker.state.stopping:
        return None
    cluster.say(f"clean stop of {machine.host}")
    machine.shutdown()
    return starts_again(machine)


def pause(cluster: FaultTarget) -> End | None:
    """SIGSTOP, and SIGCONT later."""
    return _pauses(cluster, cluster.one())


def controller_paused(cluster: FaultTarget) -> End | None:
    """SIGSTOP of the active controller; it goes on as if nothing had been."""
    return _pauses(cluster, cluster.controller())


def long_pause(cluster: FaultTarget) -> End | None:
    """SIGSTOP for longer than a session, or a virtual machine that is moved to another host."""
    return _pauses(cluster, cluster.one(), LONG_PAUSE_MS)


def _pauses(cluster: FaultTarget, machine: Machine | None, bounds_ms: tuple[int, int] = PAUSE_MS) -> End | None:
    if machine is None:
        return None
    duration_ms = cluster.simulation.random.randint(*bounds_ms)
    cluster.say(f"pause of {machine.host} for {duration_ms} ms")
    machine.pause(duration_ms)
    return nothing_to_end


def slow_machine(cluster: FaultTarget) -> End | None:
    """Every event takes a machine a hundred times as long."""
    machine = cluster.one()
    if machine is None:
        return None
    cluster.say(f"{machine.host} is slow")
    machine.event_us = SLOW_EVENT_US

    def end() -> None:
        machine.event_us = EVENT_US

    return end


# Networks


def partition(cluster: FaultTarget) -> End | None:
    """Two machines do not reach each other, or one not the other."""
    pair = cluster.two()
    if pair is None:
        return None
    source, target = pair[0].host, pair[1].host
    both_ways = cluster.simulation.random.random() < 0.5
    cluster.say(f"partition {source} {'<->' if both_ways else '->'} {target}")
    cluster.network.partition(source, target, both_ways=both_ways)
    return lambda: cluster.network.heal(source, target)


def isolation(cluster: FaultTarget) -> End | None:
    """One machine is cut off from all others, sometimes from the clients too, sometimes one way only."""
    if len(cluster.machines) < 2:
        return None
    random = cluster.simulation.random
    return _cut_off(cluster, random.choice(list(cluster.machines)))


def controller_cut_off(cluster: FaultTarget) -> End | None:
    """The active controller is cut off, as in `isolation`; it does not know."""
    machine = cluster.controller()
    return None if machine is None or len(cluster.machines) < 2 else _cut_off(cluster, machine)


def _cut_off(cluster: FaultTarget, machine: Machine) -> End:
    random, host = cluster.simulation.random, machine.host
    others = [machine.host for machine in cluster.machines if machine.host != host]
    with_clients, kind = random.random() < 0.5, random.randrange(3)
    others += cluster.clients if with_clients else []
    cluster.say(f"isolation of {host}{' from all' if with_clients else ''}, {('both ways', 'in', 'out')[kind]}")
    for other in others:
        if kind != 1:
            cluster.network.partition(host, other, both_ways=kind == 0)
        else:
            cluster.network.partition(other, host, both_ways=False)

    def end() -> None:
        for other in others:
            cluster.network.heal(host, other)

    return end


def broken_connections(cluster: FaultTarget) -> End | None:
    """The connections of a live machine break, all of them or those with one other."""
    machine = cluster.one()
    if machine is None:
        return None
    pair = cluster.two()
    one_peer = pair is not None and cluster.simulation.random.random() < 0.5
    peer = pair[0].host if one_peer and pair is not None and pair[0] is not machine else None
    broken = cluster.network.break_connections(machine.host, peer)
    cluster.say(f"{broken} connections of {machine.host} with {peer or 'all'} break")
    return nothing_to_end


def silent_connections(cluster: FaultTarget) -> End | None:
    """Connections of a live machine are forgotten on the way, as by a firewall: both ends stay open, and mute."""
    machine = cluster.one()
    pair = cluster.two()
    if machine is None or pair is None:
        return None
    one_peer = pair[0] is not machine and cluster.simulation.random.random() < 0.5
    peer = pair[0].host if one_peer else None
    silent = cluster.network.silence_connections(machine.host, peer)
    cluster.say(f"{silent} connections of {machine.host} with {peer or 'all'} fall silent")
    return nothing_to_end


def slow_link(cluster: FaultTarget) -> End | None:
    """What goes from one machine to another is late."""
    pair = cluster.two()
    if pair is None:
        return None
    source, target = pair[0].host, pair[1].host
    cluster.say(f"slow link {source} -> {target}")
    cluster.network.set_quality(source, target, SLOW_LINK)
    return lambda: cluster.network.set_quality(source, target, None)


# Disks


def disk_full(cluster: FaultTarget) -> End | None:
    """A disk has little room left."""
    machine = cluster.one()
    if machine is None:
        return None
    disk = cluster.simulation.random.choice(list(machine.disks))
    used_bytes = sum(disk.size(path) for path in disk.paths())
    disk.capacity_bytes = used_bytes + cluster.simulation.random.randrange(ROOM_BYTES_MAX)
    disk.refused = []
    cluster.say(f"disk {disk.directory} of {machine.host} fills up")

    def end() -> None:
        disk.capacity_bytes = None

    return end


def reserve_is_left(cluster: FaultTarget) -> End | None:
    """A disk has little more room left than what is kept in reserve: clients cannot take away what checkpoints and the
    metadata log need."""
    machine = cluster.one()
    reserve_bytes = None if machine is None else machine.settings.penstock_log_dir_reserve_bytes
    if machine is None or reserve_bytes is None:
        return None
    disk = cluster.simulation.random.choice(list(machine.disks))
    if disk.capacity_bytes is not None:
        return None
    used_bytes = sum(disk.size(path) for path in disk.paths())
    used_bytes += cluster.simulation.random.randrange(MORE_THAN_RESERVE_BYTES_MAX)
    disk.capacity_bytes = capacity_bytes = used_bytes + reserve_bytes
    refused: list[str] = []
    disk.refused = refused
    cluster.say(f"disk {disk.directory} of {machine.host} has its reserve left, and a little more")

    def end() -> None:
        if disk.capacity_bytes == capacity_bytes:
            disk.capacity_bytes = None
        without = sorted({path for path in refused if is_reserved_for(path)})
        check(not without, RESERVED, f"disk {disk.directory} of {machine.host}: {without[:3]}")

    return end


def is_reserved_for(path: str) -> bool:
    """Whether a file is one of those that the reserve is for."""
    return path.removesuffix(".tmp").endswith("checkpoint") or path.startswith(METADATA.directory)


def fsync_fails(cluster: FaultTarget) -> End | None:
    """An fsync soon fails."""
    machine = cluster.one()
    if machine is None:
        return None
    disk = cluster.simulation.random.choice(list(machine.disks))
    disk.fail_fsync_at = disk.fsyncs + cluster.simulation.random.randrange(1, FAIL_AFTER_FSYNCS_MAX)
    cluster.say(f"an fsync of disk {disk.directory} of {machine.host} fails soon")

    def end() -> None:
        disk.fail_fsync_at = None

    return end


def write_fails(cluster: FaultTarget) -> End | None:
    """A write soon fails with EIO."""
    machine = cluster.one()
    if machine is None:
        return None
    disk = cluster.simulation.random.choice(list(machine.disks))
    disk.fail_write_at = disk.changes + cluster.simulation.random.randrange(1, FAIL_AFTER_CHANGES_MAX)
    cluster.say(f"a write to disk {disk.directory} of {machine.host} fails soon")

    def end() -> None:
        disk.fail_write_at = None

    return end


def reads_fail(cluster: FaultTarget) -> End | None:
    """A disk can be read no more, but for what the page cache has."""
    machine = cluster.one()
    if machine is None:
        return None
    disk = cluster.simulation.random.choice(list(machine.disks))
    disk.cold = disk.unreadable = True
    cluster.say(f"disk {disk.directory} of {machine.host} cannot be read")

    def end() -> None:
        disk.cold = disk.unreadable = False

    return end


def disk_taken_out(cluster: FaultTarget) -> End | None:
    """Somebody stops two machines cleanly and takes a disk out of one, after all had what it has. The third is cut off
    meanwhile: so the one that lacks a disk may be the first that could lead again."""
    machines = [each for each in cluster.running if not each.broker.state.stopping]
    if len(machines) < 3 or any(each.loses_disk for each in cluster.machines) or not cluster.whole():
        return None
    random, simulation = cluster.simulation.random, cluster.simulation
    first, second, third = random.sample(machines, 3)
    if len(second.disks) < 2:
        return None
    second.loses_disk = True
    cluster.say(f"{second.host} is to lose a disk, after {first.host} has stopped")
    ends: list[End] = [starts_again(first), starts_again(second)]

    def stop_it(machine: Machine) -> None:
        if machine.running and not machine.broker.state.stopping:
            machine.shutdown()

    def cut_off() -> None:
        if ends:
            ends.append(_cut_off(cluster, third))

    def end() -> None:
        while ends:
            ends.pop()()

    simulation.after_ms(random.randrange(STOPPED_AFTER_MS_MAX), lambda: stop_it(first))
    simulation.after_ms(random.randrange(STOPPED_AFTER_MS_MAX), lambda: stop_it(second))
    simulation.after_ms(random.randrange(2 * STOPPED_AFTER_MS_MAX), cut_off)
    return end


def torn_write(cluster: FaultTarget) -> End | None:
    """Power fails in the middle of a change to a disk."""
    machine = cluster.one()
    if machine is None:
        return None
    disk = cluster.simulation.random.choice(list(machine.disks))
    disk.crash_at = disk.changes + cluster.simulation.random.randrange(1, CRASH_AFTER_CHANGES_MAX)
    machine.restart_delay_ms = cluster.simulation.random.randint(*DOWN_MS)
    cluster.say(f"power of {machine.host} fails soon, within a change of disk {disk.directory}")

    def end() -> None:
        disk.crash_at = None

    return end


def cold_disk(cluster: FaultTarget) -> End | None:
    """A machine's page cache is empty."""
    machine = cluster.one()
    if machine is None:
        return None
    cluster.say(f"the disks of {machine.host} are cold")
    for disk in machine.disks:
        disk.cold = True

    def end() -> None:
        for disk in machine.disks:
            disk.cold = False

    return end
