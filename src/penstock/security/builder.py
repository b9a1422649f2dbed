"""Principals named by a function of the operator's (`principal.builder.class = MODULE:FUNCTION`).

    from penstock.security.builder import Principal, Session

    def by_network(session: Session) -> Principal:
        if session.mechanism:
            return Principal("User", session.name)
        return Principal("User", "web" if session.address.startswith("10.1.") else "others")

The function is asked once for each connection, and after each login on it. It runs on the loop that serves everybody:
it looks at the session and nothing else, and takes no time. What it raises refuses the connection. Its result is a
`Principal` and becomes one of our making, so it can name whom it likes, but never be a node's own principal, which may
do everything (`OwnPrincipal`).

The log says which exception was raised where, and not its message: that is the operator's text and may say anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.security.authorizer import Principal
from penstock.security.limits import PRINCIPAL_MAX_CHARACTERS
from penstock.security.sasl import LoginFailed

__all__ = ["Principal", "PrincipalBuilder", "Session", "build", "where_raised"]


@dataclass(frozen=True, slots=True)
class Session:
    """What is known of a connection when its principal is named.

    Attributes:
        listener: its name, in capitals. protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        address: of the peer, as Java writes it and ACLs have it: `10.1.2.3`, `0:0:0:0:0:0:0:1`.
        subject: of the certificate that the peer has shown, as Java prints it: `CN=alice,O=Acme`; None: it showed none.
        certificate: the same certificate in DER.
        mechanism: what the peer has logged in with: `SCRAM-SHA-512`; empty without SASL.
        name: as whom: the user, or for GSSAPI the whole name, `alice/host@REALM`; empty without SASL.
        default: whom Kafka's builder names; None where its rules have no name for the peer.
    """

    listener: str
    protocol: str
    address: str
    subject: str | None = None
    certificate: bytes | None = field(default=None, repr=False)
    mechanism: str = ""
    name: str = ""
    default: Principal | None = None


PrincipalBuilder = Callable[[Session], Principal]


def build(builder: PrincipalBuilder, session: Session) -> Principal:
    """The principal that a function names. Raises LoginFailed if it raises anything, or names none."""
    try:
        given = builder(session)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit: it refuses this connection, and stops no node
        raise LoginFailed(f"the principal builder raised {where_raised(error)}") from None
    problem = problem_of(given)
    if problem:
        raise LoginFailed(f"the principal builder gave {problem}")
    return Principal(given.type, given.name)


def problem_of(given: object) -> str:
    """What keeps the result of a function from being a principal; empty if nothing does."""
    if type(given) is not Principal:
        return f"{type(given).__name__} instead of Principal"
    for what, text in (("type", given.type), ("name", given.name)):
        if type(text) is not str:
            return f"a principal whose {what} is {type(text).__name__} instead of str"
        if not text or len(text) > PRINCIPAL_MAX_CHARACTERS or not text.isprintable():
            return f"a principal whose {what} is empty, too long or not printable"
    return "a principal whose type has a colon" if ":" in given.type else ""


def where_raised(error: BaseException) -> str:
    """An exception by its type, file and line, without its message."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    return f"{type(error).__name__} ({trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"
