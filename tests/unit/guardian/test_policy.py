"""Policies: what they allow is planned, what they do not allow is not, and what they do wrong plans nothing."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.skewed_models import Shape, skewed
from support.small_models import model_of

from penstock.cli.main import main
from penstock.errors import PenstockError
from penstock.guardian.model.writing import write_model
from penstock.guardian.plan.model import Model
from penstock.guardian.plan.policed import policed
from penstock.guardian.plan.rules import Kept, Rules
from penstock.guardian.plan.verifier import verify
from penstock.guardian.policy import asking
from penstock.guardian.policy.asking import FilePolicy, read_policy

ANYWHERE = Rules(racks=False, hosts=False)
CROWDED = model_of([((0,), 10)] * 6 + [((1,), 10)] * 2, racks=[0, 0, 1], topics=dict.fromkeys(range(3), "a"))


def planned(text: str, model: Model = CROWDED, rules: Rules = ANYWHERE) -> dict[str, Any]:
    found, used = policed(model, rules, 1, FilePolicy("policy.py", text))
    assert verify(model, used, found) == []
    return found


def test_a_policy_that_allows_all_changes_nothing_but_the_digest() -> None:
    found = planned("def allow(moves): return moves['bytes'] >= 0")
    assert found["moves"]
    assert found["policy"]["digest"].startswith("sha256:")
    assert found["rules"]["kept"] == []


def test_what_is_not_allowed_is_not_planned_and_something_else_is() -> None:
    found = planned("def allow(moves): return moves['topic'] != 'a'")
    assert found["moves"]
    assert {each["topic"] for each in found["moves"]} == {"t"}
    found = planned("def allow(moves):\n    return [rack != 'r1' for rack in moves['to_rack']]")
    assert {each["to"]["broker"] for each in found["moves"]} <= {0, 1}


def test_scores_below_nought_are_refused_and_high_ones_come_first() -> None:
    found = planned("def score(moves): return moves['partition'] - 0.5")
    assert [each["id"] for each in found["moves"]] == list(range(1, len(found["moves"]) + 1))
    numbers = [each["partition"] for each in found["moves"]]
    assert numbers == sorted(numbers, reverse=True)
    assert 0 not in numbers


def test_a_policy_that_allows_nothing_leaves_all_as_it_is() -> None:
    found = planned("def allow(moves): return [False] * len(moves['topic'])")
    assert found["moves"] == found["partitions"] == found["leaders"] == []


def test_a_policy_may_keep_even_what_must_leave_and_the_plan_says_so() -> None:
    found = planned("def allow(moves): return moves['from_broker'] != 0", rules=replace(ANYWHERE, drained=(0,)))
    assert all(each["from"]["broker"] != 0 for each in found["moves"])
    assert {each["rule"] for each in found["violations"]} == {"drained"}
    assert found["violations"][0]["conflict"] == ["drained", "policy"]


def test_another_policy_has_another_digest_of_the_plan() -> None:
    one = planned("def allow(moves): return moves['bytes'] >= 0")
    other = planned("def allow(moves): return moves['bytes'] >= 1")
    assert one["moves"] == other["moves"]
    assert one["digest"] != other["digest"]
    one["policy"] = other["policy"]
    assert [each.place for each in verify(CROWDED, ANYWHERE, one)] == ["digest"]


def test_a_change_of_what_a_policy_keeps_is_a_fault() -> None:
    found = planned("def allow(moves): return moves['bytes'] >= 0")
    first = found["moves"][0]
    rules = replace(ANYWHERE, kept=(Kept(first["topic"], first["partition"]),))
    found["rules"] = rules.document()
    from penstock.guardian.plan.document import digest

    found["digest"] = digest(CROWDED, rules, 1, found["policy"]["digest"])
    assert "policy" in {each.rule for each in verify(CROWDED, rules, found)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def allow(moves):\n    return 1 / 0", "ZeroDivisionError in line 2: division by zero"),
        ("def allow(moves:", "SyntaxError in line 1: "),
        ("raise SystemExit(3)", "SystemExit in line 1: 3"),
        ("import os\nos._exit(7)", "its process ended with 7 and no answer"),
        ("x = 1", "it has neither a function allow nor a function score"),
        ("def allow(moves): return [True]", "allow gave 1 values for"),
        ("def allow(moves): return True", "allow gave True; it must give a list or an array"),
        ("def allow(moves): return None", "allow gave None; it must give a list"),
        ("def allow(moves): return moves['bytes']", "for move 1; it must be true or false"),
        ("def score(moves): return moves['bytes'] * float('nan')", "score gave nan for move 1; it must be a finite"),
        ("def score(moves): return ['x'] * len(moves['bytes'])", "score gave 'x' for move 1; it must be a finite"),
        ("def allow(moves): return {1: object()}", "no answer"),
        ("def allow(moves): return moves['size']", "KeyError in line 1: 'size'"),
        ("def allow(moves): return bytearray(1 << 40)", "MemoryError"),
    ],
)
def test_what_a_policy_does_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(PenstockError) as failure:
        planned(text)
    assert said in str(failure.value)
    assert str(failure.value).endswith("nothing is planned")


def test_a_policy_that_loops_is_ended() -> None:
    policy = FilePolicy("policy.py", "while True: pass", seconds_max=1.0)
    with pytest.raises(PenstockError, match=r"policy policy\.py: it took more than 1 s; nothing is planned"):
        policed(CROWDED, ANYWHERE, 1, policy)


def test_what_a_policy_prints_is_no_answer() -> None:
    assert planned("print('hello')\ndef allow(moves):\n    print(1)\n    return moves['bytes'] > 0")["moves"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(skewed(Shape(6, 12, disks=2, topics=2)), tmp_path / "model")
    path = tmp_path / "policy.py"
    words = ["guardian", "plan", "--model", str(tmp_path / "model"), "--policy", str(path)]
    path.write_text("def score(moves): return moves['bytes']")
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    copied = [each["bytes"] for each in found["moves"] if each["kind"] in ("replica", "swap")]
    assert copied == sorted(copied, reverse=True)
    assert found["policy"] == {"digest": read_policy(path).digest}
    (tmp_path / "plan.json").write_text(json.dumps(found))
    assert main(["guardian", "plan", "check", str(tmp_path / "plan.json"), "--model", str(tmp_path / "model")]) == 0
    capsys.readouterr()
    path.write_text("def allow(moves): return 3")
    assert main(words) == 1
    captured = capsys.readouterr()
    assert not captured.out
    assert "allow gave 3; it must give a list or an array" in captured.err
    path.unlink()
    assert main(words) == 1
    assert "No such file" in capsys.readouterr().err


def test_what_a_policy_leaves_running_is_ended(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    text = f"""
import os, time
def allow(moves):
    writing = os.open({str(fifo)!r}, os.O_WRONLY)
    if os.fork():
        os.write(writing, b"begun")
        return [True] * len(moves["topic"])
    time.sleep(20)
    os.write(writing, b", and not ended")
"""
    with open(reading, "rb") as stream:
        assert planned(text)["moves"]
        os.set_blocking(reading, True)
        assert set(stream.read().split(b"begun")) == {b""}, "who writes has ended, or stream would not"


def test_a_policy_that_prints_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "POLICY_OUTPUT_BYTES_MAX", 100_000)
    with pytest.raises(PenstockError, match="File too large; nothing is planned"):
        planned("def allow(moves):\n    while True: print('x' * 1000)")
