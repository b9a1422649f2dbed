"""Keys and trust of listeners: what a node starts with, and what it takes over while it runs."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from penstock.cli.doctor_certificates import check_certificates
from penstock.cli.finding import State
from penstock.client.tls import (
    client_context,
    pem_block,
    read_material,
    secret_file,
    server_context,
    shake_hands,
)
from penstock.config.server import Settings
from penstock.errors import ConfigError
from penstock.node.identities import Identities
from penstock.node.plugged import NOTHING_PLUGGED
from penstock.server.metrics import tls_samples
from penstock.server.tls import ListenerTls, Tls
from tests.support.tls import PASSWORD, SERVERS_ONLY, Authority, KeyStore, tls_settings


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def settings_of(store: KeyStore, **extra: str | None) -> Settings:
    """Settings of a node with this key; of `extra`, None leaves a setting out."""
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:0",
        **store.properties(),
        **{name.replace("__", "."): value for name, value in extra.items()},
    }
    return Settings.from_properties({name: value for name, value in given.items() if value is not None})


class Watched:
    """The TLS of a node, looked at as often as a test says."""

    def __init__(self, settings: Settings) -> None:
        self.loop = asyncio.new_event_loop()
        self.settings = settings
        try:
            self.tls = Tls(settings, self.loop)
        except BaseException:
            self.loop.close()
            raise

    def look(self, settings: Settings | None = None) -> None:
        self.loop.run_until_complete(self.tls.look(settings or self.settings))

    @property
    def serial(self) -> str:
        """The number of the certificate that new connections see."""
        contexts = self.tls._listeners["SSL"].contexts
        assert contexts.server is not None
        return serial_seen(contexts.server)

    def close(self) -> None:
        self.tls.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


def serial_seen(server: ssl.SSLContext) -> str:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (one, other):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    found = one.getpeercert(binary_form=True)
    assert found is not None
    return str(x509.load_der_x509_certificate(found).serial_number)


def serial_of(store: KeyStore) -> str:
    return str(store.certificate.serial_number)


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(settings: Settings) -> Watched:
        made.append(Watched(settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_changed_key_store_is_taken_over(authority: Authority, watch: Callable[..., Watched]) -> None:
    first = authority.store("node")
    watched = watch(settings_of(first))
    assert watched.serial == serial_of(first)
    watched.look()
    watched.look(watched.settings.with_dynamic({"message.max.bytes": "100"}, {}))
    assert (watched.tls.reloads, watched.serial) == (0, serial_of(first))
    second = authority.store("node")
    watched.look()
    assert (watched.tls.reloads, watched.serial) == (1, serial_of(second))


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@pytest.mark.parametrize(
    "case",
    [
        (lambda a: a.store("node", subject=name("other")), "ssl.allow.dn.changes", "ssl.allow.dn.changes"),
        (lambda a: a.store("node", hosts=["localhost"]), "ssl.allow.san.changes", "ssl.allow.san.changes"),
        (lambda a: a.store("node", ends=timedelta(hours=-1)), None, "no longer valid|expired"),
        (lambda a: a.store("node", starts=timedelta(hours=1)), None, "not valid yet|not yet valid"),
        (lambda a: a.store("node", usages=SERVERS_ONLY), None, "could not connect to itself"),
        (lambda a: (a.directory / "node.p12").write_bytes(b"half"), None, "is no PKCS12"),
        (lambda a: (a.directory / "node.p12").unlink(), None, "cannot be read"),
        (lambda a: a.trust.write_bytes(b""), None, "no PEM block"),
    ],
)
def test_a_change_that_may_not_be_changes_nothing_and_is_told_once(
    authority: Authority,
    watch: Callable[..., Watched],
    caplog: pytest.LogCaptureFixture,
    case: tuple[Callable[[Authority], Any], str | None, str],
) -> None:
    change, allowed_by, sentence = case
    first = authority.store("node")
    watched = watch(settings_of(first, **{"ssl.client.auth": "requested"}))
    change(authority)
    watched.look()
    watched.look()
    assert (watched.tls.reloads, watched.tls.failed_reloads, watched.serial) == (0, 1, serial_of(first))
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert re.search(sentence, line)
    assert PASSWORD not in line
    authority.trust.write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    again = authority.store("node")
    watched.look()
    assert watched.serial == serial_of(again)
    if allowed_by is not None:
        lenient = watch(settings_of(again, **{allowed_by: "true", "ssl.client.auth": "requested"}))
        change(authority)
        lenient.look()
        assert lenient.tls.reloads == 1


def test_a_dynamic_config_of_the_listener_is_taken_over(authority: Authority, watch: Callable[..., Watched]) -> None:
    first, second = authority.store("node"), authority.store("renewed", subject=name("node"))
    watched = watch(settings_of(first))
    watched.look(watched.settings.with_dynamic({}, {"listener.name.ssl.ssl.keystore.location": str(second.path)}))
    assert watched.serial == serial_of(second)


def test_key_and_trust_may_not_change_to_another_authority_at_once(
    authority: Authority, watch: Callable[..., Watched], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The other nodes still have the old trust: they could not connect any more (Kafka's SslEngineValidator)."""
    first = authority.store("node")
    watched = watch(settings_of(first))
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "Other CA")
    both = authority.trust.read_bytes() + other.trust.read_bytes()
    renewed = other.store("node")
    first.path.write_bytes(renewed.path.read_bytes())
    authority.trust.write_bytes(both)
    watched.look()
    assert (watched.tls.reloads, watched.serial) == (0, serial_of(first))
    assert "the old trust, the new key" in caplog.text
    again = authority.store("node")  # first the trust alone, and then the key
    watched.look()
    first.path.write_bytes(renewed.path.read_bytes())
    watched.look()
    assert (watched.tls.reloads, watched.serial) == (2, serial_of(renewed)), again


def test_an_expired_certificate_may_be_renewed(
    authority: Authority, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody trusts the old one, so this is not asked for."""
    monkeypatch.setattr("penstock.server.tls.time.time", lambda: datetime.now(UTC).timestamp() - 3600)
    monkeypatch.setattr(ListenerTls, "_trust_each_other", lambda *_: None)
    watched = watch(settings_of(authority.store("node", ends=timedelta(minutes=-1))))
    monkeypatch.undo()
    renewed = authority.store("node")
    watched.look()
    assert (watched.tls.reloads, watched.serial) == (1, serial_of(renewed))


def without_times(store: KeyStore) -> str:
    """The key and the certificate as PEM, the times in which are none: the key still fits."""
    data = bytearray(store.certificate.public_bytes(Encoding.DER))
    for moment in (store.certificate.not_valid_before_utc, store.certificate.not_valid_after_utc):
        written = moment.strftime("%y%m%d%H%M%SZ").encode()
        start = data.index(written)
        data[start : start + len(written)] = b"soon enough.."
    return store.key_pem + pem_block("CERTIFICATE", bytes(data))


def test_a_certificate_that_cannot_be_understood_ends_no_looking(
    authority: Authority,
    watch: Callable[..., Watched],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = authority.store("node")
    changes = {
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "security.inter.broker.protocol": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(first.pem),
    }
    given = {**settings_of(first, **changes).given}
    del given["ssl.keystore.password"]
    settings = Settings.from_properties(given)
    watched = watch(settings)
    first.pem.write_text(without_times(first))
    watched.look()
    assert "has a time that is none" in caplog.text
    with pytest.raises(ConfigError, match="a time that is none"):
        Watched(settings)
    with monkeypatch.context() as patch:
        patch.setattr("penstock.server.tls.read_material", lambda values: 1 // 0)
        authority.store("node")
        watched.look()
    assert (watched.tls.reloads, watched.tls.failed_reloads) == (0, 2)
    renewed = authority.store("node")
    watched.look()
    assert watched.serial == serial_of(renewed)


def test_other_stores_are_tried_before_they_are_configured(
    authority: Authority, watch: Callable[..., Watched], tmp_path: Path
) -> None:
    first, fine = authority.store("node"), authority.store("renewed", subject=name("node"))
    watched = watch(settings_of(first))

    def under(location: Path) -> Settings:
        return watched.settings.with_dynamic({}, {"listener.name.ssl.ssl.keystore.location": str(location)})

    watched.tls.check(watched.settings)
    watched.tls.check(under(fine.path))
    with pytest.raises(ConfigError, match=r"listener SSL: ssl\.keystore\.location: .* cannot be read"):
        watched.tls.check(under(tmp_path / "nowhere.p12"))
    with pytest.raises(ConfigError, match=r"ssl\.allow\.dn\.changes"):
        watched.tls.check(under(authority.store("stranger").path))
    assert (watched.tls.reloads, watched.tls.failed_reloads, watched.serial) == (0, 0, serial_of(first))


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({"ssl.keystore.password": "wrong"}, r"ssl\.keystore\.location: .* password is wrong"),
        ({"ssl.keystore.location": "/nowhere.p12"}, "cannot be read: no such file"),
        ({"ssl.keystore.type": "PEM"}, r"ssl\.keystore\.password is not for PEM"),
        ({"ssl.keystore.key": "x"}, r"ssl\.keystore\.key is PEM"),
        ({"ssl.truststore.password": "x"}, r"ssl\.truststore\.password is not for PEM"),
        (
            {"ssl.cipher.suites": "TLS_NULL_WITH_NULL_NULL"},
            r"ssl\.cipher\.suites: TLS_NULL_WITH_NULL_NULL is not known",
        ),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "all suites or none"),
        ({"ssl.principal.mapping.rules": "RULE:("}, None),
    ],
)
def test_a_node_does_not_start_with_what_it_cannot_use(
    authority: Authority, extra: dict[str, str], sentence: str | None
) -> None:
    settings = settings_of(authority.store("node"), **extra)
    if sentence is None:
        with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
            Identities(lambda: settings, NOTHING_PLUGGED)
        return
    with pytest.raises(ConfigError, match=sentence) as raised:
        Watched(settings)
    assert PASSWORD not in str(raised.value)


def test_a_node_between_brokers_must_trust_itself(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "Another CA")
    with pytest.raises(ConfigError, match="could not connect to itself"):
        Watched(settings_of(authority.store("node"), **{"ssl.truststore.location": str(stranger.trust)}))


def test_days_to_expiry_are_a_metric_and_a_warning(
    authority: Authority, watch: Callable[..., Watched], caplog: pytest.LogCaptureFixture
) -> None:
    watched = watch(settings_of(authority.store("node", ends=timedelta(days=10))))
    watched.tls.warn_of_expiry()
    assert any("expires soon" in record.getMessage() for record in caplog.records)
    (days,) = [each for each in tls_samples(watched.tls) if each.name == "penstock_tls_certificate_days_left"]
    assert 9.9 < days.value <= 10


def test_doctor_tells_how_long_certificates_last_and_what_cannot_be_used(authority: Authority) -> None:
    fine = settings_of(authority.store("node"))
    late = settings_of(authority.store("late", ends=timedelta(days=5)))
    bad = settings_of(authority.store("node"), **{"ssl.keystore.password": "wrong"})
    findings = [finding for settings in (fine, late, bad) for finding in check_certificates(settings)]
    assert [each.state for each in findings] == [State.FINE, State.ODD, State.WRONG]


def test_a_certificate_with_a_time_that_is_none_is_refused_in_words(authority: Authority) -> None:
    """OpenSSL takes it, since it looks at times only in a handshake."""
    store = authority.store("node")
    before = store.certificate.not_valid_before_utc.strftime("%y%m%d%H%M%SZ").encode()
    data = store.certificate.public_bytes(Encoding.DER).replace(before, b"x" * len(before))
    store.pem.write_text(store.key_pem + pem_block("CERTIFICATE", data))
    pem = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store.pem), "ssl.keystore.password": None}
    settings = settings_of(store, **pem)
    with pytest.raises(ConfigError, match="listener SSL: the certificate of its key store has a time that is"):
        ListenerTls("SSL", settings, serves=True, between_brokers=False)


# Contexts


def contexts(store: KeyStore, **extra: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    read = tls_settings({**store.properties(), **{key.replace("__", "."): value for key, value in extra.items()}})
    material = read_material(read)
    return server_context(read, material), client_context(read, material)


def test_suites_and_versions_are_those_asked_for_and_no_others(authority: Authority) -> None:
    store = authority.store("node")
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    server, client = contexts(store, ssl__cipher__suites=suite)
    assert server.maximum_version is ssl.TLSVersion.TLSv1_2
    shake_hands(server, client)
    only_13, _ = contexts(store, ssl__enabled__protocols="TLSv1.3")
    with pytest.raises(ssl.SSLError):
        shake_hands(only_13, client)
    _, other = contexts(store, ssl__cipher__suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
    with pytest.raises(ssl.SSLError):
        shake_hands(server, other)


def test_pem_may_stand_in_the_settings_themselves(authority: Authority) -> None:
    store = authority.store("node")
    read = tls_settings(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": store.key_pem.replace("\n", " "),
            "ssl.keystore.certificate.chain": store.certificate_pem,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority.trust.read_text(),
        }
    )
    material = read_material(read)
    shake_hands(server_context(read, material), client_context(read, material))


def test_a_certificate_may_be_trusted_itself(authority: Authority, tmp_path: Path) -> None:
    store = authority.store("node")
    pinned = tmp_path / "pinned.pem"
    pinned.write_text(store.certificate_pem)
    server, client = contexts(store, ssl__truststore__location=str(pinned))
    shake_hands(server, client)


@pytest.mark.parametrize("in_memory", [True, False])
def test_private_keys_never_lie_readable_on_disk(
    in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr("os.memfd_create")
    with secret_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        on_disk = list(tmp_path.iterdir())
        assert [each.stat().st_mode & 0o777 for each in on_disk] == ([] if in_memory else [0o600])
    assert list(tmp_path.iterdir()) == []


def test_pem_blocks_are_read_back() -> None:
    assert ssl.PEM_cert_to_DER_cert(pem_block("CERTIFICATE", bytes(range(200)))) == bytes(range(200))
