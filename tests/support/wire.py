"""The world of an Outgoing: the effects it asked for, the requests it sent, the answers it gets, and a clock."""

from __future__ import annotations

from random import Random
from typing import Any

from penstock.node.effects import Dial, Effect, SendTo
from penstock.node.outgoing import Call, Outgoing, Peer
from penstock.node.timers import TimerWheel
from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER, ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.metadata_request import MetadataRequest

PEER = Peer(2, "10.0.0.2", 9093, "CONTROLLER")
OTHER = Peer(3, "10.0.0.3", 9093, "CONTROLLER")
METADATA, VOTE, API_VERSIONS = ApiKey.METADATA, ApiKey.VOTE, ApiKey.API_VERSIONS
SERVED = {METADATA: (0, 12), VOTE: (0, 1), API_VERSIONS: (0, 4)}


class Wire:
    """The world of an Outgoing: what it asked for, what it sent, how its calls ended, and a clock."""

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 1_000_000
        self.timers = TimerWheel()
        self.effects: list[Effect] = []
        self.ended: list[tuple[str, Any, str | None]] = []
        self.lost: list[tuple[Peer, str, str]] = []
        self.outgoing = Outgoing(1, timers=self.timers, random=Random(1), emit=self.effects.append, **settings)
        self.outgoing.on_link_lost.append(
            lambda peer, channel, reason, now_ms: self.lost.append((peer, channel, reason))
        )

    def call(self, name: str, message: Message | None = None, peer: Peer = PEER, **arguments: Any) -> Call:
        ended = len(self.ended)
        call = self.outgoing.call(
            peer,
            message or MetadataRequest(topics=[]),
            done=lambda answer, reason, now_ms: self.ended.append((name, answer, reason)),
            now_ms=self.now_ms,
            **{"timeout_ms": 10_000, **arguments},
        )
        assert len(self.ended) == ended, "never before the call has returned"
        return call

    def advance(self, duration_ms: int) -> None:
        """Lets time pass, to every timer on the way."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.timers.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.timers.advance(self.now_ms)
        self.now_ms = end_ms

    def taken(self, kind: type[Effect]) -> list[Any]:
        """The effects of a kind since the last look."""
        found = [effect for effect in self.effects if type(effect) is kind]
        self.effects[:] = [effect for effect in self.effects if type(effect) is not kind]
        return found

    def dialled(self) -> Dial:
        (dial,) = self.taken(Dial)
        return dial  # type: ignore[no-any-return]

    def sent(self) -> list[tuple[frames.RequestHeader, Any]]:
        """The requests that were sent since the last look."""
        return [frames.decode_request(b"".join(effect.chunks)[4:]) for effect in self.taken(SendTo)]

    def answer(self, link: int, header: frames.RequestHeader, message: Message, version: int | None = None) -> None:
        api = API_BY_NUMBER[header.api_key]
        version = header.api_version if version is None else version
        chunks = frames.encode_response(api, version, header.correlation_id, message)
        self.outgoing.link_received(link, memoryview(b"".join(chunks)[4:]), self.now_ms)  # type: ignore[arg-type]

    def up(self, served: dict[ApiKey, tuple[int, int]] | None = None) -> int:
        """The connection that was dialled is up, and the peer has said what it serves."""
        link = self.dialled().link
        self.outgoing.link_up(link, self.now_ms)
        ((header, _),) = self.sent()
        self.answer(link, header, serves(SERVED if served is None else served))
        return link

    def names(self) -> list[str]:
        return [name for name, _, _ in self.ended]


def serves(served: dict[ApiKey, tuple[int, int]]) -> ApiVersionsResponse:
    rows = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in served.items()]
    return ApiVersionsResponse(api_keys=rows)
