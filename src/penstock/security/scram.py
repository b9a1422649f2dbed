"""SCRAM (RFC 5802, RFC 7677): both sides of the exchange, for SHA-256 and SHA-512.

    client                                        server
    n,,n=alice,r=NONCE                ->
                                      <-          r=NONCE+NONCE,s=SALT,i=ITERATIONS
    c=biws,r=NONCE+NONCE,p=PROOF      ->
                                      <-          v=SIGNATURE

Both check that the other's nonces are those of this exchange, the client also that the server's continues its own
(CVE-2024-56128: a server that does not check the last one can be made to accept a recorded proof). A user who does not
exist gets a salt that stays the same, made from `decoy_key`, and fails at the end as a wrong password does.

Names and passwords are taken as UTF-8, without SASLprep, as Kafka does it. No channel binding.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import new as new_hash

from penstock.errors import NotResident
from penstock.metadata.limits import SCRAM_ITERATIONS_MIN
from penstock.metadata.scram import ScramCredential, ScramMechanism, credential_of, keyed
from penstock.security.limits import SASL_MESSAGE_MAX_CHARACTERS, SCRAM_CHALLENGE_ITERATIONS_MAX
from penstock.security.plain import OTHER_AUTHORIZATION_ID
from penstock.security.sasl import Derivation, LoginFailed

__all__ = ["ScramClient", "ScramCredential", "ScramMechanism", "ScramServer", "credential_of", "keyed"]

NAME = r"(?:[^\x00=,]|=2C|=3D)+"
NONCE = r"[\x21-\x2b\x2d-\x7e]+"
BASE64 = r"[A-Za-z0-9+/]+={0,2}"
EXTENSIONS = r"(?:,[A-Za-z]+=[^\x00,]+)*"
CLIENT_FIRST = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authorization_id>{NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{NAME}),r=(?P<nonce>{NONCE})(?P<extensions>{EXTENSIONS}))"
)
SERVER_FIRST = re.compile(rf"r=(?P<nonce>{NONCE}),s=(?P<salt>{BASE64}),i=(?P<iterations>[1-9][0-9]{{0,8}}){EXTENSIONS}")
CLIENT_FINAL = re.compile(
    rf"(?P<unproven>c=(?P<binding>{BASE64}),r=(?P<nonce>{NONCE}){EXTENSIONS}),p=(?P<proof>{BASE64})"
)
SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^\x00,]+)|v=(?P<signature>{BASE64})){EXTENSIONS}")
TOKEN_EXTENSION = ",tokenauth=true"
WORDS = {"user": "password", "token": "HMAC"}
"""What a client that names one of these must know."""
IS_TOKEN = re.compile(r",tokenauth=(?i:true)(?:,|$)")
SALT_BITS = 130
"""Of the salts that our tools and Kafka's make."""
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """What a client that logs in by a delegation token must prove to know, whom it logs in as then, and until when."""

    credential: ScramCredential
    owner: str
    expires_at_ms: int


LookUp = Callable[[str, bool], ScramCredential | TokenCredential | None]
"""The credential of a user, or of a delegation token if the second argument is True. It may raise NotResident: then the
exchange is as before, and the same token can be evaluated again."""


class ScramServer:
    """The server's side of one login. `nonce`: at least 18 random bytes, as printable ASCII without a comma."""

    def __init__(self, mechanism: ScramMechanism, nonce: str, look_up: LookUp, decoy_key: bytes) -> None:
        self.mechanism = mechanism.sasl_name
        self.complete = False
        self.user = ""
        self.expires_at_ms: int | None = None
        self.token_authenticated = False
        self._owner = ""
        self._claims = "user"
        self._mechanism = mechanism
        self._nonce = nonce
        self._look_up = look_up
        self._decoy_key = decoy_key
        self._known = False
        self._gs2_header = ""
        self._heard = ""
        self._credential: ScramCredential | None = None
        self._over = False

    def evaluate(self, token: bytes) -> bytes:
        """The server's first or final message. Raises LoginFailed, once and for all."""
        if self._over:
            raise LoginFailed("the exchange is over")
        self._over = True
        if self._credential is None:
            try:
                answer = self._first(token)
            except NotResident:
                self._over = False
                raise
            self._over = False
        else:
            answer = self._final(token, self._credential)
            self.complete = True
            self.user = self._owner or self.user
        return answer.encode()

    def _first(self, token: bytes) -> str:
        found = CLIENT_FIRST.fullmatch(text_of(token))
        if found is None:
            raise LoginFailed("the client's first message is malformed")
        self.user = user = user_of(found["name"])
        authorization_id = found["authorization_id"]
        if authorization_id is not None and user_of(authorization_id) != user:
            raise LoginFailed("another authorization id", OTHER_AUTHORIZATION_ID)
        self._claims = "token" if IS_TOKEN.search(found["extensions"]) else "user"
        looked_up = self._look_up(user, self._claims == "token")
        credential = looked_up.credential if isinstance(looked_up, TokenCredential) else looked_up
        if isinstance(looked_up, TokenCredential):
            self._owner, self.expires_at_ms, self.token_authenticated = looked_up.owner, looked_up.expires_at_ms, True
        self._known = credential is not None and credential.iterations >= SCRAM_ITERATIONS_MIN
        if credential is None or not self._known:
            credential = self._decoy(user)
        self._credential = credential
        self._gs2_header = found["gs2"]
        self._nonce = found["nonce"] + self._nonce
        answer = f"r={self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._heard = f"{found['bare']},{answer}"
        return answer

    def _final(self, token: bytes, credential: ScramCredential) -> str:
        found = CLIENT_FINAL.fullmatch(text_of(token))
        if found is None:
            raise LoginFailed("the client's final message is malformed")
        if not hmac.compare_digest(found["nonce"].encode(), self._nonce.encode()):
            raise LoginFailed("the final message carries another nonce")
        if decoded(found["binding"]) != self._gs2_header.encode():
            raise LoginFailed("the final message carries another header")
        heard = f"{self._heard},{found['unproven']}".encode()
        signature = keyed(self._mechanism, credential.stored_key, heard)
        proof = decoded(found["proof"])
        client_key = mixed(proof, signature) if len(proof) == len(signature) else signature
        stored_key = new_hash(self._mechanism.hash_name, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key) or not self._known:
            raise LoginFailed(f"wrong {WORDS[self._claims]}" if self._known else f"unknown {self._claims}")
        return f"v={b64encode(keyed(self._mechanism, credential.server_key, heard)).decode()}"

    def _decoy(self, user: str) -> ScramCredential:
        """What a user who does not exist is asked for: always the same, and never fulfilled."""

        def made(what: str) -> bytes:
            return keyed(self._mechanism, self._decoy_key, f"{what},{self.mechanism},{user}".encode())

        salt = salt_of(int.from_bytes(made("salt"), "big"))
        return ScramCredential(salt, made("stored"), made("server"), SCRAM_ITERATIONS_MIN)


class ScramClient:
    """The client's side of one login. `token`: the user is the id of a delegation token, the password its HMAC."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str, *, token: bool = False) -> None:
        self.mechanism = mechanism.sasl_name
        self.complete = False
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={name_of(user)},r={nonce}{TOKEN_EXTENSION if token else ''}"
        self._heard = ""
        self._unproven = ""
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """The client's first message."""
        return f"n,,{self._bare}".encode()

    def evaluate(self, answer: bytes) -> Derivation | None:
        """A key to derive, after the server's first message; None after its last. Raises LoginFailed."""
        if self.complete:
            raise LoginFailed("the exchange is over")
        if self._signature is not None:
            self._final(answer, self._signature)
            return None
        found = SERVER_FIRST.fullmatch(text_of(answer))
        if found is None or self._unproven:
            raise LoginFailed("the server's first message is malformed")
        nonce = found["nonce"]
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise LoginFailed("the server's nonce does not continue ours")
        iterations = int(found["iterations"])
        if not SCRAM_ITERATIONS_MIN <= iterations <= SCRAM_CHALLENGE_ITERATIONS_MAX:
            allowed = f"{SCRAM_ITERATIONS_MIN} to {SCRAM_CHALLENGE_ITERATIONS_MAX}"
            raise LoginFailed(f"the server asks for {iterations} iterations; {allowed} are allowed")
        self._unproven = f"c={b64encode(b'n,,').decode()},r={nonce}"
        self._heard = f"{self._bare},{text_of(answer)},{self._unproven}"
        return Derivation(self._mechanism.hash_name, self._password, decoded(found["salt"]), iterations)

    def derived(self, key: bytes) -> bytes:
        """The client's final message, now that the password is salted."""
        assert self._unproven, "after the server's first message"
        assert self._signature is None, "once"
        client_key = keyed(self._mechanism, key, b"Client Key")
        stored_key = new_hash(self._mechanism.hash_name, client_key).digest()
        proof = mixed(client_key, keyed(self._mechanism, stored_key, self._heard.encode()))
        self._signature = keyed(self._mechanism, keyed(self._mechanism, key, b"Server Key"), self._heard.encode())
        return f"{self._unproven},p={b64encode(proof).decode()}".encode()

    def _final(self, answer: bytes, signature: bytes) -> None:
        found = SERVER_FINAL.fullmatch(text_of(answer))
        if found is None:
            raise LoginFailed("the server's final message is malformed")
        if found["error"] is not None:
            raise LoginFailed(f"the server says {found['error'][:100]}")
        if not hmac.compare_digest(decoded(found["signature"]), signature):
            raise LoginFailed("the server does not know the password either: it is not the one that stored it")
        self.complete = True


def salt_of(number: int) -> bytes:
    """A salt from a random number, as Kafka's tools write them: SALT_BITS of it, to the base of 36. All tools of ours
    make salts in this way, and so are the decoys: by its salt nobody can tell whether a user exists.
    """
    number %= 1 << SALT_BITS
    text = ""
    while number or not text:
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
    return text.encode()


def mixed(left: bytes, right: bytes) -> bytes:
    """Exclusive or of two strings of equal length."""
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(len(left), "big")


def name_of(user: str) -> str:
    """A user as it is written in a message."""
    return user.replace("=", "=3D").replace(",", "=2C")


def user_of(name: str) -> str:
    """The user that is meant by a name in a message."""
    return name.replace("=2C", ",").replace("=3D", "=")


def text_of(message: bytes) -> str:
    """A message as text. Raises LoginFailed."""
    if len(message) > SASL_MESSAGE_MAX_CHARACTERS:
        raise LoginFailed(f"a message of {len(message)} bytes; at most {SASL_MESSAGE_MAX_CHARACTERS} are read")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise LoginFailed("a message is not UTF-8") from None


def decoded(text: str) -> bytes:
    """The bytes that a field holds in Base64, of which every string has one form only. Raises LoginFailed."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        data = b""
    if b64encode(data).decode() != text:
        raise LoginFailed("a field is not Base64")
    return data
