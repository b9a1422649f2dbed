"""Fixtures of the tests of a node."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["by batches", "as files"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a move copies closed segments; for tests that are to hold for both."""
    if request.param == "as files":
        monkeypatch.setattr("penstock.node.segment_moves.MOVE_FILES_MIN_BYTES", 1)
        monkeypatch.setattr("penstock.node.segment_moves.MOVE_READ_BYTES", 300_000)
    return str(request.param)
