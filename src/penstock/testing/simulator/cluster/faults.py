"""The faults that a simulated cluster suffers, each for a while, at times and places out of the seed.

A kind of fault is a function: it does its damage to a cluster and gives what ends it, or None when there was nothing to
be done. `Faults` lets up to `at_once_max` of them happen at the same time. What a fault says in the trace begins with
`fault:`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.testing.simulator.driver import Simulation
from penstock.testing.simulator.machine import EVENT_US, Machine
from penstock.testing.simulator.network import Network, Quality

DOWN_MS = (50, 4_000)
INTERVAL_MS = (50, 1_200)
PAUSE_MS = (50, 5_000)
CLOCK_STEP_MS_MAX = 3_600_000
SLOW_EVENT_US = 2_000
SLOW_LINK = Quality(latency_us=(10_000, 120_000), bytes_per_s=200_000)
ROOM_BYTES_MAX = 30_000
CRASH_AFTER_CHANGES_MAX = 200
FAIL_AFTER_FSYNCS_MAX = 40

End = Callable[[], None]


@dataclass
class Suffering:
    """A cluster as faults see it.

    Attributes:
        clients: hosts of the network that are no machines.
    """

    simulation: Simulation
    network: Network
    machines: Sequence[Machine]
    clients: list[str] = field(default_factory=list)

    @property
    def running(self) -> list[Machine]:
        return [machine for machine in self.machines if machine.running]

    def one(self) -> Machine | None:
        """A machine that runs."""
        running = self.running
        return self.simulation.random.choice(running) if running else None

    def two(self) -> tuple[Machine, Machine] | None:
        """Two machines, running or not."""
        if len(self.machines) < 2:
            return None
        first, second = self.simulation.random.sample(list(self.machines), 2)
        return first, second

    def say(self, text: str) -> None:
        self.simulation.trace(f"fault: {text}")


Fault = Callable[[Suffering], End | None]


def nothing_to_end() -> None:
    """The end of what ends by itself."""


def starts_again(machine: Machine) -> End:
    """What starts a machine that is down."""

    def end() -> None:
        if not machine.running:
            machine.start()

    return end


# Machines


def kill(cluster: Suffering) -> End | None:
    """kill -9; the process comes back after a while."""
    return _down(cluster, power_failed=False)


def power_loss(cluster: Suffering) -> End | None:
    """A machine goes dark; what it had not synced is dropped or torn."""
    return _down(cluster, power_failed=True)


def _down(cluster: Suffering, *, power_failed: bool) -> End | None:
    machine = cluster.one()
    if machine is None:
        return None
    machine.restart_delay_ms = None
    cluster.say(f"{'power loss' if power_failed else 'kill -9'} of {machine.host}")
    machine.kill(power_failed=power_failed)
    return starts_again(machine)


def stop(cluster: Suffering) -> End | None:
    """A clean stop, and a start a while after it has succeeded."""
    machine = cluster.one()
    if machine is None or machine.broker.lifecycle.stopping:
        return None
    cluster.say(f"clean stop of {machine.host}")
    machine.shutdown()
    return starts_again(machine)


def pause(cluster: Suffering) -> End | None:
    """SIGSTOP, and SIGCONT later."""
    machine = cluster.one()
    if machine is None:
        return None
    duration_ms = cluster.simulation.random.randint(*PAUSE_MS)
    cluster.say(f"pause of {machine.host} for {duration_ms} ms")
    machine.pause(duration_ms)
    return nothing_to_end


def slow_machine(cluster: Suffering) -> End | None:
    """Every event takes a machine a hundred times as long."""
    machine = cluster.one()
    if machine is None:
        return None
    cluster.say(f"{machine.host} is slow")
    machine.event_us = SLOW_EVENT_US

    def end() -> None:
        machine.event_us = EVENT_US

    return end


def clock_step(cluster: Suffering) -> End | None:
    """A machine's clock jumps ahead, and stays there."""
    machine = cluster.one()
    if machine is None:
        return None
    step_ms = cluster.simulation.random.randrange(cluster.simulation.random.choice((100, 10_000, CLOCK_STEP_MS_MAX)))
    cluster.say(f"the clock of {machine.host} jumps {step_ms} ms ahead")
    machine.step_clock(step_ms)
    return nothing_to_end


# Networks


def partition(cluster: Suffering) -> End | None:
    """Two machines do not reach each other, or one not the other."""
    pair = cluster.two()
    if pair is None:
        return None
    source, target = pair[0].host, pair[1].host
    both_ways = cluster.simulation.random.random() < 0.5
    cluster.say(f"partition {source} {'<->' if both_ways else '->'} {target}")
    cluster.network.partition(source, target, both_ways=both_ways)
    return lambda: cluster.network.heal(source, target)


def isolation(cluster: Suffering) -> End | None:
    """One machine is cut off from all others, sometimes from the clients too, sometimes one way only."""
    if len(cluster.machines) < 2:
        return None
    random = cluster.simulation.random
    host = random.choice(list(cluster.machines)).host
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


def broken_connections(cluster: Suffering) -> End | None:
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


def slow_link(cluster: Suffering) -> End | None:
    """What goes from one machine to another is late."""
    pair = cluster.two()
    if pair is None:
        return None
    source, target = pair[0].host, pair[1].host
    cluster.say(f"slow link {source} -> {target}")
    cluster.network.set_quality(source, target, SLOW_LINK)
    return lambda: cluster.network.set_quality(source, target, None)


# Disks


def disk_full(cluster: Suffering) -> End | None:
    """A disk has little room left."""
    machine = cluster.one()
    if machine is None:
        return None
    disk = cluster.simulation.random.choice(list(machine.disks))
    used_bytes = sum(disk.size(path) for path in disk.paths())
    disk.capacity_bytes = used_bytes + cluster.simulation.random.randrange(ROOM_BYTES_MAX)
    cluster.say(f"disk {disk.directory} of {machine.host} fills up")

    def end() -> None:
        disk.capacity_bytes = None

    return end


def fsync_fails(cluster: Suffering) -> End | None:
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


def torn_write(cluster: Suffering) -> End | None:
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


def cold_disk(cluster: Suffering) -> End | None:
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


class Faults:
    """Has faults happen from `begin` to `end`.

    Args:
        kinds: what may happen, each as often as it is named. interval_ms, duration_ms: bounds of the time between two
        faults, and of how long one lasts.

    Attributes:
        happened: how often each kind did, by name.
    """

    def __init__(
        self,
        cluster: Suffering,
        kinds: Sequence[Fault],
        *,
        at_once_max: int = 2,
        interval_ms: tuple[int, int] = INTERVAL_MS,
        duration_ms: tuple[int, int] = DOWN_MS,
    ) -> None:
        self.cluster = cluster
        self.happened: dict[str, int] = {}
        self._count = 0
        self._kinds = kinds
        self._at_once_max = at_once_max
        self._interval_ms = interval_ms
        self._duration_ms = duration_ms
        self._ends: dict[int, End] = {}
        self._going_on = False

    def begin(self) -> None:
        """Faults happen from now on."""
        self._going_on = True
        self._wait()

    def end(self) -> None:
        """No more of them; those that last end now."""
        self._going_on = False
        for number in list(self._ends):
            self._end(number)

    def _wait(self) -> None:
        if self._kinds:
            self.cluster.simulation.after_ms(self.cluster.simulation.random.randint(*self._interval_ms), self._next)

    def _next(self) -> None:
        if not self._going_on:
            return
        random = self.cluster.simulation.random
        if len(self._ends) < self._at_once_max:
            kind = random.choice(list(self._kinds))
            end = kind(self.cluster)
            if end is not None:
                self.happened[kind.__name__] = self.happened.get(kind.__name__, 0) + 1
                self._count += 1
                number = self._count
                self._ends[number] = end
                self.cluster.simulation.after_ms(random.randint(*self._duration_ms), lambda: self._end(number))
        self._wait()

    def _end(self, number: int) -> None:
        end = self._ends.pop(number, None)
        if end is not None:
            end()
