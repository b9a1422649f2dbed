"""PEM (RFC 7468): a private key, encrypted or not, and certificates, in one text or in two."""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import Any

from penstock.security.limits import CHAIN_CERTIFICATES_MAX, STORE_ENTRIES_MAX
from penstock.security.stores.der import SEQUENCE, DerError, iterations_allowed, values
from penstock.security.stores.store import KeyAndChain, Store, StoreError

BLOCK = re.compile(
    rb"-----BEGIN (?P<label>[A-Z0-9 ]{1,40})-----(?P<body>[^-]*)-----END (?P=label)-----", re.DOTALL | re.ASCII
)
CERTIFICATES = (b"CERTIFICATE", b"X509 CERTIFICATE", b"TRUSTED CERTIFICATE")


def read_pem(data: bytes, key_password: str | None = None) -> Store:
    """Of a text with a private key: the key, and all certificates as its chain in their order. Of a text without: the
    certificates, as trusted ones. Raises StoreError.
    """
    keys, certificates = [], []
    for block in BLOCK.finditer(data):
        label = block["label"]
        if label in CERTIFICATES:
            certificates.append(certificate(block["body"]))
        elif label.endswith(b"PRIVATE KEY"):
            keys.append(private_key(block[0], block["body"], key_password))
        if len(certificates) + len(keys) > STORE_ENTRIES_MAX:
            raise StoreError(f"has more than {STORE_ENTRIES_MAX} entries")
    if not keys and not certificates:
        raise StoreError("has no PEM block with a key or a certificate")
    if not keys:
        return Store((), tuple(certificates))
    if len(keys) > 1:
        raise StoreError(f"has {len(keys)} private keys: keep one")
    if not certificates:
        raise StoreError("has a private key without a certificate")
    return Store((KeyAndChain(keys[0], tuple(certificates)),))


def certificate(body: bytes) -> bytes:
    """The DER of a certificate's block. Raises StoreError."""
    try:
        data = a2b_base64(body)
        whole = next(values(data)).expect(SEQUENCE).whole
    except (Base64Error, DerError, StopIteration):
        raise StoreError("has a damaged certificate") from None
    return bytes(whole)


def private_key(block: bytes, body: bytes, password: str | None) -> bytes:
    """The PKCS#8 of a private key's block. Raises StoreError."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    encrypted = b"ENCRYPTED" in block
    if encrypted and password is None:
        raise StoreError("has an encrypted private key, and no ssl.key.password is given")
    if not encrypted and password is not None:
        password = None  # as in Kafka, it is for keys that need one
    try:
        if not iterations_allowed(a2b_base64(body)):
            raise StoreError("asks for more rounds of key derivation than are done")
    except Base64Error:
        pass  # an old format with headers, which has no rounds
    try:
        return pkcs8(load_pem_private_key(block + b"\n", None if password is None else password.encode()))
    except BaseException as error:  # a parser's panic is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        reason = "its password is wrong, or it is damaged" if encrypted else "it is damaged, or of no known kind"
        raise StoreError(f"has a private key that cannot be read: {reason}") from None


def pkcs8(key: Any) -> bytes:
    """A private key of `cryptography` as PKCS#8, DER, not encrypted."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return bytes(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))


def in_chain(own: bytes, others: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The chain from a certificate to its root, as far as `others` have it, by the names of issuers and subjects."""
    from penstock.security.certificates import issuer_and_subject

    by_subject: dict[bytes, bytes] = {}
    for each in others:
        by_subject.setdefault(issuer_and_subject(each)[1], each)
    chain = [own]
    while len(chain) < CHAIN_CERTIFICATES_MAX:
        issuer, subject = issuer_and_subject(chain[-1])
        following = by_subject.get(issuer)
        if issuer == subject or following is None or following in chain:
            break
        chain.append(following)
    return tuple(chain)
