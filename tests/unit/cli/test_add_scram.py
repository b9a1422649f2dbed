"""--add-scram in Kafka's syntax, and what is not."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from random import Random

import pytest

from penstock.cli.add_scram import scram_record
from penstock.errors import UsageError
from penstock.metadata.scram import ScramCredential, ScramMechanism, credential_of
from penstock.security.sasl import Derivation
from penstock.security.scram import ScramServer

SALT = b64encode(b"some salt").decode()
SALTED = Derivation("sha256", b"canary", b"some salt", 8192).derive()


def test_a_password_is_salted() -> None:
    record = scram_record("SCRAM-SHA-256=[name=alice,password=canary]", Random(1))
    assert (record.name, record.mechanism, record.iterations) == ("alice", 1, 4096)
    key = Derivation("sha256", b"canary", record.salt, 4096).derive()
    assert ScramCredential.of(record) == credential_of(ScramMechanism.SCRAM_SHA_256, record.salt, key, 4096)


def test_a_salted_password_is_taken_as_it_is() -> None:
    given = f'SCRAM-SHA-256=[name="alice",iterations=8192,salt="{SALT}",saltedpassword="{b64encode(SALTED).decode()}"]'
    stored = ScramCredential.of(scram_record(given, Random(1)))
    assert stored == credential_of(ScramMechanism.SCRAM_SHA_256, b"some salt", SALTED, 8192)
    with_password = f"SCRAM-SHA-256=[name=alice,iterations=8192,salt={SALT},password=canary]"
    assert ScramCredential.of(scram_record(with_password, Random(2))) == stored


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SCRAM-SHA-256",
        "PLAIN=[name=alice,password=canary]",
        "SCRAM-SHA-256=name=alice,password=canary",
        "SCRAM-SHA-256=[password=canary]",
        "SCRAM-SHA-256=[name=alice]",
        "SCRAM-SHA-256=[name=,password=canary]",
        "SCRAM-SHA-256=[name=alice,password=]",
        "SCRAM-SHA-256=[name=alice,password=canary,]",
        "SCRAM-SHA-256=[name=alice,password=canary,colour=red]",
        "SCRAM-SHA-256=[name=alice,password=canary,saltedpassword=AAAA,salt=AAAA]",
        "SCRAM-SHA-256=[name=alice,saltedpassword=AAAA]",
        "SCRAM-SHA-256=[name=alice,password=canary,salt=!]",
        "SCRAM-SHA-256=[name=alice,password=canary,iterations=4095]",
        "SCRAM-SHA-256=[name=alice,password=canary,iterations=16385]",
        "SCRAM-SHA-256=[name=alice,password=canary,iterations=x]",
    ],
)
def test_anything_else_is_refused_without_showing_a_password(text: str) -> None:
    with pytest.raises(UsageError, match="--add-scram: ") as wrong:
        scram_record(text, Random(1))
    assert "canary" not in str(wrong.value)


def test_a_salt_looks_like_those_that_users_get_who_do_not_exist() -> None:
    salts = [scram_record("SCRAM-SHA-256=[name=a,password=b]", Random(seed)).salt for seed in range(3)]
    server = ScramServer(ScramMechanism.SCRAM_SHA_256, "n" * 40, lambda user, token: None, b"key")
    challenge = server.evaluate(b"n,,n=nobody,r=abc").decode()
    salts.append(b64decode(challenge.split(",")[1].removeprefix("s=")))
    assert all(re.fullmatch(rb"[0-9a-z]{20,26}", bytes(salt)) for salt in salts)
