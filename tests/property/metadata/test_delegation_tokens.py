"""Whatever is asked of delegation tokens, in any order: none outlives its limits, is renewed by a stranger or after its
end, or comes back; and a token is found by its HMAC exactly as long as it is there.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.metadata.controller_state import NOW_MS, State

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.delegation_tokens import DelegationToken, TokenIds, hmac_of, removals
from penstock.metadata.token_control import create_token, expire_token, renew_token

SECRET = "canary"
USERS = [f"User:{name}" for name in ("alice", "bob", "eve")]
MAX_MS, RENEWED_MS = 10_000, 3_000


class Life:
    """A controller, a model of what it should have, and the time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.state = State(
            broker_ids=(),
            delegation_token_secret_key=SECRET,
            delegation_token_max_lifetime_ms=MAX_MS,
            delegation_token_expiry_time_ms=RENEWED_MS,
        )
        self.now_ms = NOW_MS
        self.model: dict[str, DelegationToken] = {}
        self.gone: set[str] = set()
        self.ids = TokenIds(SECRET, self.state.controller.image.delegation_tokens)

    def step(self) -> None:
        action = self.random.choice(
            (self.create, self.create, self.renew, self.renew, self.expire, self.sweep, self.wait)
        )
        before = self.state.controller.image.delegation_tokens
        action()
        after = self.state.controller.image.delegation_tokens
        for token_id in {*before, *after}:
            if before.get(token_id) != after.get(token_id):
                self.ids.follow({token_id: after.get(token_id)})
        self.check()

    def wait(self) -> None:
        self.now_ms += self.random.randrange(2_000)

    def period(self) -> int:
        return self.random.choice((-1, 0, 1, 500, RENEWED_MS, MAX_MS, 1 << 62))

    def create(self) -> None:
        owner, requester = self.random.choice(USERS), self.random.choice(USERS)
        renewers = self.random.sample(USERS, self.random.randrange(3))
        result = create_token(
            self.state.controller, owner, requester, renewers, max_lifetime_ms=self.period(), now_ms=self.now_ms
        )
        self.state.replay(result.records)
        token = result.response
        assert token.id not in self.gone
        assert self.now_ms < token.expires_ms <= min(self.now_ms + RENEWED_MS, token.max_ms)
        assert token.max_ms <= self.now_ms + MAX_MS
        self.model[token.id] = token

    def drawn(self) -> DelegationToken | None:
        return self.random.choice([None, *self.model.values()])

    def renew(self) -> None:
        token, who, period_ms = self.drawn(), self.random.choice(USERS), self.period()
        try:
            result = renew_token(self.state.controller, token, who, period_ms, self.now_ms)
        except RequestError:
            allowed = False
        else:
            allowed = True
        assert allowed is not refused(token, who, self.now_ms)
        if token is None or not allowed:
            return
        self.state.replay(result.records)
        assert result.response.expires_ms <= min(self.now_ms + RENEWED_MS, token.max_ms)
        self.model[token.id] = result.response

    def expire(self) -> None:
        token, who, period_ms = self.drawn(), self.random.choice(USERS), self.period()
        try:
            result = expire_token(token, who, period_ms, self.now_ms)
        except RequestError as error:
            code = error.code
        else:
            code = ErrorCode.NONE
        stranger = token is None or who not in (token.owner, *token.renewers)
        assert stranger == (code not in (ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_EXPIRED))
        if token is None or code is not ErrorCode.NONE:
            return
        assert who in (token.owner, *token.renewers)
        self.state.replay(result.records)
        if result.response is None:
            self.gone.add(self.model.pop(token.id).id)
        else:
            assert result.response.expires_ms <= token.max_ms
            self.model[token.id] = result.response

    def sweep(self) -> None:
        start: str | None = None
        while True:
            records, start = removals(self.state.controller.image.delegation_tokens, start, self.now_ms)
            self.state.replay(records)
            if start is None:
                break
        for token in list(self.model.values()):
            if min(token.expires_ms, token.max_ms) < self.now_ms:
                self.gone.add(self.model.pop(token.id).id)

    def check(self) -> None:
        assert dict(self.state.controller.image.delegation_tokens.items()) == self.model
        for token_id in self.model:
            assert list(self.ids.looked_for(hmac_of(SECRET, token_id)))[-1] == token_id
        for token_id in self.gone:
            assert list(self.ids.looked_for(hmac_of(SECRET, token_id)))[-1] is None


def refused(token: DelegationToken | None, who: str, now_ms: int) -> bool:
    """Whether nobody of this name may renew a token now."""
    return token is None or min(token.expires_ms, token.max_ms) < now_ms or who not in (token.owner, *token.renewers)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_any_life_of_tokens_keeps_the_rules(seed: int) -> None:
    life = Life(seed)
    for _ in range(25):
        life.step()
