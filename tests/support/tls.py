"""A certificate authority for tests, and key stores and settings that come from it.

authority = Authority(tmp_path)
node = authority.store("node", hosts=["localhost", "127.0.0.1"])       # a PKCS12 key store
properties = node.properties()                                         # ssl.* settings, of a node or of a client
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.config.broker.tls import TlsSettings

PASSWORD = "storesecret"
HOSTS = ("localhost", "127.0.0.1", "::1")
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class KeyStore:
    """A key with its certificate, in a PKCS12 store (`path`) and as PEM (key and chain in one file, and apart)."""

    path: Path
    pem: Path
    key_pem: str
    certificate_pem: str
    trust: Path
    certificate: x509.Certificate

    def properties(self, prefix: str = "") -> dict[str, str]:
        """Settings with this key, and with trust in its authority."""
        found = {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.path),
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
        }
        return {prefix + name: value for name, value in found.items()}


def tls_settings(properties: Mapping[str, str]) -> TlsSettings:
    """The `ssl.*` settings among properties, of a node or of a client, with Kafka's defaults."""
    declared = TlsSettings.by_name()
    given = {declared[name].attribute: declared[name].parse(text) for name, text in properties.items()}
    return TlsSettings({**vars(TlsSettings.defaults()), **given})


class Authority:
    """Issues certificates into a directory."""

    def __init__(self, directory: Path, name: str = "Test CA") -> None:
        self.directory = directory
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = certificate_builder(self.name, self.name, self.key, timedelta(days=-1), timedelta(days=3650))
        self.certificate = builder.add_extension(constraints, critical=True).sign(self.key, hashes.SHA256())
        self.trust = directory / f"{name.lower().replace(' ', '-')}.pem"
        self.trust.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def store(
        self,
        name: str,
        *,
        hosts: Sequence[str] = HOSTS,
        subject: x509.Name | None = None,
        starts: timedelta = timedelta(days=-1),
        ends: timedelta = timedelta(days=365),
        usages: Iterable[x509.ObjectIdentifier] | None = None,
        use_rsa: bool = False,
    ) -> KeyStore:
        """A key store in files called `name`; one of that name is written over. The subject is CN=name by default."""
        key: Key = (
            rsa.generate_private_key(public_exponent=65537, key_size=2048)
            if use_rsa
            else ec.generate_private_key(ec.SECP256R1())
        )
        subject = subject or x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = certificate_builder(subject, self.name, key, starts, ends)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([*map(general_name, hosts)]), critical=False)
        if usages is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        path, pem = self.directory / f"{name}.p12", self.directory / f"{name}.pem"
        data = pkcs12.serialize_key_and_certificates(
            name.encode(), key, certificate, [self.certificate], BestAvailableEncryption(PASSWORD.encode())
        )
        write_at_once(path, data)
        key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        certificate_pem = certificate.public_bytes(Encoding.PEM).decode()
        write_at_once(pem, (key_pem + certificate_pem).encode())
        return KeyStore(path, pem, key_pem, certificate_pem, self.trust, certificate)


CLIENTS_ONLY = (ExtendedKeyUsageOID.CLIENT_AUTH,)
SERVERS_ONLY = (ExtendedKeyUsageOID.SERVER_AUTH,)


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: Key, starts: timedelta, ends: timedelta
) -> x509.CertificateBuilder:
    """What all certificates have. `starts` and `ends` are from now."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + starts)
        .not_valid_after(now + ends)
    )


def general_name(host: str) -> x509.GeneralName:
    """A host as an alternative name: an address, or else a name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_at_once(path: Path, data: bytes) -> None:
    """Writes a file so that nobody sees half of it."""
    beside = path.with_suffix(".new")
    beside.write_bytes(data)
    beside.replace(path)


def ssl_listeners(*, client_auth: str = "none") -> dict[str, str]:
    """Settings of a local node with a PLAINTEXT and an SSL listener for clients."""
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "ssl.client.auth": client_auth,
    }
