"""The machine's end of a connection: what is not read for a while is read in the order in which it came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from simulator.world.links import ServedLink
from simulator.world.taps import NO_TAP


class Host:
    """A machine whose loop does one thing after the other, when it is told to; it is its own node."""

    def __init__(self) -> None:
        self.tap = NO_TAP
        self.now_ms = 0
        self.inbox: deque[Callable[[], None]] = deque()
        self.read: list[bytes] = []

    @property
    def broker(self) -> Host:
        return self

    def received(self, number: int, frame: memoryview, now_ms: int) -> None:
        self.read.append(bytes(frame))

    def on_loop(self, event: Callable[[], None]) -> None:
        self.inbox.append(event)

    def go_on(self, events: int = 1_000) -> None:
        for _ in range(min(events, len(self.inbox))):
            self.inbox.popleft()()


def test_what_was_not_read_comes_before_what_waits_for_the_loop() -> None:
    host = Host()
    made: Any = host
    link = ServedLink(made, 1, socket=made)
    link.received(bytearray([0]))
    host.go_on()
    assert host.read == [b"\0"]
    link.paused = True
    for number in (1, 2, 3):
        link.received(bytearray([number]))
    host.go_on()
    assert host.read == [b"\0"]
    for number in (4, 5):
        link.received(bytearray([number]))
    link.resume()
    host.go_on(3)
    link.paused = True
    host.go_on()
    link.received(bytearray([6]))
    link.resume()
    host.go_on()
    assert host.read == [bytes([number]) for number in range(7)]
