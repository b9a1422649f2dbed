"""Security contexts of Kerberos, by MIT's library (python-gssapi, the extra `gssapi`), for clients and for nodes.

    kerberos = LibraryKerberos()
    context = kerberos.acceptor(KerberosLogin("kafka/host@REALM", "kafka", keytab="/etc/kafka.keytab"))

The library is imported when it is first needed, and reads krb5.conf as it always does (KRB5_CONFIG). It keeps the
replay cache of a service (KRB5RCACHENAME). Tickets got with a keytab stay in memory, under a name that only the same
principal and keytab have, and are renewed by the library when half of their life is over; tickets of a cache are whose
the cache is. Every call may block: for files, and on the client's side for a KDC.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

from penstock.config.kerberos import KerberosLogin
from penstock.errors import ConfigError
from penstock.security.gssapi import GssContext, GssError

T = TypeVar("T")

KRB5_ERRORS_BASE = (-1765328384) % 2**32
"""Where the numbers of Kerberos begin among MIT's minor codes (krb5_err.et)."""
RETRIABLE = {KRB5_ERRORS_BASE + number for number in (33, 34)}
"""A ticket that is not valid yet, and a replay: errors that Kafka's KerberosError calls retriable."""
INDEFINITE_S = 2**32 - 1


def library() -> Any:
    """The module `gssapi`. Raises ConfigError."""
    try:
        import gssapi
    except (ImportError, OSError):
        raise ConfigError(
            "GSSAPI needs the package gssapi and the system's Kerberos library: pip install 'penstock[gssapi]'\n"
            "  on Debian first: apt install gcc libkrb5-dev"
        ) from None
    return gssapi


class LibraryKerberos:
    """Makes contexts: `penstock.security.gssapi.Kerberos`."""

    def __init__(self) -> None:
        self._default_realm: str | None = None

    @property
    def default_realm(self) -> str:
        """Of krb5.conf; empty if there is none."""
        if self._default_realm is None:
            gssapi = library()
            try:
                name = gssapi.Name("tmp", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos)
                self._default_realm = str(name).rpartition("@")[2]
            except gssapi.exceptions.GSSError:
                self._default_realm = ""
        return self._default_realm

    def check(self, login: KerberosLogin) -> None:
        """Raises ConfigError if no client could log in with this key: the library, the keytab or the key is missing."""
        gssapi = library()
        path = login.keytab
        if path and not os.access(path, os.R_OK):
            raise ConfigError(f"the keytab {path} of {login.principal} cannot be read")
        try:
            accepting(gssapi, login)
        except gssapi.exceptions.GSSError as error:
            where = path or "the machine's keytab"
            raise ConfigError(f"{where} has no key of {login.principal}: {sentence(error)}") from None
        assert self.default_realm is not None

    def acceptor(self, login: KerberosLogin) -> GssContext:
        """The server's side. Raises GssError."""
        gssapi = library()
        return LibraryContext(
            gssapi, guarded(gssapi, lambda: gssapi.SecurityContext(creds=accepting(gssapi, login), usage="accept"))
        )

    def initiator(self, login: KerberosLogin, host: str) -> GssContext:
        """The client's side. Raises GssError."""
        gssapi = library()

        def context() -> Any:
            flags = gssapi.RequirementFlag
            return gssapi.SecurityContext(
                name=gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service),
                creds=initiating(gssapi, login),
                mech=gssapi.MechType.kerberos,
                flags=flags.mutual_authentication | flags.integrity | flags.out_of_sequence_detection,
                usage="initiate",
            )

        return LibraryContext(gssapi, guarded(gssapi, context))


class LibraryContext:
    """A context of the library."""

    def __init__(self, gssapi: Any, context: Any) -> None:
        self._gssapi = gssapi
        self._context = context
        context.__DEFER_STEP_ERRORS__ = False  # otherwise an error comes with the call after the one that fails

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def peer(self) -> str:
        return guarded(self._gssapi, lambda: str(self._context.initiator_name))

    @property
    def expires_at_ms(self) -> int | None:
        seconds = guarded(self._gssapi, lambda: self._context.lifetime)
        return None if seconds is None or seconds >= INDEFINITE_S else int((time.time() + seconds) * 1000)

    def step(self, token: bytes) -> bytes:
        answer = guarded(self._gssapi, lambda: self._context.step(token or None)) or b""
        if self.complete and self._context.locally_initiated:
            flags = self._gssapi.RequirementFlag
            wanted = flags.mutual_authentication | flags.integrity
            if self._context.actual_flags & wanted != wanted:
                raise GssError("the server has not proved who it is")
        return bytes(answer)

    def wrap(self, data: bytes) -> bytes:
        return bytes(guarded(self._gssapi, lambda: self._context.wrap(data, False)).message)

    def unwrap(self, token: bytes) -> bytes:
        return bytes(guarded(self._gssapi, lambda: self._context.unwrap(token)).message)


def accepting(gssapi: Any, login: KerberosLogin) -> Any:
    """Credentials of a service, for Kerberos itself: the library would negotiate about it, too (SPNEGO). Raises the
    library's errors.
    """
    store = {"keytab": login.keytab} if login.keytab else {}
    name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    return gssapi.Credentials(usage="accept", name=name, mechs=[gssapi.MechType.kerberos], store=store or None)


def initiating(gssapi: Any, login: KerberosLogin) -> Any:
    """Credentials of who logs in; asks a KDC for tickets if there are none. Raises the library's errors."""
    store = {}
    if login.keytab is not None:
        whose = sha256(f"{login.principal}\0{login.keytab}".encode()).hexdigest()[:16]
        store["ccache"] = f"MEMORY:penstock-{whose}"
        if login.keytab:
            store["client_keytab"] = login.keytab
        else:
            store["client_keytab"] = os.environ.get("KRB5_KTNAME", "/etc/krb5.keytab")
    elif login.ticket_cache:
        store["ccache"] = f"FILE:{login.ticket_cache}"
    name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal) if login.principal else None
    return gssapi.Credentials(usage="initiate", name=name, mechs=[gssapi.MechType.kerberos], store=store or None)


def guarded(gssapi: Any, call: Callable[[], T]) -> T:
    """The result of a call of the library. Raises GssError."""
    try:
        return call()
    except gssapi.exceptions.GSSError as error:
        raise GssError(sentence(error), retriable=error.min_code in RETRIABLE) from None


def sentence(error: Any) -> str:
    """What the library says of an error: of the mechanism's code if there is one, otherwise of its own."""
    try:
        texts = error.get_all_statuses(error.min_code, False) if error.min_code else []
        texts = texts or error.get_all_statuses(error.maj_code, True)
    except Exception:  # the library fails to say what failed
        return type(error).__name__
    return "; ".join(text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in texts)
