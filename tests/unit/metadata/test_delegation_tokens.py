"""Delegation tokens in the image, and the controller's rules about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from unit.metadata.controller_state import NOW_MS, State

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import limits
from penstock.metadata.delegation_tokens import DelegationToken, TokenIds, hmac_of, removals
from penstock.metadata.delta import MetadataDelta, MetadataError
from penstock.metadata.difference import difference
from penstock.metadata.duties import Duties
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.persistent import PersistentMap
from penstock.metadata.records import image_records
from penstock.metadata.result import MetadataMessage
from penstock.metadata.token_control import TIMESTAMP_MAX_MS, create_token, expire_token, renew_token
from penstock.protocol.messages.metadata.delegation_token_record import DelegationTokenRecord
from penstock.protocol.messages.metadata.remove_delegation_token_record import RemoveDelegationTokenRecord
from penstock.records.wall import WallTime

SECRET = "canary"
DAY_MS = 24 * 3_600_000
ALICE, BOB, EVE = "User:alice", "User:bob", "User:eve"


def state(**settings: Any) -> State:
    return State(delegation_token_secret_key=SECRET, **settings)


def create(
    of: State, owner: str = ALICE, *renewers: str, requester: str = "", lifetime_ms: int = -1, now_ms: int = NOW_MS
) -> DelegationToken:
    result = create_token(
        of.controller, owner, requester or owner, renewers, max_lifetime_ms=lifetime_ms, now_ms=now_ms
    )
    of.replay(result.records)
    return result.response


def image_of(*records: MetadataMessage, base: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    delta = MetadataDelta(base)
    for record in records:
        delta.replay(record)
    return delta.apply(base.offset + len(records), 1, 0)


def refusal(call: Any, *arguments: Any, **named: Any) -> ErrorCode:
    with pytest.raises(RequestError) as error:
        call(*arguments, **named)
    return error.value.code


def test_a_token_lasts_as_long_as_the_settings_allow() -> None:
    of = state()
    token = create(of, ALICE, BOB)
    assert (token.owner, token.requester, token.renewers) == (ALICE, ALICE, (BOB,))
    assert (token.issued_ms, token.expires_ms, token.max_ms) == (NOW_MS, NOW_MS + DAY_MS, NOW_MS + 7 * DAY_MS)
    assert of.controller.image.delegation_tokens[token.id] == token
    assert len(token.id) == 22


@pytest.mark.parametrize(
    ("asked_ms", "max_ms", "expires_ms"),
    [
        (-1, 7 * DAY_MS, DAY_MS),
        (0, 7 * DAY_MS, DAY_MS),
        (8 * DAY_MS, 7 * DAY_MS, DAY_MS),
        (2 * DAY_MS, 2 * DAY_MS, DAY_MS),
        (1, 1, 1),
    ],
)
def test_a_shorter_life_may_be_asked_for(asked_ms: int, max_ms: int, expires_ms: int) -> None:
    token = create(state(), lifetime_ms=asked_ms)
    assert (token.max_ms - NOW_MS, token.expires_ms - NOW_MS) == (max_ms, expires_ms)


def test_lifetimes_without_end_fit_into_the_record() -> None:
    of = state(delegation_token_max_lifetime_ms=TIMESTAMP_MAX_MS, delegation_token_expiry_time_ms=TIMESTAMP_MAX_MS)
    token = create(of)
    assert token.max_ms == token.expires_ms == TIMESTAMP_MAX_MS
    renewed = renew_token(of.controller, token, ALICE, -1, NOW_MS).response
    assert renewed.expires_ms == TIMESTAMP_MAX_MS


def test_only_users_may_renew() -> None:
    of = state()
    for renewer in ("Group:admins", "user:bob", ":bob", "User"):
        code = refusal(create_token, of.controller, ALICE, ALICE, [BOB, renewer], max_lifetime_ms=-1, now_ms=NOW_MS)
        assert code is ErrorCode.INVALID_PRINCIPAL_TYPE


def test_the_numbers_of_tokens_and_renewers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    of = state()
    renewers = [BOB] * (limits.RENEWERS_PER_TOKEN_MAX + 1)
    code = refusal(create_token, of.controller, ALICE, ALICE, renewers, max_lifetime_ms=-1, now_ms=NOW_MS)
    assert code is ErrorCode.POLICY_VIOLATION
    monkeypatch.setattr("penstock.metadata.token_control.DELEGATION_TOKENS_MAX", 2)
    for _ in range(2):
        create(of)
    code = refusal(create_token, of.controller, ALICE, ALICE, [], max_lifetime_ms=-1, now_ms=NOW_MS)
    assert code is ErrorCode.POLICY_VIOLATION


def test_owner_and_renewers_renew_until_the_end() -> None:
    of = state()
    token = create(of, ALICE, BOB, requester=EVE)
    for who in (ALICE, BOB):
        renewed = renew_token(of.controller, token, who, -1, NOW_MS + 1000).response
        assert renewed.expires_ms == NOW_MS + 1000 + DAY_MS
        assert renewed.max_ms == token.max_ms
    assert refusal(renew_token, of.controller, token, EVE, -1, NOW_MS) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew_token(of.controller, token, ALICE, 5000, NOW_MS).response.expires_ms == NOW_MS + 5000
    assert renew_token(of.controller, token, ALICE, 9 * DAY_MS, NOW_MS).response.expires_ms == NOW_MS + DAY_MS
    result = renew_token(of.controller, token, ALICE, -1, NOW_MS + DAY_MS)
    (record,) = result.records
    assert record == result.response.record()
    near_the_end = DelegationToken(**{**fields(token), "expires_ms": token.max_ms})
    assert renew_token(of.controller, near_the_end, ALICE, -1, token.max_ms).response.expires_ms == token.max_ms


def fields(token: DelegationToken) -> dict[str, Any]:
    return {name: getattr(token, name) for name in token.__slots__}


def test_what_is_over_or_does_not_exist_is_not_renewed() -> None:
    of = state()
    token = create(of)
    late_ms = token.expires_ms + 1
    assert refusal(renew_token, of.controller, token, ALICE, -1, late_ms) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert refusal(renew_token, of.controller, token, EVE, -1, late_ms) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert refusal(renew_token, of.controller, None, ALICE, -1, NOW_MS) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert renew_token(of.controller, token, ALICE, -1, token.expires_ms).response.expires_ms > token.expires_ms


def test_a_token_is_ended_at_once_or_later() -> None:
    of = state()
    token = create(of, ALICE, BOB)
    assert expire_token(token, BOB, -1, NOW_MS).records == [RemoveDelegationTokenRecord(token_id=token.id)]
    later = expire_token(token, ALICE, 5000, NOW_MS).response
    assert later is not None
    assert later.expires_ms == NOW_MS + 5000
    latest = expire_token(token, ALICE, TIMESTAMP_MAX_MS, NOW_MS).response
    assert latest is not None
    assert latest.expires_ms == token.max_ms
    assert refusal(expire_token, None, ALICE, -1, NOW_MS) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert refusal(expire_token, token, EVE, -1, NOW_MS) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    late_ms = token.expires_ms + 1
    assert refusal(expire_token, token, ALICE, 5000, late_ms) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert refusal(expire_token, token, EVE, 5000, late_ms) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expire_token(token, ALICE, -1, late_ms).response is None, "an old one may still be removed"


def test_a_snapshot_has_them_and_a_difference_finds_them() -> None:
    of = state()
    kept, changed, gone = (create(of, name) for name in (ALICE, BOB, EVE))
    old = of.controller.image
    assert image_of(*image_records(old)).delegation_tokens == old.delegation_tokens
    of.replay(renew_token(of.controller, changed, BOB, 5000, NOW_MS).records)
    of.replay(expire_token(gone, EVE, -1, NOW_MS).records)
    new = of.controller.image
    delta = difference(old, new)
    assert set(delta.delegation_tokens) == {changed.id, gone.id}
    assert delta.delegation_tokens[gone.id] is None
    assert delta.apply(new.offset, 1, 0).delegation_tokens == new.delegation_tokens
    assert kept.id in new.delegation_tokens


def test_records_of_kafka_are_replayed() -> None:
    record = DelegationTokenRecord(
        owner="User:a:b", requester=BOB, renewers=[EVE], issue_timestamp=1, max_timestamp=3, expiration_timestamp=2,
        token_id="id",
    )  # fmt: skip
    image = image_of(record)
    assert image.delegation_tokens["id"] == DelegationToken("id", "User:a:b", BOB, (EVE,), 1, 3, 2)
    assert image.delegation_tokens["id"].owner_name == "a:b"
    assert image.delegation_tokens["id"].record() == record
    gone = RemoveDelegationTokenRecord(token_id="id")
    assert len(image_of(gone, base=image).delegation_tokens) == 0
    assert len(image_of(gone).delegation_tokens) == 0, "the removal of one that is not there changes nothing"
    with pytest.raises(MetadataError, match="without a type"):
        image_of(DelegationTokenRecord(owner="alice", requester=ALICE, renewers=[], token_id="id"))


def looked_for(ids: TokenIds, key: bytes) -> tuple[str | None, int]:
    """The token that is found, and how many HMACs were computed for that."""
    steps = list(ids.looked_for(key))
    return steps[-1], len(steps) - 1


def test_a_token_is_found_by_its_hmac() -> None:
    tokens = [DelegationToken(str(number), ALICE, ALICE, (), 0, 9, 9) for number in range(10)]
    known: PersistentMap[str, DelegationToken] = PersistentMap()
    for token in tokens:
        known = known.set(token.id, token)
    ids = TokenIds(SECRET, known)
    assert looked_for(ids, hmac_of(SECRET, "3")) == ("3", 3)
    assert looked_for(ids, hmac_of(SECRET, "1")) == ("1", 0), "none is computed twice"
    assert looked_for(ids, hmac_of("another key", "1")) == (None, 6)
    assert looked_for(ids, b"") == (None, 0)
    ids.follow({"new": tokens[0], "3": None})
    assert looked_for(ids, hmac_of(SECRET, "new")) == ("new", 0)
    assert looked_for(ids, hmac_of(SECRET, "3")) == (None, 0)
    assert looked_for(TokenIds("", known), hmac_of("", "1")) == (None, 0), "without the key there are none"


def swept(of: State, duties: Duties, now_ms: int) -> list[str]:
    """The ids that the controller removes now."""
    found: list[str] = []
    while (deadline_ms := duties.next_deadline_ms()) is not None and deadline_ms <= now_ms:
        records: Sequence[MetadataMessage] = duties.due(now_ms) or ()
        of.replay(records)
        found += [record.token_id for record in records if record.NAME == "RemoveDelegationTokenRecord"]
    return found


def test_the_controller_removes_what_is_past_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.metadata.delegation_tokens.TOKENS_SWEPT_PER_STEP", 3)
    of = state(broker_ids=(), delegation_token_expiry_check_interval_ms=1000)
    wall = WallTime(NOW_MS)
    duties = Duties(of.controller, 0, wall)
    assert duties.next_deadline_ms() is None, "without tokens nothing wakes it"
    short = [create(of, lifetime_ms=1500 + number) for number in range(5)]
    kept = [create(of) for _ in range(5)]
    assert duties.next_deadline_ms() == 1000
    assert swept(of, duties, 1000) == []
    assert duties.next_deadline_ms() == 2000
    assert swept(of, duties, 1999) == []
    assert set(swept(of, duties, 2000)) == {token.id for token in short}
    assert set(of.controller.image.delegation_tokens) == {token.id for token in kept}
    assert duties.next_deadline_ms() == 3000


def test_a_token_is_good_in_its_last_millisecond() -> None:
    of = state()
    token = create(of, lifetime_ms=1500)
    tokens = of.controller.image.delegation_tokens
    assert removals(tokens, None, NOW_MS + 1500) == ([], None)
    assert removals(tokens, None, NOW_MS + 1501) == ([RemoveDelegationTokenRecord(token_id=token.id)], None)


def test_a_controller_without_the_key_removes_nothing() -> None:
    of = State(broker_ids=(), delegation_token_expiry_check_interval_ms=1000)
    create(of, lifetime_ms=1)
    duties = Duties(of.controller, 0, WallTime(NOW_MS))
    assert duties.next_deadline_ms() is None
    assert duties.due(10_000) is None
