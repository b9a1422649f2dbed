"""Calls to a broker's earlier process end when it has registered anew: a machine without power closes no connection."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from support.broker import Node

from penstock.metadata.image import BrokerRegistration, MetadataImage
from penstock.node.outgoing import Peer
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest


def registered(incarnation: int, *, fenced: bool = False) -> MetadataImage:
    broker = BrokerRegistration(2, incarnation, UUID(int=incarnation), (), {}, fenced=fenced)
    return replace(MetadataImage(), brokers={2: broker})


def test_what_was_asked_of_an_earlier_process_is_not_waited_for() -> None:
    node = Node()
    calls, ended = node.broker.calls, list[str]()

    def call(name: str, listener: str, channel: str, broker_id: int = 2) -> None:
        def done(answer: Message | None, reason: str | None, now_ms: int) -> None:
            ended.append(f"{name}: {reason}")

        peer = Peer(broker_id, "127.0.0.1", 9, listener)
        request, now_ms = FetchRequest(), node.now_ms
        calls.outgoing.call(peer, request, version=12, timeout_ms=900, done=done, now_ms=now_ms, channel=channel)

    call("fetch", "PLAINTEXT", "replication 0")
    call("offsets", "PLAINTEXT", "offsets")
    call("raft", "CONTROLLER", "raft fetch")
    call("another", "PLAINTEXT", "replication 0", broker_id=3)
    calls.published(registered(7), registered(7, fenced=True), node.now_ms)
    calls.proceed(node.now_ms)
    assert not ended
    calls.published(registered(7), registered(8), node.now_ms)
    calls.proceed(node.now_ms)
    assert ended == [f"{name}: the broker has started anew" for name in ("fetch", "offsets")]
