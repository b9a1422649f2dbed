"""One node, broker and controller in one, as a state machine: events in, effects out.

The shell (server) or the simulator calls `start`, `connected`, `received`, `disconnected`, `operation_completed`,
`operation_failed` and `tick`, and after one or several of them `take_effects`, whose effects it carries out in order. The
appends of all events between two calls of `take_effects` go out as one write a log: so a shell gives all frames that one
turn of its loop has received and then takes the effects. Nothing here waits, reads a clock or opens a file.

Handlers get the broker as `node`. What they use of it: `settings`, `image` (the committed metadata), `controller`,
`logs`, `replicas` (the partitions this node leads), `timers`, `purgatory`, `random`, `answer`, `hold` and `release`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.log.disk import Operation
from penstock.node.effects import Effect


class Broker:
    """See the module's head. `now_ms` is the shell's one clock, wall-clock milliseconds, never going back."""

    def start(self, now_ms: int) -> None:
        """Begins to boot: reads what the files say, replays the metadata log, becomes controller and leader.

        `ready` is true when it serves; until then connections may come, and their requests wait.
        """
        raise NotImplementedError

    def connected(self, connection: int, listener: str, peer: str, now_ms: int) -> None:
        """A client connected. `connection` is a number the shell never uses again, `listener` a listener's name."""
        raise NotImplementedError

    def received(self, connection: int, frame: memoryview, now_ms: int) -> None:
        """One frame, without its length prefix, of a writable buffer. Views of it are kept while its bytes are needed."""
        raise NotImplementedError

    def disconnected(self, connection: int, now_ms: int) -> None:
        """The connection is gone. Its parked requests are dropped; appends on their way go on."""
        raise NotImplementedError

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        raise NotImplementedError

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        raise NotImplementedError

    def tick(self, now_ms: int) -> None:
        """Time has come to `next_deadline_ms`: timers fire, and long work goes on for one budget of it."""
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        """When `tick` is wanted; in the past when long work waits for its next step. None: only events can wake the node."""
        raise NotImplementedError

    def take_effects(self) -> list[Effect]:
        """What to do now, in order; empties it. Call after each event, or once after all events of a loop turn."""
        raise NotImplementedError

    def shutdown(self, now_ms: int) -> None:
        """Begins a clean stop: no new requests, logs flushed and checkpointed. `stopped` is true when it is done."""
        raise NotImplementedError

    def metrics(self) -> Iterable[Any]:
        """Samples with Kafka's names, for the Prometheus endpoint."""
        raise NotImplementedError
