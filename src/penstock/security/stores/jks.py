"""Java's JKS store: our own reader, since no maintained library reads it.

A file is a magic number, a version (1 or 2), the number of entries, the entries, and a digest over all of them with the
password. An entry is a private key with its chain, or a trusted certificate. The key's protection is Sun's own
(1.3.6.1.4.1.42.2.17.1.1): the bytes, combined with a stream of SHA-1 digests of password and salt, and a digest of
password and key behind them. Both are weak, and both are what JKS has: PKCS12 is the better store.
"""

from __future__ import annotations

from hashlib import sha1
from hmac import compare_digest
from struct import Struct, error

from penstock.security.limits import STORE_ENTRIES_MAX
from penstock.security.stores.der import OCTET_STRING, SEQUENCE, DerError, object_identifier, only
from penstock.security.stores.store import KeyAndChain, Store, StoreError

MAGIC = 0xFEEDFEED
JCEKS_MAGIC = 0xCECECECE
DIGEST_BYTES = 20
SALT_BYTES = 20
WHITENER = b"Mighty Aphrodite"
"""Java's constant in the digest of a store."""
KEY_PROTECTION = "1.3.6.1.4.1.42.2.17.1.1"
PRIVATE_KEY, TRUSTED = 1, 2
HEADER = Struct(">III")
U16, U32, DATE = Struct(">H"), Struct(">I"), Struct(">q")


def is_jks(data: bytes) -> bool:
    """Whether the bytes begin as a JKS or JCEKS store does."""
    return len(data) >= U32.size and U32.unpack_from(data)[0] in (MAGIC, JCEKS_MAGIC)


def read_jks(data: bytes, password: str | None, key_password: str | None = None) -> Store:
    """Keys and trusted certificates. Without a password the digest is not checked, and there must be no keys.

    Raises StoreError.
    """
    try:
        return Reader(data, password, key_password or password).store()
    except (error, IndexError, DerError, UnicodeDecodeError):
        raise StoreError("is damaged: it ends early, or is no JKS store") from None


class Reader:
    """Reads one store; `struct.error` and DerError are the file's fault."""

    def __init__(self, data: bytes, password: str | None, key_password: str | None) -> None:
        self._data = data
        self._position = 0
        self._password = password
        self._key_password = key_password

    def store(self) -> Store:
        magic, version, count = HEADER.unpack(self._take(HEADER.size))
        if magic == JCEKS_MAGIC:
            raise StoreError("is JCEKS: convert it with keytool -importkeystore -deststoretype PKCS12")
        if version not in (1, 2) or count > STORE_ENTRIES_MAX:
            raise StoreError("is damaged: its head makes no sense")
        self._check_digest()
        keys, trusted = [], []
        for _ in range(count):
            (tag,) = U32.unpack(self._take(U32.size))
            self._take(self._u16())  # the alias
            self._take(DATE.size)
            if tag == PRIVATE_KEY:
                keys.append(self._key(version))
            elif tag == TRUSTED:
                trusted.append(self._certificate(version))
            else:
                raise StoreError("is damaged: an entry is of no known kind")
        if len(self._data) - self._position != DIGEST_BYTES:
            raise StoreError("is damaged: bytes lie between its entries and its end")
        return Store(tuple(keys), tuple(trusted))

    def _check_digest(self) -> None:
        if self._password is None:
            return
        body = self._data[:-DIGEST_BYTES]
        digest = sha1(self._password.encode("utf-16-be") + WHITENER + body).digest()
        if not compare_digest(digest, self._data[-DIGEST_BYTES:]):
            raise StoreError("was changed, or its password is wrong")

    def _key(self, version: int) -> KeyAndChain:
        protected = self._take(self._u32())
        chain_length = self._u32()
        if chain_length > STORE_ENTRIES_MAX:
            raise StoreError("is damaged: a chain of certificates has no end")
        chain = tuple(self._certificate(version) for _ in range(chain_length))
        if self._key_password is None:
            raise StoreError("has a private key, and no password is given")
        return KeyAndChain(unprotect(protected, self._key_password), chain)

    def _certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self._take(self._u16())) != b"X.509":
            raise StoreError(f"has a certificate of kind {kind[:20]!r}, not X.509")
        return self._take(self._u32())

    def _u16(self) -> int:
        return int(U16.unpack(self._take(U16.size))[0])

    def _u32(self) -> int:
        return int(U32.unpack(self._take(U32.size))[0])

    def _take(self, size_bytes: int) -> bytes:
        end = self._position + size_bytes
        if end > len(self._data):
            raise IndexError
        taken = self._data[self._position : end]
        self._position = end
        return taken


def unprotect(protected: bytes, password: str) -> bytes:
    """The PKCS#8 key of an EncryptedPrivateKeyInfo with Sun's protection. Raises StoreError, DerError."""
    fields = only(protected, SEQUENCE).children()
    if len(fields) != 2 or not (parts := fields[0].expect(SEQUENCE).children()):
        raise DerError("no protected key")
    name = object_identifier(parts[0].content)
    if name != KEY_PROTECTION:
        raise StoreError(f"protects its key by {name}, which is not JKS's way")
    data = bytes(fields[1].expect(OCTET_STRING).content)
    if len(data) < SALT_BYTES + DIGEST_BYTES:
        raise DerError("a protected key that is too short")
    salt, hidden, digest = data[:SALT_BYTES], data[SALT_BYTES:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    secret = password.encode("utf-16-be")
    stream, block = bytearray(), salt
    while len(stream) < len(hidden):
        block = sha1(secret + block).digest()
        stream += block
    size = len(hidden)
    combined = int.from_bytes(hidden, "big") ^ int.from_bytes(stream[:size], "big")
    key = combined.to_bytes(size, "big")
    if not compare_digest(sha1(secret + key).digest(), digest):
        raise StoreError("has a private key of another password (ssl.key.password)")
    return key
