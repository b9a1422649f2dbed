"""`penstock dev --secure`: an authority, a certificate and an administrator, made at the first start and kept.

They are beside the data, in DATA.secure, which only its owner may enter:

    ca.pem               what clients trust; ca-key.pem signs the node's certificate anew at every start
    broker.pem           the node's key and certificate, for localhost and the loopback's addresses
    client.properties    how the administrator connects: for --command-config, and for Kafka's tools

Clients come over SASL_SSL, with PLAIN or SCRAM. The administrator may do all, others what `penstock acls` allows them.
"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from penstock.client.property_files import client_properties
from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.config.properties import escape
from penstock.config.values import Password
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509

LISTENER, ADMIN = "SECURED", "admin"
PASSWORD_BYTES = 18
AUTHORITY_DAYS, NODE_DAYS = 3650, 397
NAMES, ADDRESSES = ("localhost",), ("127.0.0.1", "::1")


def secure(data: str, what: str = "--secure") -> tuple[dict[str, str], str]:
    """Makes what is missing. Returns the node's settings and the client's file. Raises ConfigError, also where `what`
    lacks a library.
    """
    from penstock.cli.common import check_modules

    check_modules(what, ("cryptography",), "security")
    directory = f"{data}.secure"
    os.makedirs(directory, mode=0o700, exist_ok=True)
    os.chmod(directory, 0o700)
    trust, key_store, client_file = (f"{directory}/{name}" for name in ("ca.pem", "broker.pem", "client.properties"))
    make_certificates(trust, f"{directory}/ca-key.pem", key_store)
    if not os.path.exists(client_file):
        write_secret(client_file, client_text(trust, secrets.token_urlsafe(PASSWORD_BYTES)).encode())
    login = client_properties(client_file)[1].login
    if login is None or login.username != ADMIN:
        raise ConfigError(f"{client_file} is not what penstock dev made: remove {directory} to have it made anew")
    return node_properties(trust, key_store, login.password), client_file


def node_properties(trust: str, key_store: str, password: str) -> dict[str, str]:
    """The settings that a node has of it all. The administrator is also as whom the node would log in to others."""
    named = f"listener.name.{LISTENER.lower()}."
    admin = f'username="{ADMIN}" password="{password}" user_{ADMIN}="{password}"'
    return {
        "listener.security.protocol.map": f"{LISTENER}:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": LISTENER,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{named}plain.sasl.jaas.config": Password(f"{PLAIN_MODULE} required {admin};"),
        f"{named}scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        f"{named}scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": key_store,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trust,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
    }


def client_text(trust: str, password: str) -> str:
    """The administrator's client properties."""
    jaas = f'{PLAIN_MODULE} required username="{ADMIN}" password="{password}";'
    return "\n".join(
        [
            "security.protocol=SASL_SSL",
            "sasl.mechanism=PLAIN",
            f"sasl.jaas.config={jaas}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={escape(trust)}",
            "",
        ]
    )


def make_certificates(trust: str, authority_key: str, key_store: str) -> None:
    """The authority, if there is none, and a new certificate of the node."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

    if not (os.path.exists(trust) and os.path.exists(authority_key)):
        signing = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "penstock dev authority")])
        authority = builder(name, name, signing, AUTHORITY_DAYS)
        authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        authority = authority.add_extension(signing_only(), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(signing.public_key())
        authority = authority.add_extension(identifier, critical=False)
        write_secret(authority_key, key_pem(signing))
        write_secret(trust, authority.sign(signing, hashes.SHA256()).public_bytes(Encoding.PEM))
    with open(authority_key, "rb") as key_file, open(trust, "rb") as trust_file:
        signer: Any = load_pem_private_key(key_file.read(), None)
        issuer = x509.load_pem_x509_certificate(trust_file.read()).subject
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "penstock dev")])
    names: list[x509.GeneralName] = [x509.DNSName(each) for each in NAMES]
    names += [x509.IPAddress(ip_address(each)) for each in ADDRESSES]
    node = builder(subject, issuer, key, NODE_DAYS).add_extension(x509.SubjectAlternativeName(names), critical=False)
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    node = node.add_extension(issued_by, critical=False)  # Python's clients ask for it from 3.13 on
    write_secret(key_store, key_pem(key) + node.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM))


def signing_only() -> x509.KeyUsage:
    """What an authority's key is for."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def builder(subject: x509.Name, issuer: x509.Name, key: Any, days: int) -> x509.CertificateBuilder:
    """A certificate to be signed, valid from a day ago, as clocks differ."""
    from cryptography import x509

    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number())
    return made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=days))


def key_pem(key: Any) -> bytes:
    """A private key as PEM, not encrypted."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def write_secret(path: str, content: bytes) -> None:
    """A file that only its owner may read, whole or not at all."""
    beside = f"{path}.new"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
    os.replace(beside, path)
