"""A toy Kerberos, for exchanges without a KDC: tokens are words, and keys are not needed.

    kerberos = ToyKerberos()
    server = GssapiServer(partial(kerberos.acceptor, SERVICE), ends_with_ticket=False)

A client says `ticket NAME for SERVICE`, and is answered `welcome`; what is wrapped stands in brackets with the number
of the session in front, so that nothing of one session is taken in another.
"""

from __future__ import annotations

from itertools import count

from penstock.config.kerberos import KerberosLogin
from penstock.security.gssapi import GssError

SERVICE = KerberosLogin("kafka/broker@ACME", "kafka", keytab="/keys")
ALICE = KerberosLogin("alice@ACME", "kafka", keytab="/keys")


class ToyKerberos:
    """Attributes: `seen`, tickets that have been used: again, they are replays."""

    default_realm = "ACME"

    def __init__(self, expires_at_ms: int | None = None, *, mutual: bool = True) -> None:
        self.seen: set[bytes] = set()
        self.expires_at_ms = expires_at_ms
        self.mutual = mutual
        self.numbers = count(1)

    def acceptor(self, login: KerberosLogin) -> ToyContext:
        return ToyContext(self, login.principal, server=True)

    def initiator(self, login: KerberosLogin, host: str) -> ToyContext:
        context = ToyContext(self, f"{login.service}/{host}@ACME", server=False)
        context.own = login.principal
        return context


class ToyContext:
    def __init__(self, kerberos: ToyKerberos, service: str, *, server: bool) -> None:
        self.kerberos = kerberos
        self.service = service
        self.server = server
        self.complete = False
        self.own = ""
        self.peer = ""
        self.session = b""

    @property
    def expires_at_ms(self) -> int | None:
        return self.kerberos.expires_at_ms

    def step(self, token: bytes) -> bytes:
        return self._accept(token) if self.server else self._initiate(token)

    def _accept(self, token: bytes) -> bytes:
        words = token.split(b" ")
        if len(words) != 5 or words[0] != b"ticket":
            raise GssError("a defective token")
        if token in self.kerberos.seen:
            raise GssError("Request is a replay", retriable=True)
        if words[3].decode() != self.service:
            raise GssError("Wrong principal in request")
        self.kerberos.seen.add(token)
        self.session, self.peer, self.complete = words[4], words[1].decode(), True
        return b"welcome " + words[4] if self.kerberos.mutual else b""

    def _initiate(self, token: bytes) -> bytes:
        if not self.session:
            self.session = str(next(self.kerberos.numbers)).encode()
            self.complete = not self.kerberos.mutual
            return b" ".join((b"ticket", self.own.encode(), b"for", self.service.encode(), self.session))
        if token != b"welcome " + self.session:
            raise GssError("a defective token")
        self.complete = True
        return b""

    def wrap(self, data: bytes) -> bytes:
        return self.session + b"[" + data + b"]"

    def unwrap(self, token: bytes) -> bytes:
        if not (token.startswith(self.session + b"[") and token.endswith(b"]")):
            raise GssError("a token with an invalid signature")
        return token[len(self.session) + 1 : -1]
