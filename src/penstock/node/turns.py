"""Whose turn it is: connections share the loop by the time that their requests take.

Time is divided into *rounds*. In each round a connection may use ROUND_SHARE_MS: its frames execute on arrival while it
has some of that left. Afterwards they wait, and the connection stands in line with others like it; when all in line had
their turn, the next round begins. A connection that used more than its share, by a request that could not be
interrupted, pays with its shares of later rounds; unused shares are not saved up. So a client that asks for little is
answered at once however much others ask for, and a connection that is alone may use the whole loop.

One turn of the loop executes for TURN_WORK_MS, then answers leave and other events are handled. Connections that find
no time left in a turn, but have some of their share, are served before those that used theirs up (like new flows before
old ones in FQ-CoDel, RFC 8290); one of the latter is served in every turn.

Frames that have arrived are executed even if the other side has closed the connection since: a producer with acks=0 may
send its records and close. Such connections are *leaving*, at most LEAVING_CONNECTIONS_MAX of them.

Long work is a generator, done step by step in its connection's turns; the connection executes nothing else meanwhile.
Work of more than a step has its message in memory, many times the size of its frame, so at most LONG_REQUESTS_MAX are
under way at a time: others wait after their first step.

The clock is given: the shell's measures time, the simulator's counts its readings. Its milliseconds measure work only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock.errors import NotResident
from penstock.node.connection import Connection, Steps, Work
from penstock.node.limits import LEAVING_CONNECTIONS_MAX, LONG_REQUESTS_MAX, ROUND_SHARE_MS, TURN_WORK_MS

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

    Attributes: `spent_ms`, how long requests have executed in this turn of the loop.
    """

    def __init__(
        self,
        execute: Callable[[Connection, memoryview], None],
        read_first: Callable[[Work, NotResident], None],
        clock_ms: Callable[[], float],
        left: Callable[[Connection], None],
    ) -> None:
        self._execute = execute
        self._read_first = read_first
        self._clock_ms = clock_ms
        self._left = left
        self._leaving: dict[Connection, None] = {}
        self._round = 0
        self._left_of_round = 0
        self.spent_ms = 0.0
        self._early: deque[Connection] = deque()
        self._late: deque[Connection] = deque()
        self._places = LONG_REQUESTS_MAX
        self._without_place: deque[Work] = deque()

    @property
    def waiting(self) -> bool:
        """Whether a connection waits for its turn."""
        return bool(self._early or self._late)

    def execute(self, connection: Connection, frame: memoryview) -> None:
        """Executes a frame now, or when its turn comes."""
        if connection.round != self._round:
            self._renew(connection)
        if (
            connection.holds
            or connection.waiting
            or connection.in_line
            or connection.share_ms <= 0
            or self.spent_ms >= TURN_WORK_MS
        ):
            connection.waiting.append(frame)
            self.proceed(connection)
            return
        clock_ms = self._clock_ms
        started_ms = clock_ms()
        self._execute(connection, frame)
        self._charge(connection, clock_ms() - started_ms)

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
        if self._may_go_on(connection):
            connection.in_line = True
            if self._visit(connection):
                self._early.append(connection)
        else:
            self._stand_in_line(connection)

    def leave(self, connection: Connection) -> None:
        """The other side has closed the connection, which is given up once all its frames are executed."""
        self._leaving[connection] = None
        self._leave_if_idle(connection)
        if len(self._leaving) > LEAVING_CONNECTIONS_MAX:
            self._left(next(iter(self._leaving)))

    def forget(self, connection: Connection) -> None:
        """The connection is closed: frees the places of its work."""
        self._leaving.pop(connection, None)
        if self._without_place:
            self._without_place = deque(work for work in self._without_place if work.connection is not connection)
        while connection.work:
            self._give_place_back(connection.work.popleft())

    def serve(self) -> None:
        """Serves connections in line: those with a share left first, and in any case one of the others."""
        while self._early and self.spent_ms < TURN_WORK_MS:
            connection = self._early.popleft()
            if self._visit(connection):
                self._early.appendleft(connection)
        served = False
        while self._late and not (served and self.spent_ms >= TURN_WORK_MS):
            served = self._visit_late() or served

    def turn_ended(self) -> None:
        """Begins the next turn of the loop. The call may be omitted after a turn that spent nothing."""
        self.spent_ms = 0.0
        if not self._late:
            self._round += 1

    def _visit_late(self) -> bool:
        """Serves the first connection without a share, unless it still owes time. Returns whether it did."""
        if not self._left_of_round:
            self._round += 1
            self._left_of_round = len(self._late)
        self._left_of_round -= 1
        connection = self._late.popleft()
        self._renew(connection)
        if connection.share_ms <= 0 and not connection.closed:
            self._late.append(connection)
            return False
        if self._visit(connection):
            self._late.appendleft(connection)
            self._left_of_round += 1
        return True

    def _may_go_on(self, connection: Connection) -> bool:
        if connection.round != self._round:
            self._renew(connection)
        return connection.share_ms > 0 and self.spent_ms < TURN_WORK_MS

    def _renew(self, connection: Connection) -> None:
        """Gives a connection its shares of the rounds since it was last looked at."""
        share_ms = connection.share_ms + (self._round - connection.round) * ROUND_SHARE_MS
        connection.share_ms = share_ms if share_ms < ROUND_SHARE_MS else ROUND_SHARE_MS
        connection.round = self._round

    def _charge(self, connection: Connection, spent_ms: float) -> None:
        connection.share_ms -= spent_ms
        self.spent_ms += spent_ms
        if connection.time_usage is not None:
            connection.time_usage.spent_ms += spent_ms

    def _visit(self, connection: Connection) -> bool:
        """Serves a connection until nothing of it is ready, or its share or the turn is used up.

        Returns whether it still stands in line with the rest of its share: then the caller puts it back.
        """
        assert connection.in_line
        started_ms = self._clock_ms()
        try:
            while ready(connection) and not connection.closed:
                if connection.work:
                    work = connection.work.popleft()
                    self._stepped(work, next(work.steps, DONE))
                else:
                    self._execute(connection, connection.waiting.popleft())
                now_ms = self._clock_ms()
                self._charge(connection, now_ms - started_ms)
                started_ms = now_ms
                if connection.share_ms <= 0 or self.spent_ms >= TURN_WORK_MS:
                    break
        finally:
            connection.in_line = False
        if connection.closed:
            return False
        if not ready(connection):
            self._leave_if_idle(connection)
            return False
        if connection.share_ms <= 0:
            self._stand_in_line(connection)
            return False
        connection.in_line = True
        return True

    def _leave_if_idle(self, connection: Connection) -> None:
        if connection not in self._leaving or ready(connection):
            return
        only_mute = connection.holds == 1 and connection.muted_until_ms > 0 and not connection.waiting
        if not connection.holds or only_mute:
            self._left(connection)

    def _stand_in_line(self, connection: Connection) -> None:
        if not connection.in_line and not connection.closed:
            connection.in_line = True
            (self._early if connection.share_ms > 0 else self._late).append(connection)

    def _stepped(self, work: Work, result: object) -> None:
        """Handles the end of a step: the work is done, waits for data or for a place, or continues."""
        connection = work.connection
        if result is DONE or connection.closed:
            connection.holds -= 1
            self._give_place_back(work)
        elif result is not None:
            assert isinstance(result, NotResident)
            self._read_first(work, result)
        elif work.needs_place and not work.has_place and not self._take_place(work):
            self._without_place.append(work)
        else:
            connection.work.appendleft(work)
            self._stand_in_line(connection)

    def _take_place(self, work: Work) -> bool:
        if not self._places:
            return False
        self._places -= 1
        work.has_place = True
        return True

    def _give_place_back(self, work: Work) -> None:
        """Gives the place of this work to the work that has waited longest for one."""
        if work.has_place:
            work.has_place = False
            self._places += 1
        while self._places and self._without_place:
            waiting = self._without_place.popleft()
            self._take_place(waiting)
            self.resume(waiting)


def ready(connection: Connection) -> bool:
    """Whether a connection can be served: it has work, or a frame that nothing holds back."""
    return bool(connection.work) or (bool(connection.waiting) and not connection.holds)
