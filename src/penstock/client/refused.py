"""Why a TLS connection did not come about, in words that say what to do.

What a certificate lacks is final: the next try would end in the same way (AuthenticationError). A connection that was
reset may come about later (UnreachableError).
"""

from __future__ import annotations

import ssl

from penstock.errors import AuthenticationError, PenstockError, UnreachableError

# OpenSSL's numbers of what is wrong with a certificate (x509_vfy.h)
UNTRUSTED = (2, 19, 20, 21, 24)
SELF_SIGNED, NOT_YET_VALID, EXPIRED, OTHER_HOST, OTHER_ADDRESS, OTHER_PURPOSE = 18, 9, 10, 62, 64, 26
NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's reasons when what comes is no TLS."""
NO_COMMON = (
    "PROTOCOL_VERSION",
    "HANDSHAKE_FAILURE",
    "UNSUPPORTED_PROTOCOL",
    "NO_SHARED_CIPHER",
    "INSUFFICIENT_SECURITY",
)
TRUST = "ssl.truststore.location names the certificates that are trusted"
KEY = "ssl.keystore.location names the client's certificate and key"


def tls_refusal(address: str, host: str, error: ssl.SSLError) -> PenstockError:
    """The error for a handshake, or a connection, that ended in one of TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        what, remedy = _certificate_problem(host, error)
        return AuthenticationError(f"the certificate of {address} {what}\n  {remedy}")
    reason = (error.reason or "").upper()
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return closed_in_handshake(address)
    if any(each in reason for each in NOT_TLS):
        return AuthenticationError(
            f"{address} does not speak TLS\n"
            "  is it a PLAINTEXT or SASL_PLAINTEXT listener? security.protocol must be as the listener's is"
        )
    if "CERTIFICATE_REQUIRED" in reason:
        return AuthenticationError(f"{address} wants a certificate of the client, and got none\n  {KEY}")
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return AuthenticationError(f"{address} refuses the certificate of this client ({plain(reason)})\n  {KEY}")
    if any(each in reason for each in NO_COMMON):
        return AuthenticationError(
            f"{address} and this client have no version of TLS or no cipher suite in common ({plain(reason)})\n"
            "  ssl.enabled.protocols and ssl.cipher.suites say what this client speaks"
        )
    return UnreachableError(f"the TLS connection to {address} failed: {plain(reason) or error}")


def closed_in_handshake(address: str) -> UnreachableError:
    """The error for a connection that the other side closed before the handshake was over."""
    return UnreachableError(
        f"{address} closed the connection in the TLS handshake\n"
        "  a listener without TLS does so: security.protocol must be as the listener's is. Or it wants a certificate"
        f" of the client: {KEY}"
    )


def _certificate_problem(host: str, error: ssl.SSLCertVerificationError) -> tuple[str, str]:
    """What is wrong with a broker's certificate, as the end of a sentence, and what to do about it."""
    code = error.verify_code
    if code in (OTHER_HOST, OTHER_ADDRESS):
        return f"is not for the name {host}", (
            "connect by a name that the certificate has, or give the broker one that has this name"
            " (ssl.endpoint.identification.algorithm= checks no names)"
        )
    if code == EXPIRED:
        return "has expired", "the broker needs a new one; or this machine's clock is wrong"
    if code == NOT_YET_VALID:
        return "is not valid yet", "is the clock of this machine right?"
    if code == SELF_SIGNED:
        return "is signed by itself, and is not among those that are trusted", TRUST
    if code in UNTRUSTED:
        return "comes from an authority that is not trusted", TRUST
    if code == OTHER_PURPOSE:
        return "is not for a server", "the broker needs one with the extended key usage serverAuth"
    return f"cannot be verified: {error.verify_message}", TRUST


def plain(reason: str) -> str:
    """OpenSSL's name of a reason as words: `TLSV13_ALERT_CERTIFICATE_REQUIRED` is `certificate required`."""
    _, alert, rest = reason.rpartition("ALERT_")
    return (rest if alert else reason).replace("_", " ").lower()
