"""Authorities and certificates for tests, made when they are needed: elliptic keys, valid for a day.

authority = Authority()
server = authority.issue("broker", names=("localhost",), addresses=("127.0.0.1",))
server.write(tmp_path)                 # broker.pem: key and chain
authority.write(tmp_path)              # authority.pem
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A private key and its certificate, and who issued that."""

    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuer: x509.Certificate

    @property
    def key_pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def chain_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write(self, directory: Path) -> Path:
        """Key and certificate in one PEM file, as Kafka takes them."""
        path = directory / f"{self.name}.pem"
        path.write_text(self.key_pem + self.chain_pem)
        return path

    def write_pkcs12(self, directory: Path, password: str) -> Path:
        """A PKCS12 key store."""
        path = directory / f"{self.name}.p12"
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                self.name.encode(), self.key, self.certificate, [self.issuer], encryption
            )
        )
        return path


class Authority:
    """Signs certificates; trusted where its own one is."""

    def __init__(self, name: str = "authority") -> None:
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self.certificate = (
            self._builder(subject, datetime.now(UTC) - DAY, datetime.now(UTC) + DAY)
            .issuer_name(subject)
            .public_key(self._key.public_key())
            .add_extension(x509.BasicConstraints(True, None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write(self, directory: Path) -> Path:
        """The certificate in a PEM file: a trust store."""
        path = directory / f"{self.name}.pem"
        path.write_text(self.pem)
        return path

    def issue(
        self,
        name: str,
        *,
        names: Sequence[str] = ("localhost",),
        addresses: Sequence[str] = ("127.0.0.1",),
        days: tuple[int, int] = (-1, 1),
        usage: Sequence[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
    ) -> Identity:
        """A key with a certificate for host names and addresses, valid for `days` from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        alternatives = [x509.DNSName(each) for each in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, name),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Penstock"),
            ]
        )
        builder = (
            self._builder(subject, now + days[0] * DAY, now + days[1] * DAY)
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(False, None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(list(usage)), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return Identity(name, key, builder.sign(self._key, hashes.SHA256()), self.certificate)

    @staticmethod
    def _builder(subject: x509.Name, start: datetime, end: datetime) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(end)
        )
