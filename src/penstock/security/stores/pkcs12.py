"""PKCS12 stores (RFC 7292), read by `cryptography`."""

from __future__ import annotations

from penstock.security.limits import STORE_ENTRIES_MAX
from penstock.security.stores.der import SEQUENCE, DerError, iterations_allowed, only
from penstock.security.stores.pem import in_chain, pkcs8
from penstock.security.stores.store import KeyAndChain, Store, StoreError


def read_pkcs12(data: bytes, password: str | None, key_password: str | None = None) -> Store:
    """A store's private key with its chain, and its other certificates as trusted ones.

    A PKCS12 store has one password for all, so `key_password` must be the same. Raises StoreError.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    if key_password is not None and key_password != password:
        raise StoreError("is PKCS12, whose keys have the store's password: ssl.key.password must be the same")
    try:
        only(data, SEQUENCE)
    except DerError:
        raise StoreError("is no PKCS12 and no JKS store, or is damaged") from None
    if not iterations_allowed(data):
        raise StoreError("asks for more rounds of key derivation than are done")
    try:
        found = pkcs12.load_pkcs12(data, None if password is None else password.encode())
        certificates = tuple(each.certificate.public_bytes(Encoding.DER) for each in found.additional_certs)
        key = None if found.key is None else pkcs8(found.key)
        own = None if found.cert is None else found.cert.certificate.public_bytes(Encoding.DER)
    except BaseException as error:  # a parser's panic is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise StoreError("cannot be read: its password is wrong, or it is damaged") from None
    if len(certificates) > STORE_ENTRIES_MAX:
        raise StoreError(f"has more than {STORE_ENTRIES_MAX} certificates")
    if key is None:
        return Store((), certificates if own is None else (own, *certificates))
    if own is None:
        raise StoreError("has a private key without a certificate")
    chain = in_chain(own, certificates)
    return Store((KeyAndChain(key, chain),), tuple(each for each in certificates if each not in chain))
