"""Delegation tokens in a secured cluster: a holder who makes, renews and ends them, and bearers who log in by them.

The holder knows what it was told: tokens that are there, and those that it has ended. Through all failovers none is
lost, and none comes back. A bearer has one token each, and goes on logging in when that is over, which nobody may be
let in by. When that is, is judged by the clock of the broker that is asked: clocks are apart.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from penstock.errors import ErrorCode
from penstock.metadata.delegation_tokens import DelegationTokens
from penstock.metadata.scram import ScramMechanism
from penstock.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from penstock.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from penstock.security.sasl import Derivation, SaslClient
from penstock.security.scram import ScramClient
from simulator.cluster.client import Login
from simulator.cluster.load import Load
from simulator.secured.guests import METADATA_VERSION, PAUSE_MS, RENEWED_AFTER, password
from simulator.world.checks import check
from simulator.world.network import Address

HOLDER, BEARER = "holder", "bearer-"
OVER = "no token logs in after its end"
KEPT = "delegation tokens survive"
MECHANISM = ScramMechanism.SCRAM_SHA_256
CREATE_VERSION, CHANGE_VERSION = 3, 2
TOKENS_MAX = 8
SHORT_MS = (800, 4_000)
"""How long tokens last that are to end within the run."""
LONG_MS = 10_000_000
AT_ONCE_MS = -1
SWEPT_EVERY_MS = 1_000
"""How often the controller looks for tokens that are over."""


@cache
def derived(derivation: Derivation) -> bytes:
    """A key, which all logins by one token at one broker share."""
    return derivation.derive()


@dataclass
class Held:
    """A token as its holder knows it.

    Attributes:
        told_ms: its end as it was last told; None while that is not known. latest_ms: the latest that it may have.
    """

    id: str
    key: bytes
    max_ms: int
    told_ms: int | None
    latest_ms: int
    asked: bool = False


class TokenLogin(Login):
    """How a bearer logs in: by SCRAM with the token. It may be refused."""

    mechanism = MECHANISM.sasl_name

    def __init__(self, held: Held, nonce: Callable[[], str]) -> None:
        super().__init__(held.id, "", renewed_after=RENEWED_AFTER)
        self.held = held
        self.refusals = 0
        self._nonce = nonce

    def exchange(self) -> SaslClient:
        return ScramClient(MECHANISM, self.held.id, b64encode(self.held.key).decode(), self._nonce(), token=True)

    def derive(self, derivation: Derivation) -> bytes:
        return derived(derivation)

    def refused(self, name: str, why: str) -> None:
        self.refusals += 1


class Bearer:
    """One who has a token, and asks for metadata with it. `wall_ms`: the clock of the broker at an address."""

    def __init__(
        self, load: Load, number: int, brokers: list[Address], held: Held, wall_ms: Callable[[Address], int]
    ) -> None:
        self.name = f"{BEARER}{number}"
        self.load = load
        self.held = held
        self.logins = 0
        random = load.simulation.random
        self.login = TokenLogin(held, lambda: f"{random.getrandbits(100):x}")
        self.login.began = self._began
        self.login.let_in = self._let_in
        self._wall_ms = wall_ms
        self._begun_ms: dict[Address, int] = {}
        self.client = load.client(self.name, brokers=brokers, login=self.login)

    def go_on(self) -> None:
        """Asks for something, whether or not the token is still good."""
        if self.load.going_on:
            self.client.ask_any(MetadataRequest(topics=None), METADATA_VERSION, lambda response: self._pause())

    def _pause(self) -> None:
        self.load.simulation.after_ms(self.load.simulation.random.randrange(*PAUSE_MS), self.go_on)

    def _began(self, address: Address) -> None:
        """The token is named to a broker: by no earlier clock than this it is looked up."""
        self._begun_ms[address] = self._wall_ms(address)

    def _let_in(self, address: Address, lifetime_ms: int) -> None:
        self.logins += 1
        elapsed_ms = self._wall_ms(address) - self._begun_ms[address]
        begun_ms = self._begun_ms[address] + min(0, elapsed_ms)  # the clock may have been set back meanwhile
        good_ms = self.held.latest_ms - begun_ms
        detail = f"{self.name}: for {lifetime_ms} ms, by a token that was good for {good_ms} ms more"
        check(0 < lifetime_ms <= good_ms, OVER, detail)


class Holder:
    """The one who makes tokens and ends them.

    Attributes:
        held: the tokens by id; gone: those that it was told are removed. bearers: who has them. busy: it waits for an
        answer. changes: how many were answered.
    """

    def __init__(self, load: Load, brokers: list[Address], wall_ms: Callable[[Address], int]) -> None:
        self.load = load
        self.random = load.simulation.random
        self.held: dict[str, Held] = {}
        self.gone: set[str] = set()
        self.bearers: list[Bearer] = []
        self.changes = 0
        self.busy = False
        self._brokers = brokers
        self._wall_ms = wall_ms
        self.client = load.client(
            HOLDER, brokers=brokers, login=Login(HOLDER, password(HOLDER), renewed_after=RENEWED_AFTER)
        )

    def go_on(self) -> None:
        """Does something with a token."""
        if not self.load.going_on:
            return
        self.busy = True
        free = [held for held in self.held.values() if not held.asked]
        if not free or (len(self.bearers) < TOKENS_MAX and self.random.random() < 0.4):
            self._create()
        else:
            held = self.random.choice(free)
            (self._renew if self.random.random() < 0.7 else self._expire)(held)

    def _ask(self, message: Any, version: int, learn: Callable[[Any], None]) -> None:
        def answered(response: Any) -> None:
            self.busy = False
            self.changes += response is not None and not response.error_code
            learn(response)
            self.load.simulation.after_ms(self.random.randrange(*PAUSE_MS), self.go_on)

        self.client.ask_any(message, version, answered)

    def _period_ms(self) -> int:
        return LONG_MS if self.random.random() < 0.4 else self.random.randrange(*SHORT_MS)

    def _create(self) -> None:
        if len(self.bearers) >= TOKENS_MAX:
            self.busy = False
            self.load.simulation.after_ms(PAUSE_MS[1], self.go_on)
            return

        def learn(response: Any) -> None:
            if response is None or response.error_code:
                return
            expires_ms, max_ms = response.expiry_timestamp_ms, response.max_timestamp_ms
            held = Held(response.token_id, bytes(response.hmac), max_ms, expires_ms, expires_ms)
            self.held[held.id] = held
            bearer = Bearer(self.load, len(self.bearers), self._brokers, held, self._wall_ms)
            self.bearers.append(bearer)
            bearer.go_on()

        renewers = [CreatableRenewers(principal_type="User", principal_name="nobody")]
        request = CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, renewers=renewers, max_lifetime_ms=self._period_ms()
        )
        self._ask(request, CREATE_VERSION, learn)

    def _renew(self, held: Held) -> None:
        held.told_ms, held.latest_ms, latest_ms = None, held.max_ms, held.latest_ms

        def learn(response: Any) -> None:
            if response is None:
                held.asked = True  # it may be renewed at any time from now on
            elif not response.error_code:
                held.told_ms = response.expiry_timestamp_ms
                held.latest_ms = max(latest_ms, response.expiry_timestamp_ms)
            elif response.error_code in (ErrorCode.DELEGATION_TOKEN_EXPIRED, ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
                held.latest_ms = latest_ms

        request = RenewDelegationTokenRequest(hmac=held.key, renew_period_ms=self._period_ms())
        self._ask(request, CHANGE_VERSION, learn)

    def _expire(self, held: Held) -> None:
        """Ends a token, at once or soon. A broker that lags lets it in as long as it was good before."""
        held.told_ms = None
        period_ms = AT_ONCE_MS if self.random.random() < 0.5 else self.random.randrange(*SHORT_MS)

        def learn(response: Any) -> None:
            if response is None:
                held.asked = True
            elif not response.error_code and period_ms == AT_ONCE_MS:
                held.asked = True
                self.gone.add(held.id)
            elif not response.error_code:
                held.told_ms = response.expiry_timestamp_ms

        request = ExpireDelegationTokenRequest(hmac=held.key, expiry_time_period_ms=period_ms)
        self._ask(request, CHANGE_VERSION, learn)

    def check_tokens(self, found: DelegationTokens, earliest_ms: int, latest_ms: int) -> None:
        """What is there in the end is what the holder was told. The clocks say from `earliest_ms` to `latest_ms`."""
        back = sorted(self.gone & set(found))
        check(not back, KEPT, f"ended and back: {back}")
        for held in self.held.values():
            token = found.get(held.id)
            if held.told_ms is not None and held.told_ms > latest_ms:
                there = token is not None and token.expires_ms == held.told_ms
                check(there, KEPT, f"made and gone, or changed: {held.id}")
        old = [token.id for token in found.values() if token.expires_ms < earliest_ms - 2 * SWEPT_EVERY_MS]
        check(not old, KEPT, f"past their time and still there: {old}")
