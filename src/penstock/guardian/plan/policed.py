"""A plan in which a policy has a say: what it does not allow is not done, and something else is planned instead.

A plan is made, and the policy is asked about its moves. Partitions of which it does not allow a move are kept as they
are, as a rule of the next plan, and so on, until it has nothing against a plan. So each plan is whole: it keeps all
rules, and the verifier checks it like any other. If there is something to be said against the last of a few plans,
nothing moves at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from penstock.guardian.limits import POLICY_ROUNDS_MAX
from penstock.guardian.plan.document import plan
from penstock.guardian.plan.model import Model
from penstock.guardian.plan.rules import Kept, Rules

Columns = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a policy says of moves, one after the other: whether each may be made, and what it is worth (None: it does
    not say). What is worth less than 0 is not made; of moves of a kind, those that are worth more come first."""

    allowed: Sequence[bool]
    worth: Sequence[float] | None


class Policy(Protocol):
    """Somebody who is asked."""

    @property
    def digest(self) -> str:
        """A hash of its text."""

    def ask(self, columns: Columns) -> Answer:
        """Says what may be done. Raises PenstockError."""


def policed(model: Model, rules: Rules, seed: int, policy: Policy) -> tuple[dict[str, Any], Rules]:
    """The plan, and the rules for which it was made; see the module's head. Raises what the policy raises."""
    for _ in range(POLICY_ROUNDS_MAX):
        found = plan(model, rules, seed, policy.digest)
        if not found["moves"]:
            return found, rules
        answer = policy.ask(columns_of(model, found["moves"]))
        worth = answer.worth or [0.0] * len(found["moves"])
        denied = {
            (move["topic"], move["partition"])
            for move, allowed, value in zip(found["moves"], answer.allowed, worth, strict=True)
            if not allowed or value < 0
        }
        if not denied:
            found["moves"] = in_order(found["moves"], worth)
            return found, rules
        rules = replace(rules, kept=(*rules.kept, *(Kept(*each) for each in sorted(denied))))
    names = zip((model.topics[t] for t in model.topic.tolist()), model.number.tolist(), strict=True)
    rules = replace(rules, kept=tuple(Kept(*each) for each in names))
    return plan(model, rules, seed, policy.digest), rules


def columns_of(model: Model, moves: Sequence[dict[str, Any]]) -> Columns:
    """The moves as columns: what a policy is asked about."""
    racks = dict(zip(model.brokers.ids.tolist(), model.brokers.rack.tolist(), strict=True))
    found: Columns = {name: [move[name] for move in moves] for name in ("topic", "partition", "kind", "bytes")}
    for end in ("from", "to"):
        brokers = [move[end]["broker"] for move in moves]
        found[f"{end}_broker"] = brokers
        found[f"{end}_dir"] = [move[end].get("dir", "") for move in moves]
        found[f"{end}_rack"] = [model.brokers.rack_names[racks[each]] for each in brokers]
    return found


def in_order(moves: list[dict[str, Any]], worth: Sequence[float]) -> list[dict[str, Any]]:
    """Moves from cheap kinds to dear ones, those that are worth most first, numbered anew."""
    kinds = {"leader": 0, "disk": 1, "replica": 2, "swap": 2}
    order = sorted(range(len(moves)), key=lambda at: (kinds[moves[at]["kind"]], -worth[at], at))
    return [{**moves[at], "id": number} for number, at in enumerate(order, start=1)]
