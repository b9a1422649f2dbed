"""What several commands share: arguments, ways to fail, and running a client."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, PenstockError

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.config.properties import Properties

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


class UsageError(PenstockError):
    """The command was asked wrongly: exit code 2. The message says what would be right."""


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """Adds --bootstrap, which PENSTOCK_BOOTSTRAP sets for a whole shell."""
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get("PENSTOCK_BOOTSTRAP", DEFAULT_BOOTSTRAP),
        help=f"brokers to begin with, separated by commas (PENSTOCK_BOOTSTRAP, else {DEFAULT_BOOTSTRAP})",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds --json."""
    parser.add_argument("--json", action="store_true", help="print JSON")


Actions = argparse._SubParsersAction  # the one name argparse has for it


def add_actions(parser: argparse.ArgumentParser) -> Actions[argparse.ArgumentParser]:
    """Begins the actions of a command such as `topics`; one of them must be given."""
    return parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)


def add_action(
    actions: Actions[argparse.ArgumentParser],
    name: str,
    function: Callable[[argparse.Namespace], int],
    summary: str,
    examples: str = "",
) -> argparse.ArgumentParser:
    """Adds one action, which `run_action` runs; returns its parser."""
    parser = actions.add_parser(
        name,
        help=summary,
        description=capitalised(summary) + ".",
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(function=function)
    return parser


def run_action(arguments: argparse.Namespace) -> int:
    """Runs the action that was chosen."""
    function: Callable[[argparse.Namespace], int] = arguments.function
    return function(arguments)


def capitalised(text: str) -> str:
    """The text with a capital first letter, the others as they are."""
    return text[:1].upper() + text[1:]


def with_client(bootstrap: str, job: Callable[[Client], Awaitable[int]]) -> int:
    """Connects, runs the job in an event loop, disconnects; returns what the job returns.

    Raises UsageError for an address that is none, UnreachableError with what to do when nobody answers.
    """
    import asyncio

    from penstock.client.client import Client
    from penstock.errors import UnreachableError

    async def work() -> int:
        try:
            client = Client(bootstrap)
        except ValueError as error:
            raise UsageError(f"--bootstrap: {error}") from None
        try:
            await client.connection(None)
        except UnreachableError as error:
            raise UnreachableError(
                f"{error}\n  is a broker running there? `penstock dev` starts one; --bootstrap says where to look"
            ) from None
        async with client:
            return await job(client)

    return asyncio.run(work())


def read_properties(path: str, overrides: Sequence[str] = ()) -> Properties:
    """A properties file, with NAME=VALUE `overrides` over it. Raises ConfigError in a sentence."""
    from penstock.config.properties import Properties, parse

    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    properties = parse(data, path)
    if not overrides:
        return properties
    lines = {name: line for name in properties if (line := properties.line_of(name)) is not None}
    given = dict(pair(text, "--override") for text in overrides)
    return Properties({**properties, **given}, {k: v for k, v in lines.items() if k not in given}, path)


def pair(text: str, option: str) -> tuple[str, str]:
    """NAME=VALUE as a pair. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{option} {text}: it must be NAME=VALUE")
    return name.strip(), value


def new_random() -> Random:
    """The generator that the pure rooms are given, seeded from the operating system."""
    return Random(os.urandom(16))
