"""The frame of the command line: names, exit codes, errors, help."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator

import cli_docs
import pytest

from penstock.cli import main as cli
from penstock.cli.completion import places
from penstock.cli.main import COMMANDS, main, make_parser, module_of
from penstock.cli.parser import example
from penstock.errors import ConfigError


def test_an_unknown_command_names_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topcs", "list"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown command topcs; did you mean topics?\n")


def test_every_command_is_the_command_lines_own() -> None:
    """They are named in strings, which the import contracts do not see."""
    assert [name for name, module in COMMANDS.items() if not module.startswith("penstock.cli.")] == []


def test_no_command_prints_the_help_and_is_a_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "penstock dev" in capsys.readouterr().out


def test_an_error_is_one_line_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "/nowhere/server.properties"]) == 1
    assert capsys.readouterr().err == "error: cannot read /nowhere/server.properties: no such file or directory\n"


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (ConfigError("a setting is wrong"), 1, "error: a setting is wrong\n"),
        (PermissionError(13, "Permission denied", "/data"), 1, "error: /data: Permission denied\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_a_command_raises_becomes_an_exit_code(
    raised: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: argparse.Namespace) -> int:
        raise raised

    monkeypatch.setattr(module_of("completion"), "run", fail)
    assert main(["completion", "bash"]) == code
    assert capsys.readouterr().err == said


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: argparse.Namespace) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(module_of("completion"), "run", fail)
    with pytest.raises(ZeroDivisionError):
        main(["completion", "bash"])


def test_every_command_and_action_has_a_summary_and_examples() -> None:
    for name in COMMANDS:
        assert "examples:\n" in (module_of(name).__doc__ or ""), name
    for place in places(make_parser()):
        for below, summary in place.commands.items():
            assert summary, (*place.words, below)
            assert not summary.endswith("."), (*place.words, below)
        for option in place.options:
            assert option.help, (place.words, option.names)


def test_help_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long = [
        (parser.prog, line)
        for parser in all_parsers(make_parser())
        for line in parser.format_help().splitlines()
        if len(line) > 80
    ]
    assert long == []


def all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from all_parsers(below)


@pytest.mark.parametrize(
    ("line", "folded"),
    [
        ("  penstock dev", ["  penstock dev"]),
        ("  penstock dev --brokers 3      three nodes", ["  # three nodes", "  penstock dev --brokers 3"]),
        (
            "  penstock sql 'select count(*) from clicks' --csv",
            ["  penstock sql \\", "      'select count(*) from clicks' \\", "      --csv"],
        ),
    ],
)
def test_examples_that_are_too_wide_are_folded_as_a_shell_takes_them(line: str, folded: list[str]) -> None:
    assert list(example(line, 38)) == folded


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["produce", "t", "--bootstrap-server", "x"], "unknown option --bootstrap-server; did you mean --bootstrap?"),
        (["topics", "create", "t", "--partition", "3", "--replicas=2"], "unknown option --replicas=2"),
        (
            ["topics", "crate", "t"],
            "crate is not one of list, create, describe, alter, delete, tail; did you mean create?",
        ),
        (["topics", "list", "more"], "unexpected argument more"),
        (["produce", "t", "--acks", "2"], "argument --acks: 2 is not one of 0, 1, all, -1"),
    ],
)
def test_what_was_asked_wrongly_is_told_with_what_is_near(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert "usage:" not in error
    place = " ".join(words[: 1 + (words[0] == "topics" and words[1] != "crate")])
    assert f"`penstock {place} --help` shows what there is" in error


def test_only_the_module_of_the_command_is_imported() -> None:
    script = (
        "import sys; from penstock.cli.main import make_parser; make_parser('server');"
        "print(*(name for name in sys.modules if name.startswith('penstock.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    allowed = {"cli", "cli.common", "cli.main", "cli.parser", "cli.server", "errors", "config", "config.nearest"}
    assert set(done.stdout.split()) == {f"penstock.{name}" for name in allowed}


def test_the_reference_page_is_current() -> None:
    assert cli_docs.PAGE.read_text() == cli_docs.page(), "run tools/cli_docs.py"


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("penstock 0.")
