"""A whole cluster under faults does the same with the short paths of requests as without them, event by event."""

from __future__ import annotations

import pytest

from penstock.node.fetches import Fetch
from penstock.node.handlers import fetch as fetch_handler
from simulator.cluster.scenarios import SCENARIOS
from simulator.cluster.world import ClusterWorld


def trace_hash(name: str) -> str:
    return ClusterWorld(1_000, SCENARIOS[name]).run().trace_hash


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crashes", "moves"])
def test_a_seed_gives_the_same_trace_without_the_short_paths(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = [0, 0]
    parks, answers = Fetch.finds_nothing, fetch_handler.plain_answer

    def counted_parks(*arguments: object) -> bool:
        found = parks(*arguments)  # type: ignore[arg-type]
        taken[0] += found
        return found

    def counted_answers(*arguments: object) -> object:
        answer = answers(*arguments)  # type: ignore[arg-type]
        taken[1] += answer is not None
        return answer

    monkeypatch.setattr(Fetch, "finds_nothing", counted_parks)
    monkeypatch.setattr(fetch_handler, "plain_answer", counted_answers)
    with_them = trace_hash(name)
    assert min(taken) > 20, "or nothing has been compared"
    monkeypatch.setattr(Fetch, "finds_nothing", lambda *_: False)
    monkeypatch.setattr(fetch_handler, "plain_answer", lambda *_: None)
    assert trace_hash(name) == with_them
