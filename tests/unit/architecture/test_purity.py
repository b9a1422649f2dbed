"""The pure rooms keep their rules, and each rule can be broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from .purity import PURE_ROOMS, offences

SOURCE = Path(__file__).resolve().parents[3] / "src" / "penstock"
MODULES = sorted(path for room in PURE_ROOMS for path in (SOURCE / room).rglob("*.py"))


def test_there_are_pure_rooms_to_check() -> None:
    assert len({path.relative_to(SOURCE).parts[0] for path in MODULES}) >= 8


def test_the_pure_rooms_know_no_world() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{offence.line} {offence.rule}"
        for path in MODULES
        for offence in offences(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("snippet", "rule"),
    [
        ("import asyncio", "imports asyncio"),
        ("import os.path", "imports os.path"),
        ("import threading as t", "imports threading"),
        ("from time import monotonic", "imports monotonic from time"),
        ("from concurrent.futures import Future", "imports Future from concurrent.futures"),
        ("import uuid", "imports uuid"),
        ("from urllib.request import urlsplit", "imports urlsplit from urllib.request"),
        ("from uuid import UUID, uuid4", "imports uuid4 from uuid"),
        ("def f():\n    import socket", "imports socket"),
        ("x = id(y)", "calls id()"),
        ("x = Random()", "calls Random()"),
        ("x = hash(y) % 8", "calls hash()"),
        ("open('x')", "calls open()"),
        ("x = thing.uuid4()", "calls uuid4()"),
        ("x = datetime.now()", "reads a clock by now()"),
        ("async def f(): ...", "is a coroutine"),
        ("for x in {1, 2}: ...", "iterates over a set"),
        ("y = [x for x in set(z)]", "iterates over a set"),
        ("for x in a.union(b): ...", "iterates over a set"),
        ("for x in set(a) - b: ...", "iterates over a set"),
    ],
)
def test_each_rule_can_be_broken(snippet: str, rule: str) -> None:
    assert [offence.rule for offence in offences(snippet)] == [rule]


@pytest.mark.parametrize(
    "snippet",
    [
        "from uuid import UUID",
        "from io import BytesIO",
        "from random import Random",
        "from urllib.parse import urlsplit",
        "for x in sorted({1, 2}): ...",
        "x = self.id(y)",
        "x = node.clock.now(ms)",
        "for x in dict.fromkeys(y): ...",
        "from penstock.log import time_index",
    ],
)
def test_what_is_allowed_is_not_an_offence(snippet: str) -> None:
    assert offences(snippet) == []
