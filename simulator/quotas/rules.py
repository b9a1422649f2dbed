"""The rules of client quotas in a simulated cluster, the clients that are watched, and their limits."""

from __future__ import annotations

from collections import deque

from simulator.world.checks import check

UNREAD = "nothing of a mute connection is read"
MUTE = "nothing of a mute connection executes"
ENDS = "a mute ends, and a throttled request is answered"
HELD = "a rate is held in every window"
ONCE = "what passes counts once"
WAITS = "who is over a quota waits for as long as follows from what has passed"
SPECIFIC = "the most specific quota holds"
AT_ONCE = "what the metadata says of quotas is in force"
TOKENS = "mutations pass while there are tokens, and not without"
LET_IN = "who has waited as told is let in"
OLD = "an older client is never refused for a quota"
ADDRESS = "an address connects no more often than it may"

LENGTH_BYTES = 4
OVERDUE_MS_MAX = 1_000
"""A process that stood still has some catching up to do."""
WINDOWS, WINDOW_MS = 4, 1_000
STRETCH_MS = WINDOWS * WINDOW_MS
MUTATION_WINDOWS = 2

SLOWED, CHANGED, FLOOD = "producer-0", "producer-1", "flood"
"""Client ids of producers: one has the same quota all the time, one's are changed, one wants no answers."""
CONSUMER, STRICT, PERMISSIVE, BUSY, KNOCKER = "reader-0", "mutator-strict", "mutator-old", "busy", "10.0.0.9"
PRODUCE_LIMIT, FETCH_LIMIT = 300.0, 1_500.0
BUSY_PERCENT = 0.4
BUSY_MS = 1.0
"""What a request of the busy client takes of the loop's time, as the script has it. So little that a delay of one
window, the longest for time, pays for what passes before the client is mute."""
MUTATION_RATE = 1.7
CONNECTIONS = 1
"""A second."""
WATCHED = (SLOWED, CHANGED, FLOOD, CONSUMER, STRICT, PERMISSIVE, BUSY, KNOCKER)


class Spread:
    """What passes of one client at one broker, looked at over each stretch of time that ends with something.

    What follows from Kafka's Rate: a delay is worked out as if the windows that are missing had been there, empty. So
    who comes back has passed no more than the limit allows in the time since the first window that is kept, at most one
    window more than are kept, and in those that were missing, one less than are kept. Then each connection may pass
    something before it is mute. So in any stretch as long as all windows no more passes than in twice that time may.

    Attributes: `limit`, a second; `before`, how many requests of a connection pass before it is mute.
    """

    def __init__(self, what: str, limit: float, before: int = 1) -> None:
        self.what = what
        self.limit = limit
        self.before = before
        self._passed: deque[tuple[int, float, int]] = deque()
        self._largest = 0.0

    def clear(self) -> None:
        """Another process counts from now on."""
        self._passed.clear()

    def passes(self, now_ms: int, amount: float, connection: int) -> None:
        """Something passes; checks what has passed until now."""
        passed = self._passed
        self._largest = max(self._largest, amount)
        passed.append((now_ms, amount, connection))
        while now_ms - passed[0][0] >= STRETCH_MS:
            passed.popleft()
        total, connections = sum(amount for _, amount, _ in passed), {number for _, _, number in passed}
        most = 2 * self.limit * STRETCH_MS / 1_000 + self.before * len(connections) * self._largest
        check(total <= most, HELD, f"{total:.1f} of {self.what} in {STRETCH_MS} ms, at most {most:.1f} may be")
