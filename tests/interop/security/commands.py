"""What a user does with the commands at a cluster, whoever runs it: the tests of secured clusters share it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.main import main

Capture = pytest.CaptureFixture[str]


class Commands:
    """Runs commands in this process, with one client file; returns what they print."""

    def __init__(self, bootstrap: str, client_file: Path, capture: Capture) -> None:
        self._words = ["--bootstrap", bootstrap, "--command-config", str(client_file)]
        self._capture = capture
        self.said = ""
        """All that was ever printed, errors too."""

    def __call__(self, *words: str, code: int = 0) -> str:
        self._capture.readouterr()
        ended = main([*words, *self._words])
        told = self._capture.readouterr()
        self.said += told.out + told.err
        assert ended == code, told.err
        return told.out if code == 0 else told.err


def use(run: Commands, topic: str) -> None:
    """Makes a topic, writes to it, reads from it with and without a group, looks at both."""
    run("topics", "create", topic, "--partitions", "2")
    assert topic in run("topics", "list")
    run("produce", topic, "--value", "one", "--value", "two")
    assert sorted(run("consume", topic).split()) == ["one", "two"]
    assert sorted(run("consume", topic, "--group", f"{topic}-group").split()) == ["one", "two"]
    assert f"{topic}-group" in run("groups", "list")
    assert topic in run("groups", "describe", f"{topic}-group")
    assert "retention.ms" in run("configs", "describe", "--name", topic, "--all")
    run("produce", topic, "--value", "three", "--transactional-id", f"{topic}-id")
    assert f"{topic}-id" in run("transactions", "list")
