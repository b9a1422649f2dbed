"""A node's keys of an issuer: there before it serves, and kept current whatever the issuer's server does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from support.issuer import Issuer, listener_properties

from penstock.config.oauthbearer import KeySource
from penstock.config.server import Settings
from penstock.errors import ConfigError
from penstock.security.limits import JWKS_KEPT_MS
from penstock.security.oauthbearer.keys import KeyRing
from penstock.server import issuer_keys
from penstock.server.issuer_keys import IssuerKeys, aside

WAIT_S = 20.0


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer().serving() as issuer:
        yield issuer


class Keys:
    """A node's settings, and its keys."""

    def __init__(self, url: str, *, refresh_ms: int = 3_600_000, retry_ms: int = 1, retry_max_ms: int = 20) -> None:
        prefix = "sasl.oauthbearer.jwks.endpoint."
        self.settings = Settings.for_node(
            **{
                "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "listener.name.secured.sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{prefix}refresh.ms": str(refresh_ms),
                f"{prefix}retry.backoff.ms": str(retry_ms),
                f"{prefix}retry.backoff.max.ms": str(retry_max_ms),
                **listener_properties(url),
            }
        )
        self.rings: dict[KeySource, KeyRing] = {}
        self.keys = IssuerKeys(lambda: self.settings, self._ring)

    def _ring(self, source: KeySource) -> KeyRing:
        return self.rings.setdefault(source, KeyRing())

    @property
    def ring(self) -> KeyRing:
        (ring,) = self.rings.values()
        return ring

    def ids(self) -> list[str | None]:
        return [key.id for key in self.ring.keys or ()]

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a test between the start and the stop of the keeping."""

        async def between() -> None:
            try:
                await self.keys.start()
                await asyncio.wait_for(work(), WAIT_S)
            finally:
                await self.keys.stop()

        asyncio.run(between())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.002)


def test_keys_are_there_once_it_has_started(issuer: Issuer) -> None:
    keys = Keys(issuer.jwks_url)

    async def work() -> None:
        assert keys.ids() == ["rsa", "ec"]

    keys.run(work)
    assert issuer.asked == ["/jwks"]


@pytest.mark.parametrize(
    ("mode", "why"), [("broken", "answers 500"), ("huge", "larger than 1048576 bytes"), ("elsewhere", "answers 302")]
)
def test_there_is_no_start_without_keys(issuer: Issuer, mode: str, why: str) -> None:
    issuer.mode = mode
    keys = Keys(issuer.jwks_url)

    async def never() -> None:
        raise AssertionError("it has started")

    with pytest.raises(ConfigError, match=f"no start without keys to check tokens with: .*{why}") as failed:
        keys.run(never)
    assert issuer.jwks_url in str(failed.value)


def test_the_start_tries_for_a_while(issuer: Issuer) -> None:
    issuer.mode, issuer.mends_after = "broken", 3
    keys = Keys(issuer.jwks_url, retry_max_ms=20_000)

    async def work() -> None:
        assert keys.ids() == ["rsa", "ec"]

    keys.run(work)
    assert issuer.asked == ["/jwks"] * 4


def test_no_start_with_a_set_that_has_no_key(issuer: Issuer) -> None:
    issuer.keys = []

    async def never() -> None:
        raise AssertionError("it has started")

    with pytest.raises(ConfigError, match="none of its 0 keys"):
        Keys(issuer.jwks_url).run(never)


def test_new_keys_are_fetched_when_it_is_time(issuer: Issuer) -> None:
    keys = Keys(issuer.jwks_url, refresh_ms=10)

    async def work() -> None:
        issuer.keys.append(Issuer.new_key("new"))
        await until(lambda: "new" in keys.ids())

    keys.run(work)


def test_an_unknown_key_has_them_fetched_at_once_and_not_again_at_once(issuer: Issuer) -> None:
    keys = Keys(issuer.jwks_url)

    async def work() -> None:
        issuer.keys.append(Issuer.new_key("new"))
        keys.ring.wanted()
        await until(lambda: "new" in keys.ids())
        for _ in range(100):
            keys.ring.wanted()
            await asyncio.sleep(0)

    keys.run(work)
    assert issuer.asked == ["/jwks", "/jwks"]


def test_while_the_issuer_is_down_the_old_keys_stay(issuer: Issuer) -> None:
    keys = Keys(issuer.jwks_url, refresh_ms=5)

    async def work() -> None:
        for mode in ("broken", "huge", "elsewhere"):
            issuer.mode = mode
            asked = len(issuer.asked)
            await until(lambda asked=asked: len(issuer.asked) > asked + 2)  # type: ignore[misc]  # the default binds it
            assert keys.ids() == ["rsa", "ec"]
        issuer.mode = ""
        issuer.keys.append(Issuer.new_key("new"))
        await until(lambda: "new" in keys.ids())

    keys.run(work)


def test_but_not_for_ever(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(issuer.jwks_url, refresh_ms=5)

    async def work() -> None:
        issuer.mode = "broken"
        began_ms = issuer_keys.now_ms()
        real = issuer_keys.now_ms
        monkeypatch.setattr(issuer_keys, "now_ms", lambda: real() + JWKS_KEPT_MS if real() > began_ms + 50 else real())
        await until(lambda: keys.ring.keys is None)
        issuer.mode = ""
        await until(lambda: keys.ids() == ["rsa", "ec"])

    keys.run(work)


def test_a_changed_login_module_is_another_source(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuer_keys, "KEY_SOURCES_LOOK_S", 0.01)
    keys = Keys(issuer.jwks_url)

    async def work() -> None:
        jaas = "listener.name.secured.oauthbearer.sasl.jaas.config"
        module = keys.settings.given[jaas].replace(";", ' ssl.truststore.type="PEM";')
        keys.settings = keys.settings.with_dynamic({}, {jaas: module})
        await until(lambda: len(keys.rings) == 2 and all(ring.keys for ring in keys.rings.values()))

    keys.run(work)


def test_a_bug_ends_nothing(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(issuer.jwks_url, refresh_ms=5)
    fetched = issuer_keys.fetched
    bugs: list[int] = []

    def broken(source: KeySource) -> Any:
        if len(bugs) < 2:
            bugs.append(1)
            raise ZeroDivisionError
        return fetched(source)

    async def work() -> None:
        monkeypatch.setattr(issuer_keys, "fetched", broken)
        issuer.keys.append(Issuer.new_key("new"))
        await until(lambda: "new" in keys.ids())

    keys.run(work)
    assert len(bugs) == 2


def test_a_stop_does_not_wait_for_a_slow_issuer(issuer: Issuer) -> None:
    keys = Keys(issuer.jwks_url)

    async def work() -> None:
        issuer.mode = "slow"
        keys.ring.wanted()
        await until(lambda: len(issuer.asked) == 2)

    keys.run(work)  # within its time limit, which the issuer would not keep


def test_work_aside_gives_its_result_or_its_error() -> None:
    async def work() -> None:
        assert await aside(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await aside(lambda: 1 // 0)

    asyncio.run(work())


def test_without_oauthbearer_there_is_nothing_to_do() -> None:
    settings = Settings.for_node()
    keys = IssuerKeys(lambda: settings, lambda _: KeyRing())

    async def work() -> None:
        await keys.start()
        await keys.stop()

    asyncio.run(work())
