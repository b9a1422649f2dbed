"""Twenty thousand hostile frames before login: each is answered, refused or the connection's end; nobody gets in."""

from __future__ import annotations

from random import Random

from support.broker import Client, Node
from support.logins import MECHANISMS, SECURED, client_of, secured

from penstock.node.login import LoginState
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

FRAMES = 20_000
DELAY_MS = 100


def frames_of(client: Client, random: Random) -> list[bytes]:
    """What an honest client would send, but for the right password."""
    mechanism = random.choice(MECHANISMS)
    version = random.randrange(2)
    first = client_of(mechanism, random.choice(["alice", "eve"]), "wrong").first()
    frames = [bytes(client.frame(SaslHandshakeRequest(mechanism=mechanism), version))]
    token = SaslAuthenticateRequest(auth_bytes=first)
    frames += [bytes(client.frame(token, random.randrange(3))) if version else first] * 2
    if random.random() < 0.5:
        versions = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        frames.insert(0, bytes(client.frame(versions, 3)))
    if random.random() < 0.2:
        frames.insert(random.randrange(len(frames)), bytes(client.frame(MetadataRequest(topics=None), 9)))
    return frames[: random.randrange(1, 5)]


def mutated(frame: bytes, random: Random) -> bytes:
    """A frame with some bytes changed, cut, doubled or of no meaning at all; or as it was."""
    data = bytearray(frame)
    for _ in range(random.choice((0, 0, 0, 1, 2, 8))):
        place = random.randrange(len(data) + 1)
        match random.randrange(5):
            case 0:
                data[place : place + 1] = bytes([random.randrange(256)])
            case 1:
                del data[place : place + random.randrange(1, 20)]
            case 2:
                data[place:place] = random.randbytes(random.randrange(1, 20))
            case 3:
                data[place : place + 4] = random.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)))
            case _:
                data = bytearray(random.randbytes(random.randrange(1, 60)))
    return bytes(data) or b"\0"


def test_hostile_frames_let_nobody_in_and_break_nothing() -> None:
    random, node = Random(18), secured()
    sent = 0
    seen: dict[str, int] = {}
    while sent < FRAMES:
        client = node.connect(SECURED)
        for frame in frames_of(client, random):
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
