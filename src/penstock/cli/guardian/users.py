"""Show, add, change and remove the users of Guardian's REST API, and their tokens."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from penstock.cli.common import Actions, add_action, add_option
from penstock.cli.guardian.clusters import add_cluster_action, call, done
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.parser import Parser

USERS, TOKENS = "/v1/users", "/v1/tokens"
ROLE_HELP = "viewer, operator, admin or auditor; with @CLUSTER for that cluster alone; may be repeated"
DAY_MS = 86_400_000


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the actions on users."""
    users = add_action(actions, "users", list_users, "show, add, change and remove users of the REST API, and tokens")
    below = users.add_subparsers(dest="user_action", metavar="ACTION", title="actions", required=True)
    add_cluster_action(below, "list", list_users, "show users, their roles and tokens").examples(
        "penstock guardian users list"
    )
    adding = add_cluster_action(below, "add", add_user, "add a user").examples(
        "penstock guardian users add ann --role admin", "penstock guardian users add ben --role operator@clicks"
    )
    add_name(adding)
    add_roles(adding)
    removing = add_cluster_action(below, "remove", remove_user, "remove a user; none of its tokens counts any more")
    add_name(removing.examples("penstock guardian users remove ann"))
    setting = add_cluster_action(below, "set-role", set_roles, "give a user other roles than it has").examples(
        "penstock guardian users set-role ann --role viewer --role operator@clicks"
    )
    add_name(setting)
    add_roles(setting)
    token = below.add_parser("token", help="make, show and revoke tokens", description="Make, show and revoke tokens.")
    tokens = token.add_subparsers(dest="token_action", metavar="ACTION", title="actions", required=True)
    register_tokens(tokens)


def register_tokens(actions: Any) -> None:
    """The actions on tokens."""
    creating = add_cluster_action(actions, "create", create_token, "make a token, which is shown this once").examples(
        "penstock guardian users token create ann --label laptop --days 30"
    )
    add_name(creating)
    add_option(creating, "--label", "TEXT", "what it is for", default="")
    add_option(creating, "--days", "N", "how long it counts", default=90.0, type=float)
    listing = add_cluster_action(actions, "list", list_tokens, "show the tokens of a user, without their secrets")
    add_name(listing.examples("penstock guardian users token list ann"))
    revoking = add_cluster_action(actions, "revoke", revoke_token, "have a token count no more").examples(
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
    from penstock.cli.output import print_json, print_table

    users = call(arguments, "GET", USERS).body["users"]
    if arguments.json:
        print_json({"users": users})
    elif not users:
        print("There are no users; `penstock guardian users add` adds one.")
    else:
        rows = [
            (each["name"], " ".join(map(role_text, each["roles"])) or "-", " ".join(each["tokens"]) or "-")
            for each in users
        ]
        print_table(("NAME", "ROLES", "TOKENS"), rows)
    return 0


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
    warn(f"keep it: it is not shown again; it counts until {when(answer.body['expires_ms'])}")
    print(answer.body["token"])
    return 0


def list_tokens(arguments: argparse.Namespace) -> int:
    """Prints the tokens of a user."""
    from penstock.cli.output import print_json, print_table

    tokens = call(arguments, "GET", f"{TOKENS}?user={quote_plus(arguments.name)}").body["tokens"]
    if arguments.json:
        print_json({"tokens": tokens})
    elif not tokens:
        print(f"{arguments.name} has no tokens.")
    else:
        rows = [
            (each["id"], each["label"] or "-", when(each["created_ms"]),
             "expired" if each["expired"] else when(each["expires_ms"]))
            for each in tokens
        ]  # fmt: skip
        print_table(("ID", "LABEL", "MADE", "COUNTS UNTIL"), rows)
    return 0


def revoke_token(arguments: argparse.Namespace) -> int:
    """Revokes a token."""
    token_id = arguments.token.split("_")[1] if arguments.token.count("_") == 2 else arguments.token
    answer = call(arguments, "DELETE", f"{TOKENS}/{token_id}")
    return done(arguments, answer, f"Revoked token {token_id}.")


def when(wall_ms: int) -> str:
    """A time as lists have it."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
