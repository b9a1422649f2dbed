"""Show, add, change and remove Guardian's users, their roles and tokens."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from penstock.cli.common import Actions, add_option
from penstock.cli.guardian.asking import add_asking, add_group, asked, call, done, listed
from penstock.cli.times import timestamp_text
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.parser import Parser

USERS, TOKENS = "/v1/users", "/v1/tokens"
ROLE_HELP = "viewer, operator, admin or auditor; with @CLUSTER for that cluster alone; may be repeated"
DAY_MS = 86_400_000


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the actions on users."""
    below = add_group(actions, "users", "show, add, change and remove users, their roles and tokens")
    add_asking(below, "list", list_users, "show users, their roles and tokens").examples("penstock guardian users list")
    adding = add_asking(below, "add", add_user, "add a user").examples(
        "penstock guardian users add ann --role admin", "penstock guardian users add ben --role operator@clicks"
    )
    add_name(adding)
    add_roles(adding)
    removing = add_asking(below, "remove", remove_user, "remove a user; none of its tokens counts any more")
    add_name(removing.examples("penstock guardian users remove ann"))
    setting = add_asking(below, "set-role", set_roles, "give a user other roles than it has").examples(
        "penstock guardian users set-role ann --role viewer --role operator@clicks"
    )
    add_name(setting)
    add_roles(setting)
    register_tokens(add_group(below, "token", "make, show and revoke tokens"))


def register_tokens(actions: Any) -> None:
    """The actions on tokens."""
    creating = add_asking(actions, "create", create_token, "make a token, which is shown this once").examples(
        "penstock guardian users token create ann --label laptop --days 30"
    )
    add_name(creating)
    add_option(creating, "--label", "TEXT", "what it is for", default="")
    add_option(creating, "--days", "N", "how long it counts", default=90.0, type=float)
    listing = add_asking(actions, "list", list_tokens, "show the tokens of a user, without their secrets")
    add_name(listing.examples("penstock guardian users token list ann"))
    revoking = add_asking(actions, "revoke", revoke_token, "have a token count no more").examples(
        "penstock guardian users token revoke 9f86d081884c7d65"
    )
    revoking.add_argument("token", metavar="ID", help="the id of the token, its part between the underscores")


def add_name(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the user")


def add_roles(parser: Parser) -> None:
    parser.add_argument("--role", metavar="ROLE[@CLUSTER]", action="append", required=True, help=ROLE_HELP)


def roles_of(arguments: argparse.Namespace) -> list[dict[str, str | None]]:
    """The roles of a command, as calls have them."""
    roles = (text.partition("@") for text in arguments.role)
    return [{"role": role, "cluster": cluster if at else None} for role, at, cluster in roles]


def role_text(role: dict[str, Any]) -> str:
    """A role as commands have it."""
    return role["role"] if role["cluster"] is None else f"{role['role']}@{role['cluster']}"


def list_users(arguments: argparse.Namespace) -> int:
    """Prints all users."""
    users = call(arguments, "GET", USERS).body["users"]
    rows = [
        (each["name"], " ".join(map(role_text, each["roles"])) or "-", " ".join(each["tokens"]) or "-")
        for each in users
    ]
    nothing = "There are no users; `penstock guardian users add` adds one."
    return listed(arguments, {"users": users}, ("NAME", "ROLES", "TOKENS"), rows, nothing)


def add_user(arguments: argparse.Namespace) -> int:
    """Adds a user."""
    answer = call(arguments, "POST", USERS, {"name": arguments.name, "roles": roles_of(arguments)})
    sentence = f"Added {arguments.name}; `penstock guardian users token create {arguments.name}` makes a token."
    return done(arguments, answer, sentence)


def remove_user(arguments: argparse.Namespace) -> int:
    """Removes a user."""
    answer = call(arguments, "DELETE", f"{USERS}/{arguments.name}")
    return done(arguments, answer, f"Removed {arguments.name}.")


def set_roles(arguments: argparse.Namespace) -> int:
    """Gives a user other roles."""
    answer = call(arguments, "PATCH", f"{USERS}/{arguments.name}", {"roles": roles_of(arguments)})
    return done(arguments, answer, f"{arguments.name}: {' '.join(map(role_text, answer.body['roles']))}.")


def create_token(arguments: argparse.Namespace) -> int:
    """Makes a token and prints it, alone on its line, so that a script can take it."""
    from penstock.cli.common import warn
    from penstock.cli.output import print_json

    if not 0 < arguments.days <= 366:
        raise UsageError(f"--days {arguments.days:g}: it must be more than 0 and at most 366")
    body = {"user": arguments.name, "label": arguments.label, "valid_ms": max(1, round(arguments.days * DAY_MS))}
    answer = call(arguments, "POST", TOKENS, body)
    if arguments.json:
        print_json(answer.body)
        return 0
    warn(f"keep it: it is not shown again; it counts until {timestamp_text(answer.body['expires_ms'])}")
    print(answer.body["token"])
    return 0


def list_tokens(arguments: argparse.Namespace) -> int:
    """Prints the tokens of a user."""
    tokens = call(arguments, "GET", asked(TOKENS, user=arguments.name)).body["tokens"]
    rows = [
        (each["id"], each["label"] or "-", timestamp_text(each["created_ms"]),
         "expired" if each["expired"] else timestamp_text(each["expires_ms"]))
        for each in tokens
    ]  # fmt: skip
    head = ("ID", "LABEL", "MADE", "COUNTS UNTIL")
    return listed(arguments, {"tokens": tokens}, head, rows, f"{arguments.name} has no tokens.")


def revoke_token(arguments: argparse.Namespace) -> int:
    """Revokes a token."""
    token_id = arguments.token.split("_")[1] if arguments.token.count("_") == 2 else arguments.token
    answer = call(arguments, "DELETE", f"{TOKENS}/{token_id}")
    return done(arguments, answer, f"Revoked token {token_id}.")
