"""Loading the functions that name principals: every mistake is said when the node starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.config.server import Settings
from penstock.errors import ConfigError
from penstock.security.builder import Principal, Session
from penstock.server.principal_builders import load_builders

SOURCE = """
from penstock.security.builder import Principal, Session

NOT_A_FUNCTION = "text"
asked = []

def by_network(session: Session) -> Principal:
    asked.append(session)
    return Principal("User", session.listener.lower())

def refuses(session):
    raise ValueError("canary")

def texts(session):
    return "User:web"

def two(session, more):
    return Principal("User", "x")

async def later(session):
    return Principal("User", "x")
"""

Load = Callable[..., dict[str, Callable[[Session], Principal]]]
made = iter(range(1_000))


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a function of a module with this source, whose name no other has."""

    def loaded(function: str, source: str = SOURCE, **more: str) -> dict[str, Callable[[Session], Principal]]:
        module = f"acme_principals_{next(made)}"
        (tmp_path / f"{module}.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        name = f"{module}:{function}"
        found = load_builders(Settings.for_node(**{"principal.builder.class": name, **more}))
        return {each.partition(":")[2]: builder for each, builder in found.items()}

    return loaded


def test_nothing_is_loaded_where_nothing_is_named() -> None:
    assert load_builders(Settings.for_node()) == {}


def test_a_function_is_loaded_once_and_tried_for_each_listener(load: Load) -> None:
    builder = load("by_network")["by_network"]
    tried = builder.__globals__["asked"]  # type: ignore[attr-defined]  # it is a function
    assert [each.listener for each in tried] == ["PLAINTEXT", "CONTROLLER"]
    assert builder(Session("A", "PLAINTEXT", "::1")) == Principal("User", "a")


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("by_networks", "has no by_networks; did you mean by_network"),
        ("NOT_A_FUNCTION", "is not a function but str"),
        ("two", "must take one argument, the session"),
        ("later", "must be a plain function"),
        ("texts", "gives str instead of Principal for listener PLAINTEXT"),
    ],
)
def test_a_mistake_stops_the_start(load: Load, function: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load(function)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("raise RuntimeError('canary')", r"cannot be imported: RuntimeError \(acme_principals_\d+\.py:1\)"),
        ("import sys; sys.exit('canary')", "cannot be imported: SystemExit"),
        ("def f(:", "cannot be imported: SyntaxError"),
        ("import no_such_module_at_all", "cannot be imported: ModuleNotFoundError.*: it needs no_such_module_at_all"),
    ],
)
def test_a_module_that_cannot_be_imported_stops_the_start(load: Load, source: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as wrong:
        load("f", source)
    assert "canary" not in str(wrong.value)


@pytest.mark.parametrize("module", ["no_such_module_at_all", "no_such_package.module", "penstock.no_such_module"])
def test_a_module_that_is_not_there_is_named(module: str) -> None:
    with pytest.raises(ConfigError, match="there is no module"):
        load_builders(Settings.for_node(**{"principal.builder.class": f"{module}:f"}))


def test_a_function_that_refuses_the_trial_is_only_warned_about(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    assert list(load("refuses")) == ["refuses"]
    assert "refuses a session that was made up" in caplog.text
    assert "canary" not in caplog.text
