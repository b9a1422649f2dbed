"""A machine that runs a whole node: the real Broker on simulated disks, in virtual time, a host of a simulated network.

The machine does what the shell of a real server does, and nothing else: it gives the broker frames, ticks and the ends
of operations, one at a time, takes the effects after each and carries them out in order. An event of the loop takes as
long as the disk reads that it did itself, and later events wait for it: so code that reads a cold disk on the loop is
seen in everybody's latency.

Several machines live in one simulation when they are given the same network; a machine that is given none has one of
its own. When the process or the machine dies all its connections do, and it is started again a little later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from penstock.config.server import Settings
from penstock.errors import StorageError
from penstock.log.directory import LogDirectory
from penstock.log.disk import Disk, Operation
from penstock.log.events import LogEvent
from penstock.metadata.format import FormatRequest, format_directories
from penstock.metadata.image import Endpoint
from penstock.node.audit import Audit
from penstock.node.broker import Broker
from penstock.node.client_quotas import ClientQuotas
from penstock.node.effects import Close, Dial, Effect, HangUp, LetIn, PauseReading, ResumeReading, Run, Send, SendTo
from penstock.node.gate import Gate
from penstock.node.handlers import registry
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.protocol.wire import joined
from penstock.raft.voters import VoterEndpoint
from penstock.server.clock import Clock
from simulator.world.checks import check
from simulator.world.disk import PowerLoss, SimulatedDisk
from simulator.world.driver import Lanes, Simulation
from simulator.world.links import DialledLink, ServedLink, SliceRead, split
from simulator.world.network import Address, Network, Socket
from simulator.world.taps import NO_TAP, Tap

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
LISTENER = "PLAINTEXT"
FIRST_PORT = 9092
RESTART_DELAY_MS = 500
FAILED_STARTS_MAX = 5
"""Starts in a row that may fail by a fault of the disk; then it is the crash before that the node cannot get over."""
EVENT_US = 20
FAILS = "a node fails by its disks alone"
STIRRED = "a node wakes in time for all of its parts"


class Machine:
    """One node and its disks.

    Args:
        network: that it is a host of. host: its name there, which is also its address.
        format_request: how its directories are formatted; by default as a cluster of its own. Has no effect on disks
        that are formatted already.

    Attributes:
        broker: the present incarnation; `running` while it is.
        lost_power: whether the last death was a power failure.
        moved_us: when its loop last did anything.
        events: what its log directories reported, of all incarnations.
        event_us: how long an event takes on its loop; more on a slow machine.
        loses_disk: whoever starts the machine after a clean stop takes its last disk out.
        stall_probability, task_us_max: of operations on its disks, see `Lanes`; the latter from the next start on.
        reboots: a machine on which an fsync failed is rebooted when its process ends; else the process alone starts
            again, and finds what it wrote in a page cache that may not be what the disk has.
        restart_delay_ms: after a crash; None: it stays down until `start`.
        before_start, started, died, stopped: called on those occasions; `started` when the broker is ready, `stopped`
        after a clean stop.
        audit, quotas, work_ms: of the node, from the next start on.
        tap: listens to the connections that are served.
        observed: called after each event of the running node, when its effects have been carried out.
    """

    def __init__(
        self,
        simulation: Simulation,
        disks: Sequence[SimulatedDisk],
        *,
        network: Network | None = None,
        host: str = "127.0.0.1",
        format_request: FormatRequest | None = None,
        **settings: Any,
    ) -> None:
        self.simulation = simulation
        self.network = network or Network(simulation)
        self.host = host
        self.disks = disks
        for disk in disks:
            disk.clock = lambda: self.clock_ns // 1_000_000
        paths = tuple(f"/data/{disk.directory}" for disk in disks)
        self._settings = settings
        self.settings = Settings.for_node(**{"log_dirs": paths, **settings})
        self._wall_ahead_ms = 0
        self._clock = self._new_clock()
        self.events: list[LogEvent] = []
        self.before_start: Callable[[], None] = lambda: None
        self.started: Callable[[], None] = lambda: None
        self.died: Callable[[], None] = lambda: None
        self.stopped: Callable[[], None] = lambda: None
        self.observed: Callable[[], None] = lambda: None
        self.audit: Audit | None = None
        self.quotas: Callable[[NodeState, Scheduler, Gate], ClientQuotas] = ClientQuotas
        self.work_ms: Callable[[], float] | None = None
        self.tap: Tap = NO_TAP
        self.event_us = EVENT_US
        self.loses_disk = False
        self.stall_probability = 0.0
        self.task_us_max = 0
        self.reboots = True
        self.restart_delay_ms: int | None = RESTART_DELAY_MS
        self.running = False
        self.lost_power = False
        self.moved_us = 0
        self.incarnation = 0
        self.broker: Broker
        self.dialled: dict[int, DialledLink] = {}
        self._trace_prefix = "" if network is None else f"{host}: "
        self._lanes: Lanes
        self._served: dict[int, ServedLink] = {}
        self._last_served = 0
        self._inbox: deque[Callable[[], None]] = deque()
        self._in_event = False
        self._next_set = False
        self._free_us = 0
        self._paused_until_us = 0
        self._ends_waiting = 0
        self._tick_ms: int | None = None
        self._announced = False
        self._failed_starts = 0
        self._format(format_request)

    def _format(self, request: FormatRequest | None) -> None:
        paths = self.settings.directories
        if request is None:
            controller = VoterEndpoint("CONTROLLER", self.host, self.port("CONTROLLER"))
            request = FormatRequest(CLUSTER_ID, self.settings.node_id, paths[0], standalone=True, controller=controller)
        disks: dict[str, Disk] = dict(zip(paths, self.disks, strict=True))
        format_directories(disks, request, self.simulation.random, self.now_ms)

    def take_out_last_disk(self) -> None:
        """Somebody takes a disk away, and out of `log.dirs`, while the machine is down; not the metadata log's."""
        assert len(self.disks) > 1, "the metadata log is on the first"
        assert not self.running
        self.trace(f"disk {self.disks[-1].directory} is taken out")
        self.disks = self.disks[:-1]
        paths = tuple(f"/data/{disk.directory}" for disk in self.disks)
        self.settings = Settings.for_node(**{"log_dirs": paths, **self._settings})

    @property
    def now_ms(self) -> int:
        """The time that the process counts: it begins with the machine's clock, which moves it no more."""
        return self._clock.now_ms()

    def _new_clock(self) -> Clock:
        """What a process counts with that is started now."""
        return Clock(lambda: self.clock_ns, lambda: self.simulation.now_us * 1_000)

    def port(self, listener: str) -> int:
        """The port of a listener: the one of its setting, else the first free one from FIRST_PORT on."""
        names = [endpoint.listener for endpoint in self.settings.listener_endpoints]
        found = self.settings.listener_endpoints[names.index(listener)].port
        return found or FIRST_PORT + names.index(listener)

    def address(self, listener: str = LISTENER) -> Address:
        """Where a listener is reached."""
        return self.host, self.port(listener)

    def _endpoints(self, *, for_controllers: bool) -> list[Endpoint]:
        """Where others reach the listeners of controllers, or those of clients, which listen once the node is ready."""
        controllers = self.settings.controller_listener_names
        names = [endpoint.listener for endpoint in self.settings.listener_endpoints]
        return [Endpoint(name, *self.address(name)) for name in names if (name in controllers) == for_controllers]

    def _early(self) -> list[str]:
        """The listeners that listen from the start on."""
        names = [endpoint.listener for endpoint in self.settings.listener_endpoints]
        early = {*self.settings.controller_listener_names, *(self.settings.early_start_listeners or ())}
        return [name for name in names if name in early]

    # Life

    def start(self) -> None:
        """Boots; if the power or every disk fails on the way, once more."""
        self.incarnation += 1
        self._clock = self._new_clock()
        self.before_start()
        self.broker = self._new_node()
        self._lanes = Lanes(
            self.simulation,
            self.disks,
            on_event=self._operation_ended,
            on_crash=self.kill,
            completed=lambda operation, result, now_ms: self._ended(operation, result, None),
            failed=lambda operation, error, now_ms: self._ended(operation, None, error),
        )
        self._lanes.stall_probability = self.stall_probability
        self._lanes.task_us_max = self.task_us_max
        self._tick_ms = None
        self._announced = False
        self.trace(f"start {self.incarnation}")
        self.network.power_on(self.host)
        try:
            self._boot()
        except PowerLoss:
            self.kill()
            return
        except (StorageError, OSError) as error:
            self.trace(f"start failed: {error}")
            self._failed_starts += 1
            check(self._failed_starts < FAILED_STARTS_MAX, "a node starts after a crash", str(error))
            self.kill(power_failed=False)
            return
        self.running = True
        self._failed_starts = 0
        self._free_us = self._paused_until_us = self.simulation.now_us
        for name in self._early():
            self._listen(name)
        self._after_event()

    def _new_node(self) -> Broker:
        """The next incarnation."""
        return Broker(
            self.settings,
            [
                LogDirectory(disk.directory, path, disk.loop, disk)
                for path, disk in zip(self.settings.directories, self.disks, strict=True)
            ],
            registry(),
            random=Random(self.simulation.random.getrandbits(64)),
            report=self._report,
            bug=self._bug,
            wall=self._clock.wall,
            audit=self.audit,
            quotas=self.quotas,
            work_ms=self.work_ms,
        )

    def _boot(self) -> None:
        endpoints, controller_endpoints = self._endpoints(for_controllers=False), self._endpoints(for_controllers=True)
        self.broker.start(endpoints, self.now_ms, controller_endpoints=controller_endpoints)

    def shutdown(self) -> None:
        """Begins a clean stop; nobody new is served. A process that stands still does so when it goes on."""
        if self.paused:
            self.on_loop(self.shutdown)
            return
        for endpoint in self.settings.listener_endpoints:
            self.network.stop_listening(*self.address(endpoint.listener))
        self.broker.shutdown(self.now_ms)
        self._after_event()

    def kill(self, *, power_failed: bool = True) -> None:
        """The machine goes down now and comes back a little later; with a reboot, if an fsync has failed on it and that
        is what it is for (`reboots`)."""
        power_failed |= self.reboots and any(disk.fsync_failed for disk in self.disks)
        self._lanes.stop()
        self._down()
        if power_failed:
            self.network.power_off(self.host)
        else:
            self.network.process_died(self.host)
        for disk in self.disks:
            disk.restart(power_failed=power_failed)
        self.lost_power = power_failed
        self.trace("power failure" if power_failed else "kill -9")
        self.died()
        if self.restart_delay_ms is not None:
            self.simulation.after_ms(self.restart_delay_ms, self._start_again)

    def _start_again(self) -> None:
        if not self.running:
            self.start()

    def _down(self) -> None:
        self.running = False
        self._served.clear()
        self.dialled.clear()
        self._inbox.clear()
        self._next_set = False
        self._ends_waiting = 0

    def stall(self, probability: float) -> None:
        """How likely operations of its disks wait before they begin, from now on."""
        self.stall_probability = self._lanes.stall_probability = probability

    def pause(self, duration_ms: int) -> None:
        """Stops the process for a while (SIGSTOP): its connections stay, nothing on it moves."""
        self._paused_until_us = max(self._paused_until_us, self.simulation.now_us + duration_ms * 1000)

    @property
    def paused(self) -> bool:
        """Whether the process stands still."""
        return self.simulation.now_us < self._paused_until_us

    @property
    def wall_ahead_ms(self) -> int:
        """How far the machine's clock is ahead of the others; negative if it is behind."""
        return self._wall_ahead_ms

    @property
    def clock_ns(self) -> int:
        """What the machine's clock says, in nanoseconds since the epoch."""
        return self.simulation.now_ns + self._wall_ahead_ms * 1_000_000

    def step_clock(self, step_ms: int) -> None:
        """Somebody sets the machine's clock, ahead or back. What the process stamps goes by it at once, nothing else;
        a process that is started begins to count by it.
        """
        self._wall_ahead_ms += step_ms

    @property
    def log_directories(self) -> Sequence[LogDirectory]:
        """Those of the node, as it knows them."""
        return self.broker.logs.table.directories

    def do(self, action: Callable[[Broker], None]) -> None:
        """Has the node do something, as an event of its loop."""

        def act() -> None:
            self.broker.scheduler.now_ms = self.now_ms
            action(self.broker)

        self.on_loop(act)

    def trace(self, text: str) -> None:
        """Notes what happened on this machine."""
        self.simulation.trace(self._trace_prefix + text)

    def _report(self, event: LogEvent) -> None:
        self.events.append(event)
        self.trace(str(event))

    def _bug(self, where: str, error: Exception) -> None:
        raise AssertionError(f"error in {where}") from error

    # Connections

    def _listen(self, listener: str) -> None:
        def accept(socket: Socket) -> ServedLink:
            self._last_served += 1
            link = ServedLink(self, self._last_served, socket)
            self.on_loop(lambda: self._connected(link, listener))
            return link

        self.network.listen(*self.address(listener), accept)

    def _connected(self, link: ServedLink, listener: str) -> None:
        delay_ms = self.broker.connection_delay_ms(link.socket.peer, self.now_ms)
        if delay_ms:
            link.paused = True
            self.simulation.after_ms(delay_ms, link.socket.close)
            return
        self._served[link.number] = link
        self.tap.connected(link.number, link.socket.peer, self.now_ms)
        self.broker.connected(link.number, listener, f"{link.socket.peer}:40000", self.now_ms)

    def link_gone(self, link: ServedLink) -> None:
        """A connection that we served is gone."""
        if self._served.pop(link.number, None) is not None:
            self.tap.gone(link.number)
            self.broker.disconnected(link.number, self.now_ms)

    def _dial(self, dial: Dial) -> None:
        link = self.dialled[dial.link] = DialledLink(self, dial.link)
        link.socket = self.network.dial(self.host, (dial.host, dial.port), link)

    # The loop

    def on_loop(self, event: Callable[[], None]) -> None:
        """Has something happen on the loop as soon as it is free, after all that waits for it already."""
        self._inbox.append(event)
        self._go_on()

    def _go_on(self) -> None:
        """Does what has waited longest for the loop, or will when the loop is free."""
        if not self._inbox or self._next_set or self._in_event:
            return
        wait_us = max(self._free_us, self._paused_until_us) - self.simulation.now_us
        if wait_us > 0:
            self._next_set = True
            incarnation = self.incarnation
            self.simulation.after_us(wait_us, lambda: self._go_on_then(incarnation))
        else:
            self._event(self._inbox.popleft())

    def _go_on_then(self, incarnation: int) -> None:
        if self.running and incarnation == self.incarnation:
            self._next_set = False
            self._go_on()

    def _event(self, event: Callable[[], None]) -> None:
        """Does something on the loop, which is busy as long as the disks it used itself."""
        before_us = sum(disk.busy_us for disk in self.disks)
        self._in_event = True
        try:
            event()
            self._after_event()
        except PowerLoss:
            self.kill()
            return
        finally:
            self._in_event = False
        self._free_us = self.simulation.now_us + self.event_us + sum(disk.busy_us for disk in self.disks) - before_us
        self._go_on()

    def _operation_ended(self) -> None:
        self._in_event = True
        self._after_event()
        self._in_event = False
        self._go_on()

    def read_in_lane(self, operation: Operation) -> None:
        """Runs a read of a connection that sends."""
        self._lanes.run([operation])

    def _ended(self, operation: Operation, result: Any, error: OSError | None) -> None:
        """An operation has ended; a process that is stopped hears of it when it goes on."""
        if self.simulation.now_us >= self._paused_until_us and not self._ends_waiting:
            self._tell_end(operation, result, error)
            return

        def tell() -> None:
            self._ends_waiting -= 1
            self._tell_end(operation, result, error)

        self._ends_waiting += 1
        self.on_loop(tell)

    def _tell_end(self, operation: Operation, result: Any, error: OSError | None) -> None:
        target: Any = operation.owner if isinstance(operation, SliceRead) else self.broker
        if error is None:
            target.operation_completed(operation, result, self.now_ms)
        else:
            target.operation_failed(operation, error, self.now_ms)

    def _after_event(self) -> None:
        self.moved_us = self.simulation.now_us
        for effect in self.broker.take_effects():
            self._carry_out(effect)
        self._set_tick()
        if self.broker.ready and not self._announced:
            self._announced = True
            self.trace("ready")
            for endpoint in self.settings.listener_endpoints:
                if endpoint.listener not in self._early():
                    self._listen(endpoint.listener)
            self.started()
        if self.running and self.broker.stopped:
            self.trace("stopped")
            self._lanes.stop()
            self._down()
            self.network.process_died(self.host)
            self.stopped()
        elif self.running and self.broker.failure is not None:
            self.trace(f"failed: {self.broker.failure}")
            check(isinstance(self.broker.failure, StorageError | OSError), FAILS, repr(self.broker.failure))
            self.kill(power_failed=False)
        elif self.running:
            self.observed()

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Run):
            self._lanes.run([effect.operation])
        elif isinstance(effect, Dial):
            self._dial(effect)
        elif isinstance(effect, SendTo | HangUp):
            self._carry_out_on_dialled(effect)
        elif (link := self._served.get(effect.connection)) is None:
            return
        elif isinstance(effect, Send):
            link.send(effect.chunks)
        elif isinstance(effect, PauseReading):
            link.paused = True
        elif isinstance(effect, ResumeReading):
            link.resume()
        elif not isinstance(effect, LetIn):
            assert isinstance(effect, Close)
            self.trace(f"closed {effect.connection}: {effect.reason}")
            self.tap.gone(effect.connection)
            link.close()

    def _carry_out_on_dialled(self, effect: SendTo | HangUp) -> None:
        link = self.dialled.get(effect.link)
        if link is None:
            return
        if isinstance(effect, HangUp):
            del self.dialled[effect.link]
            link.socket.close()
            return
        for frame in split(joined(effect.chunks)):
            link.socket.send(frame)

    def _set_tick(self) -> None:
        asks_all = self.broker.scheduler.stirred
        deadline_ms = self.broker.next_deadline_ms()
        if not asks_all:
            self._check_stirred(deadline_ms)
        if deadline_ms is not None and (self._tick_ms is None or deadline_ms < self._tick_ms):
            self._tick_ms = self._clock.due_ms = deadline_ms
            incarnation = self.incarnation
            wait_ms = deadline_ms - self.now_ms
            self.simulation.at_ms(self.simulation.now_ms + wait_ms, lambda: self._tick(incarnation, deadline_ms))

    def _check_stirred(self, deadline_ms: int | None) -> None:
        """The node wakes in time for all of its parts, though it has not asked them after every event."""
        due_ms = self.broker.scheduler.soonest_deadline_ms()
        if due_ms is not None:
            late = deadline_ms is None or deadline_ms > max(due_ms, self.now_ms)
            check(not late, STIRRED, f"wakes at {deadline_ms}, and something is due at {due_ms}")

    def _tick(self, incarnation: int, set_for_ms: int) -> None:
        if not self.running or incarnation != self.incarnation or self._tick_ms != set_for_ms:
            return
        if self.simulation.now_us < self._paused_until_us:
            later_us = self._paused_until_us - self.simulation.now_us
            self.simulation.after_us(later_us, lambda: self._tick(incarnation, set_for_ms))
            return
        self._event(self._tick_now)

    def _tick_now(self) -> None:
        now_ms = self.now_ms
        self._tick_ms = self._clock.due_ms = None
        self.broker.tick(now_ms)
