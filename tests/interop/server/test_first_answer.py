"""What a client sees that is there before the broker is."""

from __future__ import annotations

import asyncio
import threading

from support.processes import free_ports

from penstock.client.client import Client
from penstock.errors import UnreachableError
from penstock.testing.broker import LocalBroker


def test_the_first_metadata_that_anyone_gets_names_the_broker_and_the_controller() -> None:
    (port,) = free_ports(1)  # not one of those for outgoing connections: who asks for it would at times reach itself
    seen: list[tuple[int, int]] = []

    async def ask_until_answered() -> None:
        while not seen:
            try:
                async with Client(f"127.0.0.1:{port}", timeout_ms=5_000) as client:
                    answer = await client.refresh(None)
                    seen.append((len(answer.brokers), answer.controller_id))
            except UnreachableError:
                continue

    asking = threading.Thread(target=lambda: asyncio.run(ask_until_answered()))
    asking.start()
    try:
        with LocalBroker({"listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"}):
            asking.join(20)
    finally:
        seen.append((-1, -1))  # ends the thread whatever happened
        asking.join()
    assert seen[0] == (1, 1)
