"""The client's message of OAUTHBEARER, well-formed and not."""

from __future__ import annotations

import pytest

from penstock.security.limits import SASL_MESSAGE_MAX_CHARACTERS
from penstock.security.oauthbearer.messages import first_message, parse_first
from penstock.security.sasl import LoginFailed


def test_what_a_client_writes_a_server_reads() -> None:
    message = first_message("a.b.c", [("traceId", "12 3"), ("zone", "x=y")])
    assert message == b"n,,\x01auth=Bearer a.b.c\x01traceId=12 3\x01zone=x=y\x01\x01"
    first = parse_first(message)
    assert (first.token, first.authorization_id) == ("a.b.c", "")
    assert first.extensions == (("traceId", "12 3"), ("zone", "x=y"))


@pytest.mark.parametrize(
    ("message", "token", "authorization_id"),
    [
        (b"n,a=alice,\x01auth=Bearer a.b.c\x01\x01", "a.b.c", "alice"),
        (b"n,a=a=2Cb=3Dc,\x01auth=Bearer a.b.c\x01\x01", "a.b.c", "a,b=c"),
        (b"n,,\x01auth=bearer   a.b.c\x01\x01", "a.b.c", ""),
        (b"n,,\x01auth=BEARER a.b.c==\x01\x01", "a.b.c==", ""),
        (b"n,,\x01host=h\x01port=1\x01auth=Bearer a.b.c\x01\x01", "a.b.c", ""),
    ],
)
def test_what_is_a_message(message: bytes, token: str, authorization_id: str) -> None:
    first = parse_first(message)
    assert (first.token, first.authorization_id) == (token, authorization_id)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\x00alice\x00secret",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer a.b.c",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01n",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,b=alice,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=a=b,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=\x01\x01",
        b"n,,\x01host=h\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer d.e.f\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01h1=x\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01=x\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01x=\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01x=\x7f\x01\x01",
        b"n,,\x01auth=Bearer \xc3\xa4.b.c\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * SASL_MESSAGE_MAX_CHARACTERS + b"\x01\x01",
    ],
)
def test_what_is_none(message: bytes) -> None:
    with pytest.raises(LoginFailed) as failed:
        parse_first(message)
    assert failed.value.told == ""
    assert "a.b.c" not in str(failed.value)
