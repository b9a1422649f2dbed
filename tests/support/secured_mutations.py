"""Faults to plant into a secured cluster: each breaks what its ACLs or its logins promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.metadata.delta import MetadataDelta
from penstock.node.connection import Connection
from penstock.node.handlers import envelope, metadata
from penstock.node.logins import Logins
from penstock.security.acls import Masks, Patterns
from penstock.security.authorizer import ANONYMOUS, Principal, StandardAuthorizer
from penstock.security.tokens import TokenLogins
from simulator.secured.guests import SURVIVES, UNSEEN
from simulator.secured.rules import BY_THE_IMAGE, EXPIRED, WHO
from simulator.secured.tokens import KEPT, OVER
from support.cluster_mutations import Mutation


def allows_before_it_denies(patch: pytest.MonkeyPatch) -> None:
    """An ACL that allows wins over one that denies."""
    real = Patterns.masks

    def masks(patterns: Patterns, name: str, host: str) -> Masks:
        allowed, denied = real(patterns, name, host)
        return allowed, denied & ~allowed

    patch.setattr(Patterns, "masks", masks)


def serves_expired_sessions(patch: pytest.MonkeyPatch) -> None:
    """Who has logged in stays."""
    real = Logins._succeed

    def succeed(logins: Logins, connection: Connection, *rest: Any) -> Any:
        lifetime_ms = real(logins, connection, *rest)
        assert connection.login is not None
        connection.login.until_ms = 2**62
        return lifetime_ms

    patch.setattr(Logins, "_succeed", succeed)


def ignores_the_enveloped_principal(patch: pytest.MonkeyPatch) -> None:
    """What a broker forwards is decided for the broker."""

    def nobody(data: bytes) -> Principal:
        return ANONYMOUS

    patch.setattr(envelope, "deserialized", nobody)


def keeps_answers_for_everybody(patch: pytest.MonkeyPatch) -> None:
    """A Metadata answer is kept for whoever asks the same, whatever he may see."""
    real = metadata.cache_key

    def same_for_all(*arguments: Any) -> tuple[object, ...] | None:
        key = real(*arguments)
        return None if key is None else (*key[:2], None, *key[3:])

    patch.setattr(metadata, "cache_key", same_for_all)


def lets_all_in_at_first(patch: pytest.MonkeyPatch) -> None:
    """Until the ACLs are loaded everybody may do everything."""
    real = StandardAuthorizer.authorize

    def authorize(authorizer: StandardAuthorizer, *asked: Any) -> bool:
        return not authorizer.is_loaded or real(authorizer, *asked)

    patch.setattr(StandardAuthorizer, "authorize", authorize)


def follows_no_removal(patch: pytest.MonkeyPatch) -> None:
    """An ACL that was removed counts until the node starts again."""

    def changed(authorizer: StandardAuthorizer, changes: Any) -> None:
        for before, after in changes.values():
            if before is None and after is not None:
                authorizer.acls.add(after)

    patch.setattr(StandardAuthorizer, "changed", changed)


def loses_removals(patch: pytest.MonkeyPatch) -> None:
    """Removals are not replayed: an ACL that was taken stays."""
    real = MetadataDelta.apply

    def apply(delta: MetadataDelta, *rest: Any) -> Any:
        delta.acls = {number: acl for number, acl in delta.acls.items() if acl is not None}
        return real(delta, *rest)

    patch.setattr(MetadataDelta, "apply", apply)


def serves_expired_tokens(patch: pytest.MonkeyPatch) -> None:
    """A token logs in as long as it is in the metadata."""
    real = TokenLogins.look_up

    def look_up(logins: TokenLogins, *asked: Any) -> Any:
        found = real(logins, *asked)
        if found is None:
            wall_ms, logins._source = logins._source.wall_ms, replace(logins._source, wall_ms=lambda: 0)
            try:
                found = real(logins, *asked)
            finally:
                logins._source = replace(logins._source, wall_ms=wall_ms)
            return None if found is None else replace(found, expires_at_ms=wall_ms() + 1_000)
        return found

    patch.setattr(TokenLogins, "look_up", look_up)


def loses_renewals(patch: pytest.MonkeyPatch) -> None:
    """A token that is renewed ends as if it were not, where it is replayed."""
    real = MetadataDelta.apply

    def apply(delta: MetadataDelta, *rest: Any) -> Any:
        known = delta.image.delegation_tokens
        delta.delegation_tokens = {
            number: token for number, token in delta.delegation_tokens.items() if token is None or number not in known
        }
        return real(delta, *rest)

    patch.setattr(MetadataDelta, "apply", apply)


MUTATIONS = {
    "an ACL that allows wins": Mutation(allows_before_it_denies, "secured", 1, (BY_THE_IMAGE,)),
    "expired sessions are served": Mutation(serves_expired_sessions, "secured", 1, (EXPIRED,)),
    "the principal of an Envelope is ignored": Mutation(ignores_the_enveloped_principal, "secured", 1, (WHO,)),
    "kept answers are for everybody": Mutation(keeps_answers_for_everybody, "secured", 1, (UNSEEN,)),
    "early listeners let all in": Mutation(lets_all_in_at_first, "secured", 1, (BY_THE_IMAGE,)),
    "removed ACLs count": Mutation(follows_no_removal, "secured", 1, (BY_THE_IMAGE,)),
    "expired tokens are served": Mutation(serves_expired_tokens, "secured", 1, (OVER,)),
    "renewals are lost": Mutation(loses_renewals, "secured", 1, (KEPT,)),
    "removals are lost": Mutation(loses_removals, "secured", 1, (SURVIVES,)),
}
