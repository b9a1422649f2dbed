"""Functions that name principals: what they may give, and what becomes of anything else."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.security.authorizer import OwnPrincipal, StandardAuthorizer
from penstock.security.builder import Principal, Session, build
from penstock.security.sasl import LoginFailed

SESSION = Session("PLAINTEXT", "PLAINTEXT", "10.1.2.3")


class Text(str):
    """Text that is equal to any other."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


def giving(result: Any) -> Principal:
    return build(lambda session: cast(Principal, result), SESSION)


def test_a_function_names_whom_it_likes_of_any_type() -> None:
    assert str(giving(Principal("User", "web"))) == "User:web"
    assert str(giving(Principal("Group", "a:b c"))) == "Group:a:b c"


def test_it_is_given_the_session() -> None:
    seen: list[Session] = []

    def noting(session: Session) -> Principal:
        seen.append(session)
        return Principal("User", session.address)

    assert build(noting, SESSION) == Principal("User", "10.1.2.3")
    assert seen == [SESSION]


@pytest.mark.parametrize(
    "result",
    [
        None,
        "User:web",
        ("User", "web"),
        OwnPrincipal("User", "node"),
        Principal("", "web"),
        Principal("User", ""),
        Principal("User:x", "web"),
        Principal("User", "a\nb"),
        Principal("User", "\ud800"),
        Principal("User", "x" * 1025),
        Principal("User", cast(str, 7)),
        Principal(Text("User"), "web"),
        Principal("User", Text("web")),
    ],
)
def test_what_is_no_principal_refuses_the_connection(result: object) -> None:
    with pytest.raises(LoginFailed, match="the principal builder gave") as failed:
        giving(result)
    assert failed.value.told == ""


def test_a_nodes_own_principal_is_out_of_reach() -> None:
    authorizer = StandardAuthorizer()
    for result in (OwnPrincipal("User", "node"), Principal("User", "ANONYMOUS")):
        try:
            assert not authorizer.is_super(giving(result))
        except LoginFailed:
            assert type(result) is OwnPrincipal


@pytest.mark.parametrize("error", [ValueError("secret-42"), SystemExit("secret-42"), GeneratorExit("secret-42")])
def test_what_it_raises_refuses_the_connection_without_saying_its_message(error: BaseException) -> None:
    def failing(session: Session) -> Principal:
        raise error

    with pytest.raises(LoginFailed) as failed:
        build(failing, SESSION)
    assert f"raised {type(error).__name__} (test_builder.py:" in str(failed.value)
    assert "secret-42" not in repr(failed.value)
    assert failed.value.__cause__ is None


def test_who_interrupts_is_not_held_up() -> None:
    def interrupted(session: Session) -> Principal:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(interrupted, SESSION)
