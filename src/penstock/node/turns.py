"""Whose turn it is: tenants share the loop by what their requests take, and the connections of a tenant its share.

Time is divided into *rounds*, in which each tenant (`penstock.node.tenants`) may use TENANT_SHARE_MS, and each of its
connections CONNECTION_SHARE_MS of that (`penstock.node.line` says how). Frames execute on arrival while connection and
tenant have some of that left; afterwards they wait, and the connection stands in its tenant's line, and that in the
line of all. So a client that asks for little is answered at once however much others ask for, one that opens many
connections gets no more for that, and who is alone may use the whole loop.

What counts is the time that requests execute, and the bytes that they bring and get: BYTES_PER_SHARE_MS of them cost
what a millisecond does, since writing, reading and sending them takes time elsewhere.

One turn of the loop executes what costs TURN_WORK_MS, then answers leave and other events are handled. Tenants that
find nothing left of a turn, but have some of their share, are served before those that used theirs up; and nothing
executes on arrival while another tenant stands first that has more left. The nodes of the cluster have a turn of their
own, as long, which comes first: whatever clients ask for, replication goes on.

Frames that have arrived are executed even if the other side has closed the connection since: a producer with acks=0 may
send its records and close. Such connections are *leaving*, at most LEAVING_CONNECTIONS_MAX of them.

Long work is a generator, done step by step in its connection's turns; the connection executes nothing else meanwhile.
At most LONG_REQUESTS_MAX of what takes more than a step are under way (`penstock.node.places`): others wait after their
first step.

The clock is given: the shell's measures time, the simulator's counts its readings. Its milliseconds measure work only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from penstock.errors import NotResident
from penstock.node.connection import Connection, Steps, Work
from penstock.node.limits import (
    BYTES_PER_SHARE_MS,
    LEAVING_CONNECTIONS_MAX,
    LONG_REQUESTS_MAX,
    LONG_REQUESTS_OF_TENANT_MAX,
    TURN_WORK_MS,
)
from penstock.node.line import Tenant
from penstock.node.places import Places
from penstock.node.tenants import Tenants

SHARE_MS_PER_BYTE = 1 / BYTES_PER_SHARE_MS

DONE = object()
COUNTED_READING_MS = 0.1
"""What a reading of the counting clock counts for."""


class CountedWork:
    """A clock for tests and the simulator: each reading is a little later than the one before."""

    def __init__(self, reading_ms: float = COUNTED_READING_MS) -> None:
        self.reading_ms = reading_ms
        self.spent_ms = 0.0

    def __call__(self) -> float:
        self.spent_ms += self.reading_ms
        return self.spent_ms


class Turns:
    """See the module's head.

    Args:
        execute: executes one frame of a connection.
        read_first: has the data that long work needs read into memory, and then calls `resume` with the work.
        clock_ms: measures work, in milliseconds.
        left: called with a leaving connection when all its frames are executed, or too many are leaving.
        controller_listeners: the listeners of nodes alone.

    Attributes: `tenants`, which knows whose connections are.
    """

    def __init__(
        self,
        execute: Callable[[Connection, memoryview], None],
        read_first: Callable[[Work, NotResident], None],
        clock_ms: Callable[[], float],
        left: Callable[[Connection], None],
        *,
        controller_listeners: Collection[str] = (),
    ) -> None:
        self._execute = execute
        self._read_first = read_first
        self._clock_ms = clock_ms
        self._left = left
        self._leaving: dict[Connection, None] = {}
        self.tenants = Tenants(controller_listeners)
        self._nodes, self._clients = self.tenants.nodes, self.tenants.clients
        self._places = {
            self.tenants.nodes: Places(LONG_REQUESTS_MAX, LONG_REQUESTS_MAX),
            self.tenants.clients: Places(LONG_REQUESTS_MAX, LONG_REQUESTS_OF_TENANT_MAX),
        }

    @property
    def waiting(self) -> bool:
        """Whether a connection waits for its turn."""
        nodes, clients = self._nodes, self._clients
        return bool(clients.early or clients.late or nodes.early or nodes.late)

    @property
    def spent_ms(self) -> float:
        """What requests of clients have used of shares in this turn of the loop; if there was none, those of nodes."""
        return self._clients.spent_ms or self._nodes.spent_ms

    def execute(self, connection: Connection, frame: memoryview) -> None:
        """Executes a frame now, or when its turn comes."""
        tenant = connection.tenant
        if tenant is None:
            tenant = self.tenants.arrived(connection)
        group = tenant.group
        if tenant.round != group.rounds:
            group.renew(tenant)
        if connection.round != tenant.rounds:
            tenant.renew(connection)
        early = group.early
        if (
            connection.holds
            or connection.waiting
            or connection.in_line
            or connection.share_ms <= 0
            or tenant.share_ms <= 0
            or group.spent_ms >= TURN_WORK_MS
            or (early and early[0].share_ms > tenant.share_ms)
        ):
            connection.waiting.append(frame)
            self.proceed(connection)
            return
        clock_ms = self._clock_ms
        started_ms = clock_ms()
        self._execute(connection, frame)
        spent_ms = clock_ms() - started_ms  # as `_charge`, whose call alone costs as much
        share_ms = spent_ms + len(frame) * SHARE_MS_PER_BYTE
        connection.share_ms -= share_ms
        tenant.share_ms -= share_ms
        group.spent_ms += share_ms
        if group.served is not tenant or connection.tenant is not tenant:
            self._served(connection, tenant, share_ms)
        if connection.time_usage is not None:
            connection.time_usage.spent_ms += spent_ms

    def begin(self, connection: Connection, steps: Steps, *, needs_place: bool = True) -> None:
        """Does the first step of long work now, and the others, if there are any, in later turns of the connection."""
        first = next(steps, DONE)
        if first is not DONE:
            connection.holds += 1
            self._stepped(Work(connection, steps, needs_place=needs_place), first)

    def resume(self, work: Work) -> None:
        """Continues work whose data has arrived."""
        if work.connection.closed:
            self._give_place_back(work)
        else:
            work.connection.work.append(work)
            self._stand_in_line(work.connection)

    def proceed(self, connection: Connection) -> None:
        """Continues at once with what waits on a connection, as far as it may."""
        if connection.in_line or connection.closed:
            return
        if not ready(connection):
            self._leave_if_idle(connection)
            return
        if not self._may_go_on(connection) or self._visit(connection):
            self._stand_in_line(connection)

    def brought(self, connection: Connection, size_bytes: int) -> None:
        """Counts bytes that an answer brings to a connection."""
        if connection.tenant is not None:
            self._charge(connection, connection.tenant, 0.0, size_bytes)

    def leave(self, connection: Connection) -> None:
        """The other side has closed the connection, which is given up once all its frames are executed."""
        self._leaving[connection] = None
        self._leave_if_idle(connection)
        if len(self._leaving) > LEAVING_CONNECTIONS_MAX:
            self._left(next(iter(self._leaving)))

    def forget(self, connection: Connection) -> None:
        """The connection is closed: frees the places of its work."""
        self._leaving.pop(connection, None)
        for places in self._places.values():
            if places.waiting:
                places.forget(connection)
        while connection.work:
            self._give_place_back(connection.work.popleft())
        self.tenants.left(connection)

    def serve(self) -> None:
        """Serves connections in line, those of nodes first."""
        for group in (self._nodes, self._clients):
            if group.waits:
                group.serve(self._visit_tenant, group.has_room)

    def turn_ended(self) -> None:
        """Begins the next turn of the loop. The call may be omitted after a turn that spent nothing."""
        if self._clients.spent_ms:
            self._clients.turn_ended()
        if self._nodes.spent_ms:
            self._nodes.turn_ended()

    def _may_go_on(self, connection: Connection) -> bool:
        tenant = self._tenant_of(connection)
        if connection.round != tenant.rounds:
            tenant.renew(connection)
        early = tenant.group.early
        other_first = early and early[0].share_ms > tenant.share_ms
        return connection.share_ms > 0 and tenant.has_room and not other_first

    def _tenant_of(self, connection: Connection) -> Tenant:
        tenant = connection.tenant or self.tenants.arrived(connection)
        if tenant.round != tenant.group.rounds:
            tenant.group.renew(tenant)
        return tenant

    def _charge(self, connection: Connection, tenant: Tenant, spent_ms: float, size_bytes: int) -> None:
        """Counts work for a connection that was done in the turn of `tenant`, and for whose it turned out to be."""
        share_ms = spent_ms + size_bytes * SHARE_MS_PER_BYTE
        connection.share_ms -= share_ms
        tenant.share_ms -= share_ms
        tenant.group.spent_ms += share_ms
        if tenant.group.served is not tenant or connection.tenant is not tenant:
            self._served(connection, tenant, share_ms)
        if connection.time_usage is not None:
            connection.time_usage.spent_ms += spent_ms

    def _served(self, connection: Connection, tenant: Tenant, share_ms: float) -> None:
        """Notes whose turn it was, and counts the work for who the client has turned out to be."""
        group = tenant.group
        if group.served is not tenant:
            group.alone = group.alone and group.served is None
            group.served = tenant
        if connection.tenant is not tenant and connection.tenant is not None:
            connection.tenant.share_ms -= share_ms

    def _visit_tenant(self, tenant: Tenant) -> bool:
        """Serves connections of a tenant until none waits, or its share or the turn is used up.

        Returns whether it waits for more with the rest of its share.
        """
        if tenant.round != tenant.group.rounds:
            tenant.group.renew(tenant)
        served = False
        try:
            tenant.serve(self._visit, lambda: tenant.has_room)
            served = True
        finally:
            tenant.in_line = False
            if tenant.waits and not (served and tenant.share_ms > 0):
                tenant.group.stand(tenant)
        return tenant.waits and not tenant.in_line

    def _visit(self, connection: Connection) -> bool:
        """Serves a connection until nothing of it is ready, or its share, its tenant's or the turn is used up.

        Returns whether it waits for more with the rest of its share.
        """
        tenant = self._tenant_of(connection)
        connection.in_line = True
        started_ms = self._clock_ms()
        try:
            while ready(connection) and not connection.closed:
                size_bytes = 0
                if connection.work:
                    work = connection.work.popleft()
                    self._stepped(work, next(work.steps, DONE))
                else:
                    frame = connection.waiting.popleft()
                    size_bytes = len(frame)
                    self._execute(connection, frame)
                now_ms = self._clock_ms()
                self._charge(connection, tenant, now_ms - started_ms, size_bytes)
                started_ms = now_ms
                if connection.share_ms <= 0 or not (tenant.has_room and self._tenant_of(connection).has_room):
                    break
        finally:
            connection.in_line = False
        if connection.closed:
            return False
        if not ready(connection):
            self._leave_if_idle(connection)
            return False
        if connection.share_ms > 0 and connection.tenant is tenant:  # else it stands in the line of another
            return True
        self._stand_in_line(connection)
        return False

    def _leave_if_idle(self, connection: Connection) -> None:
        if connection not in self._leaving or ready(connection):
            return
        only_mute = connection.holds == 1 and connection.muted_until_ms > 0 and not connection.waiting
        if not connection.holds or only_mute:
            self._left(connection)

    def _stand_in_line(self, connection: Connection) -> None:
        if not connection.in_line and not connection.closed:
            tenant = self._tenant_of(connection)
            tenant.stand(connection)
            if not tenant.in_line:
                tenant.group.stand(tenant)

    def _stepped(self, work: Work, result: object) -> None:
        """Handles the end of a step: the work is done, waits for data or for a place, or continues."""
        connection = work.connection
        if result is DONE or connection.closed:
            connection.holds -= 1
            self._give_place_back(work)
        elif result is not None:
            assert isinstance(result, NotResident)
            self._read_first(work, result)
        elif not work.needs_place or work.place is not None or self._takes_place(work):
            connection.work.appendleft(work)
            self._stand_in_line(connection)

    def _takes_place(self, work: Work) -> bool:
        """Whether work gets a place; otherwise it waits for one."""
        tenant = self._tenant_of(work.connection)
        return self._places[tenant.group].take(work, tenant)

    def _give_place_back(self, work: Work) -> None:
        """Gives the place of this work to what waits for one."""
        if work.place is not None:
            for other in self._places[work.place.group].give_back(work):
                self.resume(other)


def ready(connection: Connection) -> bool:
    """Whether a connection can be served: it has work, or a frame that nothing holds back."""
    return bool(connection.work) or (bool(connection.waiting) and not connection.holds)
