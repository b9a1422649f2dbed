"""What one broker and the clients that are watched say to each other: their bytes, and who was told to wait.

Nothing here comes out of the node: the checker counts what clients send and receive, and takes for mute whom an answer
has told to wait.
"""

from __future__ import annotations

from collections import Counter, deque

from penstock.protocol.api import API_BY_NUMBER, ApiKey
from penstock.protocol.frames import RequestHeader, decode_request_header, decode_response
from penstock.protocol.messages.fetch_response import FetchResponse
from simulator.quotas.rules import (
    ADDRESS,
    BUSY,
    CONNECTIONS,
    CONSUMER,
    ENDS,
    FLOOD,
    KNOCKER,
    LENGTH_BYTES,
    MUTE,
    OVERDUE_MS_MAX,
    STRETCH_MS,
    UNREAD,
    WATCHED,
    WINDOW_MS,
    WINDOWS,
    Spread,
)
from simulator.world.checks import check


class Conversation:
    """One connection.

    Attributes: `asked`, its requests without answers, and their bytes; `mute_until_ms`, it was told to wait;
    `overdue_ms`, since when it is not read though that is over; 0 while it is; `over`, the connection is gone, and what
    has arrived may still be executed.
    """

    __slots__ = ("asked", "mute_until_ms", "over", "overdue_ms", "peer")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.asked: deque[tuple[RequestHeader, int]] = deque()
        self.mute_until_ms = 0
        self.overdue_ms = 0
        self.over = False


class Overheard:
    """A tap at one machine.

    Args: `fetched`, by which the rate of a consumer is checked.

    Attributes: `told`, how often each host was told to wait.
    """

    def __init__(self, fetched: Spread) -> None:
        self._fetched = fetched
        self._heard: dict[int, Conversation] = {}
        self._knocked_ms: deque[int] = deque()
        self.told: Counter[str] = Counter()

    def restarted(self) -> None:
        """The process is another one: its connections are gone, and what it has counted."""
        self._heard.clear()
        self._fetched.clear()
        self._knocked_ms.clear()

    def connected(self, link: int, peer: str, now_ms: int) -> None:
        if peer not in WATCHED:
            return
        self._heard[link] = Conversation(peer)
        if peer == KNOCKER:
            # Who is refused counts for nothing, so the rate itself holds, over one window more than are kept at most.
            knocked, most = self._knocked_ms, CONNECTIONS * (WINDOWS + 1) * WINDOW_MS / 1_000 + 1
            knocked.append(now_ms)
            while now_ms - knocked[0] >= STRETCH_MS:
                knocked.popleft()
            check(len(knocked) <= most, ADDRESS, f"{len(knocked)} times in {STRETCH_MS} ms, and not {most}")

    def gone(self, link: int) -> None:
        if link in self._heard:
            self._heard[link].over = True

    def read(self, link: int, frame: bytearray, now_ms: int) -> None:
        said = self._heard.get(link)
        if said is None:
            return
        until_ms = said.mute_until_ms
        check(now_ms >= until_ms, UNREAD, f"{said.peer} was told to wait until {until_ms}, and read at {now_ms}")
        header, _ = decode_request_header(memoryview(frame))
        said.asked.append((header, len(frame)))
        said.overdue_ms = 0

    def unread(self, link: int, now_ms: int) -> None:
        """The busy client hears of each mute at once, so its connection is read soon after what it was told."""
        said = self._heard.get(link)
        if said is None or said.peer != BUSY or now_ms <= said.mute_until_ms:
            return
        said.overdue_ms = said.overdue_ms or now_ms
        detail = f"{BUSY} was told to wait until {said.mute_until_ms}, and is not read at {now_ms}"
        check(now_ms - said.overdue_ms < OVERDUE_MS_MAX, ENDS, detail)

    def sent(self, link: int, frame: bytes, said_ms: int) -> None:
        said = self._heard.get(link)
        if said is None:
            return
        number = int.from_bytes(frame[:4], "big")
        while said.asked[0][0].correlation_id != number:  # of what wants no answer
            said.asked.popleft()
        header, _ = said.asked.popleft()
        _, message = decode_response(API_BY_NUMBER[header.api_key], header.api_version, memoryview(bytearray(frame)))
        wait_ms = getattr(message, "throttle_time_ms", 0)
        if wait_ms:
            said.mute_until_ms = max(said.mute_until_ms, said_ms + wait_ms)
            self.told[said.peer] += 1
        if said.peer == CONSUMER and isinstance(message, FetchResponse) and message.responses:
            self._fetched.passes(said_ms, LENGTH_BYTES + len(frame), link)

    def check_mute(self, link: int, now_ms: int) -> None:
        """A request of a connection executes: nobody has told it to wait."""
        said = self._heard.get(link)
        until_ms = 0 if said is None else said.mute_until_ms
        check(now_ms >= until_ms, MUTE, f"connection {link} was told to wait until {until_ms}, it is {now_ms}")

    def size_bytes(self, link: int, number: int) -> int | None:
        """The bytes of a request that has not been answered; None of one that nobody has heard."""
        said = self._heard.get(link)
        for header, size_bytes in () if said is None else said.asked:
            if header.correlation_id == number:
                return size_bytes
        return None

    def unanswered(self) -> list[str]:
        """Requests that were read and have no answer, on connections that are open."""
        return [
            f"{ApiKey(header.api_key).name} of {said.peer}"
            for said in self._heard.values()
            for header, _ in said.asked
            if not said.over
            if header.api_key != ApiKey.PRODUCE or said.peer != FLOOD
        ]
