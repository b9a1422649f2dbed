"""Golden scripts: what is done to a quorum, and all that follows, line by line, where the order is the point.

A script begins with `> quorum 1 2 3` (voters; `observers 7` may follow); the other lines with `>` are events, the lines
after them what came of it. To write a new script, write its `>` lines, and take the rest from the failing test.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.raft.replica_harness import Quorum

SCRIPTS = Path(__file__).with_name("scripts")


def play(script: str) -> str:
    """Runs the events of a script and returns it with what really came of them."""
    quorum: Quorum | None = None
    lines: list[str] = []
    for line in script.splitlines():
        if not line.startswith(">"):
            continue
        lines.append(line)
        event, *words = line[1:].split("#")[0].split()
        if event == "quorum":
            cut = words.index("observers") if "observers" in words else len(words)
            quorum = Quorum([int(word) for word in words[:cut]], [int(word) for word in words[cut + 1 :]])
        else:
            assert quorum is not None, "a script begins with a quorum"
            happen(quorum, event, words)
            lines += quorum.lines
            quorum.lines = []
    return "\n".join(lines) + "\n"


def happen(quorum: Quorum, event: str, words: list[str]) -> None:
    if event == "start":
        quorum.start()
    elif event == "pass":
        quorum.pass_ms(int(words[0].removesuffix("ms")))
    elif event == "append":
        quorum.append(int(words[0]))
    elif event == "cut":
        quorum.cut |= {int(word) for word in words}
    elif event == "join":
        quorum.cut.clear()
    elif event == "append-at":
        one = quorum.ones[int(words[0])]
        one.append(int(words[1]))
    else:
        assert event == "resign", f"unknown event {event}"
        one = quorum.ones[int(words[0])]
        quorum.act(one.key.id, one.do(one.replica.resign(one.now_ms)))


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_golden_script(script: Path) -> None:
    assert play(script.read_text()) == script.read_text()
