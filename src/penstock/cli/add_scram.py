"""`--add-scram` of `storage format`: the first users, in Kafka's syntax.

SCRAM-SHA-256=[name=alice,password=alice-secret]
SCRAM-SHA-512=[name=alice,iterations=8192,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5Y2ltMg==",saltedpassword="..."]
"""

from __future__ import annotations

from base64 import b64decode
from random import Random
from typing import TYPE_CHECKING

from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.protocol.messages.metadata.user_scram_credential_record import UserScramCredentialRecord

DEFAULT_ITERATIONS = 4096
KEYS = ("name", "password", "saltedpassword", "salt", "iterations")


def scram_record(text: str, random: Random) -> UserScramCredentialRecord:
    """The record of one user. Raises UsageError, which never shows a password."""
    from penstock.metadata.limits import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN
    from penstock.metadata.scram import ScramMechanism, credential_of
    from penstock.security.sasl import Derivation
    from penstock.security.scram import SALT_BITS, salt_of

    name, equals, rest = text.strip().partition("=")
    if not equals:
        raise wrong("it must be like SCRAM-SHA-256=[name=alice,password=alice-secret]")
    mechanism = ScramMechanism.named(name)
    if mechanism is None:
        raise wrong(f"there is no mechanism {name}: it must be SCRAM-SHA-256 or SCRAM-SHA-512")
    given = entries(rest)
    if "name" not in given:
        raise wrong("name is missing")
    if ("password" in given) == ("saltedpassword" in given):
        raise wrong("it must have password, or saltedpassword with salt")
    if "saltedpassword" in given and "salt" not in given:
        raise wrong("saltedpassword goes only with the salt that it was made with")
    salt = decoded("salt", given["salt"]) if "salt" in given else salt_of(random.getrandbits(SALT_BITS))
    iterations = given.get("iterations", str(DEFAULT_ITERATIONS))
    if not iterations.isdecimal() or not SCRAM_ITERATIONS_MIN <= int(iterations) <= SCRAM_ITERATIONS_MAX:
        raise wrong(f"iterations must be a number from {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}")
    if "password" in given:
        salted = Derivation(mechanism.hash_name, given["password"].encode(), salt, int(iterations)).derive()
    else:
        salted = decoded("saltedpassword", given["saltedpassword"])
    if not given["name"] or not salt or not salted or given.get("password") == "":
        raise wrong("name, password, salt and saltedpassword must not be empty")
    return credential_of(mechanism, salt, salted, int(iterations)).record(given["name"], mechanism)


def entries(text: str) -> dict[str, str]:
    """What stands in brackets, with commas between. A value may be in double quotes, but has no comma either way."""
    if not text.startswith("[") or not text.endswith("]"):
        raise wrong("after the mechanism must come [name=alice,password=alice-secret]")
    given = {}
    for part in text[1:-1].split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in KEYS:
            raise wrong(f"in the brackets must stand {', '.join(KEYS)}, each with its value, and no other comma")
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = value[1:-1]
        given[key] = value
    return given


def decoded(key: str, text: str) -> bytes:
    """The bytes of a value in Base64. Raises UsageError."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise wrong(f"{key} is not Base64") from None


def wrong(what: str) -> UsageError:
    return UsageError(f"--add-scram: {what}")
