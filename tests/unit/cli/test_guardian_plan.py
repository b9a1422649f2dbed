"""`penstock guardian plan` and `model check`: what they print, and what they say of files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.skewed_models import Shape, skewed

from penstock.cli.main import main
from penstock.guardian.model.writing import write_model

SHAPE = Shape(6, 12, disks=2, topics=2)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    write_model(skewed(SHAPE), directory)
    return directory


def rules(tmp_path: Path, text: str) -> str:
    path = tmp_path / "rules.json"
    path.write_text(text)
    return str(path)


def test_a_plan_for_a_person(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guardian", "plan", "--model", str(model), "--moves", "2"]) == 0
    said = capsys.readouterr().out
    head, *lines = said.splitlines()
    assert " moves (" in head
    assert head.endswith("to copy")
    assert any(line.startswith("bytes       a broker's share") for line in lines)
    assert lines[-1].startswith("... and ")
    assert sum("topic-00000" in line for line in lines) == 2


def test_a_plan_as_json_is_kafka_reassign_partitions_file_and_more(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["guardian", "plan", "--model", str(model), "--json"]) == 0
    text = capsys.readouterr().out
    found: dict[str, Any] = json.loads(text)
    names = {"version", "partitions", "leaders", "moves", "before", "after", "violations", "seed", "digest"}
    assert names <= set(found)
    assert found["version"] == 1
    for each in found["partitions"]:
        assert set(each) == {"topic", "partition", "replicas", "log_dirs"}
        assert len(each["replicas"]) == len(each["log_dirs"]) == len(set(each["replicas"]))
    assert {"id", "topic", "partition", "kind", "from", "to", "bytes", "why"} <= set(found["moves"][0])
    assert {each["kind"] for each in found["moves"]} <= {"leader", "disk", "replica", "swap"}
    assert main(["guardian", "plan", "--model", str(model), "--json", "--seed", str(found["seed"])]) == 0
    assert capsys.readouterr().out == text, "the same seed gives the same plan"


def test_a_plan_in_a_file_is_checked(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def checked(text: str, *words: str) -> tuple[int, str]:
        path.write_text(text)
        code = main(["guardian", "plan", "check", str(path), "--model", str(model), *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    path = tmp_path / "plan.json"
    given = rules(tmp_path, '{"cordoned": [5]}')
    assert main(["guardian", "plan", "--model", str(model), "--rules", given, "--json"]) == 0
    text = capsys.readouterr().out
    code, said = checked(text)
    assert code == 0
    assert "is sound: " in said
    assert checked(text, "--rules", given, "--json") == (0, '{\n  "sound": true,\n  "faults": []\n}\n')
    code, said = checked(text, "--rules", rules(tmp_path, "{}"))
    assert (code, "the plan was made for other rules" in said) == (1, True)
    code, said = checked(text.replace('"kind": "leader"', '"kind": "disk"', 1), "--json")
    assert (code, json.loads(said)["sound"]) == (1, False)
    for odd, words in (("{", "is no JSON"), ('{"a": NaN}', "NaN is no number"), ("[" * 100_000, "is no JSON")):
        code, said = checked(odd)
        assert code == 1
        assert words in said
    for odd in ("{}", "[]", "3", '{"rules": {}}'):
        code, said = checked(odd)
        assert code == 1
        assert said.startswith("shape: the plan")
    code, said = checked('{"rules": {"drai": [1]}}')
    assert code == 1
    assert "did you mean drained?" in said
    path.unlink()
    assert main(["guardian", "plan", "check", str(path), "--model", str(model)]) == 1
    assert "No such file" in capsys.readouterr().err


def test_what_a_model_has(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guardian", "model", "check", str(model)]) == 0
    assert "is sound: 6 brokers, 3 racks, 12 disks, 2 topics, 12 partitions, 36 replicas" in capsys.readouterr().out
    assert main(["guardian", "model", "check", str(model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replicas"] == 36


def test_rules_that_cannot_be_met_are_named_and_end_the_command_with_1(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = rules(tmp_path, '{"drained": [0, 1, 2, 3, 4]}')
    assert main(["guardian", "plan", "--model", str(model), "--rules", given]) == 1
    assert "not met: " in capsys.readouterr().out


def test_files_and_words_that_are_wrong(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*words: str) -> str:
        assert main(["guardian", *words]) != 0
        captured = capsys.readouterr()
        assert not captured.out
        return captured.err

    planning = ("plan", "--model", str(model))
    assert "--model or --cluster is missing" in refused("plan")
    assert "is no directory; a model is one with brokers.parquet" in refused("plan", "--model", str(tmp_path / "none"))
    assert "did you mean drained?" in refused(*planning, "--rules", rules(tmp_path, '{"drai": [1]}'))
    assert "is no JSON" in refused(*planning, "--rules", rules(tmp_path, "{"))
    assert "--seed -3: it must be 0 to" in refused(*planning, "--seed=-3")
    (model / "disks.parquet").write_bytes(b"junk")
    assert "disks.parquet cannot be read as Parquet" in refused("model", "check", str(model))
    assert "disks.parquet cannot be read as Parquet" in refused(*planning, "--json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan",), "--model or --cluster is missing"),
        (("plan", "--model", "m", "--cluster", "c"), "not allowed with argument"),
        (("plan", "--cluster", "c", "--disk-rate", "0"), "--disk-rate 0: it must be above 0"),
        (("plan", "--cluster", "c", "--cpu-cores", "nan"), "--cpu-cores nan: it must be above 0"),
        (("plan", "--cluster", "c", "--timeout", "0.2", "--guardian", "127.0.0.1:1"), "Guardian did not answer"),
        (("model", "export", "m", "--cluster", "c", "--guardian", "nowhere"), "--guardian: "),
    ],
)
def test_a_registered_cluster_is_asked_for_rightly(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["guardian", *words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code
    assert said in capsys.readouterr().err
