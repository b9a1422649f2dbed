"""Brokers with client quotas for tests by real clients, and how long what is over a quota must take.

Rates are measured over few windows, so that bursts are short and a test takes seconds. A test asserts only what holds
on a machine of any speed: something takes at least so long.

with LocalBroker(WINDOWS) as broker, limited(broker.bootstrap, {"client-id": "greedy"}, producer_byte_rate=20_000):
    ...
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from interop.clients.valid_security_requests import quota_entry
from interop.clients.wire import CLIENT_ID, Wire, request_frame
from support.heard import until_heard
from support.requests import batch, produce

from penstock.protocol.message import Message
from penstock.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest

NUMBER, WIDTH_S = 3, 1
WINDOWS = {"quota.window.num": str(NUMBER), "quota.window.size.seconds": str(WIDTH_S)}
BURST_S = (NUMBER - 1) * WIDTH_S
"""What a quota allows in so many seconds may pass at once."""
WIRE = {"client-id": CLIENT_ID}
"""Connections of `Wire`."""
PRODUCE_VERSION, FETCH_VERSION = 9, 12
LENGTH_BYTES = 4


def set_quotas(bootstrap: str, entity: Mapping[str, str | None], **limits: float | None) -> None:
    """Sets quotas of one entity, in force on all brokers when this returns. None deletes one."""
    with Wire(bootstrap.split(",", maxsplit=1)[0]) as wire:
        answer = wire.ask(AlterClientQuotasRequest(entries=[quota_entry(entity, **limits)]), 1)
    assert [each.error_code for each in answer.entries] == [0], answer
    until_heard(bootstrap)


@contextmanager
def limited(bootstrap: str, entity: Mapping[str, str | None], **limits: float) -> Iterator[None]:
    """Quotas of one entity, for the time of the block."""
    set_quotas(bootstrap, entity, **limits)
    try:
        yield
    finally:
        set_quotas(bootstrap, entity, **dict.fromkeys(limits))


@contextmanager
def at_least(seconds: float) -> Iterator[None]:
    """Asserts that the block takes so long."""
    assert seconds > 0, "what passes is no more than a burst"
    began_s = time.monotonic()
    yield
    took_s = time.monotonic() - began_s
    assert took_s >= seconds, f"in {took_s:.2f} s passed what should have taken {seconds:.2f} s"


def least_s(passed: float, limit: float, *, more: float = 0.0) -> float:
    """The time that so much takes at least. `more`: what passes before a connection is muted, of all connections."""
    return (passed - more) / limit - BURST_S


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def of_bytes(topic: str, size_bytes: int, *, acks: int = 1) -> Message:
    """A Produce request with one record of that size."""
    return produce(topic, batch(b"x" * size_bytes, timestamp_ms=now_ms()), acks=acks)


def produce_frame(topic: str, size_bytes: int, *, acks: int = 1, number: int = 1) -> bytes:
    return request_frame(of_bytes(topic, size_bytes, acks=acks), PRODUCE_VERSION, number)


def counted_bytes(frame: bytes) -> int:
    """What a request counts for: all of it but the length before it, as in Kafka."""
    return len(frame) - LENGTH_BYTES
