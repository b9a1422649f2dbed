"""Twenty thousand hostile frames before login: each is answered, refused or the connection's end; nobody gets in.

A million of them, and what others notice: `bench/strangers.py`.
"""

from __future__ import annotations

from random import Random

from support.broker import Node
from support.logins import SECURED, secured
from support.strangers import frames_of, mutated

from penstock.node.login import LoginState

FRAMES = 20_000
DELAY_MS = 100


def test_hostile_frames_let_nobody_in_and_break_nothing() -> None:
    random, node = Random(18), secured()
    sent = 0
    seen: dict[str, int] = {}
    while sent < FRAMES:
        client = node.connect(SECURED)
        for frame in frames_of(random):
            node.broker.received(client.number, memoryview(bytearray(mutated(frame, random))), node.now_ms)
            sent += 1
        node.run()
        connection = node.broker.connections.get(client.number)
        state = "closed" if connection is None or connection.login is None else connection.login.state.name
        seen[state] = seen.get(state, 0) + 1
        assert state != LoginState.DONE.name
        assert client.closed is not None or state != "closed"
        node.advance(DELAY_MS)
        if state == LoginState.FAILED.name:
            assert client.closed == "its login failed"
        client.answers.clear()
        node.disconnect(client)
    assert set(seen) >= {"closed", "BEGUN", "FAILED"}, seen
    assert_nothing_left(node)


def assert_nothing_left(node: Node) -> None:
    node.advance(60_000)
    assert [each for each in node.broker.connections if each > 0] == []
