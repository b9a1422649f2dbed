"""What the commands share that ask a Guardian: where it is, a call, the pages of an answer, and how it is printed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from penstock.cli.common import (
    Actions,
    add_action,
    add_command_config,
    add_json,
    add_option,
    capitalised,
    new_random,
    security_of,
)
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.cli.parser import Parser
    from penstock.guardian.client import Answer

DEFAULT_ADDRESS = "127.0.0.1:9500"
TIMEOUT_MAX_S = 86_400


def add_asking(
    actions: Actions[argparse.ArgumentParser], name: str, function: Callable[[argparse.Namespace], int], summary: str
) -> Parser:
    """Adds an action that asks Guardian, with the options that say where it is, and --json."""
    parser = add_action(actions, name, function, summary)
    add_guardian(parser)
    add_json(parser)
    return parser


def add_guardian(parser: Parser) -> None:
    """Adds the options that say where Guardian is."""
    parser.add_argument(
        "--guardian",
        metavar="HOST:PORT",
        default=os.environ.get("PENSTOCK_GUARDIAN", DEFAULT_ADDRESS),
        help=f"nodes of Guardian, separated by commas (default: $PENSTOCK_GUARDIAN or {DEFAULT_ADDRESS})",
    )
    add_option(parser, "--timeout", "SECONDS", "how long to ask one node after the other", default=15.0, type=float)
    add_command_config(parser)


def add_group(actions: Actions[argparse.ArgumentParser], name: str, summary: str) -> Actions[argparse.ArgumentParser]:
    """Adds a word that is followed by an action of its own, and returns where those are added."""
    parser = actions.add_parser(name, help=summary, description=capitalised(summary) + ".")
    return parser.add_subparsers(dest=f"{name}_action", metavar="ACTION", title="actions", required=True)


def call(arguments: argparse.Namespace, method: str, path: str, body: Any = None) -> Answer:
    """Makes a call. Raises UsageError for what was asked wrongly, PenstockError for what else is refused."""
    import asyncio

    from penstock.guardian.client import GuardianClient

    if not 0 < arguments.timeout <= TIMEOUT_MAX_S:
        raise UsageError(f"--timeout {arguments.timeout:g}: it must be above 0 and at most {TIMEOUT_MAX_S:,} seconds")
    timeout_ms = max(1, round(arguments.timeout * 1000))
    try:
        client = GuardianClient(arguments.guardian, security=security_of(arguments), timeout_ms=timeout_ms)
    except ValueError as error:
        raise UsageError(f"--guardian: {error}") from None
    request_id = UUID(int=new_random().getrandbits(128), version=4)
    answer = asyncio.run(client.call(method, path, body, request_id=request_id))
    if answer.status >= 400:
        error_type = UsageError if answer.status == 400 else PenstockError
        raise error_type(str(answer.body.get("error", f"Guardian answers {answer.status}")))
    return answer


def asked(path: str, **query: object) -> str:
    """A path with a query of what is given."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def pages(arguments: argparse.Namespace, path: str, **query: object) -> Iterator[dict[str, Any]]:
    """All pages of what has pages, see `guardian.core.resources.seen`."""
    after = None
    while True:
        body = call(arguments, "GET", asked(path, **query, after=after)).body
        yield dict(body)
        after = body["next"]
        if after is None:
            return


def done(arguments: argparse.Namespace, answer: Answer, sentence: str) -> int:
    """Prints what a call has come to."""
    from penstock.cli.output import print_json

    if arguments.json:
        print_json(answer.body)
    else:
        print(sentence)
    return 0


def listed(arguments: argparse.Namespace, body: Any, head: Sequence[str], rows: Sequence[Any], nothing: str) -> int:
    """Prints a table, or that there is nothing."""
    from penstock.cli.output import print_json, print_table

    if arguments.json:
        print_json(body)
    elif rows:
        print_table(head, rows)
    else:
        print(nothing)
    return 0
