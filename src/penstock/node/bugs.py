"""Errors that should never happen: each ends only the thing that was being handled.

Wherever the node calls code for one request, partition, group, timer or parked answer, it catches every exception,
reports it here, ends that one thing and goes on. Errors are counted by place and logged with their cause: with a
traceback the first time, and later ones from the same line only now and then with their count, so that a client which
can trigger one cannot fill the disk with the log.

Only an error around the metadata log ends the node: if writing, replaying or voting raises, the state can no longer be
trusted (see `Quorum`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from penstock.errors import Report
from penstock.events import RateLimit
from penstock.node.limits import BUG_CAUSES_MAX, BUG_LOGGED_AGAIN_MS
from penstock.node.metrics import COUNTER, Sample

PLACES = {
    "request": "a request was handled",
    "answer": "an answer was encoded",
    "parked": "a parked request was completed",
    "append": "somebody was told of an append",
    "timer": "a timer fired",
    "duty": "a part of the node did what was due",
    "work": "a step of long work was done",
    "operation": "the end of a disk operation was handled",
    "call": "another node's answer was handled",
    "metadata": "a new metadata image was applied",
    "connection": "a connection was served",
}
"""Where an error may be caught, beside in a coordinator; the values complete "while"."""

logger = logging.getLogger(__name__)


class Bugs:
    """Counts and logs errors. `then`, if given, gets each error instead of the log: the simulator raises it.

    Attributes: `counts`, by place.
    """

    def __init__(self, now: Callable[[], int], then: Report | None = None) -> None:
        self.counts = dict.fromkeys(PLACES, 0)
        self._places = dict(PLACES)
        self._now = now
        self._then = then
        self._limit = RateLimit(BUG_LOGGED_AGAIN_MS, BUG_CAUSES_MAX)
        self._damage_limit = RateLimit(BUG_LOGGED_AGAIN_MS, BUG_CAUSES_MAX)

    def caught(self, place: str, what: str, error: Exception) -> None:
        """Reports `error`, raised while `what` was handled. Call it once for an error, where it is caught."""
        self.counts[place] += 1
        if self._then is not None:
            self._then(what, error)
        else:
            self._log(place, what, error)

    def add(self, place: str, doing: str) -> Report:
        """Adds a place and returns the function that reports errors there. `doing` completes "while"."""
        self._places[place] = doing
        self.counts.setdefault(place, 0)
        return self.of(place)

    def of(self, place: str) -> Report:
        """Returns the function by which a part of the node reports errors at a place."""
        return lambda what, error: self.caught(place, what, error)

    def samples(self) -> Iterator[Sample]:
        """The counters."""
        name = "penstock_node_bugs_total"
        for place, count in self.counts.items():
            yield Sample(name, COUNTER, "Errors that should never happen; see the log.", count, {"place": place})
        name = "kafka_server_broker_metadata_metrics_metadata_apply_error_count"
        yield Sample(name, COUNTER, "Errors while a metadata image was applied.", self.counts["metadata"])

    def _log(self, place: str, what: str, error: Exception) -> None:
        suppressed = self._limit.suppressed((type(error).__name__, raised_at(error)), self._now())
        if suppressed == 0:
            logger.error("a bug while %s (%s): %r", self._places[place], what, error, exc_info=error)
        elif suppressed is not None:
            logger.error("a bug, %d times more, while %s (%s): %r", suppressed + 1, self._places[place], what, error)

    def damage(self, what: str, error: Exception) -> None:
        """Logs, at a limited rate, that `what` failed because of damaged bytes on disk. It is not counted as a bug."""
        suppressed = self._damage_limit.suppressed((what, str(error)), self._now())
        if suppressed is not None:
            logger.error("%s failed%s: %s", what, f" {suppressed + 1} times more" if suppressed else "", error)


def raised_at(error: Exception) -> str:
    """File and line that raised the error; empty if it was never raised."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
