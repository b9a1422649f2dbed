"""Key stores as Java's keytool writes them, and what is wrong with others."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.certificates import distinguished_name, facts_of, issuer_and_subject
from penstock.security.limits import STORE_ITERATIONS_MAX, STORE_MAX_BYTES
from penstock.security.stores.der import DerError, iterations_allowed
from penstock.security.stores.pem import BLOCK, private_key
from penstock.security.stores.reading import key_of, read_store
from penstock.security.stores.store import KeyAndChain, Store, StoreError

HERE = Path(__file__).parent / "stores"
SECRET, KEY_SECRET = "storesecret", "keysecret"
CERTIFICATE = (HERE / "node.crt").read_bytes()


def read(name: str, kind: str, password: str | None = SECRET, key_password: str | None = None) -> Store:
    return read_store((HERE / name).read_bytes(), kind, password, key_password)


def private_value(pair: KeyAndChain) -> int:
    """The secret number of an EC key, however its encoding repeats the public one."""
    return cast(EllipticCurvePrivateKey, load_der_private_key(pair.key, None)).private_numbers().private_value


@pytest.mark.parametrize("kind", ["JKS", "jks", "PKCS12"])
def test_either_format_is_read_whatever_the_type_says(kind: str) -> None:
    jks = key_of(read("node.jks", kind, key_password=KEY_SECRET))
    pkcs12 = key_of(read("node.p12", kind))
    assert private_value(jks) == private_value(pkcs12)
    assert jks.chain == pkcs12.chain == (CERTIFICATE,)
    assert read("trust.jks", kind).trusted == read("trust.p12", kind).trusted == (CERTIFICATE,)


def test_pem_is_read_with_a_key_encrypted_or_not() -> None:
    key = key_of(read("node.p12", "PKCS12"))
    certificate = (HERE / "node.pem").read_bytes()
    for name, password in (("key.pem", None), ("encrypted-key.pem", KEY_SECRET), ("key.pem", "not needed")):
        data = (HERE / name).read_bytes() + b"words between\n" + certificate
        found = key_of(read_store(data, "PEM", None, password))
        assert (private_value(found), found.chain) == (private_value(key), key.chain)
    assert read_store(certificate * 2, "PEM", None).trusted == (CERTIFICATE, CERTIFICATE)


def test_the_private_key_does_not_show() -> None:
    key = key_of(read("node.p12", "PKCS12"))
    assert repr(key.key) not in repr(key)


def test_a_jks_trust_store_needs_no_password() -> None:
    assert read("trust.jks", "JKS", None).trusted == (CERTIFICATE,)


PEM_CERTIFICATE = (HERE / "node.pem").read_bytes()


@pytest.mark.parametrize(
    ("data", "kind", "password", "key_password", "sentence"),
    [
        ((HERE / "node.jks").read_bytes(), "JKS", "wrong", None, "was changed, or its password is wrong"),
        ((HERE / "node.jks").read_bytes(), "JKS", SECRET, None, r"of another password \(ssl.key.password\)"),
        ((HERE / "node.jks").read_bytes(), "JKS", None, None, "no password is given"),
        ((HERE / "node.jks").read_bytes()[:-1], "JKS", None, KEY_SECRET, "damaged"),
        ((HERE / "two.jceks").read_bytes(), "JKS", SECRET, None, "is JCEKS: convert it with keytool"),
        ((HERE / "node.p12").read_bytes(), "PKCS12", "wrong", None, "its password is wrong"),
        ((HERE / "node.p12").read_bytes(), "PKCS12", None, None, "its password is wrong"),
        ((HERE / "node.p12").read_bytes(), "PKCS12", SECRET, "other", "must be the same"),
        ((HERE / "node.p12").read_bytes()[:-9], "PKCS12", SECRET, None, "damaged"),
        (PEM_CERTIFICATE, "PKCS12", SECRET, None, "is PEM, not PKCS12"),
        (b"", "JKS", SECRET, None, "no PKCS12 and no JKS"),
        (b"hello", "PEM", None, None, "no PEM block"),
        ((HERE / "key.pem").read_bytes(), "PEM", None, None, "without a certificate"),
        ((HERE / "key.pem").read_bytes() * 2 + PEM_CERTIFICATE, "PEM", None, None, "2 private keys"),
        ((HERE / "encrypted-key.pem").read_bytes() + PEM_CERTIFICATE, "PEM", None, None, "no ssl.key.password"),
        ((HERE / "encrypted-key.pem").read_bytes() + PEM_CERTIFICATE, "PEM", None, "bad", "password is wrong"),
        (PEM_CERTIFICATE.replace(b"MII", b"AAA", 1), "PEM", None, None, "damaged certificate"),
        (bytes(STORE_MAX_BYTES + 1), "JKS", None, None, "has more than"),
    ],
)
def test_what_cannot_be_used_is_said(
    data: bytes, kind: str, password: str | None, key_password: str | None, sentence: str
) -> None:
    with pytest.raises(StoreError, match=sentence) as raised:
        read_store(data, kind, password, key_password)
    assert SECRET not in str(raised.value)


def test_a_store_without_a_key_or_with_several_is_no_key_store() -> None:
    with pytest.raises(StoreError, match="no private key"):
        key_of(read("trust.p12", "PKCS12"))
    two = read("node.p12", "PKCS12")
    with pytest.raises(StoreError, match="2 private keys"):
        key_of(Store(two.keys * 2))


def rounds(number: int) -> bytes:
    integer = number.to_bytes(5, "big")
    inner = b"\x04\x08saltsalt" + bytes([0x02, len(integer)]) + integer
    return bytes([0x30, len(inner)]) + inner


def test_a_store_that_asks_for_endless_work_is_refused() -> None:
    assert iterations_allowed(rounds(STORE_ITERATIONS_MAX))
    assert not iterations_allowed(rounds(STORE_ITERATIONS_MAX + 1))
    assert not iterations_allowed(rounds(STORE_ITERATIONS_MAX // 2 + 1) * 2), "two keys, each of which would be fine"
    inner = rounds(1 << 33)
    assert not iterations_allowed(bytes([0x30, len(inner) + 2, 0x04, len(inner)]) + inner)
    data = (HERE / "node.p12").read_bytes()
    assert iterations_allowed(data)
    at = data.rindex(b"\x02\x02\x27\x10")  # 10,000 rounds of the digest, as keytool writes it
    slow = data[: at + 1] + b"\x02\x7f\xff" + data[at + 4 :]
    assert iterations_allowed(slow)
    with pytest.raises(StoreError):
        read_store(slow, "PKCS12", SECRET)


SAMPLES = [
    ((HERE / name).read_bytes(), kind)
    for name, kind in (("node.jks", "JKS"), ("trust.jks", "JKS"), ("node.pem", "PEM"))
]


@given(st.sampled_from(SAMPLES), st.integers(0, 2000), st.binary(max_size=8), st.booleans())
def test_damaged_stores_are_refused_or_read_and_nothing_else(
    sample: tuple[bytes, str], at: int, patch: bytes, cut: bool
) -> None:
    data, kind = sample
    at %= len(data)
    damaged = data[:at] + patch + (b"" if cut else data[at + len(patch) :])
    for password in (SECRET, None):
        with suppress(StoreError):
            read_store(damaged, kind, password, KEY_SECRET)


@given(st.binary(max_size=300), st.sampled_from(["JKS", "PKCS12", "PEM"]))
def test_garbage_is_refused(data: bytes, kind: str) -> None:
    for head in (b"", bytes.fromhex("feedfeed00000002"), b"\x30\x82"):
        with pytest.raises(StoreError):
            read_store(head + data, kind, SECRET)


def test_the_subject_is_printed_as_java_prints_it() -> None:
    issuer, subject = issuer_and_subject(CERTIFICATE)
    assert issuer == subject
    assert distinguished_name(subject) == "CN=node-1,OU=Tests,O=Penstock"


@pytest.mark.parametrize("data", [b"", b"\x30\x00", b"\x30\x02\x30\x00", b"\x30\x04\x30\x02\xa0\x00"])
def test_what_lacks_the_fields_of_a_certificate_is_none(data: bytes) -> None:
    for read in (issuer_and_subject, facts_of):
        with pytest.raises(DerError):
            read(data)


def encoded(tag: int, content: bytes) -> bytes:
    return bytes([tag, len(content)]) + content


def scrypt(cost: int, block: int, parallelism: int) -> bytes:
    """A key whose password goes through scrypt (RFC 7914), as far as its parameters go."""
    numbers = b"".join(encoded(0x02, each.to_bytes(5, "big")) for each in (cost, block, parallelism))
    return encoded(0x30, encoded(0x06, b"\x2a\x03") + encoded(0x30, encoded(0x04, b"salt") + numbers))


@pytest.mark.parametrize(
    ("numbers", "allowed"),
    [
        ((16384, 8, 1), True),
        ((1 << 18, 8, 1), True),
        ((1 << 19, 8, 1), False),
        ((2, 1 << 31, 1), False),
        ((2, 8, 1 << 30), False),
    ],
)
def test_the_cost_of_scrypt_is_bounded(numbers: tuple[int, int, int], allowed: bool) -> None:
    assert iterations_allowed(scrypt(*numbers)) is allowed


def test_a_key_with_scrypt_as_openssl_writes_it_is_read(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl")
    path = tmp_path / "key.pem"
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    plain = subprocess.run([openssl, "genpkey", *curve], check=True, capture_output=True).stdout
    words = ("-topk8", "-scrypt", "-passout", "pass:sesame", "-out", str(path))
    subprocess.run([openssl, "pkcs8", *words], input=plain, check=True, capture_output=True)
    block = BLOCK.search(path.read_bytes())
    assert block is not None
    key = load_der_private_key(private_key(block[0], block["body"], "sesame"), None)
    assert isinstance(key, EllipticCurvePrivateKey)
