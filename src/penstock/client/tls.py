"""TLS contexts from Kafka's settings: for listeners, for links between nodes, and for clients.

    settings = client_security({"security.protocol": "SSL", "ssl.truststore.location": ...}).settings()
    context = client_context(settings, read_material(settings))
    object = context.wrap_bio(incoming, outgoing, server_hostname="broker-1")

What Python's `ssl` cannot restrict as asked is refused, never ignored. OpenSSL takes private keys from files only: for
that they lie in memory (memfd), where there is none in a temporary file that only we may read, removed at once.
TLS 1.2 and 1.3; no renegotiation, no compression, no ALPN.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from penstock.config.broker.tls import TLS_VERSIONS, TlsSettings
from penstock.errors import ConfigError
from penstock.security.limits import STORE_MAX_BYTES
from penstock.security.stores.reading import PEM, key_of, read_store
from penstock.security.stores.store import KeyAndChain, StoreError

SUITES_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""The suites of TLS 1.3 that OpenSSL enables by itself."""
EXCHANGES = {"ECDHE_ECDSA": "ECDHE-ECDSA-", "ECDHE_RSA": "ECDHE-RSA-", "DHE_RSA": "DHE-RSA-", "RSA": ""}
CIPHERS = {
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
}
"""The parts of Java's names of suites of TLS 1.2, and OpenSSL's for them."""
SESSION_TICKETS = 1
"""Tickets that a server sends after a handshake of TLS 1.3: one, so that the next connection is cheaper."""
CLIENT_AUTH = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}


@dataclass(frozen=True, slots=True)
class Material:
    """Keys and trust, read: `key` None without a key store, `trusted` (DER) None for the system's certificates."""

    key: KeyAndChain | None
    trusted: tuple[bytes, ...] | None


def read_material(settings: TlsSettings) -> Material:
    """Reads the stores. Blocks. Raises ConfigError, which names the setting and the file, and shows no secret."""
    return Material(key_store(settings), trust_store(settings))


def key_store(settings: TlsSettings) -> KeyAndChain | None:
    """The private key and its chain; None if none is given. The rules are those of Kafka's DefaultSslEngineFactory."""
    kind, location = settings.ssl_keystore_type.upper(), settings.ssl_keystore_location
    key, chain = settings.ssl_keystore_key, settings.ssl_keystore_certificate_chain
    password = settings.ssl_keystore_password
    if key is not None or chain is not None:
        require(kind == PEM, f"ssl.keystore.key is PEM, and ssl.keystore.type is {kind}: it must be PEM")
        require(key is not None, "ssl.keystore.certificate.chain is given without ssl.keystore.key")
        require(chain is not None, "ssl.keystore.key is given without ssl.keystore.certificate.chain")
        require(location is None, "ssl.keystore.location and ssl.keystore.key are both given: leave one out")
        where, data = "ssl.keystore.key", f"{key}\n{chain}".encode()
    elif location is None:
        require(password is None, "ssl.keystore.password is given without ssl.keystore.location")
        return None
    else:
        require(kind == PEM or password is not None, "ssl.keystore.location is given without ssl.keystore.password")
        where, data = f"ssl.keystore.location: {location}", read_file("ssl.keystore.location", location)
    require(kind != PEM or password is None, "ssl.keystore.password is not for PEM: its key's is ssl.key.password")
    try:
        return key_of(read_store(data, kind, password, settings.ssl_key_password))
    except StoreError as wrong:
        raise ConfigError(f"{where} {wrong}") from None


def trust_store(settings: TlsSettings) -> tuple[bytes, ...] | None:
    """The trusted certificates (DER); None for the system's."""
    kind, location = settings.ssl_truststore_type.upper(), settings.ssl_truststore_location
    inline, password = settings.ssl_truststore_certificates, settings.ssl_truststore_password
    if inline is not None:
        require(kind == PEM, f"ssl.truststore.certificates is PEM, and ssl.truststore.type is {kind}: it must be PEM")
        require(
            location is None, "ssl.truststore.location and ssl.truststore.certificates are both given: leave one out"
        )
        where, data = "ssl.truststore.certificates", inline.encode()
    elif location is None:
        require(password is None, "ssl.truststore.password is given without ssl.truststore.location")
        return None
    else:
        where, data = f"ssl.truststore.location: {location}", read_file("ssl.truststore.location", location)
    require(kind != PEM or password is None, "ssl.truststore.password is not for PEM")
    try:
        store = read_store(data, kind, password)
    except StoreError as wrong:
        raise ConfigError(f"{where} {wrong}") from None
    trusted = tuple(dict.fromkeys((*store.trusted, *(pair.chain[0] for pair in store.keys if pair.chain))))
    require(bool(trusted), f"{where} has no trusted certificate")
    return trusted


def read_file(setting: str, location: str) -> bytes:
    """The bytes of a store. Raises ConfigError."""
    try:
        with open(location, "rb") as file:
            return file.read(STORE_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{setting}: {location} cannot be read: {reason.lower()}") from None


def files_of(settings: TlsSettings) -> tuple[str, ...]:
    """The files that the stores are read from."""
    return tuple(filter(None, (settings.ssl_keystore_location, settings.ssl_truststore_location)))


def server_context(settings: TlsSettings, material: Material, client_auth: str | None = None) -> ssl.SSLContext:
    """The context of a listener; `client_auth` is another value than the settings' own. Raises ConfigError."""
    require(material.key is not None, "ssl.keystore.location is missing: a listener with TLS needs a key store")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = SESSION_TICKETS
    context.verify_mode = CLIENT_AUTH[client_auth or settings.ssl_client_auth]
    return complete(context, settings, material)


def client_context(settings: TlsSettings, material: Material, *, check_host_name: bool | None = None) -> ssl.SSLContext:
    """The context of who connects; certificates are always checked, host names as the settings say unless
    `check_host_name` does. Raises ConfigError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if check_host_name is None:
        check_host_name = bool(settings.ssl_endpoint_identification_algorithm)
    context.check_hostname = check_host_name
    return complete(context, settings, material)


def complete(context: ssl.SSLContext, settings: TlsSettings, material: Material) -> ssl.SSLContext:
    """Versions, suites, trust and key, which both sides have alike."""
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    restrict(context, settings.ssl_enabled_protocols, settings.ssl_cipher_suites)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a trusted certificate need not be a root, as in Java
    try:
        if material.trusted is None:
            context.load_default_certs(
                ssl.Purpose.CLIENT_AUTH if context.protocol is ssl.PROTOCOL_TLS_SERVER else ssl.Purpose.SERVER_AUTH
            )
        else:
            context.load_verify_locations(cadata=b"".join(material.trusted))
    except ssl.SSLError as error:
        raise ConfigError(f"the trust store has a certificate that cannot be used: {reason_of(error)}") from None
    if material.key is not None:
        load_key(context, material.key)
    return context


def restrict(context: ssl.SSLContext, versions: tuple[str, ...], suites: tuple[str, ...]) -> None:
    """Allows these versions of TLS, and of their suites these only; all that are thought safe if there are none.

    Raises ConfigError for a suite that is unknown, and where TLS 1.3 would offer more than was asked for.
    """
    with_12, with_13 = (version in versions for version in TLS_VERSIONS)
    names_12 = [openssl_name(each) for each in suites if each not in SUITES_13]
    names_13 = [each for each in suites if each in SUITES_13]
    if suites:
        with_12, with_13 = with_12 and bool(names_12), with_13 and bool(names_13)
        require(with_12 or with_13, "ssl.cipher.suites has none of the versions in ssl.enabled.protocols")
        if with_13 and len(names_13) < len(SUITES_13):
            choose = getattr(context, "set_ciphersuites", None)  # newer Pythons have it
            require(
                choose is not None,
                "ssl.cipher.suites: of TLS 1.3 this Python can offer all suites or none: name "
                f"{', '.join(SUITES_13)}, or leave TLSv1.3 out of ssl.enabled.protocols",
            )
            assert choose is not None
            choose(":".join(names_13))
        if with_12:
            try:
                context.set_ciphers(":".join(names_12))
            except ssl.SSLError:
                raise ConfigError("ssl.cipher.suites: OpenSSL has none of these suites") from None
            offered = {each["name"] for each in context.get_ciphers()}
            missing = [each for each in suites if each not in SUITES_13 and openssl_name(each) not in offered]
            require(not missing, f"ssl.cipher.suites: OpenSSL does not offer {', '.join(missing)} here")
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if with_12 else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if with_13 else ssl.TLSVersion.TLSv1_2


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2 by Java's. Raises ConfigError."""
    exchange, found, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not found or not suite.startswith("TLS_") or exchange not in EXCHANGES or cipher not in CIPHERS:
        raise ConfigError(f"ssl.cipher.suites: {suite} is not known here, or is not safe")
    return EXCHANGES[exchange] + CIPHERS[cipher]


def load_key(context: ssl.SSLContext, pair: KeyAndChain) -> None:
    """Gives a context its key and certificates. Raises ConfigError if they do not fit."""
    blocks = [pem_block("PRIVATE KEY", pair.key), *(pem_block("CERTIFICATE", each) for each in pair.chain)]
    try:
        with secret_file("".join(blocks).encode()) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise ConfigError(f"the key store's private key and certificate cannot be used: {reason_of(error)}") from None


def pem_block(label: str, data: bytes) -> str:
    """DER as PEM."""
    text = b64encode(data).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


@contextmanager
def secret_file(data: bytes) -> Iterator[str]:
    """A path under which the bytes can be read meanwhile: in memory if the system can, else 0600 and removed."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("penstock-key", os.MFD_CLOEXEC)
        try:
            write_all(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(prefix="penstock-")  # made for its owner only
    try:
        write_all(descriptor, data)
        yield path
    finally:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(path)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of the bytes."""
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])


def reason_of(error: ssl.SSLError) -> str:
    """What OpenSSL says, in small letters."""
    return (error.reason or str(error)).replace("_", " ").lower()


def require(condition: bool, sentence: str) -> None:
    """Raises ConfigError with the sentence unless the condition holds."""
    if not condition:
        raise ConfigError(sentence)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Lets two contexts shake hands in memory. Raises ssl.SSLError if they do not understand or trust each other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
        if not ends:
            return
    raise ssl.SSLError("the handshake does not end")
