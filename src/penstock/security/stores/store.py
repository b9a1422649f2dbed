"""What a store holds: keys, certificates, and what is wrong with one that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass, field


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
