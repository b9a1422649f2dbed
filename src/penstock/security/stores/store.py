"""What a store holds, and how one is read whatever its format."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.security.limits import STORE_MAX_BYTES

PEM = "PEM"


class StoreError(ValueError):
    """A store that cannot be used; the sentence says why, and never shows a secret."""


@dataclass(frozen=True, slots=True)
class KeyAndChain:
    """A private key (PKCS#8, DER, not encrypted) and its certificates (DER), its own first."""

    key: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """All of a store: private keys with their chains, and certificates that are trusted (DER)."""

    keys: tuple[KeyAndChain, ...] = ()
    trusted: tuple[bytes, ...] = ()


def read_store(data: bytes, kind: str, password: str | None, key_password: str | None = None) -> Store:
    """A store of a type: JKS, PKCS12 or PEM. JKS and PKCS12 both read either, told by the first bytes, as in Java.

    `password` is the store's; `key_password` that of its keys, if it is another one. Raises StoreError.
    """
    if len(data) > STORE_MAX_BYTES:
        raise StoreError(f"has more than {STORE_MAX_BYTES} bytes")
    try:
        return _read(data, kind, password, key_password)
    except ImportError:
        raise StoreError("needs the extra security to be read: pip install 'penstock[security]'") from None


def _read(data: bytes, kind: str, password: str | None, key_password: str | None) -> Store:
    if kind.upper() == PEM:
        from penstock.security.stores.pem import read_pem

        return read_pem(data, key_password)
    if looks_like_pem(data):
        raise StoreError(f"is PEM, not {kind}")
    from penstock.security.stores.jks import is_jks, read_jks

    if is_jks(data):
        return read_jks(data, password, key_password)
    from penstock.security.stores.pkcs12 import read_pkcs12

    return read_pkcs12(data, password, key_password)


def looks_like_pem(data: bytes) -> bool:
    """Whether the bytes are text with a PEM block."""
    return b"-----BEGIN " in data[:STORE_MAX_BYTES] and b"\x00" not in data


def key_of(store: Store) -> KeyAndChain:
    """The one private key of a key store. Raises StoreError if there is none, or if one would have to be chosen."""
    if len(store.keys) != 1:
        raise StoreError("has no private key" if not store.keys else f"has {len(store.keys)} private keys: keep one")
    return store.keys[0]
