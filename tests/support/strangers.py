"""What strangers send before they have logged in: frames of an honest client whose password is wrong, and mutated ones.

None of it logs anybody in, whatever becomes of it.
"""

from __future__ import annotations

from random import Random

from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from support.logins import MECHANISMS, client_of


def frame(message: Message, version: int, correlation_id: int) -> bytes:
    """A request without its length."""
    chunks = frames.encode_request(API_BY_NUMBER[message.KEY], version, correlation_id, "stranger", message)
    return b"".join(chunks)[4:]  # type: ignore[arg-type]  # no chunk is a range of a file


def frames_of(random: Random) -> list[bytes]:
    """What an honest client would send, but for the right password: one to four frames."""
    mechanism = random.choice(MECHANISMS)
    version = random.randrange(2)
    first = client_of(mechanism, random.choice(["alice", "eve"]), "wrong").first()
    found = [frame(SaslHandshakeRequest(mechanism=mechanism), version, 1)]
    token = SaslAuthenticateRequest(auth_bytes=first)
    found += [frame(token, random.randrange(3), 2) if version else first] * 2
    if random.random() < 0.5:
        versions = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        found.insert(0, frame(versions, 3, 3))
    if random.random() < 0.2:
        found.insert(random.randrange(len(found)), frame(MetadataRequest(topics=None), 9, 4))
    return found[: random.randrange(1, 5)]


def mutated(data: bytes, random: Random) -> bytes:
    """A frame with some bytes changed, cut, doubled or of no meaning at all; or as it was."""
    changed = bytearray(data)
    for _ in range(random.choice((0, 0, 0, 1, 2, 8))):
        place = random.randrange(len(changed) + 1)
        match random.randrange(5):
            case 0:
                changed[place : place + 1] = bytes([random.randrange(256)])
            case 1:
                del changed[place : place + random.randrange(1, 20)]
            case 2:
                changed[place:place] = random.randbytes(random.randrange(1, 20))
            case 3:
                changed[place : place + 4] = random.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)))
            case _:
                changed = bytearray(random.randbytes(random.randrange(1, 60)))
    return bytes(changed) or b"\0"
