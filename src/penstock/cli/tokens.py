"""Make delegation tokens, renew them, end them, show them.

Who has a token's id and HMAC logs in by SCRAM as its owner until it expires: a job needs no password then. The HMAC is
shown once, when the token is made; after that a token is named by its id. The cluster serves this to who has logged in
with a password or certificate, so --command-config is needed: see docs/how-to/authenticate-clients.md.

examples:
  penstock tokens create --renewer User:scheduler --command-config alice.properties
  penstock tokens describe --command-config alice.properties
  penstock tokens renew x3hPGmIlQXqFzXPHCBWPZw --period 12h --command-config alice.properties
  penstock tokens expire x3hPGmIlQXqFzXPHCBWPZw --command-config alice.properties
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.common import add_action, add_actions, add_bootstrap, add_json, add_option, run_action, with_client
from penstock.cli.output import print_json, print_table
from penstock.cli.times import duration_ms, timestamp_text
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.cli.parser import Parser
    from penstock.client.client import Client
    from penstock.client.tokens import Token

SUMMARY = "make, renew, end and show delegation tokens"
LONGEST_MS = AT_ONCE_MS = -1

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    create = add_action(actions, "create", create_action, "make a token").examples(
        "penstock tokens create --max-lifetime 2d --command-config alice.properties",
        "penstock tokens create --owner User:etl --renewer User:scheduler --command-config admin.properties",
    )
    add_option(create, "--owner", "User:NAME", "whose it is (default: who makes it)")
    text = "who may renew and end it, beside the owner; repeatable"
    add_option(create, "--renewer", "User:NAME", text, action="append", default=[])
    text = "how long it can be renewed, such as 2d (default: as long as the cluster allows)"
    add_option(create, "--max-lifetime", "DURATION", text)
    renew = add_action(actions, "renew", renew_action, "have a token be good for longer").examples(
        "penstock tokens renew x3hPGmIlQXqFzXPHCBWPZw --command-config alice.properties"
    )
    add_id(renew)
    add_option(renew, "--period", "DURATION", "for how long from now (default: as long as the cluster allows)")
    expire = add_action(actions, "expire", expire_action, "end a token").examples(
        "penstock tokens expire x3hPGmIlQXqFzXPHCBWPZw --command-config alice.properties"
    )
    add_id(expire)
    add_option(expire, "--period", "DURATION", "how long from now (default: at once)")
    describe = add_action(actions, "describe", describe_action, "show tokens, without their HMACs").examples(
        "penstock tokens describe --owner User:alice --command-config alice.properties"
    )
    text = "only tokens that this user owns, has made or may renew; repeatable"
    add_option(describe, "--owner", "User:NAME", text, action="append", default=[])
    for action in (create, renew, expire, describe):
        add_bootstrap(action)
        add_json(action)


def add_id(action: Parser) -> None:
    action.add_argument("id", metavar="ID", help="id of the token, as create and describe show it")


def checked(principal: str) -> str:
    """A principal, if it is written as one. Raises UsageError."""
    if not all(principal.partition(":")):
        raise UsageError(f"{principal} is no principal: it must be such as User:alice")
    return principal


def period_of(text: str | None, option: str, default_ms: int) -> int:
    """A duration; the default where none is given. Raises UsageError."""
    return default_ms if text is None else duration_ms(text, option)


def create_action(arguments: argparse.Namespace) -> int:
    owner = None if arguments.owner is None else checked(arguments.owner)
    renewers = [checked(each) for each in arguments.renewer]
    lifetime_ms = period_of(arguments.max_lifetime, "--max-lifetime", LONGEST_MS)

    async def job(client: Client) -> int:
        from penstock.client.tokens import create_token

        token = await create_token(client, owner=owner, renewers=renewers, max_lifetime_ms=lifetime_ms)
        if arguments.json:
            print_json({**fields_of(token), "hmac": token.password})
        else:
            print_table(["what", "value"], [*shown(token).items(), ("hmac", token.password)])
        return 0

    return with_client(arguments, job)


def renew_action(arguments: argparse.Namespace) -> int:
    period_ms = period_of(arguments.period, "--period", LONGEST_MS)

    async def job(client: Client) -> int:
        from penstock.client.tokens import renew_token, token_named

        token = await token_named(client, arguments.id)
        tell(arguments, "expires", await renew_token(client, token.hmac, period_ms))
        return 0

    return with_client(arguments, job)


def expire_action(arguments: argparse.Namespace) -> int:
    period_ms = period_of(arguments.period, "--period", AT_ONCE_MS)

    async def job(client: Client) -> int:
        from penstock.client.tokens import expire_token, token_named

        token = await token_named(client, arguments.id)
        ends_ms = await expire_token(client, token.hmac, period_ms)
        tell(arguments, "has ended" if period_ms == AT_ONCE_MS else "expires", ends_ms)
        return 0

    return with_client(arguments, job)


def tell(arguments: argparse.Namespace, what: str, expires_ms: int) -> None:
    """Says until when a token is good."""
    if arguments.json:
        print_json({"id": arguments.id, "expires_ms": expires_ms})
    else:
        print(f"token {arguments.id} {what} at {timestamp_text(expires_ms)}")


def describe_action(arguments: argparse.Namespace) -> int:
    owners = [checked(each) for each in arguments.owner]

    async def job(client: Client) -> int:
        from penstock.client.tokens import describe_tokens

        tokens = sorted(await describe_tokens(client, owners), key=lambda token: (token.owner, token.id))
        if arguments.json:
            print_json([fields_of(token) for token in tokens])
        elif not tokens:
            print("there are no delegation tokens that you may see")
        else:
            print_table(list(shown(tokens[0])), [tuple(shown(token).values()) for token in tokens])
        return 0

    return with_client(arguments, job)


def fields_of(token: Token) -> dict[str, object]:
    """A token for programs, without its HMAC."""
    return {
        "id": token.id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
    }


def shown(token: Token) -> dict[str, str]:
    """A token for people, without its HMAC."""
    return {
        "id": token.id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": ", ".join(token.renewers) or "-",
        "issued": timestamp_text(token.issued_ms),
        "expires": timestamp_text(token.expires_ms),
        "renewable until": timestamp_text(token.max_ms),
    }
